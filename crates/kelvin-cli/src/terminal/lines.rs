//! A status as lines of a terminal: one for each chain, or for each temperature where there are more chains than lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use kelvin_study::folder::{ChainStatus, Moment, Phase, Stage, duration};
use kelvin_study::number::{fixed, significant};

/// Columns of the bar.
const BAR: usize = 24;
/// Between two columns.
const GAP: usize = 2;
/// The fewest columns a name is cut to.
const SHORTEST_NAME: usize = 8;

/// At most `height` lines, none wider than `width`.
pub fn lines(moment: &Moment, width: usize, height: usize) -> Vec<String> {
    let mut lines = vec![headline(moment, width)];
    let room = height.saturating_sub(2);
    if !moment.chains.is_empty() && room > 0 {
        lines.extend(table(moment, width, room));
    }
    lines.truncate(height.max(1));
    lines
}

/// The state of all chains in a line for places that are no terminal.
pub fn sentence(moment: &Moment) -> String {
    let (done, all) = (count(&moment.chains, Phase::Done), moment.chains.len());
    let noun = if moment.stage == Stage::Choosing { "searches" } else { "chains" };
    let mut text = format!("{}: {} %, {done} of {all} {noun} done", moment.stage.name(), percent(moment));
    text.extend(moment.steps_per_second.map(|rate| format!(", {} steps/s", significant(rate, 3))));
    text.extend(moment.seconds_left.map(|left| format!(", {} left", duration(left))));
    text
}

fn percent(moment: &Moment) -> u64 {
    100 * moment.steps_done / moment.steps.max(1)
}

fn headline(moment: &Moment, width: usize) -> String {
    let stage = moment.stage.name();
    let filled = (BAR as u64 * moment.steps_done / moment.steps.max(1)) as usize;
    let bar = format!("{}{}", "━".repeat(filled), "┄".repeat(BAR.saturating_sub(filled)));
    let mut parts = vec![stage.to_owned(), bar, format!("{:>3} %", percent(moment))];
    parts.extend(moment.steps_per_second.map(|rate| format!("{} steps/s", significant(rate, 3))));
    parts.extend(moment.seconds_left.map(|left| format!("{} left", duration(left))));
    // The bar says the least.
    if parts.join("  ").width() > width {
        parts.remove(1);
    }
    cut(&parts.join("  "), width)
}

/// A column with its title; `rank` says which go first where there is no room.
struct Column {
    title: &'static str,
    rank: usize,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).fold(self.title.width(), usize::max)
    }
}

fn table(moment: &Moment, width: usize, room: usize) -> Vec<String> {
    let chains: Vec<&ChainStatus> = moment.chains.iter().collect();
    let mut rows: Vec<Line> = if chains.len() <= room {
        chains.iter().map(|chain| Line::of(std::slice::from_ref(chain), &chain.label)).collect()
    } else {
        let mut groups: Vec<(&str, Vec<&ChainStatus>)> = Vec::new();
        for chain in &chains {
            match groups.iter_mut().find(|(name, _)| *name == chain.group) {
                Some((_, own)) => own.push(chain),
                None => groups.push((&chain.group, vec![chain])),
            }
        }
        groups.iter().map(|(name, own)| Line::of(own, name)).collect()
    };
    let hidden = rows.len().saturating_sub(room);
    if hidden > 0 {
        // What moves is worth seeing; the rest is counted in the last line.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| !rows[row].moves);
        let mut shown = order[..room - 1].to_vec();
        shown.sort_unstable();
        rows = rows.into_iter().enumerate().filter(|(row, _)| shown.contains(row)).map(|(_, line)| line).collect();
    }
    let column = |title, rank, cell: fn(&Line) -> &String| Column {
        title,
        rank,
        cells: rows.iter().map(|row| cell(row).clone()).collect(),
    };
    let is_search = moment.stage == Stage::Choosing;
    let columns = [
        column(if is_search { "search" } else { "chain" }, 0, |row| &row.name),
        column("phase", 1, |row| &row.phase),
        column("done", 2, |row| &row.done),
        column(if is_search { "β" } else { "" }, 3, |row| &row.beta),
        column("energy", 6, |row| &row.energy),
        column("T\u{302}/T", 4, |row| &row.temperature_ratio),
        column("LPD SM", 7, |row| &row.lpd_standard),
        column("LPD TM", 8, |row| &row.lpd_tempered),
        column("left", 5, |row| &row.left),
    ];
    let has_cells = |column: &Column| column.cells.iter().any(|cell| !cell.is_empty());
    let is_shown = |column: &Column| column.rank == 0 || (!column.title.is_empty() && has_cells(column));
    let mut columns: Vec<Column> = columns.into_iter().filter(is_shown).collect();
    let total = |columns: &[Column]| columns.iter().map(Column::width).sum::<usize>() + GAP * (columns.len() - 1);
    while total(&columns) > width && columns.len() > 2 {
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.rank).map_or(0, |(place, _)| place);
        columns.remove(last);
    }
    let over = total(&columns).saturating_sub(width);
    let name = columns[0].width().saturating_sub(over).max(SHORTEST_NAME);
    columns[0].cells.iter_mut().for_each(|cell| *cell = cut(cell, name));

    let line = |cell: &dyn Fn(&Column) -> String| {
        let padded = columns.iter().enumerate().map(|(place, column)| {
            let (text, width) = (cell(column), if place == 0 { column.width().min(name) } else { column.width() });
            let missing = " ".repeat(width.saturating_sub(text.width()));
            // Words stand left, numbers right.
            if place < 2 { text + &missing } else { missing + &text }
        });
        cut(padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end(), width)
    };
    let mut lines = vec![line(&|column| column.title.to_owned())];
    lines.extend((0..rows.len()).map(|row| line(&|column| column.cells[row].clone())));
    if hidden > 0 {
        lines.push(cut(&format!("and {} more", hidden + 1), width));
    }
    lines
}

/// One line of the table: a chain, or those of a temperature.
struct Line {
    moves: bool,
    name: String,
    phase: String,
    done: String,
    beta: String,
    energy: String,
    temperature_ratio: String,
    lpd_standard: String,
    lpd_tempered: String,
    left: String,
}

impl Line {
    fn of(chains: &[&ChainStatus], name: &str) -> Self {
        let mean = |value: &dyn Fn(&ChainStatus) -> Option<f64>, show: &dyn Fn(f64) -> String| {
            let values: Vec<f64> = chains.iter().filter_map(|chain| value(chain)).collect();
            if values.is_empty() { String::new() } else { show(values.iter().sum::<f64>() / values.len() as f64) }
        };
        let steps: u64 = chains.iter().map(|chain| chain.steps).sum();
        let step: u64 = chains.iter().map(|chain| chain.step).sum();
        let lpd = |model: fn(&ChainStatus) -> Option<f64>| mean(&model, &|lpd| fixed(lpd, 3));
        let moves = chains.iter().any(|chain| is_moving(chain.phase));
        Self {
            moves,
            name: if chains.len() > 1 { format!("{name} ({} chains)", chains.len()) } else { name.to_owned() },
            phase: if let [chain] = chains { chain.phase.text() } else { phases(chains) },
            done: format!("{} %", 100 * step / steps.max(1)),
            beta: mean(&|chain| Some(chain.beta), &|beta| significant(beta, 3)),
            energy: mean(&|chain| chain.energy, &|energy| significant(energy, 5)),
            temperature_ratio: mean(&|chain| chain.temperature_ratio, &|ratio| fixed(ratio, 3)),
            lpd_standard: lpd(|chain| chain.validation_lpd.map(|lpd| lpd.standard)),
            lpd_tempered: lpd(|chain| chain.validation_lpd.map(|lpd| lpd.tempered)),
            left: if chains.len() == 1 {
                mean(&|chain| chain.seconds_left.filter(|_| moves), &duration)
            } else {
                String::new()
            },
        }
    }
}

fn is_moving(phase: Phase) -> bool {
    !matches!(phase, Phase::Waiting | Phase::Done | Phase::Diverged)
}

fn count<'a>(chains: impl IntoIterator<Item = &'a ChainStatus>, phase: Phase) -> usize {
    chains.into_iter().filter(|chain| chain.phase == phase).count()
}

/// How many of several chains are where.
fn phases(chains: &[&ChainStatus]) -> String {
    let moving = chains.iter().filter(|chain| is_moving(chain.phase)).count();
    let count = |phase| count(chains.iter().copied(), phase);
    let counts = [
        (moving, "moving"),
        (count(Phase::Waiting), "waiting"),
        (count(Phase::Done), "done"),
        (count(Phase::Diverged), "diverged"),
    ];
    let counts: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    counts.join(", ")
}

/// As much of a text as fits, with an ellipsis where something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    if width > 0 { kept + "…" } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::predictive::ByModel;

    fn chain(number: usize, phase: Phase) -> ChainStatus {
        let beta = [0.1, 0.3, 1.0, 3.0, 10.0][number % 5];
        ChainStatus {
            label: format!("β = {beta}, repetition {}", number / 5 + 1),
            group: format!("β = {beta}"),
            beta,
            phase,
            step: 250,
            steps: 1000,
            energy: Some(-1234.56),
            trace: vec![],
            temperature_ratio: Some(1.0123),
            validation_lpd: Some(ByModel { standard: -0.36, tempered: -0.35 }),
            seconds_left: Some(75.0),
        }
    }

    fn moment(chains: Vec<ChainStatus>) -> Moment {
        Moment {
            stage: Stage::Sampling,
            steps_done: 25,
            steps: 100,
            steps_per_second: Some(45_200.0),
            seconds_left: Some(75.0),
            chains,
        }
    }

    #[test]
    fn a_chain_has_a_line_with_everything_known() {
        let lines = lines(&moment(vec![chain(0, Phase::Cycle { part: 3, parts: 50 })]), 100, 24);
        assert_eq!(
            lines,
            [
                "sampling  ━━━━━━┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄   25 %  45\u{2009}200 steps/s  1 min 15 s left",
                "chain                  phase          done   energy    T\u{302}/T  LPD SM  LPD TM        left",
                "β = 0.1, repetition 1  cycle 3 of 50  25 %  −1234.6  1.012  −0.360  −0.350  1 min 15 s",
            ]
        );
    }

    #[test]
    fn nothing_is_wider_or_higher_than_the_terminal() {
        let chains: Vec<ChainStatus> = (0..50).map(|number| chain(number, Phase::BurnInRamp)).collect();
        let moment = moment(chains);
        for width in [0, 1, 7, 20, 40, 60, 79, 119, 300] {
            for height in [0, 1, 2, 3, 5, 23, 39, 80] {
                let lines = lines(&moment, width, height);
                assert!(lines.len() <= height.max(1), "{width}×{height}: {} lines", lines.len());
                for line in &lines {
                    assert!(line.width() <= width, "{width}×{height}: {line}");
                }
            }
        }
    }

    #[test]
    fn fifty_chains_stand_together_by_temperature() {
        let mut chains: Vec<ChainStatus> = (0..50).map(|number| chain(number, Phase::Waiting)).collect();
        (chains[0].phase, chains[5].phase) = (Phase::Done, Phase::BurnInHot);
        let moment = moment(chains);
        let shown = lines(&moment, 100, 23);
        assert_eq!(shown.len(), 2 + 5);
        assert!(shown[2].starts_with("β = 0.1 (10 chains)  1 moving, 8 waiting, 1 done"), "{}", shown[2]);
        // What moves stays, what does not is counted.
        let few = lines(&moment, 100, 4);
        assert!(few[2].starts_with("β = 0.1") && few[3] == "and 4 more", "{few:?}");
        assert_eq!(sentence(&moment), "sampling: 25 %, 1 of 50 chains done, 45\u{2009}200 steps/s, 1 min 15 s left");
    }
}

//! The paper's tables for any number of runs: data sets side by side, methods below each other, the paper's numbers beside ours.

use std::ops::Range;

use kelvin::predictive::PredictiveModel;

use crate::tables::named_run::NamedRun;
use crate::tables::paper_numbers::{PaperNumbers, PaperSelectors};
use crate::tables::paper_tables::{Spread, Sweep, mean_and_spread, partly_sampled};
use crate::tables::table::{Alignment, Table};
use kelvin_study::findings::{
    BETA_STAR, Criterion, Findings, Method, Row, RunCommand, SEARCHING, are_classes, mean_and_std,
};
use kelvin_study::folder::StoredSelection;
use kelvin_study::number::{fixed, significant};

/// How the paper's tables are laid out.
#[derive(Clone, Copy)]
pub struct Layout {
    /// What stands behind ±.
    pub spread: Spread,
    /// Whether the paper's numbers stand beside ours.
    pub compare: bool,
}

impl Layout {
    /// What stands behind ±, in ours and in the paper's columns.
    fn over_repetitions(self) -> String {
        let paper = if self.compare && self.spread == Spread::StandardError { ", the paper's ± SD" } else { "" };
        format!(", mean ± {} over repetitions{paper}", self.spread.name())
    }

    /// What the scores of these columns are of, for the end of a title; one value has no ±.
    fn of_what(self, columns: &[&Column<'_>]) -> String {
        let repeated = if are_all_runs(columns) { String::new() } else { self.over_repetitions() };
        format!("{repeated}{}{}", partly(columns), single_runs(columns))
    }
}

/// A data set's column, and that of the paper's numbers where they are asked for and known.
struct Column<'a> {
    label: &'a str,
    findings: &'a Findings,
    sweep: Sweep<'a>,
    paper: Option<&'static PaperNumbers>,
}

impl<'a> Column<'a> {
    /// The paper's name of the data, where it has one.
    fn name(&self) -> &'a str {
        PaperNumbers::of(self.label).map_or(self.label, |paper| paper.name)
    }

    fn is_run(&self) -> bool {
        self.findings.command != RunCommand::Sweep
    }
}

const METHODS: usize = 4;

/// The tables, each with the name of its file; those that no run has numbers for are left out.
pub fn paper_tables(runs: &[NamedRun<'_>], layout: Layout) -> Vec<(&'static str, Table)> {
    if runs.is_empty() {
        return Vec::new();
    }
    let columns: Vec<(Column<'_>, bool)> = runs
        .iter()
        .map(|run| {
            let (label, findings) = (run.label.as_str(), run.findings);
            // The paper repeats an experiment, and a run pools its chains.
            let is_sweep = findings.command == RunCommand::Sweep;
            let paper = PaperNumbers::of(&findings.name).filter(|_| layout.compare && is_sweep);
            (Column { label, findings, sweep: Sweep::new(findings), paper }, are_classes(&findings.rows))
        })
        .collect();
    let of_kind = |classes: bool| columns.iter().filter(|column| column.1 == classes).map(|column| &column.0).collect();
    let (numbers, classes): (Vec<&Column<'_>>, Vec<&Column<'_>>) = (of_kind(false), of_kind(true));
    let sweeps: Vec<&Column<'_>> =
        columns.iter().map(|column| &column.0).filter(|column| !column.sweep.grid_betas().is_empty()).collect();
    let mut tables = vec![("point_predictions", point_predictions(&numbers, &classes, layout))];
    if !numbers.is_empty() {
        tables.push(("lpd_regression", lpd("Test LPD of the regression models", &numbers, layout)));
    }
    if !classes.is_empty() {
        tables.push(("lpd_classification", lpd("Test LPD of the classification models", &classes, layout)));
    }
    if !sweeps.is_empty() {
        tables.push(("kinetic_temperature", kinetic(&sweeps)));
    }
    let agreed: Vec<&Column<'_>> =
        sweeps.iter().copied().filter(|column| !column.findings.agreement.is_empty()).collect();
    if !agreed.is_empty() {
        tables.push(("split_rhat", rhat(&agreed)));
    }
    tables.push(("wall_clock", wall_clock(&columns.iter().map(|column| &column.0).collect::<Vec<_>>())));
    tables
}

fn method_names() -> [String; METHODS] {
    ["SGD".into(), "β = 1".into(), format!("β = {BETA_STAR}"), "grid".into()]
}

/// The rows of each method; the grid's are those it would choose by the criterion.
fn rows_of<'a>(column: &Column<'a>, criterion: Criterion) -> [Vec<&'a Row>; METHODS] {
    let sweep = &column.sweep;
    [sweep.of(Method::Sgd), sweep.at_one(), sweep.of(Method::Chosen), sweep.grid_choice(criterion)]
}

/// The header of data sets: a name each, and one for the paper's numbers.
fn names(columns: &[&Column<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    for column in columns {
        let name = column.name();
        names.push(name.to_owned());
        names.extend(column.paper.map(|_| format!("{name} (paper)")));
    }
    names
}

/// The data sets that have chains in some of their repetitions alone, for the end of a title.
fn partly(columns: &[&Column<'_>]) -> String {
    let of_column = |column: &&Column<'_>| Some(format!("; {}: {}", column.name(), partly_sampled(column.findings)?));
    columns.iter().filter_map(of_column).collect()
}

/// The columns that are single runs, for the end of a title.
fn single_runs(columns: &[&Column<'_>]) -> String {
    let of_column = |column: &&Column<'_>| format!("; {}: {}", column.name(), one_run(column.findings));
    columns.iter().filter(|column| column.is_run()).map(of_column).collect()
}

fn are_all_runs(columns: &[&Column<'_>]) -> bool {
    columns.iter().all(|column| column.is_run())
}

/// What a run is, and a sweep is not.
pub fn one_run(findings: &Findings) -> String {
    match findings.repetitions {
        1 => "one run of one chain".into(),
        chains => format!("one run, its {chains} chains together"),
    }
}

/// Adds cells of ours and the paper's for one line.
fn push_pair(
    cells: &mut Vec<String>,
    column: &Column<'_>,
    ours: String,
    paper: impl Fn(&PaperNumbers) -> Option<String>,
) {
    cells.push(ours);
    cells.extend(column.paper.map(|numbers| paper(numbers).unwrap_or_else(|| "–".into())));
}

/// Sets the best of each of our columns in bold, with all that show the same mean.
fn embolden(table: &mut Table, first_row: usize, columns: &[&Column<'_>], criterion: Criterion, first_column: usize) {
    let mut at = first_column;
    for column in columns {
        let smaller_is_better = matches!(criterion, Criterion::Point) && !are_classes(&column.findings.rows);
        let means = rows_of(column, criterion).map(|rows| {
            let values: Vec<f64> = rows.iter().map(|row| criterion.shown(row)).collect();
            let mean = mean_and_std(&values).0;
            if smaller_is_better { -mean } else { mean }
        });
        let best = (0..METHODS).filter(|&i| means[i].is_finite()).max_by(|&a, &b| means[a].total_cmp(&means[b]));
        if let Some(best) = best {
            embolden_with_ties(table, first_row..first_row + METHODS, first_row + best, at);
        }
        at += 1 + usize::from(column.paper.is_some());
    }
}

/// Sets a cell in bold, and those among the rows whose mean reads the same.
fn embolden_with_ties(table: &mut Table, rows: Range<usize>, best: usize, column: usize) {
    let mean = |row: usize| table.rows[row][column].split(" ±").next();
    let tied: Vec<usize> = rows.filter(|&row| mean(row) == mean(best)).collect();
    table.bold.extend(tied.into_iter().map(|row| (row, column)));
}

fn scores(column: &Column<'_>, criterion: Criterion, method: usize, spread: Spread) -> String {
    let values: Vec<f64> = rows_of(column, criterion)[method].iter().map(|row| criterion.shown(row)).collect();
    mean_and_spread(&values, spread)
}

fn point_predictions(numbers: &[&Column<'_>], classes: &[&Column<'_>], layout: Layout) -> Table {
    let columns: Vec<&Column<'_>> = numbers.iter().chain(classes).copied().collect();
    let header = std::iter::once("method".to_owned()).chain(names(&columns));
    let title = format!("Point predictions on test rows{}", layout.of_what(&columns));
    let mut table = Table::new(title, header);
    table.spans = vec![(String::new(), 1)];
    for (name, columns) in [("MSE ×10³ ↓", numbers), ("accuracy % ↑", classes)] {
        if !columns.is_empty() {
            table.spans.push((name.into(), names(columns).len()));
        }
    }
    for (method, name) in method_names().into_iter().enumerate() {
        let mut cells = vec![name];
        for column in &columns {
            let ours = scores(column, Criterion::Point, method, layout.spread);
            push_pair(&mut cells, column, ours, |paper| Some(paper.point[method].into()));
        }
        table.push(cells);
    }
    embolden(&mut table, 0, &columns, Criterion::Point, 1);
    table
}

fn lpd(title: &str, columns: &[&Column<'_>], layout: Layout) -> Table {
    let header = ["model".to_owned(), "method".into()].into_iter().chain(names(columns));
    let title = format!("{title}{} (higher is better)", layout.of_what(columns));
    let mut table = Table::new(title, header);
    table.alignments[1] = Alignment::Left;
    for model in PredictiveModel::BOTH {
        let block = if model == PredictiveModel::Standard { "SM-PD" } else { "TM-PD" };
        let first_row = table.rows.len();
        if first_row > 0 {
            table.rules.push(first_row);
        }
        for (method, name) in method_names().into_iter().enumerate() {
            let mut cells = vec![block.to_owned(), name];
            for column in columns {
                let ours = scores(column, Criterion::Lpd(model), method, layout.spread);
                push_pair(&mut cells, column, ours, |paper| Some(paper.lpd(model)[method].into()));
            }
            table.push(cells);
        }
        embolden(&mut table, first_row, columns, Criterion::Lpd(model), 2);
    }
    table
}

/// The ways to choose β by searching, as the paper compares them; none where no selection asked for one.
pub fn selectors(selections: &[&StoredSelection], layout: Layout) -> Option<Table> {
    let title = format!("Ways to choose β, test scores{}", layout.over_repetitions());
    let found = |selection: &StoredSelection| SEARCHING.map(|(method, _)| selection.found(method).len());
    let are_numbers = |selection: &&StoredSelection| {
        let first = SEARCHING.iter().find_map(|(method, _)| selection.found(method).first().map(|(_, scores)| *scores));
        first.is_some_and(|scores| !scores.larger_point_metric_is_better())
    };
    let point = match selections.iter().filter(|selection| are_numbers(selection)).count() {
        0 => "accuracy % ↑",
        all if all == selections.len() => "MSE ×10³ ↓",
        _ => "accuracy % ↑ or MSE ×10³ ↓",
    };
    let paper_of = |selection: &StoredSelection| PaperSelectors::of(&selection.name).filter(|_| layout.compare);
    let has_paper = selections.iter().any(|selection| paper_of(selection).is_some());
    let mut header = vec!["data".to_owned(), "method".into()];
    for name in [point, "LPD SM ↑", BETA_STAR] {
        header.push(name.into());
        header.extend(has_paper.then(|| "paper".to_owned()));
    }
    let mut table = Table::new(title, header);
    table.alignments[1] = Alignment::Left;
    for selection in selections.iter().filter(|selection| found(selection).iter().any(|&count| count > 0)) {
        if !table.rows.is_empty() {
            table.rules.push(table.rows.len());
        }
        let data = PaperNumbers::of(&selection.name).map_or(selection.name.as_str(), |paper| paper.name);
        for (index, (method, name)) in SEARCHING.into_iter().enumerate() {
            let found = selection.found(method);
            if found.is_empty() && paper_of(selection).is_none() {
                continue;
            }
            let scale = if are_numbers(selection) { 1e3 } else { 100.0 };
            let ours = [
                found.iter().map(|(_, scores)| scale * scores.point_metric()).collect::<Vec<f64>>(),
                found.iter().map(|(_, scores)| scores.lpd().standard).collect(),
                found.iter().map(|(beta, _)| *beta).collect(),
            ];
            let mut cells = vec![data.to_owned(), name.to_owned()];
            for (column, values) in ours.iter().enumerate() {
                cells.push(mean_and_spread(values, layout.spread));
                let paper = paper_of(selection).map_or("–", |paper| paper.methods[index][column]);
                cells.extend(has_paper.then(|| paper.to_owned()));
            }
            table.push(cells);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The temperatures of all grids, each once.
fn all_betas(columns: &[&Column<'_>]) -> Vec<f64> {
    let mut betas: Vec<f64> = columns.iter().flat_map(|column| column.sweep.grid_betas()).collect();
    betas.sort_by(f64::total_cmp);
    betas.dedup();
    betas
}

fn kinetic(columns: &[&Column<'_>]) -> Table {
    let is_repeated = !are_all_runs(columns);
    let mut header = vec!["target β".to_owned()];
    header.extend(is_repeated.then(|| "repetition".into()));
    header.extend(names(columns));
    let mut table = Table::new(format!("Kinetic inverse temperature at cycle ends{}", single_runs(columns)), header);
    let repetitions = columns.iter().map(|column| column.findings.repetitions).max().unwrap_or(0);
    let targets = all_betas(columns).into_iter().map(Some).chain([None]);
    for target in targets {
        if !table.rows.is_empty() {
            table.rules.push(table.rows.len());
        }
        for repetition in 0..repetitions {
            let name = target.map_or(BETA_STAR.into(), |beta| significant(beta, 3));
            let mut cells = vec![name];
            cells.extend(is_repeated.then(|| (repetition + 1).to_string()));
            let num_names = cells.len();
            for column in columns {
                let rows = target.map_or_else(|| column.sweep.of(Method::Chosen), |beta| column.sweep.at(beta));
                // Pooled chains have one temperature.
                let own = rows.iter().find(|row| row.repetition.unwrap_or(0) == repetition);
                let measured = own.and_then(|row| row.measured.as_ref()?.beta_at_cycle_ends);
                let ours = measured.map_or("–".into(), |beta| fixed(beta, 2));
                push_pair(&mut cells, column, ours, |paper| Some(paper.kinetic_at(target, repetition)?.into()));
            }
            if cells[num_names..].iter().any(|cell| cell != "–") {
                table.push(cells);
            }
        }
    }
    table
}

fn rhat(columns: &[&Column<'_>]) -> Table {
    let header = std::iter::once("β".to_owned()).chain(names(columns));
    let over = partly(columns);
    let halves = if over.is_empty() { "" } else { ", and the halves of one chain where there is one" };
    let title = format!("Rank-normalised split-R\u{302} of the potential energy over the repetitions{over}{halves}");
    let mut table = Table::new(title, header);
    for beta in all_betas(columns) {
        let mut cells = vec![significant(beta, 3)];
        for column in columns {
            let agreement = column.findings.agreement.iter().find(|agreement| agreement.beta == beta);
            let ours = agreement.and_then(|agreement| agreement.rhat).map_or("–".into(), |rhat| fixed(rhat, 2));
            push_pair(&mut cells, column, ours, |paper| Some(paper.rhat_at(beta)?.into()));
        }
        table.push(cells);
    }
    table
}

fn wall_clock(columns: &[&Column<'_>]) -> Table {
    let header = std::iter::once("method".to_owned()).chain(names(columns));
    let of = if are_all_runs(columns) { "" } else { " of one repetition" };
    let mut table = Table::new(format!("Minutes{of}{}", single_runs(columns)), header);
    for (method, name) in method_names().into_iter().enumerate() {
        let mut cells = vec![name];
        for column in columns {
            let minutes = column.sweep.seconds()[method] / 60.0;
            let ours = if minutes > 0.0 { significant(minutes, 2) } else { "–".into() };
            push_pair(&mut cells, column, ours, |paper| Some(paper.minutes[method].into()));
        }
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_the_same_as_the_best_is_bold_too() {
        let mut table = Table::new("", ["method", "LPD"]);
        for score in ["1.38 ± 0.01", "1.382 ± 0.001", "1.38 ± 0.02", "1.38 ± 0.01"] {
            table.push(["", score]);
        }
        embolden_with_ties(&mut table, 0..3, 0, 1);
        assert_eq!(table.bold, [(0, 1), (2, 1)]);
    }
}

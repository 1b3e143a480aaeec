//! `kelvin compare`: runs side by side, and how far they differ on the same test points.

use serde::Serialize;

use crate::arguments::CompareArguments;
use crate::output::{WrongFlags, print_result, say};
use kelvin_report::compare::{Compared, Kind, Pair, Run, Score, SweepComparison, compare_pair};
use kelvin_report::present::write_sweeps;
use kelvin_report::tables::{Alignment, Table};
use kelvin_report::text::wrapped;
use kelvin_study::findings::{BETA_STAR, are_classes};
use kelvin_study::folder::differing_settings;
use kelvin_study::number::{fixed, significant};

#[derive(Serialize)]
struct Comparison<'a> {
    command: &'static str,
    runs: Vec<RunFacts<'a>>,
    settings: Vec<(String, Vec<Option<String>>)>,
    pairs: Vec<Pair>,
    differences: Vec<Compared>,
}

#[derive(Serialize)]
struct RunFacts<'a> {
    letter: &'a str,
    folder: &'a str,
    name: &'a str,
    beta_star: Vec<f64>,
    scores: Vec<Score>,
}

impl<'a> RunFacts<'a> {
    fn of(run: &'a Run) -> Self {
        Self {
            letter: &run.letter,
            folder: &run.folder,
            name: &run.findings.name,
            beta_star: run.beta_star(),
            scores: run.scores(),
        }
    }
}

pub fn compare(arguments: &CompareArguments) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for (index, folder) in arguments.runs.iter().enumerate() {
        runs.push(Run::read(folder, letter(index))?);
    }
    let texts: Vec<&str> = runs.iter().map(|run| run.settings.as_str()).collect();
    let settings = differing_settings(&texts);
    let (mut pairs, mut differences) = (Vec::new(), Vec::new());
    for (index, first) in runs.iter().enumerate() {
        for second in &runs[index + 1..] {
            let (pair, compared) = compare_pair(first, second)?;
            pairs.push(pair);
            differences.extend(compared);
        }
    }
    let facts: Vec<RunFacts<'_>> = runs.iter().map(RunFacts::of).collect();
    let comparison = Comparison { command: "compare", runs: facts, settings, pairs, differences };
    let sweeps = SweepComparison::new(&runs);
    if let Some(folder) = &arguments.out {
        let missing =
            || WrongFlags("--out writes what sweeps have in common; name at least two runs of `kelvin sweep`".into());
        write_sweeps(folder, sweeps.as_ref().ok_or_else(missing)?)?;
        say(&format!("written: {0}/sweeps.md, sweeps.csv, lpd_test.svg\n", folder.display()));
    }
    if arguments.json {
        return print_result(&format!("{}\n", serde_json::to_string(&comparison)?));
    }
    print_result(&text(&runs, &comparison, sweeps.as_ref()))
}

/// A to Z, then by number.
fn letter(index: usize) -> String {
    u8::try_from(index)
        .ok()
        .filter(|&index| index < 26)
        .map_or_else(|| format!("R{}", index + 1), |index| char::from(b'A' + index).to_string())
}

fn text(runs: &[Run], comparison: &Comparison<'_>, sweeps: Option<&SweepComparison<'_>>) -> String {
    let mut text = String::new();
    for run in runs {
        let betas: Vec<String> = run.beta_star().iter().map(|&beta| significant(beta, 3)).collect();
        let command = run.findings.command.name();
        text += &wrapped(
            &format!(
                "{}: {} ({command} of {}), {BETA_STAR} = {}",
                run.letter,
                run.folder,
                run.findings.name,
                betas.join(", ")
            ),
            "   ",
        );
    }
    text += "\n";
    text += &if comparison.settings.is_empty() {
        "Settings: the same.\n".to_owned()
    } else {
        let header = std::iter::once("setting".to_owned()).chain(runs.iter().map(|run| run.letter.clone()));
        let mut table = Table::new("Settings that differ", header);
        for (key, values) in &comparison.settings {
            let shown = values.iter().map(|value| value.clone().unwrap_or("–".into()));
            table.push(std::iter::once(key.clone()).chain(shown));
        }
        table.to_text()
    };
    text += &format!("\n{}\n", score_table(runs, comparison).to_text());
    if let Some(sweeps) = sweeps {
        text += &format!("{}\n", sweeps.table().to_text());
    }
    text += &difference_table(comparison).to_text();
    let repeated = comparison.differences.iter().filter_map(|line| line.difference);
    let repeated: Vec<bool> = repeated.map(|found| found.standard_error_over_repetitions.is_some()).collect();
    let over = match (repeated.contains(&true), repeated.contains(&false)) {
        (false, _) => "test points",
        (true, false) => "test points and repetitions",
        (true, true) => "test points, and over repetitions where both runs have several",
    };
    text += &wrapped(
        &format!(
            "First less second, with the standard error over {over}; log densities in nats a point. The \
             draws behind a prediction are a sample too, and that is not counted."
        ),
        "",
    );
    for pair in &comparison.pairs {
        text += &format!("\n{}", wrapped(&pair.sentence, "  "));
    }
    text
}

fn score_table(runs: &[Run], comparison: &Comparison<'_>) -> Table {
    let is_classes = runs.first().is_some_and(|run| are_classes(&run.findings.rows));
    let point = if is_classes { "accuracy %" } else { "MSE ×10³" };
    let scale = if is_classes { 100.0 } else { 1e3 };
    let mut table = Table::new("Test scores", ["run", "LPD SM", "LPD TM", point]);
    for kind in Kind::ALL {
        for run in &comparison.runs {
            for score in run.scores.iter().filter(|score| score.kind == kind.name()) {
                let cell = |(mean, std): (f64, f64), scale: f64, decimals| {
                    let mean = fixed(scale * mean, decimals);
                    if score.repetitions > 1 { format!("{mean} ± {}", fixed(scale * std, decimals)) } else { mean }
                };
                table.push([
                    format!("{} {}", score.kind, run.letter),
                    cell(score.lpd_sm, 1.0, 3),
                    cell(score.lpd_tm, 1.0, 3),
                    cell(score.point_metric, scale, 2),
                ]);
            }
        }
    }
    table
}

fn difference_table(comparison: &Comparison<'_>) -> Table {
    let title = if comparison.pairs.iter().all(|pair| pair.paired) {
        "Differences on the same test points"
    } else {
        "Differences (unpaired where the test points are not the same)"
    };
    let mut table = Table::new(title, ["pair", "of", "score", "difference", "standard errors"]);
    table.alignments[1..3].fill(Alignment::Left);
    for line in &comparison.differences {
        let scale = match line.score {
            "accuracy" => (100.0, " %", 2),
            "squared error" => (1e3, " ×10⁻³", 2),
            _ => (1.0, "", 4),
        };
        let (shown, errors) = match line.difference {
            Some(found) => {
                let (factor, unit, decimals) = scale;
                let number = |value: f64| fixed(factor * value, decimals);
                let errors = found.in_standard_errors();
                (format!("{} ± {}{unit}", number(found.mean), number(found.standard_error)), fixed(errors, 1))
            }
            None => ("not finite".into(), "–".into()),
        };
        table.push([format!("{} − {}", line.first, line.second), line.of.clone(), line.score.into(), shown, errors]);
    }
    table
}

//! `kelvin sweep`: the population of the paper's experiment, with its tables and figures.

use std::path::Path;

use kelvin::diagnostics::Warning;
use kelvin_report::compare::{gain, verdict};
use kelvin_report::tables::tables_of;
use kelvin_study::findings::{Findings, Row, RunCommand};
use kelvin_study::study::Workload;
use serde::Serialize;

use super::conduct::{Asked, carry_out, threads};
use crate::arguments::{CommonArguments, SweepArguments};
use crate::output::WrongFlags;
use crate::source;

#[derive(Serialize)]
struct SweepResult<'a> {
    command: &'static str,
    name: &'a str,
    folder: String,
    repetitions: u32,
    sampled_repetitions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_repetition: Option<u32>,
    beta_star: Vec<f64>,
    rows: &'a [Row],
    warnings: &'a [Warning],
}

pub fn sweep(arguments: &SweepArguments) -> anyhow::Result<()> {
    let common = &arguments.common;
    threads(common.conduct.threads)?;
    // As the last `--set`, so that what depends on the number of repetitions is checked against this one.
    let repetitions = arguments.repetitions.map(|repetitions| format!("run.repetitions={repetitions}"));
    let only = arguments.only_repetition.map(|repetition| format!("run.only_repetition={repetition}"));
    let overrides = common.overrides.iter().cloned().chain(repetitions).chain(only).collect();
    let work = Workload::Study(RunCommand::Sweep);
    let source = source::read(&arguments.source, &CommonArguments { overrides, ..common.clone() }, &work)?;
    if source.automatic && source.settings.run.only_repetition.is_some() {
        return Err(WrongFlags(
            "a single repetition of a table of your own has no step size yet: a sweep finds it in its first search\n  \
             take the one that a sweep or a run of the table found: `--set sampler.learning_rate=…` of its experiment.toml"
                .into(),
        )
        .into());
    }
    let asked = Asked::new(RunCommand::Sweep, arguments.part, common.out.as_deref(), common.fresh);
    carry_out(asked, source, &common.conduct, result)
}

/// What is printed of a sweep.
pub fn result(folder: &Path, findings: &Findings, json: bool) -> anyhow::Result<String> {
    let name = &findings.name;
    if json {
        let result = SweepResult {
            command: "sweep",
            name,
            folder: folder.display().to_string(),
            repetitions: findings.repetitions,
            sampled_repetitions: findings.sampled_repetitions(),
            only_repetition: findings.only_repetition,
            beta_star: findings.searched_betas(),
            rows: &findings.rows,
            warnings: &findings.warnings,
        };
        return Ok(format!("{}\n", serde_json::to_string(&result)?));
    }
    let mut text = format!("# {name}\n\n{}\n\n", verdict(findings, gain(folder, findings)));
    for (_, table) in tables_of(findings) {
        text.push_str(&table.to_markdown());
        text.push('\n');
    }
    Ok(text)
}

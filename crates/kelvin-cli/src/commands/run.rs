//! `kelvin run`: choose β, sample at β = 1 and β̂*, score, report.

use std::path::Path;

use kelvin::diagnostics::Warning;
use kelvin::predictive::ByModel;
use kelvin_report::compare::{gain, headline, verdict};
use kelvin_report::tables::tables_of;
use kelvin_report::text::wrapped;
use kelvin_report::which_way_text::which_way_text;
use kelvin_study::findings::{CrossValidation, Findings, Predicting, Row, RunCommand, Trials, WhichWay};
use kelvin_study::study::Workload;
use serde::Serialize;

use super::conduct::{Asked, carry_out, threads};
use crate::arguments::RunArguments;
use crate::source::{self, Sampling};

#[derive(Serialize)]
struct RunResult<'a> {
    command: &'static str,
    name: &'a str,
    folder: String,
    beta_star: Option<f64>,
    headline: &'a [String],
    verdict: &'a str,
    cross_validation: Option<&'a CrossValidation>,
    trials: &'a [Trials],
    predicting: Option<&'a Predicting>,
    which_way: Option<ByModel<WhichWay>>,
    rows: &'a [Row],
    warnings: &'a [Warning],
}

pub fn run(arguments: &RunArguments) -> anyhow::Result<()> {
    let common = &arguments.common;
    threads(common.conduct.threads)?;
    let command = if arguments.grid { RunCommand::RunGrid } else { RunCommand::Run };
    let RunArguments { sampler, likelihood, ref hidden, folds, splits, budget, exact, .. } = *arguments;
    let sampling = Sampling { sampler, likelihood, hidden: hidden.clone(), folds, splits, budget, exact };
    let source = source::read_for(&arguments.source, common, &sampling, &Workload::Study(command))?;
    let asked = Asked::new(command, arguments.part, common.out.as_deref(), common.fresh);
    carry_out(asked, source, &common.conduct, result)
}

/// What is printed of a run.
pub fn result(folder: &Path, findings: &Findings, json: bool) -> anyhow::Result<String> {
    let verdict = verdict(findings, gain(folder, findings));
    if json {
        let result = RunResult {
            command: "run",
            name: &findings.name,
            folder: folder.display().to_string(),
            beta_star: findings.beta_star,
            headline: &headline(findings),
            verdict: &verdict,
            cross_validation: findings.cross_validation.as_ref(),
            trials: &findings.trials,
            predicting: findings.predicting.as_ref(),
            which_way: findings.which_way,
            rows: &findings.rows,
            warnings: &findings.warnings,
        };
        return Ok(format!("{}\n", serde_json::to_string(&result)?));
    }
    let tables: Vec<String> = tables_of(findings).iter().map(|(_, table)| table.to_text()).collect();
    let said: String = headline(findings).iter().map(|line| wrapped(line, "  ")).collect();
    let audit: String = findings.audit.iter().map(|row| wrapped(&format!("exact: {}", row.sentence), "  ")).collect();
    let way = findings.beta_star.zip(findings.which_way.as_ref());
    let way = way.map_or(String::new(), |(beta, way)| which_way_text(beta, way));
    Ok(format!("{}\n{said}{}{audit}{way}", tables.join("\n"), wrapped(&verdict, "  ")))
}

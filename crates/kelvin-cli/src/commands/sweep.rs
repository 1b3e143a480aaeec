//! `kelvin sweep`: the population of the paper's experiment, with its tables and figures.

use std::sync::Arc;

use kelvin::diagnostics::{Limits, Warning};
use kelvin::selection::JointChoice;
use kelvin_study::experiment::{ChainGroup, ChainSpec, Experiment, Measured, SampledChain, Slot};
use serde::Serialize;

use super::{Request, threads};
use crate::arguments::{CommonArguments, SweepArguments};
use crate::chart::significant;
use crate::findings::{Agreement, Findings};
use crate::gain::gain;
use crate::interrupt::Interrupt;
use crate::output::{WrongFlags, print_result, say};
use crate::paper_tables::Sweep;
use crate::population::{choose, divergence_warnings, sample, selection_warnings};
use crate::row::{BETA_STAR, Method, Row, with_draws};
use crate::run_record::RunCommand;
use crate::verdict::verdict;
use crate::watch::status::Stage;
use crate::{cases, doubts, present, source};

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
    let source = source::read(&arguments.source, &CommonArguments { overrides, ..common.clone() })?;
    if source.automatic && source.settings.run.only_repetition.is_some() {
        return Err(WrongFlags(
            "a single repetition of a table of your own has no step size yet: a sweep finds it in its first search\n  \
             take the one that a sweep or a run of the table found: `--set sampler.learning_rate=…` of its experiment.toml"
                .into(),
        )
        .into());
    }
    let (out, fresh) = (common.out.as_deref(), common.fresh);
    carry_out(Request { command: RunCommand::Sweep, source, out, fresh, conduct: &common.conduct })
}

/// Sweeps, or goes on with what the folder holds.
pub fn carry_out(request: Request<'_>) -> anyhow::Result<()> {
    let conduct = request.conduct;
    let quiet = conduct.quiet || conduct.json;
    let interrupt = Interrupt::listen()?;
    let (mut experiment, mut folder) = request.open()?;
    let problem = Arc::clone(&experiment.problem);

    let repetitions: Vec<u32> = experiment.settings.run.own_repetitions().collect();
    let (choices, search_seconds) = choose(&experiment, &folder, &interrupt, &repetitions, quiet)?;
    if folder.record().wants_pilot()
        && let Some(first) = choices.first()
    {
        experiment.tune_learning_rate(&first.position, first.inverse_temperature)?;
        folder.write_tuned(&experiment.settings)?;
    }

    let specs = chain_specs(&experiment, &repetitions, &choices);
    let (chains, seconds) = sample(&experiment, &folder, &interrupt, &specs, quiet)?;

    let mut findings = Findings::of(&experiment, RunCommand::Sweep)?;
    findings.add_searches(&repetitions, &choices, &search_seconds);
    findings.add_chains(&experiment, &chains, &seconds)?;
    findings.warnings = selection_warnings(&repetitions, &choices, choices.iter());
    findings.warnings.extend(divergence_warnings(&chains));
    for ((&repetition, choice), &seconds) in repetitions.iter().zip(&choices).zip(&search_seconds) {
        let (row, predictions) = Row::sgd(&experiment, choice, Some(repetition), seconds)?;
        folder.add_row(&mut findings, row, &predictions)?;
    }
    for (chain, &seconds) in chains.iter().zip(&seconds) {
        let group = ChainGroup {
            label: chain.spec.label.clone(),
            inverse_temperature: chain.spec.inverse_temperature,
            chains: with_draws(std::iter::once(chain)),
        };
        if group.chains.is_empty() {
            continue;
        }
        interrupt.check(folder.path())?;
        let (slot, repetition) = (chain.spec.slot, Some(chain.spec.repetition));
        let (row, predictions) = Row::posterior(&experiment, Method::of(slot), &group, repetition, seconds)?;
        if let (Slot::Chosen, Some(measured)) = (slot, &row.measured) {
            let temperature = experiment.sampler_temperature(group.inverse_temperature)?;
            findings.warnings.extend(group.warnings(measured, temperature));
        }
        cases::keep_pictures(folder.path(), &findings, &problem, &row, &predictions)?;
        folder.add_row(&mut findings, row, &predictions)?;
    }
    findings.agreement = agreement(&experiment, &chains, &mut findings.warnings)?;
    let limits = Limits::default();
    for (metric, chosen) in Sweep::new(&findings).grid_choices_by_lpd() {
        let at_edge = chosen.iter().find_map(|&beta| limits.check_grid(&findings.grid, beta, metric));
        findings.warnings.extend(at_edge);
    }
    folder.write_findings(&findings)?;
    present::write_all(folder.path(), &findings)?;
    folder.write_hashes()?;
    folder.status().write_stage(Stage::Done);

    let name = &findings.name;
    if conduct.json {
        let result = SweepResult {
            command: "sweep",
            name,
            folder: folder.path().display().to_string(),
            repetitions: findings.repetitions,
            sampled_repetitions: findings.sampled_repetitions(),
            only_repetition: findings.only_repetition,
            beta_star: choices.iter().map(|choice| choice.inverse_temperature).collect(),
            rows: &findings.rows,
            warnings: &findings.warnings,
        };
        return print_result(&format!("{}\n", serde_json::to_string(&result)?));
    }
    let mut text = format!("# {name}\n\n{}\n\n", verdict(&findings, gain(folder.path(), &findings)));
    for (_, table) in present::tables(&findings) {
        text.push_str(&table.to_markdown());
        text.push('\n');
    }
    print_result(&text)?;
    say(&doubts::in_short(&findings.warnings));
    print_result(&format!("run folder: {0} (open {0}/report.html)\n", folder.path().display()))
}

/// Grid, β = 1 and β̂* of each repetition that is to have chains.
fn chain_specs(experiment: &Experiment, repetitions: &[u32], choices: &[JointChoice]) -> Vec<ChainSpec> {
    let run = &experiment.settings.run;
    let (grid, num_sampled) = (&run.grid, run.num_sampled_repetitions());
    let mut specs = Vec::new();
    for (&repetition, choice) in repetitions.iter().zip(choices).filter(|(repetition, _)| **repetition < num_sampled) {
        let start = experiment.start(Some(choice));
        let mut push = |slot, inverse_temperature: f64, name: &str| {
            let label = format!("{name}{}, repetition {}", significant(inverse_temperature, 3), repetition + 1);
            let start = start.clone();
            specs.push(ChainSpec { label, repetition, slot, inverse_temperature, start });
        };
        for (index, &beta) in grid.iter().enumerate() {
            push(Slot::Grid(index as u32), beta, "β = ");
        }
        if !grid.contains(&1.0) {
            push(Slot::Bayes, 1.0, "β = ");
        }
        push(Slot::Chosen, choice.inverse_temperature, &format!("{BETA_STAR} = "));
    }
    specs
}

/// How far the repetitions agree at each temperature of the grid; what is doubtful goes to `warnings`.
fn agreement(
    experiment: &Experiment,
    chains: &[SampledChain],
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Vec<Agreement>> {
    let inflation = experiment.expected_inflation()?;
    let mut betas: Vec<f64> = Vec::new();
    for chain in chains.iter().filter(|chain| chain.spec.slot != Slot::Chosen) {
        if !betas.contains(&chain.spec.inverse_temperature) {
            betas.push(chain.spec.inverse_temperature);
        }
    }
    betas.sort_by(f64::total_cmp);
    let mut lines = Vec::new();
    for beta in betas {
        let own = chains.iter().filter(|c| c.spec.slot != Slot::Chosen && c.spec.inverse_temperature == beta);
        let group = ChainGroup {
            label: format!("β = {}", significant(beta, 3)),
            inverse_temperature: beta,
            chains: with_draws(own),
        };
        let temperature = experiment.sampler_temperature(beta)?;
        let measured = group.measured(temperature, inflation);
        warnings.extend(group.warnings(&measured, temperature));
        let Measured { rhat, bulk_ess, tail_ess, .. } = measured;
        lines.push(Agreement { beta, rhat, bulk_ess, tail_ess });
    }
    Ok(lines)
}

//! `kelvin run`: choose β, sample at β = 1 and β̂*, score, report.

use std::sync::Arc;

use kelvin::diagnostics::Warning;
use kelvin::draws::Draws;
use kelvin::predictive::ByModel;
use kelvin::sampler::Silent;
use kelvin::selection::JointChoice;
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::{ChainGroup, ChainSpec, Experiment, ExperimentLaboratory, SampledChain, Slot};
use serde::Serialize;

use super::{Request, threads};
use crate::arguments::{ModelArgument, RunArguments};
use crate::chart::significant;
use crate::findings::Findings;
use crate::gain::gain;
use crate::interrupt::Interrupt;
use crate::output::{print_result, say, wrapped};
use crate::population::{choose, chosen_draws, divergence_warnings, sample, selection_warnings};
use crate::row::{BETA_STAR, Method, Row, with_draws};
use crate::run_record::RunCommand;
use crate::verdict::{best_of, verdict};
use crate::watch::status::Stage;
use crate::which_way::{WhichWay, which_way, which_way_text};
use crate::{cases, doubts, present, source};

/// What `predict` needs beside the draws; written as model.json.
#[derive(Debug, Serialize, serde::Deserialize)]
pub struct SavedModel {
    pub inverse_temperature: f64,
    pub likelihood: kelvin::likelihood::Likelihood,
    pub network: kelvin::network::Network,
    /// The columns a table must have; none for images, whose shape is the network's input.
    pub feature_names: Vec<String>,
    pub target_name: String,
    pub class_names: Vec<String>,
    /// Training statistics of a table; none for images, which are divided by 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standardiser: Option<kelvin::data::Standardiser>,
    /// Whose density predicts the validation rows better; runs of the first version have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictive_model: Option<ModelArgument>,
    /// Names of the draws files of β̂*.
    pub draws: Vec<String>,
}

#[derive(Serialize)]
struct RunResult<'a> {
    command: &'static str,
    name: &'a str,
    folder: String,
    beta_star: f64,
    verdict: &'a str,
    which_way: Option<ByModel<WhichWay>>,
    rows: &'a [Row],
    warnings: &'a [Warning],
}

pub fn run(arguments: &RunArguments) -> anyhow::Result<()> {
    let common = &arguments.common;
    threads(common.conduct.threads)?;
    let source = source::read(&arguments.source, common)?;
    let command = if arguments.grid { RunCommand::RunGrid } else { RunCommand::Run };
    carry_out(Request { command, source, out: common.out.as_deref(), fresh: common.fresh, conduct: &common.conduct })
}

/// Runs, or goes on with what the folder holds.
pub fn carry_out(request: Request<'_>) -> anyhow::Result<()> {
    let (conduct, command) = (request.conduct, request.command);
    let (quiet, grid) = (conduct.quiet || conduct.json, command == RunCommand::RunGrid);
    let interrupt = Interrupt::listen()?;
    let (mut experiment, mut folder) = request.open()?;
    let problem = Arc::clone(&experiment.problem);

    let repetitions: Vec<u32> = (0..experiment.settings.run.chains).collect();
    let (choices, search_seconds) = choose(&experiment, &folder, &interrupt, &repetitions, quiet)?;
    let choice = best_choice(&choices).ok_or_else(|| {
        anyhow::anyhow!("no search for β has a finite validation score; lower selection.learning_rate")
    })?;
    let beta = choice.inverse_temperature;

    if folder.record().wants_pilot() {
        experiment.tune_learning_rate(&choice.position, beta)?;
        folder.write_tuned(&experiment.settings)?;
    }

    let specs = chain_specs(&experiment, &choices, beta, grid);
    let (chains, seconds) = sample(&experiment, &folder, &interrupt, &specs, quiet)?;
    let saved = chosen_draws(&chains);

    let mut findings = Findings::of(&experiment, command)?;
    findings.beta_star = Some(beta);
    findings.add_searches(&repetitions, &choices, &search_seconds);
    findings.add_chains(&experiment, &chains, &seconds)?;
    findings.warnings = selection_warnings(&repetitions, &choices, std::iter::once(choice));
    findings.warnings.extend(divergence_warnings(&chains));
    let (row, predictions) = Row::sgd(&experiment, choice, None, search_seconds.iter().sum())?;
    folder.add_row(&mut findings, row, &predictions)?;
    for (method, group) in &groups(&experiment, &chains, beta, grid)? {
        interrupt.check(folder.path())?;
        let seconds =
            chains.iter().zip(&seconds).filter(|(chain, _)| group.chains.iter().any(|own| std::ptr::eq(*own, *chain)));
        let seconds = seconds.map(|(_, seconds)| seconds).sum();
        let (row, predictions) = Row::posterior(&experiment, *method, group, None, seconds)?;
        if let Some(measured) = &row.measured {
            let temperature = experiment.sampler_temperature(group.inverse_temperature)?;
            findings.warnings.extend(group.warnings(measured, temperature));
        }
        cases::keep_pictures(folder.path(), &findings, &problem, &row, &predictions)?;
        folder.add_row(&mut findings, row, &predictions)?;
        if *method == Method::Chosen {
            let draws: Vec<&Draws> = group.chains.iter().map(|chain| &chain.draws).collect();
            findings.which_way = which_way(&ExperimentLaboratory::new(&experiment, 0, &Silent), beta, &draws)?;
        }
    }

    folder.write_json(
        "model.json",
        &SavedModel {
            inverse_temperature: beta,
            likelihood: problem.likelihood,
            network: problem.network.clone(),
            feature_names: problem.table().map_or(Vec::new(), |table| table.dataset.feature_names.clone()),
            target_name: problem.table().map_or("class".into(), |table| table.dataset.target_name.clone()),
            class_names: problem.class_names().to_vec(),
            standardiser: problem.table().map(|table| table.standardiser.clone()),
            predictive_model: better_model(&findings),
            draws: saved,
        },
    )?;
    folder.write_findings(&findings)?;
    present::write_all(folder.path(), &findings)?;
    folder.write_hashes()?;
    folder.status().write_stage(Stage::Done);

    let verdict = verdict(&findings, gain(folder.path(), &findings));
    if conduct.json {
        let result = RunResult {
            command: "run",
            name: &findings.name,
            folder: folder.path().display().to_string(),
            beta_star: beta,
            verdict: &verdict,
            which_way: findings.which_way,
            rows: &findings.rows,
            warnings: &findings.warnings,
        };
        return print_result(&format!("{}\n", serde_json::to_string(&result)?));
    }
    let tables: Vec<String> = present::tables(&findings).iter().map(|(_, table)| table.to_text()).collect();
    let best = best_of(&findings.rows);
    let way = findings.which_way.map_or(String::new(), |way| which_way_text(beta, &way));
    print_result(&format!("{}\n{}{best}{way}", tables.join("\n"), wrapped(&verdict, "  ")))?;
    say(&doubts::in_short(&findings.warnings));
    print_result(&format!("run folder: {0} (open {0}/report.html)\n", folder.path().display()))
}

/// The predictive model with the better LPD of the validation rows at β̂*.
fn better_model(findings: &Findings) -> Option<ModelArgument> {
    let lpd = findings.rows.iter().find(|row| row.method == Method::Chosen)?.validation.lpd();
    let is_tempered = lpd.tempered > lpd.standard;
    (lpd.tempered != lpd.standard).then_some(if is_tempered {
        ModelArgument::Tempered
    } else {
        ModelArgument::Standard
    })
}

/// The choice with the best validation score over all starts.
fn best_choice(choices: &[JointChoice]) -> Option<&JointChoice> {
    let finite = choices.iter().filter(|choice| choice.validation_lpd().is_finite());
    finite.max_by(|a, b| a.validation_lpd().total_cmp(&b.validation_lpd()))
}

fn chain_specs(experiment: &Experiment, choices: &[JointChoice], beta: f64, grid: bool) -> Vec<ChainSpec> {
    let mut specs = Vec::new();
    for repetition in 0..experiment.settings.run.chains {
        let start = experiment.start(choices.get(repetition as usize));
        let mut push = |name: String, slot, inverse_temperature| {
            let label = format!("{name}, chain {}", repetition + 1);
            let start = start.clone();
            specs.push(ChainSpec { label, repetition, slot, inverse_temperature, start });
        };
        push("β = 1".into(), Slot::Bayes, 1.0);
        push(format!("{BETA_STAR} = {}", significant(beta, 3)), Slot::Chosen, beta);
        if grid {
            for (index, &at) in experiment.settings.run.grid.iter().enumerate() {
                push(format!("β = {}", significant(at, 3)), Slot::Grid(index as u32), at);
            }
        }
    }
    specs
}

/// Chains by temperature, in the order of the table; a temperature without any draw is an error for β = 1 and β̂*.
fn groups<'a>(
    experiment: &Experiment,
    chains: &'a [SampledChain],
    beta: f64,
    grid: bool,
) -> anyhow::Result<Vec<(Method, ChainGroup<'a>)>> {
    let of_slot = |slot: Slot| with_draws(chains.iter().filter(|chain| chain.spec.slot == slot));
    let mut groups = Vec::new();
    for (method, slot, at, label) in
        [(Method::Bayes, Slot::Bayes, 1.0, "β = 1"), (Method::Chosen, Slot::Chosen, beta, BETA_STAR)]
    {
        let chains = of_slot(slot);
        if chains.is_empty() {
            return Err(ExperimentError::SamplingDiverged {
                beta: at,
                chains: experiment.settings.run.chains as usize,
                learning_rate: experiment.settings.sampler.learning_rate,
            }
            .into());
        }
        groups.push((method, ChainGroup { label: label.into(), inverse_temperature: at, chains }));
    }
    if grid {
        for (index, &at) in experiment.settings.run.grid.iter().enumerate() {
            let chains = of_slot(Slot::Grid(index as u32));
            if !chains.is_empty() {
                let label = format!("grid β = {}", significant(at, 3));
                groups.push((Method::Grid, ChainGroup { label, inverse_temperature: at, chains }));
            }
        }
    }
    Ok(groups)
}

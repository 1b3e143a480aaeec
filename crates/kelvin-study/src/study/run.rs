//! A run: choose β, sample at β = 1 and β̂* (and the grid where asked), score.

use kelvin::draws::Draws;
use kelvin::sampler::Silent;
use kelvin::selection::JointChoice;

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::{ChainGroup, ChainSpec, Experiment, ExperimentLaboratory, SampledChain, Slot};
use crate::findings::{
    BETA_STAR, Findings, FinishedSearch, Method, Row, RunCommand, agreement_warning, prediction_warnings, which_way,
    with_draws,
};
use crate::folder::{MODEL, SavedModel};
use crate::number::significant;
use crate::study::stages::{Stages, chain_warnings, chosen_draws, selection_warnings};

/// Carries out a run, or resumes what its folder holds.
pub(crate) fn run(stages: &mut Stages, command: RunCommand) -> Result<Findings> {
    let grid = command == RunCommand::RunGrid;
    let repetitions: Vec<u32> = (0..stages.experiment.settings.run.chains).collect();
    let searches = stages.search(&repetitions)?;
    let choice = best_choice(&searches)
        .ok_or_else(|| refused("no search for β has a finite validation score; lower selection.learning_rate"))?;
    let beta = choice.inverse_temperature;
    stages.tune(choice)?;

    let specs = chain_specs(&stages.experiment, &searches, beta, grid);
    let chains = stages.sample(&specs)?;

    let (experiment, folder) = (&stages.experiment, &stages.folder);
    let mut findings = Findings::of(experiment, command)?;
    findings.beta_star = Some(beta);
    findings.add_searches(&searches);
    findings.add_chains(experiment, &chains)?;
    findings.warnings = selection_warnings(&searches, std::iter::once(choice));
    findings.warnings.extend(chain_warnings(&chains));
    let search_seconds = searches.iter().map(|search| search.seconds).sum();
    let (row, predictions) = Row::sgd(experiment, choice, None, search_seconds)?;
    folder.add_row(&mut findings, row, &predictions)?;
    for (method, group) in &groups(experiment, &chains, beta, grid)? {
        stages.check_cancelled()?;
        let seconds = group.chains.iter().map(|chain| chain.seconds).sum();
        let (row, predictions) = Row::posterior(experiment, *method, group, None, seconds)?;
        if let Some(measured) = &row.measured {
            let temperature = experiment.sampler_temperature(group.inverse_temperature)?;
            findings.warnings.extend(group.warnings(measured, temperature));
            findings.warnings.extend(group.tensor_warning(experiment, measured)?);
        }
        findings.warnings.extend(agreement_warning(experiment, group)?);
        if *method == Method::Chosen {
            findings.warnings.extend(prediction_warnings(experiment, &row, &predictions)?);
        }
        folder.add_row(&mut findings, row, &predictions)?;
        if *method == Method::Chosen {
            let draws: Vec<&Draws> = group.chains.iter().map(|chain| &chain.draws).collect();
            findings.which_way = which_way(&ExperimentLaboratory::new(experiment, 0, &Silent), beta, &draws)?;
        }
    }
    let saved = SavedModel::of(&experiment.problem, beta, &findings, chosen_draws(&chains));
    folder.write_json(MODEL, &saved)?;
    Ok(findings)
}

/// The choice with the best validation score over all starts.
fn best_choice(searches: &[FinishedSearch]) -> Option<&JointChoice> {
    let choices = searches.iter().map(|search| &search.choice);
    let finite = choices.filter(|choice| choice.validation_lpd().is_finite());
    finite.max_by(|a, b| a.validation_lpd().total_cmp(&b.validation_lpd()))
}

fn chain_specs(experiment: &Experiment, searches: &[FinishedSearch], beta: f64, grid: bool) -> Vec<ChainSpec> {
    let mut specs = Vec::new();
    for FinishedSearch { repetition, choice, .. } in searches {
        let start = experiment.start(Some(choice));
        let mut push = |name: String, slot, inverse_temperature| {
            let label = format!("{name}, chain {}", repetition + 1);
            let (repetition, start) = (*repetition, start.clone());
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
) -> Result<Vec<(Method, ChainGroup<'a>)>> {
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

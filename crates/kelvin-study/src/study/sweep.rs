//! A sweep: the population of the paper's experiment, every repetition at every temperature of the grid and at its own β̂*.

use kelvin::diagnostics::{Limits, Warning};
use kelvin::predictive::PredictiveModel;

use crate::error::Result;
use crate::experiment::{ChainGroup, ChainSpec, Experiment, Measured, SampledChain, Slot};
use crate::findings::{
    Agreement, BETA_STAR, Criterion, Findings, FinishedSearch, Method, Row, RunCommand, agreement_warning, grid_choice,
    prediction_warnings, with_draws,
};
use crate::number::significant;
use crate::study::stages::{Stages, divergence_warnings, selection_warnings};

/// Carries out a sweep, or resumes what its folder holds.
pub(crate) fn sweep(stages: &mut Stages) -> Result<Findings> {
    let repetitions: Vec<u32> = stages.experiment.settings.run.own_repetitions().collect();
    let searches = stages.search(&repetitions)?;
    if let Some(first) = searches.first() {
        stages.tune(&first.choice)?;
    }
    let specs = chain_specs(&stages.experiment, &searches);
    let chains = stages.sample(&specs)?;

    let (experiment, folder) = (&stages.experiment, &stages.folder);
    let mut findings = Findings::of(experiment, RunCommand::Sweep)?;
    findings.add_searches(&searches);
    findings.add_chains(experiment, &chains)?;
    findings.warnings = selection_warnings(&searches, searches.iter().map(|search| &search.choice));
    findings.warnings.extend(divergence_warnings(&chains));
    for FinishedSearch { repetition, choice, seconds } in &searches {
        let (row, predictions) = Row::sgd(experiment, choice, Some(*repetition), *seconds)?;
        folder.add_row(&mut findings, row, &predictions)?;
    }
    for chain in &chains {
        let group = ChainGroup {
            label: chain.spec.label.clone(),
            inverse_temperature: chain.spec.inverse_temperature,
            chains: with_draws(std::iter::once(chain)),
        };
        if group.chains.is_empty() {
            continue;
        }
        stages.check_cancelled()?;
        let (slot, repetition) = (chain.spec.slot, Some(chain.spec.repetition));
        let (row, predictions) = Row::posterior(experiment, Method::of(slot), &group, repetition, chain.seconds)?;
        if let (Slot::Chosen, Some(measured)) = (slot, &row.measured) {
            let temperature = experiment.sampler_temperature(group.inverse_temperature)?;
            findings.warnings.extend(group.warnings(experiment, measured, temperature));
            findings.warnings.extend(group.tensor_warning(experiment, measured)?);
            findings.warnings.extend(prediction_warnings(experiment, &row, &predictions)?);
        }
        folder.add_row(&mut findings, row, &predictions)?;
    }
    findings.agreement = agreement(experiment, &chains, &mut findings.warnings)?;
    let limits = Limits::default();
    for (metric, model) in [("SM-PD LPD", PredictiveModel::Standard), ("TM-PD LPD", PredictiveModel::Tempered)] {
        let chosen = grid_choice(&findings.rows, Criterion::Lpd(model));
        let at_edge = chosen.iter().find_map(|row| limits.check_grid(&findings.grid, row.beta, metric));
        findings.warnings.extend(at_edge);
    }
    Ok(findings)
}

/// Grid, β = 1 and β̂* of each repetition that is to have chains.
fn chain_specs(experiment: &Experiment, searches: &[FinishedSearch]) -> Vec<ChainSpec> {
    let run = &experiment.settings.run;
    let (grid, num_sampled) = (&run.grid, run.num_sampled_repetitions());
    let mut specs = Vec::new();
    for FinishedSearch { repetition, choice, .. } in searches.iter().filter(|search| search.repetition < num_sampled) {
        let start = experiment.start(Some(choice));
        let mut push = |slot, inverse_temperature: f64, name: &str| {
            let label = format!("{name}{}, repetition {}", significant(inverse_temperature, 3), repetition + 1);
            let (repetition, start) = (*repetition, start.clone());
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

/// How far the repetitions agree at each temperature of the grid; disagreement is added to `warnings`.
fn agreement(experiment: &Experiment, chains: &[SampledChain], warnings: &mut Vec<Warning>) -> Result<Vec<Agreement>> {
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
        warnings.extend(group.warnings(experiment, &measured, temperature));
        warnings.extend(group.tensor_warning(experiment, &measured)?);
        warnings.extend(agreement_warning(experiment, &group)?);
        let Measured { rhat, bulk_ess, tail_ess, .. } = measured;
        lines.push(Agreement { beta, rhat, bulk_ess, tail_ess });
    }
    Ok(lines)
}

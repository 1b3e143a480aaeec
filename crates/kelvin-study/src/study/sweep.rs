//! A sweep: the population of the paper's experiment, every repetition at every temperature of the grid and at its own β̂*.

use kelvin::diagnostics::{Limits, Warning};
use kelvin::predictive::PredictiveModel;
use kelvin::sampler::Chain;
use rayon::prelude::*;

use crate::error::Result;
use crate::experiment::{ChainGroup, ChainSpec, Experiment, Measured, SampledChain, Slot};
use crate::findings::{
    Agreement, BETA_STAR, ChainFindings, Criterion, Findings, FinishedSearch, Method, Predictions, Row, RunCommand,
    agreement_warning, grid_choice, prediction_warnings, with_draws,
};
use crate::number::significant;
use crate::study::stages::{Stages, divergence_warnings, selection_warnings};
use crate::study::sweep_chains::{SweepChain, SweepChains};

/// Chains that are read and judged at the same time.
const BLOCK: usize = 64;

/// Carries out a sweep, or resumes what its folder holds.
pub(crate) fn sweep(stages: &mut Stages) -> Result<Findings> {
    let repetitions: Vec<u32> = stages.experiment.settings.run.own_repetitions().collect();
    let searches = stages.search(&repetitions)?;
    if let Some(first) = searches.first() {
        stages.tune(&first.choice)?;
    }
    let specs = chain_specs(&stages.experiment, &searches);
    let chains = stages.sample_sweep(specs)?;

    let (experiment, folder) = (&stages.experiment, &stages.folder);
    let mut findings = Findings::of(experiment, RunCommand::Sweep)?;
    findings.add_searches(&searches);
    for FinishedSearch { repetition, choice, seconds } in &searches {
        let (row, predictions) = Row::sgd(experiment, choice, Some(*repetition), *seconds)?;
        folder.add_row(&mut findings, row, &predictions)?;
    }
    let (mut ended, mut divergence, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
    for block in (0..chains.len()).collect::<Vec<_>>().chunks(if chains.are_stored() { BLOCK } else { 1 }) {
        stages.check_cancelled()?;
        let judge = |&index: &usize| Judged::of(experiment, &*chains.get(experiment, index)?);
        // A device evaluates one chain after the other anyway.
        let judged: Vec<Result<Judged>> = match experiment.engine.moves_chains_together() {
            true => block.iter().map(judge).collect(),
            false => block.par_iter().map(judge).collect(),
        };
        for judged in judged {
            let Judged { found, end, row, divergence: diverged, doubts: own } = judged?;
            findings.chains.push(found);
            ended.push(end);
            divergence.extend(diverged);
            doubts.extend(own);
            if let Some((row, predictions)) = row {
                folder.add_row(&mut findings, row, &predictions)?;
            }
        }
    }
    findings.sampling.friction_times = experiment.friction_times(ended.iter())?;
    findings.warnings = selection_warnings(&searches, searches.iter().map(|search| &search.choice));
    let sampled_betas =
        findings.grid.iter().copied().chain(searches.iter().map(|search| search.choice.inverse_temperature));
    findings.warnings.extend(experiment.tempered_scales(sampled_betas));
    findings.warnings.extend(divergence);
    findings.warnings.extend(doubts);
    findings.agreement = agreement(experiment, &chains, &mut findings.warnings)?;
    let limits = Limits::default();
    for (metric, model) in [("SM-PD LPD", PredictiveModel::Standard), ("TM-PD LPD", PredictiveModel::Tempered)] {
        let chosen = grid_choice(&findings.rows, Criterion::Lpd(model));
        let at_edge = chosen.iter().find_map(|row| limits.check_grid(&findings.grid, row.beta, metric));
        findings.warnings.extend(at_edge);
    }
    Ok(findings)
}

/// What is found of a chain alone; the chain itself is not needed any more.
struct Judged {
    found: ChainFindings,
    /// How it ended, without its weights.
    end: Chain,
    /// Its line of the tables; none without a draw.
    row: Option<(Row, Predictions)>,
    divergence: Vec<Warning>,
    doubts: Vec<Warning>,
}

impl Judged {
    fn of(experiment: &Experiment, chain: &SampledChain) -> Result<Self> {
        let group = ChainGroup {
            label: chain.spec.label.clone(),
            inverse_temperature: chain.spec.inverse_temperature,
            chains: with_draws(std::iter::once(chain)),
        };
        let mut judged = Self {
            found: ChainFindings::of(experiment, chain)?,
            end: chain.chain.clone().without_weights(),
            row: None,
            divergence: divergence_warnings(std::slice::from_ref(chain)),
            doubts: Vec::new(),
        };
        if group.chains.is_empty() {
            return Ok(judged);
        }
        let (slot, repetition) = (chain.spec.slot, Some(chain.spec.repetition));
        let (row, predictions) = Row::posterior(experiment, Method::of(slot), &group, repetition, chain.seconds)?;
        if let (Slot::Chosen, Some(measured)) = (slot, &row.measured) {
            let temperature = experiment.sampler_temperature(group.inverse_temperature)?;
            judged.doubts.extend(group.warnings(experiment, measured, temperature));
            judged.doubts.extend(group.tensor_warning(experiment, measured)?);
            judged.doubts.extend(prediction_warnings(experiment, &row, &predictions)?);
        }
        judged.row = Some((row, predictions));
        Ok(judged)
    }
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
fn agreement(experiment: &Experiment, chains: &SweepChains, warnings: &mut Vec<Warning>) -> Result<Vec<Agreement>> {
    let inflation = experiment.expected_inflation()?;
    let on_grid: Vec<usize> = (0..chains.len()).filter(|&index| chains.spec(index).slot != Slot::Chosen).collect();
    let mut betas: Vec<f64> = on_grid.iter().map(|&index| chains.spec(index).inverse_temperature).collect();
    betas.sort_by(f64::total_cmp);
    betas.dedup();
    let mut lines = Vec::new();
    for beta in betas {
        let own = on_grid.iter().filter(|&&index| chains.spec(index).inverse_temperature == beta);
        let own: Vec<SweepChain<'_>> =
            own.map(|&index| chains.measured(experiment, index)).collect::<Result<_, _>>()?;
        let group = ChainGroup {
            label: format!("β = {}", significant(beta, 3)),
            inverse_temperature: beta,
            chains: with_draws(own.iter().map(|chain| &**chain)),
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

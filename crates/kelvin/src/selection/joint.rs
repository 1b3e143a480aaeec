//! Joint maximum likelihood of network and temperature: one optimisation, the best validation checkpoint wins.
//!
//! ```text
//! θ̂*, β̂* = argmax Σ log p(y|x,θ,β)  [+ log p(θ), or + n log p(θ)]        from log β = 0, by SGD with momentum
//! ```
//! and the checkpoint is kept whose validation log-likelihood of the tempered model is largest, the start (θ₀, β = 1) among them (Ng,
//! van der Heide, Hodgkinson, Wei, UAI 2025, eq. 9; the terms in brackets are the MAP variants of its Appendix D). So a search that
//! diverges before it looks again answers β = 1, and a warning says so.
//! With n log p(θ) a narrow prior outweighs the data: the maximum of a network with a hidden layer can be θ = 0, from every start
//! the same, which predicts the mean and has β̂* = σ²/Var y. That is no end of the search: log β is not bounded.
//! Cost: one SGD run for each start. Objective: held-out density of the tempered plug-in.

use std::ops::ControlFlow;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::selector::{BetaInterval, Goal, IntervalMeaning, Selection, Selector};
use crate::diagnostics::{Limits, Warning};
use crate::held_out::HeldOut;
use crate::network::Weights;
use crate::potential::{Posterior, Potential};
use crate::sampler::{
    AscentObjective, Chain, ChainState, Divergence, Engine, EngineError, FirstFailure, JointAscent, LogBeta, Motion,
    Observer, Plan, PriorShare, evaluated_together,
};

/// A last checkpoint that beats the one before by less than this has converged.
const CONVERGED: f64 = 1e-3;

/// Joint ascent in (θ, log β) as a selector: of the starts' choices the one with the best validation score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JointSelector {
    /// The share of log p(θ) in what is maximised: none is maximum likelihood, all else a maximum of the posterior.
    pub prior: PriorShare,
    /// What is known of log β beforehand. It cannot be frozen: that would choose nothing.
    pub log_beta: LogBeta,
}

impl Selector for JointSelector {
    fn name(&self) -> &'static str {
        match self.prior {
            PriorShare::None => "joint",
            PriorShare::Once => "map",
            PriorShare::PerDatum => "map-per-datum",
        }
    }

    fn goal(&self) -> Goal {
        Goal::PlugInDensity
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let method = self.name();
        if self.log_beta == LogBeta::Frozen {
            return Err(SelectionError::DoesNotSuit { method, reason: "log β is frozen; let it move".into() });
        }
        if !laboratory.posterior().likelihood().identifies_beta() {
            let reason = "the noise is learned, and the likelihood knows only β/σ²: a joint maximum has no β to tell; choose by LPD";
            return Err(SelectionError::DoesNotSuit { method, reason: reason.into() });
        }
        let choices = laboratory.search(AscentObjective { prior: self.prior, log_beta: self.log_beta })?;
        let best = best_choice(method, &choices)?;
        let prices = laboratory.prices();
        let betas: Vec<f64> = choices.iter().map(|choice| choice.inverse_temperature).collect();
        let mut warnings: Vec<Warning> = Limits::default().check_seeds(&betas).into_iter().collect();
        warnings.extend(best.not_converged());
        warnings.extend((1..).zip(&choices).filter_map(|(start, choice)| choice.diverged_at_once(start)));
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: best.inverse_temperature,
            intervals: BetaInterval::over_starts(&betas).into_iter().collect(),
            cost: prices.cost(prices.search * choices.len() as f64),
            warnings,
        })
    }
}

/// The choice with the best finite validation score.
pub(super) fn best_choice<'c>(
    method: &'static str,
    choices: &'c [JointChoice],
) -> Result<&'c JointChoice, SelectionError> {
    let finite = choices.iter().filter(|choice| choice.validation_lpd().is_finite());
    finite.max_by(|a, b| a.validation_lpd().total_cmp(&b.validation_lpd())).ok_or(SelectionError::NothingFound {
        method,
        reason: "no search has a finite validation score; lower selection.learning_rate".into(),
    })
}

impl BetaInterval {
    /// From the smallest to the largest; none of fewer than two.
    pub fn over_starts(betas: &[f64]) -> Option<Self> {
        let low = betas.iter().copied().fold(f64::INFINITY, f64::min);
        let high = betas.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let meaning = IntervalMeaning::OverStarts { count: betas.len() };
        (betas.len() > 1).then_some(Self { low, high, meaning })
    }
}

/// β and the validation score at one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Steps done.
    pub step: u64,
    /// β there.
    pub inverse_temperature: f64,
    /// Mean validation log-likelihood of the tempered model there.
    pub validation_lpd: f64,
}

/// What a run of the optimiser chose.
#[derive(Clone, Debug, PartialEq)]
pub struct JointChoice {
    /// θ of the best checkpoint: the SGD baseline.
    pub position: Vec<f32>,
    /// Running statistics of batch norms there.
    pub statistics: Vec<f32>,
    /// β̂*: β of the best checkpoint.
    pub inverse_temperature: f64,
    /// Which checkpoint was best.
    pub best: usize,
    /// All checkpoints in order, from the start.
    pub path: Vec<Checkpoint>,
    /// Where the search left the finite numbers, if it did.
    pub divergence: Option<Divergence>,
}

impl JointChoice {
    /// What the SGD baseline predicts with.
    pub fn weights(&self) -> Weights<'_> {
        Weights { parameters: &self.position, statistics: &self.statistics }
    }

    /// The best validation score.
    pub fn validation_lpd(&self) -> f64 {
        self.path[self.best].validation_lpd
    }

    /// Whether the score was still rising when the run ended.
    pub fn best_is_last(&self) -> bool {
        self.best + 1 == self.path.len()
    }

    /// A warning where the score was still rising by more than noise.
    pub fn not_converged(&self) -> Option<Warning> {
        let before = self.path.iter().rev().nth(1)?.validation_lpd;
        let rising = self.best_is_last() && self.validation_lpd() - before > CONVERGED;
        let (beta, num_checkpoints) = (self.inverse_temperature, self.path.len());
        rising.then_some(Warning::SelectionNotConverged { beta, num_checkpoints })
    }

    /// A warning where the search diverged before it looked at the validation rows again, so that its start is all it has to answer
    /// with; the number of the start, from 1, names it.
    pub fn diverged_at_once(&self, start: u32) -> Option<Warning> {
        let Divergence { step } = self.divergence?;
        (self.path.len() == 1).then_some(Warning::SelectionDiverged { start, step, beta: self.inverse_temperature })
    }
}

/// A search from one start: where it is, and the best it has seen.
#[derive(Clone, Debug)]
pub struct Search {
    /// The optimiser's chain.
    pub chain: Chain,
    /// The best checkpoint so far; none before it has looked at its start.
    pub choice: Option<JointChoice>,
}

/// Runs the optimiser on every search until it is done, has diverged, or the observer stops it; going on later gives the same
/// numbers.
///
/// # Errors
/// Where the engine fails.
pub fn choose_jointly(
    engine: &dyn Engine,
    posterior: &Posterior,
    rule: &JointAscent,
    plan: &Plan,
    searches: &mut [Search],
    validation: &HeldOut,
    progress: &dyn Observer,
) -> Result<(), EngineError> {
    let mut chains: Vec<Chain> = searches.iter().map(|search| search.chain.clone()).collect();
    for chain in chains.iter_mut().filter(|chain| chain.state.statistics.is_empty()) {
        chain.state.statistics = posterior.initial_statistics();
    }
    let choices = searches.iter_mut().map(|search| Mutex::new(search.choice.take())).collect();
    let watch = BestCheckpoint { engine, posterior, validation, progress, choices, failure: FirstFailure::default() };
    watch.look_at_starts(&chains)?;
    engine.run(posterior, Motion::Search(rule), plan, &mut chains, &watch)?;
    watch.failure.into_result()?;
    for ((search, chain), choice) in searches.iter_mut().zip(chains).zip(watch.choices) {
        search.choice = choice.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(choice) = &mut search.choice {
            choice.divergence = chain.divergence;
        }
        search.chain = chain;
    }
    Ok(())
}

struct BestCheckpoint<'a> {
    engine: &'a dyn Engine,
    posterior: &'a Posterior,
    validation: &'a HeldOut,
    progress: &'a dyn Observer,
    choices: Vec<Mutex<Option<JointChoice>>>,
    failure: FirstFailure,
}

impl BestCheckpoint<'_> {
    /// Makes (θ₀, β = 1) the first candidate of every search that has not moved yet.
    fn look_at_starts(&self, chains: &[Chain]) -> Result<(), EngineError> {
        let is_new = |index: usize| {
            let choice = self.choices[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            choice.is_none() && chains[index].state.step == 0
        };
        let starts: Vec<(usize, &Chain)> = chains.iter().enumerate().filter(|(index, _)| is_new(*index)).collect();
        self.look_at(&starts)
    }

    /// Judges where chains are.
    fn look_at(&self, chains: &[(usize, &Chain)]) -> Result<(), EngineError> {
        let num_outputs = self.validation.num_rows() * self.validation.num_values();
        for some in chains.chunks(evaluated_together(num_outputs)) {
            let weights: Vec<Weights<'_>> = some.iter().map(|(_, chain)| chain.state.weights()).collect();
            for ((index, chain), outputs) in some.iter().zip(&self.engine.outputs(self.validation, &weights)?) {
                self.judge(*index, &chain.state, outputs);
            }
        }
        Ok(())
    }

    /// Takes the state of chain `index` where its outputs are better than all before.
    fn judge(&self, index: usize, state: &ChainState, outputs: &[f32]) {
        let inverse_temperature = state.log_beta.exp();
        let likelihood = self.posterior.likelihood();
        let sum = likelihood.log_likelihood(outputs, self.validation.targets(), inverse_temperature);
        let checkpoint = Checkpoint {
            step: state.step,
            inverse_temperature,
            validation_lpd: sum.value / self.validation.num_rows() as f64,
        };
        let mut choice = self.choices[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &mut *choice {
            None => {
                *choice = Some(JointChoice {
                    position: state.position.clone(),
                    statistics: state.statistics.clone(),
                    inverse_temperature,
                    best: 0,
                    path: vec![checkpoint],
                    divergence: None,
                });
            }
            Some(choice) => {
                choice.path.push(checkpoint);
                if checkpoint.validation_lpd > choice.validation_lpd() || choice.validation_lpd().is_nan() {
                    choice.best = choice.path.len() - 1;
                    choice.inverse_temperature = inverse_temperature;
                    choice.position.clone_from(&state.position);
                    choice.statistics.clone_from(&state.statistics);
                }
            }
        }
    }
}

impl Observer for BestCheckpoint<'_> {
    fn started(&self, index: usize) {
        self.progress.started(index);
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        if self.failure.note(self.look_at(kept)).is_some() {
            self.progress.kept(kept);
        }
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        if self.failure.is_noted() { ControlFlow::Break(()) } else { self.progress.advanced(index, steps) }
    }
}

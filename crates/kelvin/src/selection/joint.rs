//! A search for (θ, log β) from one start: one optimisation, of which the best validation checkpoint is kept.
//!
//! The start (θ₀, β = 1) is the first of the checkpoints, so that a search that diverges before it looks again answers β = 1.
//! `joint_selector.rs` is the selector that is made of such searches.

use std::ops::ControlFlow;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::diagnostics::Warning;
use crate::held_out::HeldOut;
use crate::mutex::{into_inner, lock};
use crate::network::Weights;
use crate::potential::{Posterior, Potential};
use crate::sampler::{
    Chain, ChainState, Divergence, Engine, EngineError, FirstFailure, JointAscent, Motion, Observer, Plan,
    evaluated_together,
};

/// A last checkpoint that beats the one before by less than this has converged.
const CONVERGED: f64 = 1e-3;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        search.choice = into_inner(choice);
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
            let choice = lock(&self.choices[index]);
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
        let mut choice = lock(&self.choices[index]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Examples, Targets};
    use crate::likelihood::Likelihood;
    use crate::network::Network;
    use crate::prior::IsotropicGaussian;
    use crate::sampler::{Batches, ClipScope, CpuEngine, Keep, Silent};
    use crate::temperature::{Schedule, Temperature};

    const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_7;

    /// y ~ N(w x + b, 1) with the one row x = 1, y = 0, to learn from and to be judged on.
    fn line() -> (Posterior, HeldOut) {
        let examples = Examples { inputs: vec![1.0].into(), num_features: 1, targets: Targets::Real(vec![0.0]) };
        let network = Network::dense(1, &[], 1).unwrap();
        let likelihood = Likelihood::Gaussian { noise_variance: 1.0 };
        let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(1.0).unwrap(), &examples).unwrap();
        let validation = posterior.held_out(&examples);
        (posterior, validation)
    }

    /// A state with w = `output`, b = 0.
    fn state(posterior: &Posterior, step: u64, output: f32, beta: f64) -> ChainState {
        ChainState { step, log_beta: beta.ln(), ..ChainState::at_rest(vec![output, 0.0], &posterior.layout()) }
    }

    /// What the search makes of these (output, β), one checkpoint after the other.
    fn judged(states: &[(f32, f64)]) -> JointChoice {
        let (posterior, validation) = line();
        let watch = BestCheckpoint {
            engine: &CpuEngine,
            posterior: &posterior,
            validation: &validation,
            progress: &Silent,
            choices: vec![Mutex::new(None)],
            failure: FirstFailure::default(),
        };
        for (step, &(output, beta)) in states.iter().enumerate() {
            let state = state(&posterior, 10 * step as u64, output, beta);
            watch.judge(0, &state, &[output]);
        }
        let [choice] = watch.choices.try_into().unwrap();
        into_inner(choice).unwrap()
    }

    fn choice(lpds: &[f64], best: usize) -> JointChoice {
        let checkpoint = |(step, &validation_lpd)| Checkpoint { step, inverse_temperature: 2.0, validation_lpd };
        JointChoice {
            position: Vec::new(),
            statistics: Vec::new(),
            inverse_temperature: 2.0,
            best,
            path: (0..).zip(lpds).map(checkpoint).collect(),
            divergence: None,
        }
    }

    /// log N(0 | output, 1/β) = ½ log β − ½ log 2π − ½ β output².
    #[test]
    fn validation_rows_are_judged_at_the_beta_of_the_checkpoint() {
        let choice = judged(&[(1.0, 1.0), (1.0, 4.0), (2.0, 0.25)]);
        let lpds: Vec<f64> = choice.path.iter().map(|checkpoint| checkpoint.validation_lpd).collect();
        let expected = [-0.5, 0.5 * 4f64.ln() - 2.0, 0.5 * 0.25f64.ln() - 0.5].map(|value| value - HALF_LOG_TAU);
        for (found, expected) in lpds.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        }
        assert_eq!(choice.path.iter().map(|checkpoint| checkpoint.step).collect::<Vec<_>>(), [0, 10, 20]);
    }

    #[test]
    fn the_best_checkpoint_is_kept_and_not_the_last() {
        let choice = judged(&[(3.0, 1.0), (0.5, 2.0), (0.25, 4.0), (0.5, 4.0), (2.0, 1.0)]);
        assert_eq!((choice.best, choice.path.len()), (2, 5));
        assert_eq!(choice.position, [0.25, 0.0]);
        assert!((choice.inverse_temperature - 4.0).abs() < 1e-14);
        assert_eq!(choice.validation_lpd(), choice.path[2].validation_lpd);
        assert_eq!(choice.weights().parameters, [0.25, 0.0]);
        // Of equals the first.
        let equals = judged(&[(1.0, 1.0), (-1.0, 1.0)]);
        assert_eq!((equals.best, equals.position), (0, vec![1.0, 0.0]));
        // A start whose density is no number gives way to the first that has one.
        let broken = judged(&[(f32::NAN, 1.0), (1.0, 1.0), (2.0, 1.0)]);
        assert_eq!((broken.best, broken.position), (1, vec![1.0, 0.0]));
    }

    /// The same through the optimiser: steps so long that each ends further from the row than the last, so the start stays best.
    #[test]
    fn a_search_that_only_gets_worse_answers_with_its_start() {
        let (posterior, validation) = line();
        let rule = JointAscent {
            objective: Default::default(),
            learning_rate: Schedule::Constant { value: 1.5 },
            momentum: 0.0,
            weight_decay: 0.0,
            clip_norm: 100.0,
            clip_scope: ClipScope::All,
        };
        let plan = Plan { seed: 1, batches: Batches::full(1), num_steps: 2, keep: Keep { burn_in: 0, every: 1 } };
        let chain = Chain::new(0, Temperature::BAYES, vec![1.0, 0.5], &posterior.layout());
        let mut searches = [Search { chain, choice: None }];
        choose_jointly(&CpuEngine, &posterior, &rule, &plan, &mut searches, &validation, &Silent).unwrap();
        let choice = searches[0].choice.as_ref().unwrap();
        assert_eq!((choice.best, choice.path.len()), (0, 3), "{:?}", choice.path);
        assert_eq!((&choice.position[..], choice.inverse_temperature), (&[1.0, 0.5][..], 1.0));
        assert_ne!(searches[0].chain.state.position, choice.position);
    }

    #[test]
    fn a_score_that_still_rises_by_more_than_noise_has_not_converged() {
        assert!(choice(&[-3.0, -2.0, -1.998], 2).not_converged().is_some());
        let beyond = choice(&[-3.0, -2.0, -2.0 + 1.5 * CONVERGED], 2);
        let expected = Warning::SelectionNotConverged { beta: 2.0, num_checkpoints: 3 };
        assert_eq!(beyond.not_converged(), Some(expected));
        assert!(choice(&[-3.0, -2.0, -2.0 + 0.5 * CONVERGED], 2).not_converged().is_none());
        assert!(choice(&[-3.0, -1.0, -2.0], 1).not_converged().is_none(), "the best is not the last");
        assert!(choice(&[-1.0], 0).not_converged().is_none(), "there is nothing to rise from");
        assert!(choice(&[-2.0, -1.0], 1).best_is_last() && !choice(&[-1.0, -2.0], 0).best_is_last());
    }

    #[test]
    fn only_a_search_with_nothing_but_its_start_has_diverged_at_once() {
        let diverged = |lpds: &[f64]| JointChoice { divergence: Some(Divergence { step: 7 }), ..choice(lpds, 0) };
        let expected = Warning::SelectionDiverged { start: 3, step: 7, beta: 2.0 };
        assert_eq!(diverged(&[-1.0]).diverged_at_once(3), Some(expected));
        assert_eq!(diverged(&[-1.0, -2.0]).diverged_at_once(3), None);
        assert_eq!(choice(&[-1.0], 0).diverged_at_once(3), None);
    }
}

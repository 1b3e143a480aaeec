//! The two halves of an experiment: choose β by joint ascent, sample chains at given temperatures.

use crate::error::ExperimentError;
use crate::experiment::chain_spec::{ChainSpec, Slot};
use crate::experiment::population::{Population, Sampled, Searches};
use crate::experiment::prepared::Experiment;
use crate::experiment::running_scores::RunningScores;
use crate::settings::RateSchedule;
use kelvin::draws::Draws;
use kelvin::potential::Potential;
use kelvin::sampler::{Chain, JointAscent, Keep, Observer, Plan};
use kelvin::selection::{JointChoice, Search};
use kelvin::temperature::Schedule;

/// A chain that was sampled.
#[derive(Debug)]
pub struct SampledChain {
    /// The chain that was asked for.
    pub spec: ChainSpec,
    /// Where it ended and what it measured.
    pub chain: Chain,
    /// The draws that it kept, in order.
    pub draws: Draws,
    /// What its draws predict.
    pub scores: RunningScores,
    /// Wall-clock time it took, where that was measured; its share where chains move together.
    pub seconds: f64,
}

impl Experiment {
    /// Searches for β from each repetition's start. One that diverges at once answers β = 1
    /// ([`diverged_at_once`](JointChoice::diverged_at_once)).
    ///
    /// # Errors
    /// If the engine fails, or a setting of the search is out of range.
    pub fn select(&self, repetitions: &[u32], progress: &dyn Observer) -> Result<Vec<JointChoice>, ExperimentError> {
        let mut population = self.searches(repetitions)?;
        population.advance(progress)?;
        Ok(choices(population.searches))
    }

    /// Searches for β at their starts.
    pub(crate) fn searches(&self, repetitions: &[u32]) -> Result<Searches<'_>, ExperimentError> {
        let settings = &self.settings.selection;
        let batches = self.batches(settings.batch_size)?;
        let epoch = batches.steps_per_epoch();
        let value = settings.learning_rate;
        let learning_rate = match &settings.schedule {
            RateSchedule::Constant => Schedule::Constant { value },
            RateSchedule::Cosine => Schedule::CosineDecay { value, total: settings.epochs * epoch },
            RateSchedule::Piecewise(factors) => Schedule::Piecewise {
                value,
                factors: factors.iter().map(|&(at, factor)| (at * epoch, factor)).collect(),
            },
        };
        let rule = JointAscent {
            objective: self.ascent_objective(),
            learning_rate: learning_rate.checked()?,
            momentum: settings.momentum,
            weight_decay: settings.weight_decay,
            clip_norm: settings.clip_norm,
            clip_scope: settings.clip_scope,
        };
        let every = (settings.epochs / settings.checkpoints).max(1) * epoch;
        let plan = Plan {
            seed: self.settings.run.seed,
            batches,
            num_steps: settings.epochs * epoch,
            keep: Keep { burn_in: 0, every },
        };
        let mut searches = Vec::new();
        for &repetition in repetitions {
            searches.push(Search { chain: self.chain(repetition, Slot::Selector, 1.0)?, choice: None });
        }
        Ok(Searches { experiment: self, rule, plan, searches })
    }

    /// Samples chains as one population; where the settings say when they have seen enough (`stopping`), all of them are to be of one temperature.
    ///
    /// # Errors
    /// If the engine fails, or a β is not a finite positive number. A chain that diverges is no error: it keeps the draws before.
    pub fn sample(&self, specs: &[ChainSpec], progress: &dyn Observer) -> Result<Vec<SampledChain>, ExperimentError> {
        let mut population = self.sampled(specs)?;
        population.look_on_the_way();
        population.advance(progress)?;
        while let Some(reach) = population.next_reach()? {
            population.set_reach(reach);
            population.advance(progress)?;
        }
        let kept = population.draws.into_iter().zip(population.scores);
        let sampled = specs.iter().cloned().zip(population.chains).zip(kept);
        Ok(sampled
            .map(|((spec, chain), (draws, scores))| SampledChain { spec, chain, draws, scores, seconds: 0.0 })
            .collect())
    }

    /// Chains at their starts, whose draws are kept in memory.
    pub(crate) fn sampled(&self, specs: &[ChainSpec]) -> Result<Sampled<'_>, ExperimentError> {
        let (rule, plan) = self.sampler()?;
        let mut chains = Vec::new();
        for spec in specs {
            let mut chain = self.chain(spec.repetition, spec.slot, spec.inverse_temperature)?;
            if let Some(start) = &spec.start {
                chain.state.position.clone_from(&start.position);
                chain.state.statistics.clone_from(&start.statistics);
            }
            chains.push(chain);
        }
        let draws = specs.iter().map(|_| Draws::in_memory(self.posterior.dim())).collect();
        let scores = specs.iter().map(|spec| RunningScores::new(self, spec.inverse_temperature));
        let scores = scores.collect::<Result<_, _>>()?;
        Ok(Sampled { experiment: self, rule, plan, chains, draws, scores })
    }
}

/// What searches that were moved have chosen.
pub(crate) fn choices(searches: Vec<Search>) -> Vec<JointChoice> {
    let chosen = searches.into_iter().map(|search| search.choice);
    chosen.map(|choice| choice.expect("a search looks at its start before it moves")).collect()
}

//! The two populations of an experiment on their way: searches for β, and chains that are sampled.
//!
//! Both can be stopped by their observer and go on later with the same numbers; `durable.rs` stores them in between.

use crate::error::ExperimentError;
use crate::experiment::kept_draws::{DrawEnergy, FreshStatistics, KeepDraws, Keepsake};
use crate::experiment::prepared::Experiment;
use crate::experiment::running_scores::RunningScores;
use crate::settings::DrawStatistics;
use kelvin::draws::Draws;
use kelvin::potential::Posterior;
use kelvin::sampler::{Chain, JointAscent, Langevin, Motion, Observer, Plan, Rule};
use kelvin::selection::{Search, choose_jointly};

/// Chains that move until each is done.
pub(crate) trait Population {
    /// Moves all chains until each is done or the observer stops it.
    fn advance(&mut self, observer: &dyn Observer) -> Result<(), ExperimentError>;

    /// The steps each chain is to have done in the end.
    fn num_steps(&self) -> u64;

    /// All chains, in the order they were asked for.
    fn chains(&self) -> impl Iterator<Item = &Chain>;
}

/// Searches for β from several starts.
pub(crate) struct Searches<'a> {
    pub experiment: &'a Experiment,
    pub rule: JointAscent,
    pub plan: Plan,
    pub searches: Vec<Search>,
}

impl Population for Searches<'_> {
    fn advance(&mut self, observer: &dyn Observer) -> Result<(), ExperimentError> {
        let Experiment { engine, posterior, validation, .. } = self.experiment;
        let Self { rule, plan, searches, .. } = self;
        Ok(choose_jointly(&**engine, posterior, rule, plan, searches, validation, observer)?)
    }

    fn num_steps(&self) -> u64 {
        self.plan.num_steps
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.searches.iter().map(|search| &search.chain)
    }
}

/// Chains that are sampled, with what they have kept.
pub(crate) struct Sampled<'a> {
    pub experiment: &'a Experiment,
    pub rule: Langevin,
    pub plan: Plan,
    pub chains: Vec<Chain>,
    pub draws: Vec<Draws>,
    pub scores: Vec<RunningScores>,
}

impl Sampled<'_> {
    /// Whether momenta have a temperature.
    pub fn measures_momentum(&self) -> bool {
        Rule::<Posterior>::has_momentum_temperature(&self.rule)
    }
}

impl Population for Sampled<'_> {
    fn advance(&mut self, observer: &dyn Observer) -> Result<(), ExperimentError> {
        let Experiment { settings, problem, posterior, engine, .. } = self.experiment;
        let (sampler, seed) = (&settings.sampler, settings.run.seed);
        let energy = DrawEnergy::new(&**engine, posterior, sampler, problem.network.has_batch_norm());
        let fresh = match (sampler.draw_statistics, sampler.batch_size.rows()) {
            (DrawStatistics::Reestimated, Some(batch_size)) => {
                Some(FreshStatistics::new(&**engine, posterior, seed, batch_size))
            }
            _ => None,
        };
        let measured = self.measures_momentum();
        let keepsakes = std::mem::take(&mut self.draws).into_iter().zip(std::mem::take(&mut self.scores));
        let keepsakes = keepsakes.map(|(draws, scores)| Keepsake { draws, scores }).collect();
        let num_draws = settings.draws_per_chain();
        let kept = KeepDraws::new(self.experiment, energy, fresh, measured, observer, keepsakes, num_draws);
        engine.run(posterior, Motion::Sample(&self.rule), &self.plan, &mut self.chains, &kept)?;
        (self.draws, self.scores) = kept.into_parts()?;
        Ok(())
    }

    fn num_steps(&self) -> u64 {
        self.plan.num_steps
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.chains.iter()
    }
}

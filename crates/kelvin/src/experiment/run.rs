//! The two halves of an experiment: choose β by joint ascent, sample chains at given temperatures.

use std::sync::Arc;

use super::check::num_steps;
use super::error::ExperimentError;
use super::population::{Population, Sampled, Searches};
use super::problem::Problem;
use super::running_scores::RunningScores;
use super::sampler_settings::{Preconditioner, PreconditionerStatistics, Start};
use super::settings::{BatchSize, RateSchedule, Settings};
use crate::data::Augmentation;
use crate::draws::Draws;
use crate::held_out::HeldOut;
use crate::potential::{Posterior, Potential};
use crate::predictive::Predictive;
use crate::sampler::{
    Batches, Chain, CpuEngine, Engine, JointAscent, Keep, Langevin, LayerwiseMass, MassRule, Motion, Observer, Plan,
};
use crate::selection::{JointChoice, Search};
use crate::temperature::{Schedule, Temperature};

/// What a chain of a repetition is for; it names the chain's random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The i-th temperature of the grid.
    Grid(u32),
    /// β = 1 outside a grid.
    Bayes,
    /// β̂*.
    Chosen,
    /// The search for β̂*.
    Selector,
    /// Trials of a step size.
    Pilot,
}

impl Slot {
    const PER_REPETITION: u32 = 64;

    pub(super) fn id(self, repetition: u32) -> u32 {
        let slot = match self {
            Self::Grid(index) => index,
            Self::Pilot => 60,
            Self::Bayes => 61,
            Self::Chosen => 62,
            Self::Selector => 63,
        };
        repetition * Self::PER_REPETITION + slot
    }
}

/// A chain to be sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainSpec {
    /// For people.
    pub label: String,
    /// Names the starting point and, with the slot, the random numbers.
    pub repetition: u32,
    /// What it is for.
    pub slot: Slot,
    /// β.
    pub inverse_temperature: f64,
    /// Where it starts, shared by the chains of a repetition; at the repetition's random weights where none is given.
    pub start: Option<Arc<StartingPoint>>,
}

/// Weights that a chain starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct StartingPoint {
    /// θ.
    pub position: Vec<f32>,
    /// Running statistics of batch norms.
    pub statistics: Vec<f32>,
}

/// A chain that was sampled.
#[derive(Debug)]
pub struct SampledChain {
    /// What was asked.
    pub spec: ChainSpec,
    /// Where it ended and what it measured.
    pub chain: Chain,
    /// What it kept.
    pub draws: Draws,
    /// What its draws predict.
    pub scores: RunningScores,
}

/// A problem with its posterior, ready to be optimised and sampled; it owns what it needs.
pub struct Experiment {
    /// The settings.
    pub settings: Settings,
    /// The rows.
    pub problem: Arc<Problem>,
    /// The posterior of the training rows.
    pub posterior: Posterior,
    /// Validation rows.
    pub validation: HeldOut,
    /// Test rows.
    pub test: HeldOut,
    /// Rows of another set.
    pub out_of_distribution: Option<HeldOut>,
    /// Training rows as they are looked at by learning theory.
    pub training_sample: HeldOut,
    /// Where chains move and draws are evaluated.
    pub engine: Arc<dyn Engine>,
}

impl Experiment {
    /// Checks the settings, builds the posterior, and checks that the batches fit. Runs on the CPU.
    pub fn new(problem: impl Into<Arc<Problem>>, settings: Settings) -> Result<Self, ExperimentError> {
        Self::on(Arc::new(CpuEngine), problem, settings)
    }

    /// The same on an engine of one's choice.
    pub fn on(
        engine: Arc<dyn Engine>,
        problem: impl Into<Arc<Problem>>,
        settings: Settings,
    ) -> Result<Self, ExperimentError> {
        let problem: Arc<Problem> = problem.into();
        settings.check()?;
        let prior = settings.model.build_prior(&problem.network.layout())?;
        let posterior = Posterior::new(&problem.network, problem.likelihood, prior, &problem.train)?;
        let held_out = |examples: &_| HeldOut::sharing(posterior.workspaces(), &problem.network, examples);
        let (validation, test) = (held_out(&problem.validation), held_out(&problem.test));
        let out_of_distribution = problem.out_of_distribution.as_ref().map(held_out);
        let training_sample = held_out(&problem.training_sample);
        settings.check_against(&problem)?;
        let experiment =
            Self { settings, problem, posterior, validation, test, out_of_distribution, training_sample, engine };
        experiment.selection_steps()?;
        experiment.sampler_steps()?;
        Ok(experiment)
    }

    fn batches(&self, size: BatchSize) -> Result<Batches, ExperimentError> {
        let num_examples = self.problem.train.len();
        let augmentation = self.settings.data.augmentation;
        // A batch of all rows needs no order, unless it is to be one batch to batch norm or augmented.
        let needs_list = self.problem.network.has_batch_norm() || augmentation > 0.0;
        let rows = size.rows().filter(|&rows| needs_list || rows != num_examples);
        Ok(Batches::new(num_examples, rows)?.augmented(Augmentation::new(augmentation)?))
    }

    fn chain(&self, repetition: u32, slot: Slot, inverse_temperature: f64) -> Result<Chain, ExperimentError> {
        let position = self.problem.network.initial_parameters(self.settings.run.seed, repetition);
        let temperature = Temperature::from_inverse(inverse_temperature)?;
        Ok(Chain::new(slot.id(repetition), temperature, position, &self.posterior.layout()))
    }

    /// Steps of the search for β, for each start.
    pub fn selection_steps(&self) -> Result<u64, ExperimentError> {
        let settings = &self.settings.selection;
        num_steps("selection.epochs", settings.epochs, self.batches(settings.batch_size)?.steps_per_epoch())
    }

    /// Steps of a sampled chain.
    pub fn sampler_steps(&self) -> Result<u64, ExperimentError> {
        let settings = &self.settings.sampler;
        num_steps("sampler.epochs", settings.epochs, self.batches(settings.batch_size)?.steps_per_epoch())
    }

    /// Searches for β from each repetition's start. One that diverges at once answers β = 1
    /// ([`diverged_at_once`](JointChoice::diverged_at_once)).
    pub fn select(&self, repetitions: &[u32], progress: &dyn Observer) -> Result<Vec<JointChoice>, ExperimentError> {
        let mut population = self.searches(repetitions)?;
        population.advance(progress)?;
        Ok(choices(population.searches))
    }

    /// Searches for β at their starts.
    pub(super) fn searches(&self, repetitions: &[u32]) -> Result<Searches<'_>, ExperimentError> {
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
            objective: settings.ascent_objective(),
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

    /// Where the settings let a repetition's chains start, as `ChainSpec` wants it, given what its search chose.
    pub fn start(&self, choice: Option<&JointChoice>) -> Option<Arc<StartingPoint>> {
        match self.settings.sampler.start {
            Start::Random => None,
            Start::Search => {
                let JointChoice { position, statistics, .. } = choice?;
                Some(Arc::new(StartingPoint { position: position.clone(), statistics: statistics.clone() }))
            }
        }
    }

    /// How the engine would arrange so many sampled chains, where it has a choice.
    pub fn arrangement(&self, num_chains: usize) -> Result<Option<String>, ExperimentError> {
        let (_, plan) = self.sampler()?;
        Ok(self.engine.arrangement(&self.posterior, &plan, num_chains)?)
    }

    /// Whether the engine can move chains of this posterior by this sampler.
    ///
    /// # Errors
    /// Why not, as [`Engine::accepts`] says it.
    pub fn check_engine(&self) -> Result<(), ExperimentError> {
        let (rule, _) = self.sampler()?;
        Ok(self.engine.accepts(&self.posterior, Motion::Sample(&rule))?)
    }

    /// The sampler's rule and plan.
    pub(super) fn sampler(&self) -> Result<(Langevin, Plan), ExperimentError> {
        let settings = &self.settings.sampler;
        let batches = self.batches(settings.batch_size)?;
        let epoch = batches.steps_per_epoch();
        let (start, period) = (settings.burn_in * epoch, settings.cycle * epoch);
        let rule = Langevin {
            integrator: settings.integrator,
            learning_rate: settings.learning_rate,
            momentum: settings.momentum,
            step_scale: Schedule::CosineCycle { start, period, value: 1.0 }.checked()?,
            temperature_scale: Schedule::Ramp {
                start: settings.ramp_start * epoch,
                end: settings.ramp_end * epoch,
                value: 1.0,
            }
            .checked()?,
            tempering: settings.tempering,
            clip_norm: settings.clip_norm,
            mass: match settings.preconditioner {
                Preconditioner::None => MassRule::Fixed,
                Preconditioner::Layerwise => MassRule::Layerwise(LayerwiseMass {
                    num_batches: settings.preconditioner_batches,
                    training_mode: settings.preconditioner_statistics == PreconditionerStatistics::Batch,
                    ..LayerwiseMass::default()
                }),
            },
        };
        let plan = Plan {
            seed: self.settings.run.seed,
            batches,
            num_steps: settings.epochs * epoch,
            keep: Keep { burn_in: start, every: period },
        };
        Ok((rule, plan))
    }

    /// Samples chains as one population.
    pub fn sample(&self, specs: &[ChainSpec], progress: &dyn Observer) -> Result<Vec<SampledChain>, ExperimentError> {
        let mut population = self.sampled(specs)?;
        population.advance(progress)?;
        let kept = population.draws.into_iter().zip(population.scores);
        let sampled = specs.iter().cloned().zip(population.chains).zip(kept);
        Ok(sampled.map(|((spec, chain), (draws, scores))| SampledChain { spec, chain, draws, scores }).collect())
    }

    /// Chains at their starts, whose draws are kept in memory.
    pub(super) fn sampled(&self, specs: &[ChainSpec]) -> Result<Sampled<'_>, ExperimentError> {
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

    /// The predictive distribution of draws at held-out rows of this experiment.
    pub fn predictive<'d>(
        &self,
        held_out: &HeldOut,
        inverse_temperature: f64,
        draws: impl IntoIterator<Item = &'d Draws>,
    ) -> Result<Predictive, ExperimentError> {
        Predictive::of_draws(&*self.engine, self.problem.likelihood, held_out, inverse_temperature, draws)
    }

    /// The temperature of the sampler's noise at β.
    pub fn sampler_temperature(&self, inverse_temperature: f64) -> Result<f64, ExperimentError> {
        let temperature = Temperature::from_inverse(inverse_temperature)?;
        Ok(self.settings.sampler.tempering.sampler_temperature(temperature))
    }

    /// How much the discretisation inflates the kinetic temperature, on average over a cycle.
    pub fn expected_inflation(&self) -> Result<f64, ExperimentError> {
        let (rule, plan) = self.sampler()?;
        let (first, steps) = (plan.keep.burn_in, plan.keep.every);
        let sum: f64 = (first..first + steps).map(|step| rule.kinetic_target(rule.step_scale.at(step), 1.0)).sum();
        Ok(sum / steps as f64)
    }
}

/// What searches that were moved have chosen.
pub(super) fn choices(searches: Vec<Search>) -> Vec<JointChoice> {
    let chosen = searches.into_iter().map(|search| search.choice);
    chosen.map(|choice| choice.expect("a search looks at its start before it moves")).collect()
}

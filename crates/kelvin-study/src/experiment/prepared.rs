//! An experiment that is ready to run: its problem, posterior, held-out rows and engine, checked against its settings.

use std::sync::Arc;

use crate::error::ExperimentError;
use crate::experiment::chain_spec::{Slot, StartingPoint};
use crate::problem::Problem;
use crate::settings::check::num_steps;
use crate::settings::{BatchSize, Preconditioner, PreconditionerStatistics, PriorName, Settings, Start};
use kelvin::data::{Augmentation, Corruption};
use kelvin::diagnostics::Warning;
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::potential::{Posterior, Potential};
use kelvin::predictive::Predictive;
use kelvin::sampler::{
    AscentObjective, Batches, Chain, CpuEngine, Engine, Keep, Langevin, LayerwiseMass, LogBeta, MassRule, Motion, Plan,
    PriorShare, WarmUp,
};
use kelvin::selection::JointChoice;
use kelvin::temperature::{Schedule, Temperature, Tempering};

/// A problem with its posterior, ready to be optimised and sampled; it owns what it needs.
pub struct Experiment {
    /// The settings, which were checked.
    pub settings: Settings,
    /// The rows, the network and the likelihood.
    pub problem: Arc<Problem>,
    /// The posterior of the training rows.
    pub posterior: Posterior,
    /// The validation rows, on which β is chosen.
    pub validation: HeldOut,
    /// The test rows, on which scores are reported.
    pub test: HeldOut,
    /// Images of another data set; none if none is named.
    pub out_of_distribution: Option<HeldOut>,
    /// The test images, corrupted; none if no corruptions are named.
    pub corrupted: Vec<(Corruption, HeldOut)>,
    /// The training rows at which WAIC and other quantities of learning theory are computed.
    pub training_sample: HeldOut,
    /// The device that moves chains and evaluates draws.
    pub engine: Arc<dyn Engine>,
}

impl Experiment {
    /// Checks the settings, builds the posterior, and checks that the batches fit. Runs on the CPU.
    ///
    /// # Errors
    /// If a setting is out of range, or does not fit the rows or the network.
    pub fn new(problem: impl Into<Arc<Problem>>, settings: Settings) -> Result<Self, ExperimentError> {
        Self::on(Arc::new(CpuEngine), problem, settings)
    }

    /// As [`Experiment::new`], on the given engine.
    ///
    /// # Errors
    /// As [`Experiment::new`], and if the engine cannot run this experiment.
    pub fn on(
        engine: Arc<dyn Engine>,
        problem: impl Into<Arc<Problem>>,
        settings: Settings,
    ) -> Result<Self, ExperimentError> {
        let problem: Arc<Problem> = problem.into();
        settings.check()?;
        let prior = settings.model.build_prior(&problem.network, problem.likelihood)?;
        let mut posterior = Posterior::new(&problem.network, problem.likelihood, prior, &problem.train)?;
        if let Some(weights) = &problem.row_weights {
            posterior = posterior.with_row_weights(weights)?;
        }
        let held_out = |examples: &_| posterior.held_out(examples);
        let (validation, test) = (held_out(&problem.validation), held_out(&problem.test));
        let out_of_distribution = problem.out_of_distribution.as_ref().map(held_out);
        let corrupted = problem.corrupted.iter().map(|(corruption, rows)| (*corruption, held_out(rows))).collect();
        let training_sample = held_out(&problem.training_sample);
        settings.check_against(problem.train.len(), problem.network.has_batch_norm())?;
        let experiment = Self {
            settings,
            problem,
            posterior,
            validation,
            test,
            out_of_distribution,
            corrupted,
            training_sample,
            engine,
        };
        experiment.selection_steps()?;
        experiment.sampler_steps()?;
        Ok(experiment)
    }

    pub(crate) fn batches(&self, size: BatchSize) -> Result<Batches, ExperimentError> {
        let num_examples = self.problem.train.len();
        let augmentation = self.settings.data.augmentation;
        // A batch of all rows needs no order, unless it is to be one batch to batch norm or augmented.
        let needs_list = self.problem.network.has_batch_norm() || augmentation > 0.0;
        let rows = size.rows().filter(|&rows| needs_list || rows != num_examples);
        Ok(Batches::new(num_examples, rows)?.augmented(Augmentation::new(augmentation)?))
    }

    pub(crate) fn chain(
        &self,
        repetition: u32,
        slot: Slot,
        inverse_temperature: f64,
    ) -> Result<Chain, ExperimentError> {
        let position = self.posterior.initial_position(self.settings.run.seed, repetition);
        let temperature = Temperature::from_inverse(inverse_temperature)?;
        Ok(Chain::new(slot.id(repetition), temperature, position, &self.posterior.layout()))
    }

    /// What the searches of the settings maximise. Where the likelihood has no β to tell (its noise is learned), that is log p(θ | D) with
    /// β = 1: a search for good weights alone.
    pub fn ascent_objective(&self) -> AscentObjective {
        match self.problem.likelihood.identifies_beta() {
            true => self.settings.selection.ascent_objective(),
            false => AscentObjective { prior: PriorShare::Once, log_beta: LogBeta::Frozen },
        }
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
    pub(crate) fn sampler(&self) -> Result<(Langevin, Plan), ExperimentError> {
        let settings = &self.settings.sampler;
        let batches = self.batches(settings.batch_size)?;
        let epoch = batches.steps_per_epoch();
        let (start, period) = (settings.burn_in * epoch, settings.cycle * epoch);
        let constant = Schedule::Constant { value: 1.0 };
        let (step_scale, temperature_scale) = match settings.adapt {
            true => (constant.clone(), constant),
            false => (
                Schedule::CosineCycle { start, period, value: 1.0 },
                Schedule::Ramp { start: settings.ramp_start * epoch, end: settings.ramp_end * epoch, value: 1.0 },
            ),
        };
        let rule = Langevin {
            integrator: settings.integrator,
            learning_rate: settings.learning_rate,
            momentum: settings.momentum,
            step_scale: step_scale.checked()?,
            temperature_scale: temperature_scale.checked()?,
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
            warm_up: settings.adapt.then_some(WarmUp { num_steps: start, friction: settings.friction }),
        };
        let plan = Plan {
            seed: self.settings.run.seed,
            batches,
            num_steps: settings.epochs * epoch,
            keep: Keep { burn_in: start, every: period },
        };
        Ok((rule, plan))
    }

    /// γt from one draw to the next: (1 − μ) times the sum of C over a cycle, which is half its steps; of chains that adapted hγ times the steps, the mean
    /// of these chains.
    pub(crate) fn friction_times<'c>(&self, chains: impl Iterator<Item = &'c Chain>) -> Result<f64, ExperimentError> {
        let settings = &self.settings.sampler;
        let (rule, plan) = self.sampler()?;
        let cycle_steps = plan.keep.every as f64;
        let Some(warm_up) = rule.warm_up else { return Ok(0.5 * (1.0 - settings.momentum) * cycle_steps) };
        let friction = |chain: &Chain| {
            let temperature = settings.tempering.sampler_temperature(chain.temperature);
            warm_up.friction_of_step(&chain.state.adapted, temperature)
        };
        let found: Vec<f64> = chains.map(friction).collect();
        Ok(cycle_steps * found.iter().sum::<f64>() / found.len().max(1) as f64)
    }

    /// The predictive distribution of draws at held-out rows of this experiment.
    ///
    /// # Errors
    /// If draws cannot be read or evaluated, or their outputs are not finite.
    pub fn predictive<'d>(
        &self,
        held_out: &HeldOut,
        inverse_temperature: f64,
        draws: impl IntoIterator<Item = &'d Draws>,
    ) -> Result<Predictive, ExperimentError> {
        Predictive::of_draws(&*self.engine, self.problem.likelihood, held_out, inverse_temperature, draws)
    }

    /// The temperature of the sampler's noise at β.
    ///
    /// # Errors
    /// If β is not a finite positive number.
    pub fn sampler_temperature(&self, inverse_temperature: f64) -> Result<f64, ExperimentError> {
        let temperature = Temperature::from_inverse(inverse_temperature)?;
        Ok(self.settings.sampler.tempering.sampler_temperature(temperature))
    }

    /// A warning where a prior whose scales are learned is sampled with its energy divided by some of these temperatures.
    pub fn tempered_scales(&self, inverse_temperatures: impl IntoIterator<Item = f64>) -> Option<Warning> {
        let Settings { model, sampler, .. } = &self.settings;
        if model.prior != PriorName::LearnedScales || sampler.tempering != Tempering::Posterior {
            return None;
        }
        let betas: Vec<f64> = inverse_temperatures.into_iter().filter(|&beta| beta != 1.0).collect();
        (!betas.is_empty()).then_some(Warning::LearnedScalesTempered { betas })
    }

    /// How much the discretisation raises the kinetic temperature, as a factor averaged over a cycle.
    pub fn expected_inflation(&self) -> Result<f64, ExperimentError> {
        let (rule, plan) = self.sampler()?;
        let (first, steps) = (plan.keep.burn_in, plan.keep.every);
        let sum: f64 = (first..first + steps).map(|step| rule.kinetic_target(rule.step_scale.at(step), 1.0)).sum();
        Ok(sum / steps as f64)
    }
}

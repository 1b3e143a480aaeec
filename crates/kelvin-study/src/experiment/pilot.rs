//! Trials of the sampler's step size: shrink ℓ until the measured temperature is the one asked for.

use crate::error::ExperimentError;
use crate::experiment::chain_spec::Slot;
use crate::experiment::prepared::Experiment;
use kelvin::potential::Potential;
use kelvin::sampler::{Chain, Keep, Motion, Plan, Silent};
use kelvin::temperature::{Schedule, Temperature};

/// Steps of a trial; the second half is measured.
const STEPS: u64 = 2000;
/// ℓ is divided by this after a failed trial.
const SHRINK: f64 = 2.0;
/// Largest kinetic temperature of a trial, relative to what the discretisation should show. Stricter than the limit of
/// the diagnostics: draws are kept at cycle ends, where less than a twentieth of the heat may remain.
const HEATING: f64 = 1.1;
/// Trials before giving up; the diagnostics of the run itself then speak.
const TRIALS: usize = 10;

impl Experiment {
    /// Lowers `sampler.learning_rate` until chains that start at `position` are not heated by the discretisation or
    /// by minibatch noise at β = 1 and at the given β (the colder heats first, the hotter strays furthest); returns
    /// the rate found. Chains that adapt have no use for a rate, and it stays.
    ///
    /// # Errors
    /// If the engine fails, or the batch size does not fit the rows.
    pub fn tune_learning_rate(&mut self, position: &[f32], inverse_temperature: f64) -> Result<f64, ExperimentError> {
        if self.settings.sampler.adapt {
            return Ok(self.settings.sampler.learning_rate);
        }
        let coldest = Temperature::from_inverse(inverse_temperature.max(1.0))?;
        let hottest = Temperature::from_inverse(inverse_temperature.min(1.0))?;
        let layout = self.posterior.layout();
        for _ in 0..TRIALS {
            let (mut rule, plan) = self.sampler()?;
            rule.step_scale = Schedule::Constant { value: 1.0 };
            rule.temperature_scale = Schedule::Constant { value: 1.0 };
            let keep = Keep { burn_in: STEPS / 2, every: STEPS };
            let plan = Plan { num_steps: STEPS, keep, ..plan };
            let chain = |id, temperature| Chain::new(Slot::Pilot.id(id), temperature, position.to_vec(), &layout);
            let mut chains = [chain(0, coldest), chain(1, hottest)];
            self.engine.run(&self.posterior, Motion::Sample(&rule), &plan, &mut chains, &Silent)?;
            let cool = chains.iter().zip([coldest, hottest]).all(|(chain, temperature)| {
                let target = rule.kinetic_target(1.0, rule.tempering.sampler_temperature(temperature));
                let heating = chain.kinetic_all.mean().map_or(1.0, |measured| measured / target);
                chain.divergence.is_none() && heating <= HEATING
            });
            if cool {
                break;
            }
            self.settings.sampler.learning_rate /= SHRINK;
        }
        Ok(self.settings.sampler.learning_rate)
    }
}

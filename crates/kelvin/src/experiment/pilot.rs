//! Trials of the sampler's step size: shrink ℓ until the measured temperature is the one asked for.

use super::error::ExperimentError;
use super::run::{Experiment, Slot};
use crate::diagnostics::{Limits, discretised_kinetic_target};
use crate::potential::Potential;
use crate::sampler::{Chain, Keep, Plan, Silent, run_population};
use crate::temperature::{Schedule, Temperature};

/// Steps of a trial; the second half is measured.
const STEPS: u64 = 2000;
/// ℓ is divided by this after a failed trial.
const SHRINK: f64 = 2.0;
/// Trials before giving up; the diagnostics of the run itself then speak.
const TRIALS: usize = 10;

impl Experiment<'_> {
    /// Lowers `sampler.learning_rate` until chains that start at `position` are not heated by the discretisation or
    /// by minibatch noise at the colder of β = 1 and the given β; returns the rate found.
    pub fn tune_learning_rate(&mut self, position: &[f32], inverse_temperature: f64) -> Result<f64, ExperimentError> {
        let temperature = Temperature::from_inverse(inverse_temperature.max(1.0))?;
        let layout = self.posterior.layout();
        for _ in 0..TRIALS {
            let (mut rule, plan) = self.sampler()?;
            rule.step_scale = Schedule::Constant { value: 1.0 };
            rule.temperature_scale = Schedule::Constant { value: 1.0 };
            let keep = Keep { burn_in: STEPS / 2, every: STEPS };
            let plan = Plan { num_steps: STEPS, keep, ..plan };
            let mut chains: Vec<Chain> = (0..2)
                .map(|trial| Chain::new(Slot::Pilot.id(trial), temperature, position.to_vec(), &layout))
                .collect();
            run_population(&self.posterior, &rule, &plan, &mut chains, &Silent);
            let target = discretised_kinetic_target(rule.tempering.sampler_temperature(temperature), rule.momentum);
            let cool = chains.iter().all(|chain| {
                let heating = chain.kinetic_all.mean().map_or(1.0, |measured| measured / target);
                chain.divergence.is_none() && heating <= Limits::default().heating
            });
            if cool {
                break;
            }
            self.settings.sampler.learning_rate /= SHRINK;
        }
        Ok(self.settings.sampler.learning_rate)
    }
}

//! Schedules read ahead: the numbers of the next steps of each chain, computed on the host in f64.

use kelvin::sampler::{Batches, Chain, LogBeta, Motion};

use super::arguments::{ChainCell, LogBetaRule, StepNumbers};

impl LogBetaRule {
    /// The kernels' numbers for what becomes of log β.
    pub fn new(log_beta: LogBeta) -> Self {
        match log_beta {
            LogBeta::Free => Self { likelihood: 1.0, ..Self::default() },
            LogBeta::Frozen => Self::default(),
            LogBeta::Normal { mean, variance } => Self { likelihood: 1.0, precision: 1.0 / variance, mean },
        }
    }
}

/// The numbers of one step of a chain; masses come in on the device.
pub fn step_numbers(motion: Motion<'_>, chain: &Chain, num_examples: usize, step: u64) -> StepNumbers {
    match motion {
        Motion::Sample(rule) => {
            let temperature = rule.tempering.sampler_temperature(chain.temperature);
            let by = rule.integrator.coefficients(&rule.conditions(step, num_examples, temperature), &[]);
            StepNumbers { keep: by.keep, kick: by.kick, drift: by.drift, heat: by.heat }
        }
        Motion::Search(rule) => StepNumbers { drift: rule.learning_rate.at(step), ..StepNumbers::default() },
    }
}

/// What the device must know of a chain before its next step.
pub fn cell(motion: Motion<'_>, chain: &Chain, batches: &Batches) -> ChainCell {
    let likelihood_weight = motion.likelihood_weight(batches, chain);
    let (gradient_scale, log_power) = match motion {
        Motion::Sample(_) => (-likelihood_weight, 0.0),
        Motion::Search(_) => (1.0, chain.state.log_beta),
    };
    ChainCell {
        gradient_scale,
        likelihood_weight,
        log_power,
        log_beta: chain.state.log_beta,
        log_beta_velocity: chain.state.log_beta_velocity,
        step: chain.state.step,
        id: chain.id,
        ..ChainCell::default()
    }
}

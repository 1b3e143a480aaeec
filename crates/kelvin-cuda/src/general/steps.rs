//! Schedules read ahead: the numbers of the next steps of each chain, computed on the host in f64.

use kelvin::sampler::{Chain, JointAscent, Langevin, LogBeta};
use kelvin::temperature::Temperature;

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

/// The rule that chains are moved by.
#[derive(Clone, Copy, Debug)]
pub enum Motion<'a> {
    /// A sampler.
    Sample(&'a Langevin),
    /// By ascending in (θ, log β).
    Search(&'a JointAscent),
}

impl Motion<'_> {
    /// The numbers of one step.
    pub fn numbers(&self, temperature: Temperature, num_examples: usize, step: u64) -> StepNumbers {
        match self {
            Self::Sample(rule) => {
                let temperature = rule.temperature_scale.at(step) * rule.tempering.sampler_temperature(temperature);
                let scale = rule.step_scale.at(step);
                let at =
                    rule.integrator.conditions(rule.learning_rate, rule.momentum, num_examples, scale, temperature);
                StepNumbers {
                    step_size: at.step_size,
                    retained_momentum: at.retained_momentum,
                    temperature: at.temperature,
                }
            }
            Self::Search(rule) => {
                StepNumbers { step_size: rule.learning_rate.at(step), retained_momentum: 0.0, temperature: 0.0 }
            }
        }
    }

    /// What the device must know of a chain before its next step; `weight` is n/|B|.
    pub fn cell(&self, chain: &Chain, weight: f64) -> ChainCell {
        let (gradient_scale, likelihood_weight, log_power) = match self {
            Self::Sample(rule) => {
                let weight = weight * rule.tempering.likelihood_power(chain.temperature);
                (-weight, weight, 0.0)
            }
            Self::Search(_) => (1.0, weight, chain.state.log_beta),
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

    /// Whether momenta have a temperature worth measuring.
    pub fn is_measured(&self) -> bool {
        use kelvin::sampler::Integrator;
        matches!(self, Self::Sample(rule) if rule.integrator != Integrator::Sgld)
    }

    /// Largest norm of the gradient.
    pub fn clip_norm(&self) -> f64 {
        match self {
            Self::Sample(rule) => rule.clip_norm,
            Self::Search(rule) => rule.clip_norm,
        }
    }
}

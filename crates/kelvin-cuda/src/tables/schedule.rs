//! Rules and schedules read on the host: the numbers of each step, and those of each chain.

use kelvin::sampler::{Batches, Chain, ClipScope, Integrator, JointAscent, Langevin, LayerwiseMass, MassRule};

use super::arguments::{StepNumbers, TableChain};
use super::shape::KernelRule;

/// What moves the chains.
#[derive(Clone, Copy)]
pub(super) enum Moves<'a> {
    Sampler(&'a Langevin),
    Search(&'a JointAscent),
}

impl Moves<'_> {
    pub fn kernel_rule(&self) -> KernelRule {
        match self {
            Self::Search(_) => KernelRule::JointAscent,
            Self::Sampler(rule) => match rule.integrator {
                Integrator::Sghmc => KernelRule::Sghmc,
                Integrator::Baoa => KernelRule::Baoa,
                Integrator::Sgld => KernelRule::Sgld,
            },
        }
    }

    /// Whether momenta have a temperature worth measuring.
    pub fn has_momentum_temperature(&self) -> bool {
        matches!(self.kernel_rule(), KernelRule::Sghmc | KernelRule::Baoa)
    }

    /// How masses are estimated, where they are.
    pub fn mass_estimate(&self) -> Option<LayerwiseMass> {
        match self {
            Self::Sampler(Langevin { mass: MassRule::Layerwise(estimate), .. }) => Some(*estimate),
            _ => None,
        }
    }

    pub fn clip_norm(&self) -> f64 {
        match self {
            Self::Sampler(rule) => rule.clip_norm,
            Self::Search(rule) => rule.clip_norm,
        }
    }

    pub fn clips_log_beta(&self) -> bool {
        matches!(self, Self::Search(JointAscent { clip_scope: ClipScope::All, .. }))
    }

    /// Momentum and weight decay of joint ascent, in f64 for log β.
    pub fn ascent_numbers(&self) -> (f64, f64) {
        match self {
            Self::Sampler(_) => (0.0, 0.0),
            Self::Search(rule) => (rule.momentum, rule.weight_decay),
        }
    }

    /// The numbers of a step that all chains share; the chain's own noise is `noise_scale` times its factor.
    pub fn step_numbers(&self, step: u64, num_examples: usize) -> StepNumbers {
        match self {
            Self::Search(rule) => {
                StepNumbers { step_size: rule.learning_rate.at(step), noise_scale: 0.0, keep: rule.momentum }
            }
            Self::Sampler(rule) => {
                let temperature = rule.temperature_scale.at(step);
                let scale = rule.step_scale.at(step);
                let at =
                    rule.integrator.conditions(rule.learning_rate, rule.momentum, num_examples, scale, temperature);
                let (step_size, keep) = (at.step_size, at.retained_momentum);
                let variance = match rule.integrator {
                    Integrator::Sghmc => 2.0 * (1.0 - keep) * temperature,
                    Integrator::Baoa => temperature * (1.0 - keep * keep),
                    Integrator::Sgld => 2.0 * temperature * step_size,
                };
                StepNumbers { step_size, noise_scale: variance.sqrt(), keep }
            }
        }
    }

    /// What multiplies Σ log p of a batch.
    pub fn likelihood_weight(&self, batches: &Batches, chain: &Chain) -> f64 {
        match self {
            Self::Sampler(rule) => batches.weight() * rule.tempering.likelihood_power(chain.temperature),
            Self::Search(_) => batches.weight(),
        }
    }

    /// The numbers of a chain.
    pub fn chain(&self, batches: &Batches, chain: &Chain, slot: usize) -> TableChain {
        let masses: [f64; 4] = std::array::from_fn(|tensor| chain.state.mass[tensor]);
        let noise_factor = match self {
            Self::Search(_) => [0.0; 4],
            Self::Sampler(rule) => {
                let temperature = rule.tempering.sampler_temperature(chain.temperature);
                masses.map(|mass| match rule.integrator {
                    Integrator::Sgld => (temperature / mass).sqrt(),
                    Integrator::Sghmc | Integrator::Baoa => (temperature * mass).sqrt(),
                })
            }
        };
        TableChain {
            noise_factor,
            inverse_mass: masses.map(f64::recip),
            likelihood_weight: self.likelihood_weight(batches, chain),
            log_beta: chain.state.log_beta,
            log_beta_velocity: chain.state.log_beta_velocity,
            id: chain.id,
            slot: slot as u32,
        }
    }
}

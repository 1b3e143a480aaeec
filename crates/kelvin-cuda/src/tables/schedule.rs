//! Rules and schedules read on the host: the numbers of each step, and those of each chain.

use kelvin::sampler::{Batches, Chain, ClipScope, JointAscent, Motion};

use super::arguments::{StepNumbers, TableChain};
use super::shape::KernelRule;
use crate::samplers::kernel_number;

/// The rule by which a kernel moves chains.
pub(super) fn kernel_rule(motion: Motion<'_>) -> KernelRule {
    match motion {
        Motion::Sample(rule) => KernelRule::SAMPLERS[kernel_number(rule.integrator) as usize],
        Motion::Search(_) => KernelRule::JointAscent,
    }
}

pub(super) fn clips_log_beta(motion: Motion<'_>) -> bool {
    matches!(motion, Motion::Search(JointAscent { clip_scope: ClipScope::All, .. }))
}

/// Momentum and weight decay of joint ascent, in f64 for log β.
pub(super) fn ascent_numbers(motion: Motion<'_>) -> (f64, f64) {
    match motion {
        Motion::Sample(_) => (0.0, 0.0),
        Motion::Search(rule) => (rule.momentum, rule.weight_decay),
    }
}

/// The numbers of a step that all chains share: those of unit temperature and mass.
pub(super) fn step_numbers(motion: Motion<'_>, step: u64, num_examples: usize) -> StepNumbers {
    match motion {
        Motion::Search(rule) => {
            StepNumbers { drift: 0.0, noise_std: 0.0, kick: rule.learning_rate.at(step), keep: rule.momentum }
        }
        Motion::Sample(rule) => {
            let by = rule.integrator.coefficients(&rule.conditions(step, num_examples, 1.0), &[]);
            let noise_std = rule.integrator.noise_std(&by, 1.0);
            StepNumbers { drift: by.drift, noise_std, kick: by.kick, keep: by.keep }
        }
    }
}

/// The numbers of a chain.
pub(super) fn chain_numbers(motion: Motion<'_>, batches: &Batches, chain: &Chain, slot: usize) -> TableChain {
    let masses: [f64; 4] = std::array::from_fn(|tensor| chain.state.mass[tensor]);
    let noise_factor = match motion {
        Motion::Search(_) => [0.0; 4],
        Motion::Sample(rule) => {
            let temperature = rule.tempering.sampler_temperature(chain.temperature);
            masses.map(|mass| rule.integrator.noise_factor(temperature, mass))
        }
    };
    TableChain {
        noise_factor,
        inverse_mass: masses.map(f64::recip),
        likelihood_weight: motion.likelihood_weight(batches, chain),
        log_beta: chain.state.log_beta,
        log_beta_velocity: chain.state.log_beta_velocity,
        id: chain.id,
        slot: slot as u32,
    }
}

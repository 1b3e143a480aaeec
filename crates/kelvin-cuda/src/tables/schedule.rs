//! Rules and schedules read on the host: the numbers of each step, and those of each chain.

use kelvin::sampler::{Batches, Chain, ClipScope, JointAscent, Motion};

use super::arguments::{MOST_TENSORS, StepNumbers, TableChain};
use super::shape::KernelRule;
use crate::samplers::{OF_TABLES, number_in};

/// The rule by which a kernel moves chains.
pub(super) fn kernel_rule(motion: Motion<'_>) -> KernelRule {
    match motion {
        Motion::Sample(rule) => KernelRule::SAMPLERS[number_in(OF_TABLES, rule.integrator)],
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

/// The numbers of a step that all chains share: those of unit temperature and mass. Chains that adapt have their own, and share how the
/// temperature changes.
pub(super) fn step_numbers(motion: Motion<'_>, step: u64, num_examples: usize) -> StepNumbers {
    match motion {
        Motion::Search(rule) => {
            StepNumbers { drift: 0.0, noise_std: 0.0, kick: rule.learning_rate.at(step), keep: rule.momentum }
        }
        Motion::Sample(rule) if rule.warm_up.is_some() => {
            let noise_std = rule.integrator.noise_factor(rule.temperature_scale.at(step), 1.0);
            StepNumbers { drift: 1.0, noise_std, kick: 1.0, keep: 1.0 }
        }
        Motion::Sample(rule) => {
            let by = rule.integrator.coefficients(&rule.conditions(step, num_examples, 1.0), &[]);
            let noise_std = rule.integrator.noise_std(&by, 1.0);
            StepNumbers { drift: by.drift, noise_std, kick: by.kick, keep: by.keep }
        }
    }
}

/// The numbers of a chain from a step on: what it multiplies those of each step by.
pub(super) fn chain_numbers(
    motion: Motion<'_>,
    batches: &Batches,
    step: u64,
    chain: &Chain,
    slot: usize,
) -> TableChain {
    // Networks of fewer layers have fewer tensors.
    let mass = |tensor| chain.state.mass.get(tensor).copied().unwrap_or(1.0);
    let masses: [f64; MOST_TENSORS] = std::array::from_fn(mass);
    let shared = TableChain {
        noise_factor: [0.0; MOST_TENSORS],
        drift_factor: masses.map(f64::recip),
        kick_factor: 1.0,
        keep_factor: 1.0,
        likelihood_weight: motion.likelihood_weight(batches, chain),
        log_beta: chain.state.log_beta,
        log_beta_velocity: chain.state.log_beta_velocity,
        id: chain.id,
        slot: slot as u32,
    };
    let Motion::Sample(rule) = motion else { return shared };
    let temperature = rule.tempering.sampler_temperature(chain.temperature);
    let Some(warm_up) = rule.warm_up else {
        return TableChain {
            noise_factor: masses.map(|mass| rule.integrator.noise_factor(temperature, mass)),
            ..shared
        };
    };
    let at = warm_up.conditions(step, &chain.state.adapted, temperature, temperature);
    let by = rule.integrator.coefficients(&at, &[]);
    TableChain {
        noise_factor: masses.map(|mass| rule.integrator.noise_std(&by, mass)),
        drift_factor: masses.map(|mass| by.drift / mass),
        kick_factor: by.kick,
        keep_factor: by.keep,
        ..shared
    }
}

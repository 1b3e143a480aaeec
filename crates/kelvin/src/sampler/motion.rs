//! How the chains of a population move: the rules that every engine is asked for.

use super::batches::Batches;
use super::chain::Chain;
use super::joint_ascent::JointAscent;
use super::langevin::Langevin;
use super::mass::{LayerwiseMass, MassRule};

/// How the chains of a population move.
#[derive(Clone, Copy, Debug)]
pub enum Motion<'a> {
    /// By sampling.
    Sample(&'a Langevin),
    /// By ascending in (θ, log β).
    Search(&'a JointAscent),
}

impl Motion<'_> {
    /// Whether momenta have a temperature worth measuring.
    pub fn has_momentum_temperature(&self) -> bool {
        matches!(self, Self::Sample(rule) if rule.integrator.has_momentum_temperature())
    }

    /// How masses are estimated, where they are; a warm-up finds its own.
    pub fn mass_estimate(&self) -> Option<&LayerwiseMass> {
        match self {
            Self::Sample(Langevin { mass: MassRule::Layerwise(estimate), warm_up: None, .. }) => Some(estimate),
            Self::Sample(_) | Self::Search(_) => None,
        }
    }

    /// Largest norm of the gradient.
    pub fn clip_norm(&self) -> f64 {
        match self {
            Self::Sample(rule) => rule.clip_norm,
            Self::Search(rule) => rule.clip_norm,
        }
    }

    /// What multiplies Σ log p of a batch of this chain.
    pub fn likelihood_weight(&self, batches: &Batches, chain: &Chain) -> f64 {
        match self {
            Self::Sample(rule) => batches.weight() * rule.tempering.likelihood_power(chain.temperature),
            Self::Search(_) => batches.weight(),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Layout, Role};
    use crate::sampler::{Integrator, WarmUp};
    use crate::temperature::{Temperature, Tempering};

    fn chain() -> Chain {
        let mut layout = Layout::default();
        layout.push("all", Role::Position, &[2]);
        Chain::new(0, Temperature::new(0.25).unwrap(), vec![0.0; 2], &layout)
    }

    /// 60 rows in batches of 20 at T = ¼: n/|B| = 3, and β = 4 multiplies the likelihood where it alone is tempered.
    #[test]
    fn a_likelihood_is_weighted_by_batches_and_its_power() {
        let (batches, chain) = (Batches::new(60, Some(20)).unwrap(), chain());
        let rule = Langevin::new(Integrator::Baoab, 0.1, 0.9);
        let tempered = Langevin { tempering: Tempering::Likelihood, ..rule.clone() };
        assert_eq!(Motion::Sample(&rule).likelihood_weight(&batches, &chain), 3.0);
        assert_eq!(Motion::Sample(&tempered).likelihood_weight(&batches, &chain), 12.0);
    }

    #[test]
    fn masses_are_estimated_where_no_warm_up_finds_them() {
        let layerwise = LayerwiseMass::default();
        let rule = Langevin { mass: MassRule::Layerwise(layerwise), ..Langevin::new(Integrator::Sghmc, 0.1, 0.9) };
        assert_eq!(Motion::Sample(&rule).mass_estimate(), Some(&layerwise));
        let warm_up = Some(WarmUp { num_steps: 10, friction: None });
        assert_eq!(Motion::Sample(&Langevin { warm_up, ..rule }).mass_estimate(), None);
    }

    #[test]
    fn momenta_of_mclmc_and_of_searches_have_no_temperature() {
        let of = |integrator| Motion::Sample(&Langevin::new(integrator, 0.1, 0.9)).has_momentum_temperature();
        assert!(of(Integrator::Sghmc) && of(Integrator::Baoab) && !of(Integrator::Mclmc));
        let clipped = Langevin { clip_norm: 7.5, ..Langevin::new(Integrator::Sghmc, 0.1, 0.9) };
        assert_eq!(Motion::Sample(&clipped).clip_norm(), 7.5);
    }
}

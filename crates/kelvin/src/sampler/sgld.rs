//! Stochastic-gradient Langevin dynamics: a gradient step with noise, no momentum.
//!
//! ```text
//! θ ← θ − ε M⁻¹ g + √(2 T ε) M^{-1/2} R
//! ```
//! Target: exp(−U/T), with a bias of order ε. Welling & Teh 2011.

use super::dynamics::{Coefficients, Conditions, Dynamics, TensorSlices};
use crate::vector::combine;

pub(super) struct Sgld;

impl Dynamics for Sgld {
    /// ε = Cℓ/n.
    fn step_size_and_retained_momentum(&self, learning_rate: f64, _: f64, n: f64, scale: f64) -> (f64, f64) {
        (scale * learning_rate / n, 0.0)
    }

    fn has_momentum(&self) -> bool {
        false
    }

    fn coefficients(&self, at: &Conditions, _: &[f64]) -> Coefficients {
        Coefficients { keep: 0.0, kick: -1.0, drift: at.step_size, heat: 2.0 * at.temperature }
    }

    /// There is no momentum, so the kinetic energy is 0.
    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        let (drift, noise) = (by.drift / tensor.mass, by.position_noise_std(tensor.mass));
        combine(tensor.position, 1.0, by.kick * drift * clip, tensor.gradient, noise, tensor.noise);
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked_steps::assert_takes_the_steps_of;
    use super::*;

    #[test]
    fn takes_the_steps_of_its_formula() {
        assert_takes_the_steps_of(&Sgld, |theta, m, g, r, mass| {
            (theta - 0.25 * g / mass + (2.0 * 0.3 * 0.25 / mass).sqrt() * r, m)
        });
    }
}

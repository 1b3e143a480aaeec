//! Stochastic-gradient Hamiltonian Monte Carlo: friction, gradient kick, noise at the asked temperature, drift.
//!
//! ```text
//! m ← μ' m − h g + √(2 (1−μ') T) M^{1/2} R        μ' = 1 − hγ,  R ~ N(0, I)
//! θ ← θ + h M⁻¹ m                                  with the new m
//! ```
//! Target: exp(−U/T). Wenzel et al. 2020, "How good is the Bayes posterior in deep neural networks really?", in the
//! symplectic Euler form; `exact::Quadratic::symplectic_euler` is its exact stationary law on a quadratic.

use super::dynamics::{Coefficients, Conditions, Dynamics, TensorSlices};
use crate::diagnostics::discretised_kinetic_target;
use crate::vector::{combine, scale_and_add, sum_of_squares};

pub(super) struct Sghmc;

impl Dynamics for Sghmc {
    /// h = C√(ℓ/n), μ' = 1 − C(1−μ).
    fn step_size_and_retained_momentum(&self, learning_rate: f64, momentum: f64, n: f64, scale: f64) -> (f64, f64) {
        (scale * (learning_rate / n).sqrt(), 1.0 - scale * (1.0 - momentum))
    }

    /// Symplectic Euler inflates it.
    fn kinetic_target(&self, at: &Conditions) -> f64 {
        discretised_kinetic_target(at.temperature, at.retained_momentum)
    }

    fn coefficients(&self, at: &Conditions, _: &[f64]) -> Coefficients {
        let (h, keep) = (at.step_size, at.retained_momentum);
        Coefficients { keep, kick: -h, drift: h, heat: 2.0 * (1.0 - keep) * at.temperature }
    }

    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        let noise = by.momentum_noise_std(tensor.mass);
        combine(tensor.momentum, by.keep, by.kick * clip, tensor.gradient, noise, tensor.noise);
        scale_and_add(tensor.position, 1.0, by.drift / tensor.mass, tensor.momentum);
        sum_of_squares(tensor.momentum) / tensor.mass
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked_steps::assert_takes_the_steps_of;
    use super::*;

    #[test]
    fn takes_the_steps_of_its_formula() {
        assert_takes_the_steps_of(&Sghmc, |theta, m, g, r, mass| {
            let m = 0.9 * m - 0.25 * g + (2.0 * 0.1 * 0.3 * mass).sqrt() * r;
            (theta + 0.25 * m / mass, m)
        });
    }

    /// On a flat energy m' = μ' m + √(2 (1−μ') T) R has the variance T · 2 (1−μ')/(1−μ'²) at rest.
    #[test]
    fn its_kinetic_target_is_that_of_its_noise() {
        let at = Conditions { step_size: 0.1, retained_momentum: 0.6, temperature: 0.3 };
        let by = Sghmc.coefficients(&at, &[]);
        let stationary = by.heat / (1.0 - by.keep * by.keep);
        assert!((Sghmc.kinetic_target(&at) - stationary).abs() < 1e-15);
    }

    /// No kick is left for the end of a step: momenta stay, and Σ m²/M is read.
    #[test]
    fn closing_reads_and_does_not_move() {
        let at = Conditions { step_size: 0.1, retained_momentum: 0.6, temperature: 0.3 };
        let by = Sghmc.coefficients(&at, &[]);
        let (mut position, mut momentum) = ([1.0, 2.0], [3.0, -4.0]);
        let tensor = TensorSlices {
            position: &mut position,
            momentum: &mut momentum,
            gradient: &[7.0, 7.0],
            noise: &[7.0, 7.0],
            mass: 2.0,
        };
        assert_eq!(Sghmc.close(&by, 1.0, tensor), 12.5);
        assert_eq!((position, momentum), ([1.0, 2.0], [3.0, -4.0]));
    }
}

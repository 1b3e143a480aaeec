//! BAOA: kick, half drift, exact Ornstein–Uhlenbeck friction and noise, half drift.
//!
//! ```text
//! m ← m − h g;   θ ← θ + ½h M⁻¹ m;   m ← μ' m + √(T (1−μ'²)) M^{1/2} R;   θ ← θ + ½h M⁻¹ m
//! ```
//! Target: exp(−U/T); on a quadratic the position has variance T/k exactly. Leimkuhler & Matthews 2013, in the order
//! that takes one gradient a step.

use super::dynamics::{Coefficients, Conditions, Dynamics, TensorSlices};
use crate::vector::{scale_and_add, sum_of_squares};

pub(super) struct Baoa;

impl Dynamics for Baoa {
    /// h = C√(2ℓ/(n(1+μ))), μ' = μ^C.
    fn step_size_and_retained_momentum(&self, learning_rate: f64, momentum: f64, n: f64, scale: f64) -> (f64, f64) {
        (scale * (2.0 * learning_rate / (n * (1.0 + momentum))).sqrt(), momentum.powf(scale))
    }

    fn coefficients(&self, at: &Conditions, _: &[f64]) -> Coefficients {
        let (h, keep) = (at.step_size, at.retained_momentum);
        Coefficients { keep, kick: -h, drift: 0.5 * h, heat: at.temperature * (1.0 - keep * keep) }
    }

    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        let half_drift = by.drift / tensor.mass;
        scale_and_add(tensor.momentum, 1.0, by.kick * clip, tensor.gradient);
        scale_and_add(tensor.position, 1.0, half_drift, tensor.momentum);
        scale_and_add(tensor.momentum, by.keep, by.momentum_noise_std(tensor.mass), tensor.noise);
        scale_and_add(tensor.position, 1.0, half_drift, tensor.momentum);
        sum_of_squares(tensor.momentum) / tensor.mass
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked_steps::assert_takes_the_steps_of;
    use super::*;

    #[test]
    fn takes_the_steps_of_its_formula() {
        assert_takes_the_steps_of(&Baoa, |theta, m, g, r, mass| {
            let m = m - 0.25 * g;
            let theta = theta + 0.125 * m / mass;
            let m = 0.9 * m + (0.3 * (1.0 - 0.81) * mass).sqrt() * r;
            (theta + 0.125 * m / mass, m)
        });
    }
}

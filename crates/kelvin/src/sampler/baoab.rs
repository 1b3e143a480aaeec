//! BAOAB: half kick, half drift, exact Ornstein–Uhlenbeck friction and noise, half drift, half kick.
//!
//! ```text
//! m ← m − ½h g;   θ ← θ + ½h M⁻¹ m;   m ← μ' m + √(T (1−μ'²)) M^{1/2} R;   θ ← θ + ½h M⁻¹ m;   m ← m − ½h g'
//! ```
//! with g the gradient where the step begins and g' where it ends, which the next step begins with: one gradient a step.
//! Target: exp(−U/T); on a quadratic the position has variance T/k exactly, and position and momentum of one moment are uncorrelated.
//! Positions are those of BAOA; momenta are half a kick further. Leimkuhler & Matthews 2013, "Rational construction of
//! stochastic numerical methods for molecular sampling"; `exact::Quadratic::baoab` is its exact stationary law on a quadratic.

use super::baoa::Baoa;
use super::dynamics::{Coefficients, Conditions, Dynamics, TensorSlices};
use crate::vector::{scale_and_add, sum_of_squares};

pub(super) struct Baoab;

impl Dynamics for Baoab {
    /// Those of BAOA: h = C√(2ℓ/(n(1+μ))), μ' = μ^C.
    fn step_size_and_retained_momentum(&self, learning_rate: f64, momentum: f64, n: f64, scale: f64) -> (f64, f64) {
        Baoa.step_size_and_retained_momentum(learning_rate, momentum, n, scale)
    }

    fn coefficients(&self, at: &Conditions, _: &[f64]) -> Coefficients {
        Coefficients { kick: -0.5 * at.step_size, ..Baoa.coefficients(at, &[]) }
    }

    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        Baoa.step(by, clip, tensor)
    }

    fn kicks_at_both_ends(&self) -> bool {
        true
    }

    fn close(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        scale_and_add(tensor.momentum, 1.0, by.kick * clip, tensor.gradient);
        sum_of_squares(tensor.momentum) / tensor.mass
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::ChainState;
    use super::super::dynamics::{advance, close};
    use super::super::worked_steps::{assert_all_near, assert_near};
    use super::*;
    use crate::network::{Layout, Role};

    #[test]
    fn takes_the_steps_of_its_formula() {
        let mut layout = Layout::default();
        layout.push("light", Role::Bias, &[1]);
        layout.push("heavy", Role::Bias, &[1]);
        let at = Conditions { step_size: 0.25, retained_momentum: 0.9, temperature: 0.3 };
        let masses = [1.0, 4.0];
        let (mut theta, mut m) = ([1.5, -0.5], [0.25, -1.0]);
        let mut state = ChainState::at_rest(theta.map(|theta| theta as f32).to_vec(), &layout);
        (state.mass, state.momentum) = (masses.to_vec(), m.map(|m| m as f32).to_vec());
        let mut kinetic = [f64::NAN; 2];
        for noise in [[0.5_f32, -1.25], [-2.0, 0.75]] {
            let gradient = |state: &ChainState| [state.position[0], 5.0 * state.position[1]];
            let at_start = gradient(&state);
            advance(&Baoab, &at, 0.5, &layout, &at_start, &noise, &mut state, &mut kinetic);
            let at_end = gradient(&state);
            close(&Baoab, &at, 0.25, &layout, &at_end, &mut state, &mut kinetic);
            for (i, curvature) in [1.0, 5.0].into_iter().enumerate() {
                m[i] -= 0.125 * 0.5 * curvature * theta[i];
                theta[i] += 0.125 * m[i] / masses[i];
                m[i] = 0.9 * m[i] + (0.3 * (1.0 - 0.81) * masses[i]).sqrt() * f64::from(noise[i]);
                theta[i] += 0.125 * m[i] / masses[i];
                m[i] -= 0.125 * 0.25 * curvature * theta[i];
                assert_near("kinetic", kinetic[i], m[i] * m[i] / masses[i]);
            }
            assert_all_near("θ", &state.position, theta);
            assert_all_near("m", &state.momentum, m);
        }
    }
}

//! Stochastic-gradient Hamiltonian Monte Carlo: friction, gradient kick, noise at the asked temperature, drift.
//!
//! ```text
//! m ← μ' m − h g + √(2 (1−μ') T) M^{1/2} R        μ' = 1 − hγ,  R ~ N(0, I)
//! θ ← θ + h M⁻¹ m                                  with the new m
//! ```
//! Target: exp(−U/T). Wenzel et al. 2020, "How good is the Bayes posterior in deep neural networks really?", in the
//! symplectic Euler form; `exact::Quadratic::symplectic_euler` is its exact stationary law on a quadratic.

use super::langevin::{Conditions, TensorSlices};
use crate::vector::{combine, scale_and_add, sum_of_squares};

/// Moves one tensor; returns Σ m²/M.
pub(super) fn step(at: &Conditions, clip: f64, tensor: TensorSlices<'_>) -> f64 {
    let h = at.step_size;
    let noise = (2.0 * (1.0 - at.retained_momentum) * at.temperature * tensor.mass).sqrt();
    combine(tensor.momentum, at.retained_momentum, -h * clip, tensor.gradient, noise, tensor.noise);
    scale_and_add(tensor.position, 1.0, h / tensor.mass, tensor.momentum);
    sum_of_squares(tensor.momentum) / tensor.mass
}

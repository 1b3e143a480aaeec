//! BAOA: kick, half drift, exact Ornstein–Uhlenbeck friction and noise, half drift.
//!
//! ```text
//! m ← m − h g;   θ ← θ + ½h M⁻¹ m;   m ← μ' m + √(T (1−μ'²)) M^{1/2} R;   θ ← θ + ½h M⁻¹ m
//! ```
//! Target: exp(−U/T); on a quadratic the position has variance T/k exactly. Leimkuhler & Matthews 2013, in the order
//! that takes one gradient a step.

use super::langevin::{Conditions, TensorSlices};
use crate::vector::{scale_and_add, sum_of_squares};

/// Moves one tensor; returns Σ m²/M.
pub(super) fn step(at: &Conditions, clip: f64, tensor: TensorSlices<'_>) -> f64 {
    let (h, keep) = (at.step_size, at.retained_momentum);
    let half_drift = 0.5 * h / tensor.mass;
    scale_and_add(tensor.momentum, 1.0, -h * clip, tensor.gradient);
    scale_and_add(tensor.position, 1.0, half_drift, tensor.momentum);
    let noise = (at.temperature * (1.0 - keep * keep) * tensor.mass).sqrt();
    scale_and_add(tensor.momentum, keep, noise, tensor.noise);
    scale_and_add(tensor.position, 1.0, half_drift, tensor.momentum);
    sum_of_squares(tensor.momentum) / tensor.mass
}

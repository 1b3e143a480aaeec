//! BAOA: kick, half drift, exact Ornstein–Uhlenbeck friction and noise, half drift.
//!
//! ```text
//! m ← m − h g;   θ ← θ + ½h M⁻¹ m;   m ← μ' m + √(T (1−μ'²)) M^{1/2} R;   θ ← θ + ½h M⁻¹ m
//! ```
//! Target: exp(−U/T); on a quadratic the position has variance T/k exactly. Leimkuhler & Matthews 2013, in the order
//! that takes one gradient a step.

use super::langevin::{Conditions, TensorSlices};
use super::vector::{add_scaled, combine};

/// Moves one tensor; returns Σ m²/M.
pub(super) fn step(at: &Conditions, clip: f64, tensor: TensorSlices<'_>) -> f64 {
    let (h, keep) = (at.step_size, at.retained_momentum);
    let half_drift = 0.5 * h / tensor.mass;
    add_scaled(tensor.momentum, -h * clip, tensor.gradient);
    add_scaled(tensor.position, half_drift, tensor.momentum);
    let noise = (at.temperature * (1.0 - keep * keep) * tensor.mass).sqrt();
    combine(tensor.momentum, keep, noise, tensor.noise, 0.0, tensor.noise);
    add_scaled(tensor.position, half_drift, tensor.momentum) / tensor.mass
}

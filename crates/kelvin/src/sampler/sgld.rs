//! Stochastic-gradient Langevin dynamics: a gradient step with noise, no momentum.
//!
//! ```text
//! θ ← θ − ε M⁻¹ g + √(2 T ε) M^{-1/2} R
//! ```
//! Target: exp(−U/T), with a bias of order ε. Welling & Teh 2011.

use super::langevin::{Conditions, TensorSlices};
use crate::vector::combine;

/// Moves one tensor; there is no momentum, so the kinetic energy is 0.
pub(super) fn step(at: &Conditions, clip: f64, tensor: TensorSlices<'_>) -> f64 {
    let epsilon = at.step_size / tensor.mass;
    let noise = (2.0 * at.temperature * epsilon).sqrt();
    combine(tensor.position, 1.0, -epsilon * clip, tensor.gradient, noise, tensor.noise);
    0.0
}

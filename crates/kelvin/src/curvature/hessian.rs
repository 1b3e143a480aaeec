//! Hessian-vector products from two gradients, by central differences.
//!
//! ```text
//! Hv ≈ (∇U(θ + εv) − ∇U(θ − εv)) / 2ε          |εv| = 2⁻¹⁰ (|θ| + ⅛ √d)
//! ```
//! Gradients are f32, with a relative error u ≈ 2⁻²⁴. The quotient's error from rounding falls as u/ε and that from higher derivatives grows as
//! ε²: together they are least near ε = u^{1/3} = 2⁻⁸ of the scale of θ. A ReLU adds an error in proportion to the rows that change
//! sides between the two points, so ε is a quarter of that: then about one row in a thousand changes sides, and rounding still leaves three digits.
//! Differences are taken in f64. Where units change sides the quotient is the mean curvature of the stretch, which is what a step feels.
//! Works for any `Potential` at the price of two gradients.

use crate::potential::{Batch, Potential};
use crate::vector::sum_of_squares;

/// The share of θ's length that points are moved by.
const SHARE: f64 = 1.0 / 1024.0;
/// Counts as the root mean square of θ beside its own, so that products exist at θ = 0.
const LEAST_SCALE: f64 = 1.0 / 8.0;

/// What a product writes to on the way; made once and used for many.
#[derive(Clone, Debug)]
pub struct HessianProduct {
    moved: Vec<f32>,
    ahead: Vec<f32>,
    behind: Vec<f32>,
}

impl HessianProduct {
    /// For positions of so many numbers.
    pub fn new(dim: usize) -> Self {
        Self { moved: vec![0.0; dim], ahead: vec![0.0; dim], behind: vec![0.0; dim] }
    }

    /// Overwrites `product` with ∇²U of the batch at `position` times `direction`; with zeros for a direction of length 0.
    pub fn apply<P: Potential>(
        &mut self,
        potential: &P,
        position: &[f32],
        batch: Batch<'_>,
        direction: &[f64],
        product: &mut [f64],
        work: &mut P::Workspace,
    ) {
        let epsilon = displacement(position, direction);
        if epsilon == 0.0 {
            return product.fill(0.0);
        }
        for (sign, gradient) in [(1.0, &mut self.ahead), (-1.0, &mut self.behind)] {
            for ((moved, &theta), v) in self.moved.iter_mut().zip(position).zip(direction) {
                *moved = (f64::from(theta) + sign * epsilon * v) as f32;
            }
            potential.gradient(&self.moved, batch, gradient, work);
        }
        quotient(&self.ahead, &self.behind, epsilon, product);
    }
}

/// ε, by which points are moved along a direction; 0 for a direction of length 0.
pub(crate) fn displacement(position: &[f32], direction: &[f64]) -> f64 {
    let length = direction.iter().map(|v| v * v).sum::<f64>().sqrt();
    if length == 0.0 {
        return 0.0;
    }
    let scale = sum_of_squares(position).sqrt() + LEAST_SCALE * (position.len() as f64).sqrt();
    SHARE * scale / length
}

/// Overwrites `product` with the difference of two gradients over 2ε; with zeros where ε is 0.
pub(crate) fn quotient(ahead: &[f32], behind: &[f32], epsilon: f64, product: &mut [f64]) {
    if epsilon == 0.0 {
        return product.fill(0.0);
    }
    for ((product, &ahead), &behind) in product.iter_mut().zip(ahead).zip(behind) {
        *product = (f64::from(ahead) - f64::from(behind)) / (2.0 * epsilon);
    }
}

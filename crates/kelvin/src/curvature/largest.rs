//! λmax of M^{-1/2} ∇²U M^{-1/2}, the square of the fastest frequency, by power iteration.
//!
//! ```text
//! w ← A w / |A w|,   λ = |A w|,   A = M^{-1/2} ∇²U M^{-1/2}
//! ```
//! λ grows towards the largest |eigenvalue|, from below; it is the largest positive one wherever U curves up more than down. A round
//! costs two gradients. Started from the direction that was found at a state nearby, two or three rounds are enough.

use super::hessian::HessianProduct;
use crate::network::Layout;
use crate::potential::{Batch, Potential};

/// What power iteration writes to on the way.
#[derive(Clone, Debug)]
pub struct LargestCurvature {
    hessian: HessianProduct,
    direction: Vec<f64>,
    product: Vec<f64>,
}

impl LargestCurvature {
    /// For positions of so many numbers.
    pub fn new(dim: usize) -> Self {
        Self { hessian: HessianProduct::new(dim), direction: vec![0.0; dim], product: vec![0.0; dim] }
    }

    /// λmax after so many rounds; `direction` is where to begin, and becomes where it ended (of length 1). Masses are those of the
    /// layout's tensors. Not a finite number where gradients are not.
    #[expect(clippy::too_many_arguments, reason = "it is a function of exactly these")]
    pub fn find<P: Potential>(
        &mut self,
        potential: &P,
        position: &[f32],
        batch: Batch<'_>,
        layout: &Layout,
        masses: &[f64],
        num_rounds: usize,
        direction: &mut [f32],
        work: &mut P::Workspace,
    ) -> f64 {
        let divide_by_root_mass = |vector: &mut [f64]| {
            for (tensor, mass) in layout.tensors().iter().zip(masses) {
                vector[tensor.range.clone()].iter_mut().for_each(|value| *value /= mass.sqrt());
            }
        };
        let mut largest = 0.0;
        for _ in 0..num_rounds {
            let length = direction.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>().sqrt();
            for (to, &w) in self.direction.iter_mut().zip(&*direction) {
                *to = f64::from(w) / length;
            }
            divide_by_root_mass(&mut self.direction);
            self.hessian.apply(potential, position, batch, &self.direction, &mut self.product, work);
            divide_by_root_mass(&mut self.product);
            largest = self.product.iter().map(|x| x * x).sum::<f64>().sqrt();
            if !(largest > 0.0 && largest.is_finite()) {
                return largest;
            }
            direction.iter_mut().zip(&self.product).for_each(|(w, x)| *w = (x / largest) as f32);
        }
        largest
    }
}

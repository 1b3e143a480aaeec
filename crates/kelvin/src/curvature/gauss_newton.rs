//! The mean of the Gauss–Newton diagonal over each tensor, from random probes.
//!
//! The Gauss–Newton matrix is Σ Jᵀ Λ J plus the prior's curvature: never negative in the likelihood's part, unlike the Hessian, and with the same
//! diagonal where outputs are linear in each single parameter, as those of ReLU networks are between kinks. A probe is one gradient of
//! targets drawn from the model (`likelihood/drawn.rs`): its squares have the diagonal as their mean. The mean over a tensor of matrix
//! block G has the relative standard deviation √2 |G|_F / tr G, at most √2 and small where many directions share the curvature;
//! it is averaged over probes and states. Potentials without a model of targets are probed by signs z instead: |Σ z (Hz)| of a tensor.

use super::hessian::HessianProduct;
use crate::network::Layout;
use crate::potential::{Batch, Potential};
use crate::random::NoiseKey;

/// What a probe writes to on the way.
#[derive(Clone, Debug)]
pub struct GaussNewtonMeans {
    diagonal: Vec<f32>,
    hessian: HessianProduct,
    signs: Vec<f64>,
    product: Vec<f64>,
}

impl GaussNewtonMeans {
    /// For positions of so many numbers.
    pub fn new(dim: usize) -> Self {
        Self {
            diagonal: vec![0.0; dim],
            hessian: HessianProduct::new(dim),
            signs: vec![0.0; dim],
            product: vec![0.0; dim],
        }
    }

    /// Adds `share` of one probe's estimate to the mean of each tensor; the key names its random numbers.
    #[expect(clippy::too_many_arguments, reason = "it is a function of exactly these")]
    pub fn add_probe<P: Potential>(
        &mut self,
        potential: &P,
        position: &[f32],
        batch: Batch<'_>,
        layout: &Layout,
        key: NoiseKey,
        share: f64,
        means: &mut [f64],
        work: &mut P::Workspace,
    ) {
        if !potential.gauss_newton_diagonal(position, batch, key, &mut self.diagonal, work) {
            for (index, sign) in self.signs.iter_mut().enumerate() {
                *sign = key.sign(index as u32);
            }
            self.hessian.apply(potential, position, batch, &self.signs, &mut self.product, work);
            for ((to, x), z) in self.diagonal.iter_mut().zip(&self.product).zip(&self.signs) {
                *to = (x * z) as f32;
            }
        }
        for (tensor, mean) in layout.tensors().iter().zip(means) {
            let sum: f64 = self.diagonal[tensor.range.clone()].iter().map(|&g| f64::from(g)).sum();
            *mean += share * sum.abs() / tensor.range.len() as f64;
        }
    }
}

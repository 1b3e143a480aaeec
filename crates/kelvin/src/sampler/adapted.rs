//! What a warm-up has found of a chain, and what it writes to on the way; `warm_up.rs` says how it is found.

use serde::{Deserialize, Serialize};

use crate::curvature::{GaussNewtonMeans, LargestCurvature};
use crate::diagnostics::Trend;
use crate::network::{Layout, Tensor};

/// What a warm-up has found so far; empty for chains without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Adapted {
    /// How often curvature was looked at.
    pub num_looks: u64,
    /// Mean Gauss–Newton diagonal of each tensor.
    pub curvature: Vec<f64>,
    /// λmax: the mean of looks and, from the middle of the warm-up on, the largest where curvature does not grow.
    pub largest: f64,
    /// Mean of V_g/M over parameters, V_g the variance of a batch's gradient; 0 where every step sees all rows.
    pub gradient_noise: f64,
    /// h.
    pub step_size: f64,
    /// Where the last power iteration ended.
    pub direction: Vec<f32>,
    /// U of the step's batch along the warm-up, equally far apart.
    pub energies: Vec<f64>,
}

impl Adapted {
    /// Drops every other energy, for a warm-up that becomes twice as long: they are then as far apart as those to come.
    pub fn thin_energies(&mut self) {
        let mut index = 0;
        self.energies.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }

    /// How U moved over the second half of the warm-up; none where too little was noted.
    pub fn energy_trend(&self) -> Option<Trend> {
        Trend::of(&self.energies[self.energies.len() / 2..])
    }
}

/// What a look writes to on the way.
pub(super) struct LookScratch {
    pub diagonal: GaussNewtonMeans,
    pub largest: LargestCurvature,
    /// One number for each tensor.
    pub means: Vec<f64>,
    pub masses: Vec<f64>,
    /// Gradients of two batches; empty where every step sees all rows.
    pub pair: [Vec<f32>; 2],
}

impl LookScratch {
    pub fn new(layout: &Layout) -> Self {
        let (dim, tensors) = (layout.len(), layout.tensors().len());
        Self {
            diagonal: GaussNewtonMeans::new(dim),
            largest: LargestCurvature::new(dim),
            means: vec![0.0; tensors],
            masses: vec![1.0; tensors],
            pair: [Vec::new(), Vec::new()],
        }
    }

    /// Mean over parameters of V_g/M, from the gradients of the pair: their difference has twice the variance of one.
    pub fn gradient_noise(&self, layout: &Layout) -> f64 {
        let [one, other] = &self.pair;
        let of_tensor = |tensor: &Tensor| -> f64 {
            let both = one[tensor.range.clone()].iter().zip(&other[tensor.range.clone()]);
            both.map(|(&a, &b)| 0.5 * (f64::from(a) - f64::from(b)).powi(2)).sum()
        };
        let tensors = layout.tensors().iter().zip(&self.masses);
        tensors.map(|(tensor, mass)| of_tensor(tensor) / mass).sum::<f64>() / layout.len() as f64
    }
}

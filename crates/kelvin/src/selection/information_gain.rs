//! Holmes–Walker: one observation should move the prior as far as it would if the model were right.
//!
//! ```text
//! β̂ = √( Σ_i E_{y ~ p(·|x_i,θ̂)} Δ(x_i, y) / Σ_i Δ(x_i, y_i) ),   Δ(x, y) = E_{θ ~ prior} ‖∇_θ log p(y|x,θ)‖²
//! ```
//! (Holmes and Walker, Biometrika 2017.) β² Δ is the Fisher divergence from prior to the posterior of one row with its likelihood
//! to the power β; θ̂ stands for the best parameters, the observed rows for the truth. Linear regression with prior N(0, σ_p² I):
//! Δ = ‖x‖²(y² + σ_p²‖x‖²)/σ⁴. Under a wide prior every model looks the same and β̂ → 1. It aims at information about parameters,
//! not at held-out density.
//!
//! The mean over the prior is exact for linear regressions (2 d points have the mean of any quadratic) and elsewhere one over
//! draws from the prior, at which networks are taken as they are, not linearised; θ̂ is the mode of the small model.
//! An isotropic prior treats all classes alike, so that with classes Δ does not depend on y and β̂ = 1 whatever the data, but for the draws' noise.
//! Cost: a fit and n gradients for each point of the prior; for networks a search. Objective: information gain.

use rayon::prelude::*;

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::selector::{Goal, Selection, Selector};
use super::small_fit::dot;
use super::small_model::{SmallModel, normal_vectors};

/// Draws from the prior where no closed form is known.
const NUM_DRAWS: u32 = 200;

/// Holmes and Walker's β of a small model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InformationGainSelector;

/// Parameters whose plain mean stands for that over the prior.
fn prior_points(model: &SmallModel) -> Vec<Vec<f64>> {
    let (d, std) = (model.num_parameters(), model.prior_variance.sqrt());
    if model.tangent.is_linear() && model.loss.is_quadratic() {
        let along = |axis: usize, value: f64| (0..d).map(|i| if i == axis { value } else { 0.0 }).collect();
        let far = std * (d as f64).sqrt();
        return (0..d).flat_map(|axis| [along(axis, far), along(axis, -far)]).collect();
    }
    let mut points = normal_vectors(2, NUM_DRAWS, d);
    points.iter_mut().flatten().for_each(|value| *value *= std);
    points
}

impl Selector for InformationGainSelector {
    fn name(&self) -> &'static str {
        "holmes-walker"
    }

    fn goal(&self) -> Goal {
        Goal::InformationGain
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        // All points of the prior together cost some ten fits.
        let model = SmallModel::new(self.name(), laboratory, |_| 10.0)?;
        let fit = model.fit_all(1.0)?;
        let (q, d) = (model.loss.num_outputs(), model.num_parameters());
        let points = prior_points(&model);
        let num_inputs = model.inputs.len() / model.num_rows();
        let of_row = |(row, input): (usize, &[f64])| {
            let likely = model.loss.answers_at(&model.training.outputs(row, &fit.mode));
            let (mut expected, mut observed) = (0.0, 0.0);
            let mut features = vec![0.0; q * d];
            for point in &points {
                let outputs = model.tangent.linearise(point, input, &mut features);
                // ‖Φᵀ∇ℓ‖² through Φ Φᵀ, which all answers share.
                let products: Vec<f64> =
                    features.chunks_exact(d).flat_map(|a| features.chunks_exact(d).map(|b| dot(a, b))).collect();
                let size = |answer| {
                    let slope = model.loss.terms(&outputs, answer, 1.0).gradient;
                    (0..q * q).map(|at| slope[at / q] * products[at] * slope[at % q]).sum::<f64>()
                };
                expected += likely.iter().map(|&(share, answer)| share * size(answer)).sum::<f64>();
                observed += size(model.training.answers[row]);
            }
            (expected, observed)
        };
        let inputs: Vec<&[f64]> = model.inputs.chunks_exact(num_inputs).collect();
        let sums: Vec<(f64, f64)> = inputs.into_par_iter().enumerate().map(of_row).collect();
        // In order, so that the sums do not depend on threads.
        let (expected, observed) = sums.iter().fold((0.0, 0.0), |sum, of_row| (sum.0 + of_row.0, sum.1 + of_row.1));
        model.count_visits(points.len() * model.num_rows());
        let beta = (expected / observed).sqrt();
        if !(beta.is_finite() && beta > 0.0) {
            return Err(model.nothing("its ratio is not a number; look for extreme inputs or targets"));
        }
        Ok(model.selection(self.goal(), beta))
    }
}

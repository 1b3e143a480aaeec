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
//! Models of classes are refused: an isotropic prior treats all classes alike, so that Δ does not depend on y and the ratio is 1
//! whatever the data.
//! Cost: a fit and n gradients for each point of the prior; for networks a search. Objective: information gain.

use rayon::prelude::*;

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::row_loss::Answer;
use super::selector::{Goal, Selection, Selector};
use super::small_fit::dot;
use super::small_model::{SmallModel, normal_vectors};
use crate::likelihood::TargetKind;

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
        let likelihood = laboratory.posterior().likelihood();
        if likelihood.kind() != TargetKind::Numbers {
            let reason = "the targets are classes, which an isotropic prior treats all alike: it would say β = 1 whatever the data; \
                          choose by LPD, or take lyddon-holmes-walker";
            return Err(SelectionError::DoesNotSuit { method: self.name(), reason: reason.into() });
        }
        // All points of the prior together cost some ten fits.
        let model = SmallModel::new(self.name(), laboratory, |_| 10.0)?;
        let fit = model.fit_all(1.0)?;
        let (points, noise_std) = (prior_points(&model), model.loss.noise_variance().sqrt());
        let num_inputs = model.inputs.len() / model.num_rows();
        let of_row = |(row, input): (usize, &[f64])| {
            let mean = model.training.outputs(row, &fit.mode)[0];
            // Two answers with the mean of any quadratic.
            let likely = [noise_std, -noise_std].map(|away| Answer::Number(mean + away));
            let (mut expected, mut observed) = (0.0, 0.0);
            let mut features = vec![0.0; model.num_parameters()];
            for point in &points {
                let outputs = model.tangent.linearise(point, input, &mut features);
                let length = dot(&features, &features);
                let size = |answer| length * model.loss.terms(&outputs, answer, 1.0).gradient[0].powi(2);
                expected += 0.5 * likely.iter().map(|&answer| size(answer)).sum::<f64>();
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

//! Lyddon–Holmes–Walker: the posterior is to be as wide as estimates spread over reweighted data.
//!
//! ```text
//! β̂ = tr(J I⁻¹ J) / tr(J),   J = mean_i −∇² log p(y_i|x_i,θ̂),   I = mean_i ∇ log p · ∇ log pᵀ
//! ```
//! (Lyddon, Holmes, Walker, Biometrika 2019.) The loss-likelihood bootstrap draws estimates under random weights of the rows; for
//! large n its covariance is J⁻¹IJ⁻¹/n, that of the tempered posterior (βJ)⁻¹/n, and β̂ gives both the same trace of Fisher
//! information. Linear regression: J = XᵀX/(nσ²), I = Σ r²xxᵀ/(nσ⁴); with noise of variance τ², β̂ → σ²/τ². It sets the width
//! of the posterior of parameters, not the density of predictions.
//! Rows count as independent: copies of a row are not seen for what they are.
//!
//! Linear and logistic models: as above, with more rows than parameters. Networks have parameters that no row pins (I is singular), so
//! that widths are compared where they matter, in the outputs at the validation rows x of the linearised network, with the prior in both:
//!
//! ```text
//! β̂ = Σ_x tr(Φ H⁻¹ Φᵀ) / Σ_x tr(Φ H⁻¹ (Σ_i g_i g_iᵀ) H⁻¹ Φᵀ),   g_i = ∇ log p(y_i|x_i,θ̂),   H = Σ_i −∇² log p + I/σ_p²
//! ```
//! A network that nearly interpolates has small g, and β̂ is then large.
//! Cost: one fit, and for networks a search. Objective: spread over new data.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::selector::{Goal, Selection, Selector};
use super::small_fit::{FeatureRows, Fit, dot};
use super::small_model::SmallModel;
use crate::exact::trace_of_product_with_inverse;

/// Lyddon, Holmes and Walker's β of a small model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootstrapSpreadSelector;

/// tr(J I⁻¹ J) / tr(J); not a number where I is singular.
fn by_parameters(model: &SmallModel, fit: &Fit) -> f64 {
    let (rows, d) = (&model.training, model.num_parameters());
    let (mut curvature, mut scores) = (vec![0.0; d * d], vec![0.0; d * d]);
    let terms = |row: usize| model.loss.terms(&rows.outputs(row, &fit.mode), rows.answers[row], 1.0);
    rows.add_curvature(|row| Some(terms(row).curvature), &mut curvature);
    let outer = |gradient: Vec<f64>| gradient.iter().flat_map(|a| gradient.iter().map(move |b| a * b)).collect();
    rows.add_curvature(|row| Some(outer(terms(row).gradient)), &mut scores);
    for matrix in [&mut curvature, &mut scores] {
        for i in 0..d {
            for j in 0..i {
                matrix[j * d + i] = matrix[i * d + j];
            }
        }
    }
    // tr(J I⁻¹ J) = tr(J² I⁻¹).
    let squared: Vec<f64> =
        (0..d * d).map(|at| (0..d).map(|k| curvature[at / d * d + k] * curvature[k * d + at % d]).sum()).collect();
    let trace: f64 = (0..d).map(|i| curvature[i * d + i]).sum();
    trace_of_product_with_inverse(&squared, &scores, d).map_or(f64::NAN, |product| product / trace)
}

/// How wide outputs are under the posterior, over how wide they are over reweighted training rows.
fn by_outputs(model: &SmallModel, fit: &Fit, at: &FeatureRows) -> f64 {
    let rows = &model.training;
    let score = |row: usize| {
        let outputs = rows.outputs(row, &fit.mode);
        rows.pull_back(row, &model.loss.terms(&outputs, rows.answers[row], 1.0).gradient)
    };
    let scores: Vec<Vec<f64>> = (0..rows.len()).map(score).collect();
    let (mut believed, mut reweighted) = (0.0, 0.0);
    for features in at.features.chunks_exact(model.num_parameters()) {
        let solved = fit.solve(features);
        believed += dot(&solved, features);
        reweighted += scores.iter().map(|score| dot(score, &solved).powi(2)).sum::<f64>();
    }
    believed / reweighted
}

impl Selector for BootstrapSpreadSelector {
    fn name(&self) -> &'static str {
        "lyddon-holmes-walker"
    }

    fn goal(&self) -> Goal {
        Goal::BootstrapSpread
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let method = self.name();
        let model = SmallModel::new(method, laboratory, |_| 3.0)?;
        let (rows, d) = (model.num_rows(), model.num_parameters());
        if model.validation.is_none() && rows <= d {
            let reason = format!("the spread of {d} parameters cannot be told from {rows} rows; it needs more rows");
            return Err(SelectionError::DoesNotSuit { method, reason: reason.into() });
        }
        let fit = model.fit_all(1.0)?;
        let beta = match &model.validation {
            None => by_parameters(&model, &fit),
            Some(validation) => by_outputs(&model, &fit, validation),
        };
        model.count_visits(rows);
        if !(beta.is_finite() && beta > 0.0) {
            return Err(model.nothing("some parameters are not identified (I is singular); drop features"));
        }
        Ok(model.selection(self.goal(), beta))
    }
}

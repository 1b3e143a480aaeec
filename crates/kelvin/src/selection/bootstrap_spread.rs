//! Lyddon–Holmes–Walker: the posterior is to be as wide as estimates spread over reweighted data.
//!
//! ```text
//! β̂ = tr(J I⁻¹ J) / tr(J),   J = mean_i −∇² log p(y_i|x_i,θ̂),   I = mean_i ∇ log p · ∇ log pᵀ
//! ```
//! (Lyddon, Holmes, Walker, Biometrika 2019.) The loss-likelihood bootstrap draws estimates under random weights of the rows; for
//! large n its covariance is J⁻¹IJ⁻¹/n, that of the tempered posterior (βJ)⁻¹/n, and β̂ gives both the same trace of Fisher
//! information. Linear regression: J = XᵀX/(nσ²), I = Σ r²xxᵀ/(nσ⁴); with noise of variance τ², β̂ → σ²/τ². It sets the width
//! of the posterior of parameters, not the density of predictions.
//! Cost: one fit; linear regressions alone, with more rows than features. Objective: spread over new data.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::linear_model::LinearModel;
use super::selector::{Cost, Goal, Selection, Selector};
use crate::exact::trace_of_product_with_inverse;

/// Lyddon, Holmes and Walker's β of a linear regression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootstrapSpreadSelector;

impl Selector for BootstrapSpreadSelector {
    fn name(&self) -> &'static str {
        "loss-likelihood-bootstrap"
    }

    fn goal(&self) -> Goal {
        Goal::BootstrapSpread
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let method = self.name();
        let model = LinearModel::new(method, laboratory)?;
        let (rows, d) = (model.num_rows(), model.num_features);
        if rows <= d {
            let reason = format!("the spread of {d} parameters cannot be told from {rows} rows; it needs more rows");
            return Err(SelectionError::DoesNotSuit { method, reason: reason.into() });
        }
        let fit = model.fit(&model.all(), 1.0)?;
        let (mut curvature, mut scores) = (vec![0.0; d * d], vec![0.0; d * d]);
        for (input, target) in model.rows() {
            let residual = target - fit.prediction(input);
            for i in 0..d {
                for j in 0..d {
                    let square = input[i] * input[j] / (rows as f64 * model.noise_variance);
                    curvature[i * d + j] += square;
                    scores[i * d + j] += square * residual * residual / model.noise_variance;
                }
            }
        }
        // tr(J I⁻¹ J) = tr(J² I⁻¹).
        let squared: Vec<f64> =
            (0..d * d).map(|at| (0..d).map(|k| curvature[at / d * d + k] * curvature[k * d + at % d]).sum()).collect();
        let trace: f64 = (0..d).map(|i| curvature[i * d + i]).sum();
        let beta = trace_of_product_with_inverse(&squared, &scores, d).map_or(f64::NAN, |product| product / trace);
        if !(beta.is_finite() && beta > 0.0) {
            return Err(model.nothing("some parameters are not identified (I is singular); drop features"));
        }
        let visits = 2.0 * rows as f64;
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: beta,
            intervals: Vec::new(),
            cost: Cost { row_gradients: visits, chains: visits / laboratory.prices().chain },
            warnings: Vec::new(),
        })
    }
}

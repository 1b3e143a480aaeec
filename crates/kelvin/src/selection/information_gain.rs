//! Holmes–Walker: one observation should move the prior as far as it would if the model were right.
//!
//! ```text
//! β̂ = √( Σ_i E_{y ~ p(·|x_i,θ̂)} Δ(x_i, y) / Σ_i Δ(x_i, y_i) ),   Δ(x, y) = E_{θ ~ prior} ‖∇_θ log p(y|x,θ)‖²
//! ```
//! (Holmes and Walker, Biometrika 2017.) β² Δ is the Fisher divergence from prior to the posterior of one row with its likelihood
//! to the power β; θ̂ stands for the best parameters, the observed rows for the truth. Linear regression with prior N(0, σ_p² I):
//! Δ = ‖x‖²(y² + σ_p²‖x‖²)/σ⁴. Under a wide prior every model looks the same and β̂ → 1. It aims at information about parameters,
//! not at held-out density.
//! Cost: one fit; linear regressions alone. Objective: information gain.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::linear_model::LinearModel;
use super::selector::{Cost, Goal, Selection, Selector};

/// Holmes and Walker's β of a linear regression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InformationGainSelector;

impl Selector for InformationGainSelector {
    fn name(&self) -> &'static str {
        "holmes-walker"
    }

    fn goal(&self) -> Goal {
        Goal::InformationGain
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let model = LinearModel::new(self.name(), laboratory)?;
        let fit = model.fit(&model.all(), 1.0)?;
        let (mut expected, mut observed) = (0.0, 0.0);
        for (input, target) in model.rows() {
            let size: f64 = input.iter().map(|x| x * x).sum();
            let from_prior = model.prior_variance * size;
            expected += size * (fit.prediction(input).powi(2) + model.noise_variance + from_prior);
            observed += size * (target * target + from_prior);
        }
        let beta = (expected / observed).sqrt();
        if !(beta.is_finite() && beta > 0.0) {
            return Err(model.nothing("its ratio is not a number; look for extreme inputs or targets"));
        }
        let visits = model.num_rows() as f64;
        Ok(Selection {
            method: self.name(),
            goal: self.goal(),
            inverse_temperature: beta,
            intervals: Vec::new(),
            cost: Cost { row_gradients: visits, chains: visits / laboratory.prices().chain },
            warnings: Vec::new(),
        })
    }
}

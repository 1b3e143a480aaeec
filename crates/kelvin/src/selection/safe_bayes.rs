//! SafeBayes: the learning rate whose posterior would have predicted each training row best from those before it.
//!
//! ```text
//! randomised   β̂ = argmin_β Σ_i E_{θ ~ p_β(·|rows before i)} [−log p(y_i|x_i,θ)]
//! in-model     β̂ = argmin_β Σ_i −log p(y_i|x_i, E θ)
//! ```
//! (Grünwald, ALT 2012; Grünwald and van Ommen, Bayesian Analysis 2017.) The minimum is over a grid from 1/64 to 1 in steps of √2, as
//! there: rates above 1 are not considered, since the aim is that the posterior gathers around the best parameters of a wrong
//! model, which small rates secure. That is another goal than held-out density, and in deep learning the best β are mostly above 1.
//! Cost: n fits for each β of the grid; linear regressions alone. Objective: concentration.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::linear_model::LinearModel;
use super::selector::{Cost, Goal, Selection, Selector};

/// Steps of √2 from 1 down to 1/64.
const NUM_STEPS: i32 = 12;

/// Whose loss is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SafeLoss {
    /// That of parameters drawn from the posterior.
    #[default]
    Randomised,
    /// That of the posterior's mean.
    InModel,
}

/// SafeBayes for linear regressions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SafeBayesSelector {
    /// Whose loss is summed.
    pub loss: SafeLoss,
}

impl SafeBayesSelector {
    fn cumulative_loss(&self, model: &LinearModel, inverse_temperature: f64) -> Result<f64, SelectionError> {
        let (mut before, mut sum) = (Vec::new(), 0.0);
        for row in 0..model.num_rows() {
            let fit = model.fit(&before, inverse_temperature)?;
            let (input, target) = model.row(row);
            let spread = if self.loss == SafeLoss::Randomised { fit.spread(input) } else { 0.0 };
            sum += ((target - fit.prediction(input)).powi(2) + spread) / (2.0 * model.noise_variance);
            before.push(row);
        }
        Ok(sum)
    }
}

impl Selector for SafeBayesSelector {
    fn name(&self) -> &'static str {
        match self.loss {
            SafeLoss::Randomised => "safe-bayes",
            SafeLoss::InModel => "safe-bayes-in-model",
        }
    }

    fn goal(&self) -> Goal {
        Goal::Concentration
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let model = LinearModel::new(self.name(), laboratory)?;
        let mut best = (f64::INFINITY, 1.0);
        for step in 0..=NUM_STEPS {
            let beta = 0.5f64.powf(0.5 * f64::from(step));
            let loss = self.cumulative_loss(&model, beta)?;
            if loss < best.0 {
                best = (loss, beta);
            }
        }
        if !best.0.is_finite() {
            return Err(model.nothing("no rate of the grid has a finite loss; look for extreme targets"));
        }
        let rows = model.num_rows() as f64;
        let visits = f64::from(NUM_STEPS + 1) * 0.5 * rows * rows;
        Ok(Selection {
            method: self.name(),
            goal: self.goal(),
            inverse_temperature: best.1,
            intervals: Vec::new(),
            cost: Cost { row_gradients: visits, chains: visits / laboratory.prices().chain },
            warnings: Vec::new(),
        })
    }
}

//! SafeBayes: the learning rate whose posterior would have predicted each training row best from those before it.
//!
//! ```text
//! randomised   β̂ = argmin_β Σ_i E_{θ ~ p_β(·|rows before i)} [−log p(y_i|x_i,θ)]
//! in-model     β̂ = argmin_β Σ_i −log p(y_i|x_i, E θ)
//! ```
//! (Grünwald, ALT 2012; Grünwald and van Ommen, Bayesian Analysis 2017.) The minimum is over a grid from 1/64 to 1 in steps of √2, as
//! there: rates above 1 are not considered, since the aim is that the posterior gathers around the best parameters of a wrong
//! model, which small rates secure. That is another goal than held-out density, and in deep learning the best β are mostly above 1.
//! With posterior tempering β moves neither mode, and spread alone counts: it then says 1. Its own form is
//! `sampler.tempering = "likelihood"`, where the prior keeps its weight.
//!
//! Linear regressions: exact, by recursive least squares. Logistic: each row is taken in by Laplace's method. Networks: linearised, with features that
//! have seen all training rows, so that the sum is over the validation rows, each predicted from the training rows and those before it.
//! Cost: n gradients, or 13 n with likelihood tempering, and 2 d² multiplications for each. Objective: concentration.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::online_fit::{OnlineFit, OutputBelief};
use super::over_beta::OverBeta;
use super::row_loss::{Answer, RowLoss, half};
use super::selector::{Goal, Selection, Selector};
use super::small_model::{SmallModel, normal_vectors};
use crate::temperature::Tempering;

/// Steps of √2 from 1 down to 1/64.
const NUM_STEPS: i32 = 12;
/// Outputs drawn for each row where there are classes; the same normal numbers at every β.
const NUM_DRAWS: u32 = 128;

/// Whose loss is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SafeLoss {
    /// That of parameters drawn from the posterior.
    #[default]
    Randomised,
    /// That of the posterior's mean.
    InModel,
}

/// SafeBayes of a small model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SafeBayesSelector {
    /// Whose loss is summed.
    pub loss: SafeLoss,
}

/// What was believed of each row before its answer came.
fn beliefs(model: &SmallModel, likelihood_weight: f64) -> Result<Vec<(OutputBelief, Answer)>, SelectionError> {
    let (rows, mut fit) = match &model.validation {
        None => (&model.training, OnlineFit::prior(model.num_parameters(), model.prior_variance)),
        Some(validation) => {
            let fit = model.fit_all(likelihood_weight)?;
            (validation, OnlineFit::new(fit.mode.clone(), fit.covariance()))
        }
    };
    let mut found = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let belief = fit.belief(rows, row);
        fit.absorb(&belief, rows, row, &model.loss, likelihood_weight);
        found.push((belief, rows.answers[row]));
    }
    model.count_visits(rows.len());
    Ok(found)
}

/// E −log p(y|f), f ~ N(mean, spread/power): in closed form for numbers, by normal draws for classes.
fn expected_loss(loss: &RowLoss, belief: &OutputBelief, answer: Answer, power: f64, normals: &[Vec<f64>]) -> f64 {
    let plug_in = loss.terms(&belief.mean, answer, 1.0);
    if loss.is_quadratic() {
        return plug_in.value + 0.5 * plug_in.curvature[0] * belief.spread[0] / power;
    }
    let q = belief.mean.len();
    let lower = half(&belief.spread, q);
    let at = |normal: &Vec<f64>| {
        let moved = |i: usize| (0..=i).map(|j| lower[i * q + j] * normal[j]).sum::<f64>() / power.sqrt();
        let outputs: Vec<f64> = (0..q).map(|i| belief.mean[i] + moved(i)).collect();
        loss.terms(&outputs, answer, 1.0).value
    };
    normals.iter().map(at).sum::<f64>() / normals.len() as f64
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
        let model = SmallModel::new(self.name(), laboratory, |size| match size.tempering {
            Tempering::Posterior => 4.0,
            Tempering::Likelihood => 4.0 * f64::from(NUM_STEPS + 1),
        })?;
        let normals = normal_vectors(1, NUM_DRAWS, model.loss.num_outputs());
        let mut believed = OverBeta::new(model.tempering, |weight| beliefs(&model, weight));
        let mut best = (f64::INFINITY, 1.0);
        for step in 0..=NUM_STEPS {
            let beta = 0.5f64.powf(0.5 * f64::from(step));
            let loss = believed.at(beta, |rows, power| {
                let of_row = |(belief, answer): &(OutputBelief, Answer)| match self.loss {
                    SafeLoss::Randomised => expected_loss(&model.loss, belief, *answer, power, &normals),
                    SafeLoss::InModel => model.loss.terms(&belief.mean, *answer, 1.0).value,
                };
                rows.iter().map(of_row).sum::<f64>()
            })?;
            if loss < best.0 {
                best = (loss, beta);
            }
        }
        if !best.0.is_finite() {
            return Err(model.nothing("no rate of the grid has a finite loss; look for extreme targets"));
        }
        Ok(model.selection(self.goal(), best.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E (f − y)² is the square of the mean's distance and the variance.
    #[test]
    fn the_expected_loss_of_a_number_has_its_closed_form() {
        let belief = OutputBelief { mean: vec![0.4], spread: vec![0.7], towards: Vec::new() };
        let loss = RowLoss::Gaussian { noise_variance: 0.3 };
        let found = expected_loss(&loss, &belief, Answer::Number(-0.5), 2.0, &[]);
        let exact = 0.5 * (0.81 + 0.35) / 0.3 + 0.5 * (std::f64::consts::TAU * 0.3).ln();
        assert!((found - exact).abs() < 1e-12, "{found} {exact}");
    }
}

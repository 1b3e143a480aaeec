//! Wu–Martin: prediction intervals should hold rows they have not seen as often as they say.
//!
//! ```text
//! β̂: share over bootstrap samples b and rows i outside b of { |y_i − x_iᵀθ̂_b| ≤ z_{1−α/2} s_b(x_i, β) } = 1 − α
//! s² = σ² + Var_β xᵀθ  (SM),   σ²/β + Var_β xᵀθ  (TM)
//! ```
//! (Wu and Martin, "Calibrating generalized predictive distributions", 2021; theirs is the SM, and θ's uncertainty must make up for
//! all that σ² lacks. Where σ² is already too wide no β is narrow enough.) With noise of variance τ² the TM has β̂ → σ²/τ²; the SM has
//! σ² lev/(τ² − σ²) where all rows have the leverage `lev`. It calibrates intervals at one level, not the whole density.
//!
//! Linear regressions: exact. Classes (logistic, networks): the share is that of sets of the most probable classes that reach 1 − α together,
//! with p̂ the mean of softmax over draws of the outputs from Laplace's posterior; the class that reaches the border is in for the part of it that
//! is needed (Romano, Sesia, Candès, NeurIPS 2020), so that a calibrated p̂ has exactly 1 − α. Networks: linearised, refitted on
//! bootstrap samples of the training rows, and rows outside are the validation rows.
//! Cost: a fit for each sample (some 40 with likelihood tempering), and for networks a search. Objective: coverage of prediction intervals.

use rayon::prelude::*;

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::over_beta::{OverBeta, first_enough, times_made};
use super::row_loss::{Answer, RowLoss, half};
use super::selector::{Goal, Selection, Selector};
use super::small_model::{SmallModel, normal_vectors};
use crate::predictive::PredictiveModel;
use crate::quantile::{Tail, chi_squared_quantile};

/// Outputs drawn for each row where there are classes; the same normal numbers at every β.
const NUM_DRAWS: u32 = 64;

/// Calibration of prediction intervals of a small model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionCoverageSelector {
    /// Whose intervals.
    pub model: PredictiveModel,
    /// α: an interval is to hold a new answer with probability 1 − α.
    pub miss: f64,
    /// Bootstrap samples.
    pub num_samples: u32,
    /// Names their rows.
    pub seed: u64,
}

impl Default for PredictionCoverageSelector {
    fn default() -> Self {
        Self { model: PredictiveModel::Standard, miss: 0.1, num_samples: 50, seed: 0 }
    }
}

impl Selector for PredictionCoverageSelector {
    fn name(&self) -> &'static str {
        match self.model {
            PredictiveModel::Standard => "wu-martin-sm",
            PredictiveModel::Tempered => "wu-martin-tm",
        }
    }

    fn goal(&self) -> Goal {
        Goal::PredictionCoverage
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let model = SmallModel::new(self.name(), laboratory, |size| {
            // A fit and what it predicts cost about the same.
            2.0 * f64::from(self.num_samples) * times_made(size.tempering)
        })?;
        let samples: Vec<Vec<f64>> = (0..self.num_samples).map(|sample| model.resampled(self.seed, sample)).collect();
        let border = chi_squared_quantile(1, Tail::Upper, self.miss);
        let normals = normal_vectors(3, NUM_DRAWS, model.loss.num_outputs());
        let mut predictions = OverBeta::new(model.tempering, |weight| {
            let estimate = model.fit_all(weight)?.mode;
            let of_sample = |weights: &Vec<f64>| {
                let fit = model.fit(weights, weight, &estimate)?;
                let (rows, unseen) = model.unseen(weights);
                let predicted = |row: usize| Prediction {
                    mean: rows.outputs(row, &fit.mode),
                    spread: fit.spread(rows.features(row)),
                    answer: rows.answers[row],
                };
                Ok(unseen.into_iter().map(predicted).collect())
            };
            let found: Result<Vec<Vec<Prediction>>, SelectionError> = samples.par_iter().map(of_sample).collect();
            Ok(found?.into_iter().flatten().collect::<Vec<Prediction>>())
        });
        let found = first_enough(|beta| {
            let scale = self.model.power(beta);
            predictions.at(beta, |predictions, power| {
                let missed = |prediction: &Prediction| match (&model.loss, prediction.answer) {
                    (RowLoss::Gaussian { noise_variance }, Answer::Number(target)) => {
                        let variance = noise_variance / scale + prediction.spread[0] / power;
                        f64::from(u8::from((target - prediction.mean[0]).powi(2) / variance > border))
                    }
                    (loss, Answer::Class(label)) => {
                        1.0 - share_inside(
                            &prediction.probabilities(loss, scale, power, &normals),
                            label,
                            1.0 - self.miss,
                        )
                    }
                    _ => unreachable!("the posterior checked that likelihood and targets fit"),
                };
                // In order, so that the sum does not depend on threads.
                let each: Vec<f64> = predictions.par_iter().map(missed).collect();
                each.iter().sum::<f64>() > self.miss * each.len() as f64
            })
        })?;
        let beta = found.ok_or_else(|| {
            model.nothing(match model.loss {
                RowLoss::Gaussian { .. } => {
                    "no β gives its intervals the coverage asked for: model.noise_variance alone makes them too wide"
                }
                RowLoss::Classes { .. } => {
                    "no β gives its sets of classes the coverage asked for: they hold too much at every β, or too little"
                }
            })
        })?;
        Ok(model.selection(self.goal(), beta))
    }
}

/// Outputs of an unseen row under a fit, and its answer.
struct Prediction {
    mean: Vec<f64>,
    spread: Vec<f64>,
    answer: Answer,
}

impl Prediction {
    /// The mean of softmax(scale C f) over f ~ N(mean, spread/power).
    fn probabilities(&self, loss: &RowLoss, scale: f64, power: f64, normals: &[Vec<f64>]) -> Vec<f64> {
        let q = self.mean.len();
        let lower = half(&self.spread, q);
        let mut sums = vec![0.0; q + 1];
        for normal in normals {
            let moved = |i: usize| (0..=i).map(|j| lower[i * q + j] * normal[j]).sum::<f64>() / power.sqrt();
            let outputs: Vec<f64> = (0..q).map(|i| self.mean[i] + moved(i)).collect();
            sums.iter_mut().zip(loss.probabilities(&outputs, scale)).for_each(|(sum, share)| *sum += share);
        }
        sums.iter_mut().for_each(|sum| *sum /= normals.len() as f64);
        sums
    }
}

/// How much of a class is in the smallest set that holds `level`, where the last class to come in comes in part.
fn share_inside(probabilities: &[f64], class: usize, level: f64) -> f64 {
    let own = probabilities[class];
    let comes_before = |other: usize| probabilities[other] > own || probabilities[other] == own && other < class;
    let before: f64 =
        (0..probabilities.len()).filter(|&other| comes_before(other)).map(|other| probabilities[other]).sum();
    if own > 0.0 { ((level - before) / own).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_classes_hold_exactly_their_level_on_average() {
        let probabilities = [0.2, 0.5, 0.3];
        assert_eq!(share_inside(&probabilities, 1, 0.6), 1.0);
        assert!((share_inside(&probabilities, 2, 0.6) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(share_inside(&probabilities, 0, 0.6), 0.0);
        for level in [0.1, 0.5, 0.77, 0.95] {
            let inside: f64 =
                (0..3).map(|class| probabilities[class] * share_inside(&probabilities, class, level)).sum();
            assert!((inside - level).abs() < 1e-12, "{level} {inside}");
        }
    }
}

//! Syring–Martin: credible sets of the parameters should hold the estimate as often, over resampled data, as they say.
//!
//! ```text
//! β̂: share over bootstrap samples b of { (θ̂ − θ̂_b)ᵀ Cov_b(β)⁻¹ (θ̂ − θ̂_b) ≤ χ²_d(1 − α) } = 1 − α
//! ```
//! (Syring and Martin, Biometrika 2019.) They find β by stochastic approximation; here fits are exact and the share falls with β, so
//! halving does. With noise of variance τ² where the model says σ², β̂ → σ²/τ². It calibrates statements about parameters; those
//! about predictions, and their density, are another matter.
//!
//! Linear regressions: exact. Logistic: mode and covariance by Laplace's method. Networks have symmetries, so that a set of parameters says
//! little; there credible sets of the *outputs* at the validation rows x are calibrated, of the linearised network:
//! (f̂(x) − f̂_b(x))ᵀ Cov_b(β)⁻¹ (f̂(x) − f̂_b(x)) ≤ χ²_outputs(1 − α), the share being over samples and rows.
//! Cost: a fit for each sample (some 40 with likelihood tempering), and for networks a search. Objective: coverage of credible sets.

use rayon::prelude::*;

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::over_beta::{OverBeta, first_enough, times_made};
use super::selector::{Goal, Selection, Selector};
use super::small_fit::{FeatureRows, Fit};
use super::small_model::SmallModel;
use crate::exact::Cholesky;
use crate::quantile::{Tail, chi_squared_quantile};

/// Samples of a network: each has as many sets as there are validation rows.
const NETWORK_SAMPLES: u32 = 40;

/// Calibration of credible sets of a small model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CredibleCoverageSelector {
    /// α: a credible set is to hold the estimate with probability 1 − α.
    pub miss: f64,
    /// Bootstrap samples; of a network at most 40, whose every sample has a set for each validation row.
    pub num_samples: u32,
    /// Names their rows.
    pub seed: u64,
}

impl Default for CredibleCoverageSelector {
    fn default() -> Self {
        Self { miss: 0.05, num_samples: 400, seed: 0 }
    }
}

impl Selector for CredibleCoverageSelector {
    fn name(&self) -> &'static str {
        "syring-martin"
    }

    fn goal(&self) -> Goal {
        Goal::CredibleCoverage
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let num_samples =
            |is_network| if is_network { self.num_samples.min(NETWORK_SAMPLES) } else { self.num_samples };
        let model = SmallModel::new(self.name(), laboratory, |size| {
            f64::from(num_samples(size.is_network) + 1) * times_made(size.tempering)
        })?;
        let samples: Vec<Vec<f64>> =
            (0..num_samples(model.validation.is_some())).map(|sample| model.resampled(self.seed, sample)).collect();
        let degrees = if model.validation.is_some() { model.loss.num_outputs() } else { model.num_parameters() };
        let border = chi_squared_quantile(degrees, Tail::Upper, self.miss);
        let mut distances = OverBeta::new(model.tempering, |weight| {
            let estimate = model.fit_all(weight)?.mode;
            let of_sample = |rows: &Vec<f64>| {
                let fit = model.fit(rows, weight, &estimate)?;
                Ok(match &model.validation {
                    None => vec![fit.squared_distance(&estimate)],
                    Some(validation) => output_distances(&fit, &estimate, validation),
                })
            };
            let found: Result<Vec<Vec<f64>>, SelectionError> = samples.par_iter().map(of_sample).collect();
            Ok(found?.concat())
        });
        let found = first_enough(|beta| {
            distances.at(beta, |distances, power| {
                let missed = distances.iter().filter(|distance| power * **distance > border).count();
                missed as f64 > self.miss * distances.len() as f64
            })
        })?;
        let beta = found.ok_or_else(|| model.nothing("no β gives its credible sets the coverage asked for"))?;
        Ok(model.selection(self.goal(), beta))
    }
}

/// Squared distances, row by row, between the outputs of an estimate and those of a fit, in the fit's own spread.
fn output_distances(fit: &Fit, estimate: &[f64], rows: &FeatureRows) -> Vec<f64> {
    let of_row = |row: usize| {
        let (mean, other) = (rows.outputs(row, &fit.mode), rows.outputs(row, estimate));
        let away: Vec<f64> = other.iter().zip(&mean).map(|(a, b)| a - b).collect();
        let spread = Cholesky::new(&fit.spread(rows.features(row)), away.len());
        spread.map_or(f64::INFINITY, |spread| spread.half_solve(&away).iter().map(|value| value * value).sum())
    };
    (0..rows.len()).map(of_row).collect()
}

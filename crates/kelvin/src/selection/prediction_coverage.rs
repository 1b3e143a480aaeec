//! Wu–Martin: prediction intervals should hold rows they have not seen as often as they say.
//!
//! ```text
//! β̂: share over bootstrap samples b and rows i outside b of { |y_i − x_iᵀθ̂_b| ≤ z_{1−α/2} s_b(x_i, β) } = 1 − α
//! s² = σ² + Var_β xᵀθ  (SM),   σ²/β + Var_β xᵀθ  (TM)
//! ```
//! (Wu and Martin, "Calibrating generalized predictive distributions", 2021; theirs is the SM, and θ's uncertainty must make up for
//! all that σ² lacks. Where σ² is already too wide no β is narrow enough.) With noise of variance τ² the TM has β̂ → σ²/τ²; the SM has
//! σ² lev/(τ² − σ²) where all rows have the leverage `lev`. It calibrates intervals at one level, not the whole density.
//! Cost: some 50 × `num_samples` fits; linear regressions alone. Objective: coverage of prediction intervals.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::linear_model::{LinearModel, chi_squared_quantile, first_enough};
use super::selector::{Cost, Goal, Selection, Selector};
use crate::predictive::PredictiveModel;

/// β beyond these ends is not looked at.
const ENDS: (f64, f64) = (1e-6, 1e6);

/// Calibration of prediction intervals of a linear regression.
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
        let model = LinearModel::new(self.name(), laboratory)?;
        let with_rest = |sample: u32| {
            let rows = model.resampled(self.seed, sample);
            let rest: Vec<usize> = model.all().into_iter().filter(|row| !rows.contains(row)).collect();
            (rows, rest)
        };
        let samples: Vec<(Vec<usize>, Vec<usize>)> = (0..self.num_samples).map(with_rest).collect();
        let border = chi_squared_quantile(1, 1.0 - self.miss);
        let mut num_fits = 0.0;
        let found = first_enough(ENDS, |beta| {
            let (mut missed, mut all) = (0.0, 0.0);
            for (rows, rest) in &samples {
                let fit = model.fit(rows, beta)?;
                for &row in rest {
                    let (input, target) = model.row(row);
                    let variance = model.noise_variance / self.model.power(beta) + fit.spread(input);
                    let square = (target - fit.prediction(input)).powi(2) / variance;
                    missed += f64::from(u8::from(square > border));
                    all += 1.0;
                }
                num_fits += 1.0;
            }
            Ok(missed > self.miss * all)
        })?;
        let beta = found.ok_or_else(|| {
            model.nothing(
                "no β gives its intervals the coverage asked for: model.noise_variance alone makes them too wide",
            )
        })?;
        let visits = num_fits * model.num_rows() as f64;
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

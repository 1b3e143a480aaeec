//! Syring–Martin: credible sets of the parameters should hold the estimate as often, over resampled data, as they say.
//!
//! ```text
//! β̂: share over bootstrap samples b of { (θ̂ − θ̂_b)ᵀ Cov_b(β)⁻¹ (θ̂ − θ̂_b) ≤ χ²_d(1 − α) } = 1 − α
//! ```
//! (Syring and Martin, Biometrika 2019.) They find β by stochastic approximation; here fits are exact and the share falls with β, so
//! halving does. With noise of variance τ² where the model says σ², β̂ → σ²/τ². It calibrates statements about parameters; those
//! about predictions, and their density, are another matter.
//! Cost: some 50 × `num_samples` fits; linear regressions alone. Objective: coverage of credible sets.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::linear_model::{LinearModel, TemperedFit, chi_squared_quantile, first_enough};
use super::selector::{Cost, Goal, Selection, Selector};

/// β beyond these ends is not looked at.
const ENDS: (f64, f64) = (1e-6, 1e6);

/// Calibration of credible sets of a linear regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CredibleCoverageSelector {
    /// α: a credible set is to hold the estimate with probability 1 − α.
    pub miss: f64,
    /// Bootstrap samples.
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
        let model = LinearModel::new(self.name(), laboratory)?;
        let samples: Vec<Vec<usize>> = (0..self.num_samples).map(|sample| model.resampled(self.seed, sample)).collect();
        let border = chi_squared_quantile(model.num_features, 1.0 - self.miss);
        let mut num_fits = 0.0;
        let found = first_enough(ENDS, |beta| {
            let estimate = model.fit(&model.all(), beta)?;
            let distances: Vec<f64> = samples
                .iter()
                .map(|rows| model.fit(rows, beta).map(|fit: TemperedFit| fit.squared_distance(estimate.mean())))
                .collect::<Result<_, _>>()?;
            num_fits += 1.0 + distances.len() as f64;
            let missed = distances.iter().filter(|distance| **distance > border).count();
            Ok(missed as f64 > self.miss * distances.len() as f64)
        })?;
        let beta = found.ok_or_else(|| model.nothing("no β gives its credible sets the coverage asked for"))?;
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

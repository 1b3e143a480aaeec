//! A linear regression inside a laboratory: the only model for which generalized-Bayes selectors are exact and cheap.
//!
//! They refit the posterior hundreds of times, or assume a regular model whose parameters are identified. Networks with hidden
//! layers fail both, so these methods refuse them rather than approximate.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use crate::data::Targets;
use crate::exact::LinearRegression;
use crate::likelihood::Likelihood;
use crate::network::Layer;
use crate::random::{NoiseKey, Purpose};
use crate::temperature::Tempering;

/// Beyond this a fit, cubic in the features, is no longer cheap.
const MOST_FEATURES: usize = 200;

/// The training rows of a linear network with a Gaussian likelihood; the bias is the weight of a feature that is always 1.
pub(super) struct LinearModel {
    method: &'static str,
    pub num_features: usize,
    pub noise_variance: f64,
    pub prior_variance: f64,
    tempering: Tempering,
    inputs: Vec<f64>,
    targets: Vec<f64>,
}

/// A posterior at one β.
pub(super) struct TemperedFit {
    regression: LinearRegression,
    /// β as the regression counts it.
    power: f64,
}

impl LinearModel {
    /// The laboratory's model, if it is one.
    pub fn new(method: &'static str, laboratory: &dyn Laboratory) -> Result<Self, SelectionError> {
        let refused = |reason: String| SelectionError::DoesNotSuit { method, reason: reason.into() };
        let posterior = laboratory.posterior();
        let Likelihood::Gaussian { noise_variance } = posterior.likelihood() else {
            return Err(refused("it is written for regressions, and the targets are classes; choose by LPD".into()));
        };
        let network = posterior.network();
        if !matches!(network.layers(), [Layer::Dense { .. }]) {
            return Err(refused(format!(
                "it needs a model whose parameters are identified and whose posterior can be refitted hundreds of times, and \
                 {} has hidden layers; use a linear model (model.layers = [{{ dense = {{ units = 1 }} }}]) or choose by LPD",
                network.describe()
            )));
        }
        let num_features = network.num_inputs() + 1;
        if num_features > MOST_FEATURES {
            return Err(refused(format!(
                "its fits would take {num_features} features, and it stops at {MOST_FEATURES}"
            )));
        }
        let prior_variance = posterior.prior().isotropic_variance().ok_or_else(|| {
            refused(
                "it needs the isotropic Gaussian prior (model.prior = \"gaussian\"), for which fits are exact".into(),
            )
        })?;
        let examples = posterior.examples();
        let Targets::Real(targets) = &examples.targets else {
            unreachable!("the posterior checked that likelihood and targets fit")
        };
        let numbers = examples.inputs.numbers();
        let row = |row: &[f32]| row.iter().map(|&x| f64::from(x)).chain([1.0]).collect::<Vec<f64>>();
        Ok(Self {
            method,
            num_features,
            noise_variance,
            prior_variance,
            tempering: laboratory.tempering(),
            inputs: numbers.chunks_exact(num_features - 1).flat_map(row).collect(),
            targets: targets.iter().map(|&target| f64::from(target)).collect(),
        })
    }

    pub fn num_rows(&self) -> usize {
        self.targets.len()
    }

    /// Input and target of a row.
    pub fn row(&self, row: usize) -> (&[f64], f64) {
        (&self.inputs[row * self.num_features..(row + 1) * self.num_features], self.targets[row])
    }

    pub fn rows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        (0..self.num_rows()).map(|row| self.row(row))
    }

    /// The posterior of some rows at β.
    pub fn fit(&self, rows: &[usize], inverse_temperature: f64) -> Result<TemperedFit, SelectionError> {
        let inputs: Vec<f64> = rows.iter().flat_map(|&row| self.row(row).0.to_vec()).collect();
        let targets: Vec<f64> = rows.iter().map(|&row| self.targets[row]).collect();
        // N(y|xᵀθ, σ²)^β alone, with the prior as it is, is a regression with noise σ²/β.
        let (noise_variance, power) = match self.tempering {
            Tempering::Posterior => (self.noise_variance, inverse_temperature),
            Tempering::Likelihood => (self.noise_variance / inverse_temperature, 1.0),
        };
        let regression =
            LinearRegression::new(&inputs, &targets, self.num_features, noise_variance, self.prior_variance)
                .map_err(|error| SelectionError::Laboratory(Box::new(error)))?;
        Ok(TemperedFit { regression, power })
    }

    /// All rows.
    pub fn all(&self) -> Vec<usize> {
        (0..self.num_rows()).collect()
    }

    /// Rows drawn with replacement, as many as there are.
    pub fn resampled(&self, seed: u64, sample: u32) -> Vec<usize> {
        let key = NoiseKey { seed, purpose: Purpose::Bootstrap, chain: sample, step: 0 };
        let count = self.num_rows();
        (0..count).map(|index| ((key.uniform(index as u32) * count as f64) as usize).min(count - 1)).collect()
    }

    /// An error for answers that are no numbers.
    pub fn nothing(&self, reason: &'static str) -> SelectionError {
        SelectionError::NothingFound { method: self.method, reason: reason.into() }
    }
}

impl TemperedFit {
    pub fn mean(&self) -> &[f64] {
        self.regression.mean()
    }

    /// xᵀ E θ.
    pub fn prediction(&self, input: &[f64]) -> f64 {
        input.iter().zip(self.mean()).map(|(x, theta)| x * theta).sum()
    }

    /// Var xᵀθ.
    pub fn spread(&self, input: &[f64]) -> f64 {
        self.regression.spread(input, self.power)
    }

    /// (θ − E θ)ᵀ Cov⁻¹ (θ − E θ).
    pub fn squared_distance(&self, parameters: &[f64]) -> f64 {
        let away: Vec<f64> = parameters.iter().zip(self.mean()).map(|(a, b)| a - b).collect();
        self.regression.squared_distance(&away, self.power)
    }
}

/// The β between the ends at which `is_enough` first holds, going from small to large, by halving in log β; none where it
/// holds nowhere or everywhere.
pub(super) fn first_enough(
    (low, high): (f64, f64),
    mut is_enough: impl FnMut(f64) -> Result<bool, SelectionError>,
) -> Result<Option<f64>, SelectionError> {
    if is_enough(low)? || !is_enough(high)? {
        return Ok(None);
    }
    let (mut low, mut high) = (low.ln(), high.ln());
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if is_enough(middle.exp())? { high = middle } else { low = middle }
    }
    Ok(Some((0.5 * (low + high)).exp()))
}

/// The quantile of χ² with so many degrees of freedom.
pub(super) fn chi_squared_quantile(degrees: usize, level: f64) -> f64 {
    let shape = 0.5 * degrees as f64;
    let below = |x: f64| statrs::function::gamma::gamma_lr(shape, 0.5 * x);
    let (mut low, mut high) = (0.0, 2.0 * degrees as f64 + 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if below(middle) < level { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_halving() {
        assert!((chi_squared_quantile(1, 0.95) - 3.841_458_820_694_124).abs() < 1e-9);
        assert!((chi_squared_quantile(4, 0.9) - 7.779_440_339_734_858).abs() < 1e-9);
        let found = first_enough((1e-3, 1e3), |beta| Ok(beta * beta >= 4.0)).unwrap().unwrap();
        assert!((found - 2.0).abs() < 1e-9);
        assert!(first_enough((1.0, 2.0), |_| Ok(true)).unwrap().is_none());
        assert!(first_enough((1.0, 2.0), |_| Ok(false)).unwrap().is_none());
    }
}

//! The theory as curves: the Gaussian toy against temperature, and the linear regression of Lemma 3.1 against β.

use super::gaussian_toy::GaussianToy;
use super::linear_regression::{LinearRegression, LinearRegressionError, Objective};
use crate::random::{NoiseKey, Purpose};

/// The toy at one temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToyPoint {
    /// T.
    pub temperature: f64,
    /// KL(truth ‖ SM-PD).
    pub kl_divergence: f64,
    /// W₂² of truth and SM-PD.
    pub squared_wasserstein: f64,
    /// E_truth log SM-PD.
    pub standard_lpd: f64,
    /// E_truth log TM-PD.
    pub tempered_lpd: f64,
}

/// A toy that shows one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToyCase {
    /// In a few words.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// The toy.
    pub toy: GaussianToy,
}

/// Truths as the model has them, noisier, and less noisy.
pub const TOY_CASES: [ToyCase; 3] = [
    ToyCase {
        name: "well specified",
        shows: "KL is least at a temperature other than 1, and W₂² the colder the better",
        toy: toy(1.0),
    },
    ToyCase { name: "noisier than believed", shows: "both are least well above T = 1", toy: toy(1.5) },
    ToyCase {
        name: "less noisy than believed",
        shows: "the formulas give T* ≤ 0: both are the better the colder",
        toy: toy(0.5),
    },
];

const fn toy(true_variance: f64) -> GaussianToy {
    GaussianToy { num_examples: 10, mean_of_examples: 0.3, model_variance: 1.0, prior_variance: 1.0, true_variance }
}

impl GaussianToy {
    /// The toy at each of these temperatures.
    pub fn curve(&self, temperatures: &[f64]) -> Vec<ToyPoint> {
        let at = |&temperature: &f64| ToyPoint {
            temperature,
            kl_divergence: self.kl_divergence(temperature),
            squared_wasserstein: self.squared_wasserstein(temperature),
            standard_lpd: self.standard_lpd(temperature),
            tempered_lpd: self.tempered_lpd(temperature),
        };
        temperatures.iter().map(at).collect()
    }
}

/// The linear regression at one β: means over test rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundPoint {
    /// β.
    pub inverse_temperature: f64,
    /// log SM-PD.
    pub standard_lpd: f64,
    /// log TM-PD.
    pub tempered_lpd: f64,
    /// Lemma 3.1's bound from below on the latter.
    pub lower_bound: f64,
}

/// A generated linear regression y = xᵀθ + noise with its test rows.
#[derive(Clone, Debug)]
pub struct BoundExample {
    /// The posterior of the training rows.
    pub regression: LinearRegression,
    test_inputs: Vec<f64>,
    test_targets: Vec<f64>,
}

/// What a regression is generated from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundSettings {
    /// Names the random numbers.
    pub seed: u64,
    /// Training rows; ten times as many are for testing.
    pub num_rows: usize,
    /// Features, standard normal, as are the weights.
    pub num_features: usize,
    /// Variance of the noise.
    pub true_variance: f64,
    /// What the model takes it for.
    pub model_variance: f64,
    /// Of the weights.
    pub prior_variance: f64,
}

impl Default for BoundSettings {
    fn default() -> Self {
        Self { seed: 0, num_rows: 30, num_features: 5, true_variance: 0.3, model_variance: 0.1, prior_variance: 1.0 }
    }
}

impl BoundExample {
    /// Generates rows and solves the regression.
    ///
    /// # Errors
    /// When a variance is not positive, or there are no features.
    pub fn new(settings: &BoundSettings) -> Result<Self, LinearRegressionError> {
        let BoundSettings { seed, num_rows, num_features, true_variance, model_variance, prior_variance } = *settings;
        let normals = |step: u64, count: usize| -> Vec<f64> {
            let mut numbers = vec![0.0; count];
            NoiseKey { seed, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut numbers);
            numbers.into_iter().map(f64::from).collect()
        };
        let weights = normals(0, num_features);
        let rows = |step: u64, count: usize| {
            let (inputs, noise) = (normals(step, count * num_features), normals(step + 1, count));
            let target = |(row, noise): (&[f64], &f64)| {
                row.iter().zip(&weights).map(|(x, weight)| x * weight).sum::<f64>() + true_variance.sqrt() * noise
            };
            let targets = inputs.chunks_exact(num_features.max(1)).zip(&noise).map(target).collect::<Vec<f64>>();
            (inputs, targets)
        };
        let (inputs, targets) = rows(1, num_rows);
        let (test_inputs, test_targets) = rows(3, 10 * num_rows);
        let regression = LinearRegression::new(&inputs, &targets, num_features, model_variance, prior_variance)?;
        Ok(Self { regression, test_inputs, test_targets })
    }

    /// Means over the test rows at each β.
    ///
    /// # Errors
    /// Never for one that was made by [`BoundExample::new`].
    pub fn curve(&self, inverse_temperatures: &[f64]) -> Result<Vec<BoundPoint>, LinearRegressionError> {
        let score =
            |objective, beta| self.regression.mean_log_density(objective, &self.test_inputs, &self.test_targets, beta);
        let at = |&beta: &f64| {
            Ok(BoundPoint {
                inverse_temperature: beta,
                standard_lpd: score(Objective::StandardModel, beta)?,
                tempered_lpd: score(Objective::TemperedModel, beta)?,
                lower_bound: score(Objective::LowerBound, beta)?,
            })
        };
        inverse_temperatures.iter().map(at).collect()
    }

    /// Where an objective is largest on the test rows, if inside (0, ∞).
    ///
    /// # Errors
    /// Never for one that was made by [`BoundExample::new`].
    pub fn best_inverse_temperature(&self, objective: Objective) -> Result<Option<f64>, LinearRegressionError> {
        self.regression.best_inverse_temperature(objective, &self.test_inputs, &self.test_targets)
    }
}

/// So many numbers from `low` to `high`, both included, each the same factor above the one before; all positive.
pub fn log_spaced(low: f64, high: f64, count: usize) -> Vec<f64> {
    let step = (high / low).ln() / count.saturating_sub(1).max(1) as f64;
    (0..count).map(|index| low * (step * index as f64).exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spaced_by_a_factor() {
        let numbers = log_spaced(0.01, 100.0, 5);
        for (found, expected) in numbers.iter().zip([0.01, 0.1, 1.0, 10.0, 100.0]) {
            assert!((found / expected - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn cases_show_what_they_say() {
        let temperatures = log_spaced(1e-3, 30.0, 400);
        let least = |points: &[ToyPoint], value: fn(&ToyPoint) -> f64| {
            points.iter().min_by(|a, b| value(a).total_cmp(&value(b))).unwrap().temperature
        };
        for (case, coldest) in TOY_CASES.iter().zip([[false, true], [false, false], [true, true]]) {
            let points = case.toy.curve(&temperatures);
            let values: [fn(&ToyPoint) -> f64; 2] = [|point| point.kl_divergence, |point| point.squared_wasserstein];
            let best = [case.toy.optimal_temperature_kl(), case.toy.optimal_temperature_wasserstein()];
            for ((value, best), coldest) in values.into_iter().zip(best).zip(coldest) {
                let found = least(&points, value);
                match best.interior() {
                    Some(temperature) => assert!((found / temperature).ln().abs() < 0.03, "{}: {found}", case.name),
                    None => assert_eq!(found, temperatures[0], "{}", case.name),
                }
                assert_eq!(best.interior().is_none(), coldest, "{}", case.name);
            }
        }
        let kl = TOY_CASES[0].toy.optimal_temperature_kl().interior().unwrap();
        assert!((kl - 9.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn the_bound_lies_below_and_leads_to_nearly_the_same_temperature() {
        let example = BoundExample::new(&BoundSettings::default()).unwrap();
        for point in example.curve(&log_spaced(0.01, 100.0, 30)).unwrap() {
            assert!(point.lower_bound < point.tempered_lpd);
        }
        let best = |objective| example.best_inverse_temperature(objective).unwrap().unwrap();
        let (tempered, bound) = (best(Objective::TemperedModel), best(Objective::LowerBound));
        assert!(bound < tempered && (tempered / bound).ln() < 0.5, "{tempered} {bound}");
        let bad = BoundSettings { model_variance: -1.0, ..BoundSettings::default() };
        assert!(BoundExample::new(&bad).is_err());
    }
}

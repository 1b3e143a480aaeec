//! The paper's Gaussian toy (Appendix A): the best temperature in closed form, and rarely 1.

use super::gaussian::Gaussian;

/// One truth, model, prior and summary of the data; see the methods for what follows from them.
///
/// Truth N(0, τ²), model N(μ, σ²), prior μ ~ N(0, σ_p²), n points of mean x̄. With precision λ = 1/σ_p² + n/σ²,
///
/// ```text
/// tempered posterior  N(n x̄ / (σ² λ), T/λ)
/// SM-PD               N(n x̄ / (σ² λ), T/λ + σ²)          TM-PD: T/λ + σ² T
/// T* of W₂²           (τ² − σ²) λ
/// T* of KL            (mean² + τ² − σ²) λ
/// ```
///
/// (Ng, van der Heide, Hodgkinson, Wei, UAI 2025; what the paper prints as W₂ is the squared distance.)
///
/// ```
/// use kelvin::exact::{GaussianToy, OptimalTemperature};
/// let toy = GaussianToy {
///     num_examples: 10,
///     mean_of_examples: 0.3,
///     model_variance: 1.0,
///     prior_variance: 1.0,
///     true_variance: 1.0,
/// };
/// // Even a well-specified model is best at a temperature other than 1.
/// assert!(matches!(toy.optimal_temperature_kl(), OptimalTemperature::Interior(t) if (t - 9.0 / 11.0).abs() < 1e-12));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianToy {
    /// n.
    pub num_examples: u64,
    /// x̄.
    pub mean_of_examples: f64,
    /// σ².
    pub model_variance: f64,
    /// σ_p².
    pub prior_variance: f64,
    /// τ².
    pub true_variance: f64,
}

/// Where a criterion is best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptimalTemperature {
    /// At this positive temperature.
    Interior(f64),
    /// Nowhere inside: colder is always better. The formula's value, ≤ 0, is kept.
    Cold {
        /// What the formula for T* gives.
        formula: f64,
    },
}

impl OptimalTemperature {
    fn from_formula(formula: f64) -> Self {
        if formula > 0.0 { Self::Interior(formula) } else { Self::Cold { formula } }
    }

    /// What the paper's formula for T* gives, positive or not.
    pub fn formula(&self) -> f64 {
        match *self {
            Self::Interior(formula) | Self::Cold { formula } => formula,
        }
    }

    /// The best temperature, if it is inside (0, ∞).
    pub fn interior(&self) -> Option<f64> {
        match *self {
            Self::Interior(temperature) => Some(temperature),
            Self::Cold { .. } => None,
        }
    }
}

impl GaussianToy {
    /// λ = 1/σ_p² + n/σ², the precision of the posterior at T = 1.
    fn precision(&self) -> f64 {
        1.0 / self.prior_variance + self.num_examples as f64 / self.model_variance
    }

    fn posterior_mean(&self) -> f64 {
        self.num_examples as f64 * self.mean_of_examples / self.model_variance / self.precision()
    }

    fn truth(&self) -> Gaussian {
        Gaussian { mean: 0.0, variance: self.true_variance }
    }

    /// The tempered posterior of μ: N(n x̄ / (σ² λ), T/λ).
    pub fn posterior(&self, temperature: f64) -> Gaussian {
        Gaussian { mean: self.posterior_mean(), variance: temperature / self.precision() }
    }

    /// The standard-model predictive, SM-PD: the posterior widened by σ².
    pub fn standard_predictive(&self, temperature: f64) -> Gaussian {
        let posterior = self.posterior(temperature);
        Gaussian { variance: posterior.variance + self.model_variance, ..posterior }
    }

    /// The tempered-model predictive, TM-PD: the posterior widened by σ² T.
    pub fn tempered_predictive(&self, temperature: f64) -> Gaussian {
        let posterior = self.posterior(temperature);
        Gaussian { variance: posterior.variance + self.model_variance * temperature, ..posterior }
    }

    /// KL(truth ‖ SM-PD).
    pub fn kl_divergence(&self, temperature: f64) -> f64 {
        self.truth().kl_divergence(&self.standard_predictive(temperature))
    }

    /// The squared 2-Wasserstein distance between truth and SM-PD.
    pub fn squared_wasserstein(&self, temperature: f64) -> f64 {
        self.truth().squared_wasserstein(&self.standard_predictive(temperature))
    }

    /// E_truth log SM-PD, the test LPD of the standard model.
    pub fn standard_lpd(&self, temperature: f64) -> f64 {
        self.standard_predictive(temperature).expected_log_density(&self.truth())
    }

    /// E_truth log TM-PD, the test LPD of the tempered model.
    pub fn tempered_lpd(&self, temperature: f64) -> f64 {
        self.tempered_predictive(temperature).expected_log_density(&self.truth())
    }

    /// Where [`squared_wasserstein`](Self::squared_wasserstein) is least: (τ² − σ²) λ.
    pub fn optimal_temperature_wasserstein(&self) -> OptimalTemperature {
        OptimalTemperature::from_formula((self.true_variance - self.model_variance) * self.precision())
    }

    /// Where [`kl_divergence`](Self::kl_divergence) is least and [`standard_lpd`](Self::standard_lpd) greatest:
    /// (mean² + τ² − σ²) λ.
    pub fn optimal_temperature_kl(&self) -> OptimalTemperature {
        let excess = self.posterior_mean().powi(2) + self.true_variance - self.model_variance;
        OptimalTemperature::from_formula(excess * self.precision())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL_SPECIFIED: GaussianToy = GaussianToy {
        num_examples: 10,
        mean_of_examples: 0.3,
        model_variance: 1.0,
        prior_variance: 1.0,
        true_variance: 1.0,
    };

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn agrees_with_the_reference() {
        let posterior = WELL_SPECIFIED.posterior(0.1);
        assert_near(posterior.mean, 0.2727272727272727);
        assert_near(posterior.variance, 0.009090909090909092);
        assert_near(WELL_SPECIFIED.tempered_predictive(0.1).variance, 0.1090909090909091);
        assert_near(WELL_SPECIFIED.kl_divergence(0.1), 0.0368754501104913);
        assert_near(WELL_SPECIFIED.squared_wasserstein(0.1), 0.07440073306216277);
        assert_near(WELL_SPECIFIED.standard_lpd(0.1), -1.455813983315164);
        assert_near(WELL_SPECIFIED.tempered_lpd(0.1), -4.735394099444889);
        let best = WELL_SPECIFIED.optimal_temperature_kl().interior().unwrap();
        assert_near(best, 0.8181818181818182);
        assert_near(WELL_SPECIFIED.kl_divergence(best), 0.03587195242942066);
    }

    #[test]
    fn an_interior_optimum_beats_its_neighbours() {
        let toy = GaussianToy { true_variance: 1.4, ..WELL_SPECIFIED };
        let kl = toy.optimal_temperature_kl().interior().unwrap();
        let wasserstein = toy.optimal_temperature_wasserstein().interior().unwrap();
        for factor in [0.9, 1.1] {
            assert!(toy.kl_divergence(kl) < toy.kl_divergence(factor * kl));
            assert!(toy.squared_wasserstein(wasserstein) < toy.squared_wasserstein(factor * wasserstein));
        }
    }

    #[test]
    fn without_an_interior_optimum_colder_is_better() {
        assert_eq!(WELL_SPECIFIED.optimal_temperature_wasserstein(), OptimalTemperature::Cold { formula: 0.0 });
        assert_eq!(WELL_SPECIFIED.optimal_temperature_wasserstein().interior(), None);
        let distances = [1.0, 0.1, 0.001, 0.0].map(|temperature| WELL_SPECIFIED.squared_wasserstein(temperature));
        assert!(distances.is_sorted_by(|hotter, colder| hotter > colder));
    }

    #[test]
    fn no_data_leaves_the_prior() {
        let empty = GaussianToy { num_examples: 0, prior_variance: 0.5, ..WELL_SPECIFIED };
        assert_eq!(empty.posterior(2.0), Gaussian { mean: 0.0, variance: 1.0 });
    }
}

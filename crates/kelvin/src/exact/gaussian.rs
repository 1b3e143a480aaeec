//! The normal distribution on the line: densities and distances in closed form.

use std::f64::consts::PI;

/// N(mean, variance).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaussian {
    /// The mean.
    pub mean: f64,
    /// The variance.
    pub variance: f64,
}

impl Gaussian {
    /// log N(x | mean, variance).
    ///
    /// ```
    /// let standard = kelvin::exact::Gaussian { mean: 0.0, variance: 1.0 };
    /// assert!((standard.log_density(0.0) + 0.918938533).abs() < 1e-9);
    /// ```
    pub fn log_density(&self, x: f64) -> f64 {
        -0.5 * (2.0 * PI * self.variance).ln() - (x - self.mean).powi(2) / (2.0 * self.variance)
    }

    /// E_{x ~ truth} log N(x | mean, variance): the test LPD of this prediction under an infinite test set.
    pub fn expected_log_density(&self, truth: &Self) -> f64 {
        self.log_density(truth.mean) - truth.variance / (2.0 * self.variance)
    }

    /// KL(self ‖ other) = ½ (v/v' − 1 − log v/v') + (m − m')² / (2v').
    pub fn kl_divergence(&self, other: &Self) -> f64 {
        let ratio = self.variance / other.variance;
        0.5 * (ratio - 1.0 - ratio.ln()) + (self.mean - other.mean).powi(2) / (2.0 * other.variance)
    }

    /// The squared 2-Wasserstein distance, (m − m')² + (√v − √v')².
    pub fn squared_wasserstein(&self, other: &Self) -> f64 {
        (self.mean - other.mean).powi(2) + (self.variance.sqrt() - other.variance.sqrt()).powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_vanish_at_home_and_match_the_entropy_elsewhere() {
        let a = Gaussian { mean: 0.3, variance: 2.0 };
        let b = Gaussian { mean: -0.5, variance: 0.7 };
        assert_eq!(a.kl_divergence(&a), 0.0);
        assert_eq!(a.squared_wasserstein(&a), 0.0);
        let difference = a.expected_log_density(&a) - b.expected_log_density(&a);
        assert!((a.kl_divergence(&b) - difference).abs() < 1e-14);
        assert_eq!(a.squared_wasserstein(&b), b.squared_wasserstein(&a));
    }
}

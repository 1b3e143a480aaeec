//! The distribution of a number given what the network says of its row; predictive distributions are mixtures of these.

use super::normal;
use crate::quantile::normal_quantile;

/// The distribution of a number, given the values of its row: a normal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberDistribution {
    mean: f64,
    variance: f64,
}

impl NumberDistribution {
    /// N(mean, variance).
    pub fn normal(mean: f64, variance: f64) -> Self {
        Self { mean, variance }
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Its variance.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// Its standard deviation.
    pub fn std(&self) -> f64 {
        self.variance.sqrt()
    }

    /// log p(y).
    pub fn log_density(&self, y: f64) -> f64 {
        normal::log_density(y - self.mean, self.variance)
    }

    /// The probability of less than y.
    pub fn cumulative(&self, y: f64) -> f64 {
        normal::cumulative((y - self.mean) / self.std())
    }

    /// The probability of more than y, as accurate in the upper tail as [`NumberDistribution::cumulative`] is in the lower.
    pub fn above(&self, y: f64) -> f64 {
        normal::cumulative((self.mean - y) / self.std())
    }

    /// The number so many standard deviations above the mean: a draw, where z is a standard normal one.
    pub fn at(&self, z: f64) -> f64 {
        self.mean + self.std() * z
    }

    /// z of the quantile p: [`NumberDistribution::at`] this is the number below which a share p lies.
    pub(crate) fn standard_quantile(p: f64) -> f64 {
        normal_quantile(p)
    }
}

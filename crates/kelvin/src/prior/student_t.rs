//! Student-t prior: −log p(θ) = (k+1)/2 log(1 + θ²/(k s²)) + const, with k degrees of freedom; far tails, unlike a Gaussian's.

use statrs::function::gamma::ln_gamma;

use super::{Prior, PriorError, positive};

/// Independent Student-t with k > 2 degrees of freedom and scale s for every parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudentT {
    degrees: f64,
    square_scale: f64,
    log_normaliser: f64,
}

impl StudentT {
    /// Of this variance, s² k/(k − 2).
    ///
    /// # Errors
    /// Where the variance is none, or there are not more than 2 degrees of freedom.
    pub fn new(variance: f64, degrees: f64) -> Result<Self, PriorError> {
        if !(degrees.is_finite() && degrees > 2.0) {
            return Err(PriorError::Degrees { found: degrees });
        }
        let square_scale = positive(variance)? * (degrees - 2.0) / degrees;
        let log_normaliser = ln_gamma(0.5 * (degrees + 1.0))
            - ln_gamma(0.5 * degrees)
            - 0.5 * (degrees * std::f64::consts::PI * square_scale).ln();
        Ok(Self { degrees, square_scale, log_normaliser })
    }
}

impl Prior for StudentT {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        let spread = self.degrees * self.square_scale;
        let tails: f64 = parameters.iter().map(|&theta| (f64::from(theta).powi(2) / spread).ln_1p()).sum();
        parameters.len() as f64 * self.log_normaliser - 0.5 * (self.degrees + 1.0) * tails
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        let (scale, spread) = (scale as f32, (self.degrees * self.square_scale) as f32);
        let factor = (self.degrees + 1.0) as f32;
        for (gradient, &theta) in gradient.iter_mut().zip(parameters) {
            *gradient = scale * *gradient + factor * theta / (spread + theta * theta);
        }
    }
}

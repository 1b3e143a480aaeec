//! What is believed of the parameters before the data.

use thiserror::Error;

use crate::vector::{scale_and_add, sum_of_squares};

/// A density over parameter vectors.
pub trait Prior: Send + Sync {
    /// log p(θ), constants included.
    fn log_density(&self, parameters: &[f32]) -> f64;

    /// gradient ← scale · gradient − ∇ log p(θ): the prior's share of the gradient of an energy.
    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]);

    /// The variance, where all parameters are independent N(0, variance): engines on other devices know this prior.
    fn isotropic_variance(&self) -> Option<f64> {
        None
    }
}

/// Why a prior cannot be made.
#[derive(Debug, Error, PartialEq)]
#[error("the prior variance must be a finite number > 0, got {found}")]
pub struct PriorError {
    /// What was given.
    pub found: f64,
}

/// Independent N(0, variance) for every parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IsotropicGaussian {
    variance: f64,
}

impl IsotropicGaussian {
    /// σ_p² is a variance.
    pub fn new(variance: f64) -> Result<Self, PriorError> {
        if variance.is_finite() && variance > 0.0 { Ok(Self { variance }) } else { Err(PriorError { found: variance }) }
    }
}

impl Prior for IsotropicGaussian {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        let constant = (std::f64::consts::TAU * self.variance).ln();
        -0.5 * (parameters.len() as f64 * constant + sum_of_squares(parameters) / self.variance)
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        scale_and_add(gradient, scale, 1.0 / self.variance, parameters);
    }

    fn isotropic_variance(&self) -> Option<f64> {
        Some(self.variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_is_that_of_the_density() {
        let prior = IsotropicGaussian::new(0.25).unwrap();
        let mut gradient = [1.0, 1.0];
        prior.add_energy_gradient(&[0.5, -0.25], 2.0, &mut gradient);
        assert_eq!(gradient, [4.0, 1.0]);
        let energy = |x: f32| -prior.log_density(&[x, -0.25]);
        let slope = (energy(0.5 + 1e-2) - energy(0.5 - 1e-2)) / 2e-2;
        assert!((slope - 2.0).abs() < 1e-4, "{slope}");
    }

    #[test]
    fn refuses_a_variance_that_is_none() {
        let error = IsotropicGaussian::new(-0.1).unwrap_err();
        assert_eq!(error.to_string(), "the prior variance must be a finite number > 0, got -0.1");
    }
}

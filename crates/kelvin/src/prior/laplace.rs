//! Laplace prior: −log p(θ) = |θ|/b + log 2b with variance 2b²; most parameters near 0, some far out.

use super::{Prior, PriorError, positive};

/// Independent Laplace(0, b) for every parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Laplace {
    scale: f64,
}

impl Laplace {
    /// Of this variance, 2b².
    ///
    /// # Errors
    /// Where it is none.
    pub fn new(variance: f64) -> Result<Self, PriorError> {
        Ok(Self { scale: (0.5 * positive(variance)?).sqrt() })
    }
}

impl Prior for Laplace {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        let sizes: f64 = parameters.iter().map(|&theta| f64::from(theta).abs()).sum();
        -sizes / self.scale - parameters.len() as f64 * (2.0 * self.scale).ln()
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        let (scale, slope) = (scale as f32, (1.0 / self.scale) as f32);
        for (gradient, &theta) in gradient.iter_mut().zip(parameters) {
            // At 0 itself neither side pulls.
            let pull = if theta == 0.0 { 0.0 } else { slope.copysign(theta) };
            *gradient = scale * *gradient + pull;
        }
    }
}

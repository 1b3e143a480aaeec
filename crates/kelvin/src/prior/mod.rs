//! What is believed of the parameters before the data.

mod free_norms;
mod laplace;
mod layerwise;
mod learned_scales;
mod student_t;

pub use free_norms::GaussianFreeNorms;
pub use laplace::Laplace;
pub use layerwise::LayerwiseGaussian;
pub use learned_scales::{LearnedScales, ScaleGroups};
pub use student_t::StudentT;

use std::ops::Range;

use thiserror::Error;

use crate::network::Layout;
use crate::vector::{scale_and_add, sum_of_squares};

/// A density over parameter vectors: those of a network, followed by the prior's own where it has some (such as its scales).
pub trait Prior: Send + Sync {
    /// log p(θ), constants included.
    fn log_density(&self, parameters: &[f32]) -> f64;

    /// gradient ← scale · gradient − ∇ log p(θ): the prior's share of the gradient of an energy.
    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]);

    /// The variance, where all parameters are independent N(0, variance): engines on other devices know this prior.
    fn isotropic_variance(&self) -> Option<f64> {
        None
    }

    /// The variance, where all parameters are independent N(0, variance) but for these ranges, of which it says nothing: engines for any network on other
    /// devices know this prior.
    fn gaussian_except(&self) -> Option<(f64, &[Range<usize>])> {
        self.isotropic_variance().map(|variance| (variance, &[][..]))
    }

    /// Adds its own parameters to the layout of the network's.
    fn add_tensors(&self, layout: &mut Layout) {
        let _ = layout;
    }

    /// Where its own parameters start.
    fn initial_parameters(&self) -> Vec<f32> {
        Vec::new()
    }
}

/// A prior behind a pointer is a prior.
impl<P: Prior + ?Sized> Prior for Box<P> {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        (**self).log_density(parameters)
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        (**self).add_energy_gradient(parameters, scale, gradient);
    }

    fn isotropic_variance(&self) -> Option<f64> {
        (**self).isotropic_variance()
    }

    fn gaussian_except(&self) -> Option<(f64, &[Range<usize>])> {
        (**self).gaussian_except()
    }

    fn add_tensors(&self, layout: &mut Layout) {
        (**self).add_tensors(layout);
    }

    fn initial_parameters(&self) -> Vec<f32> {
        (**self).initial_parameters()
    }
}

/// Why a prior cannot be made.
#[derive(Debug, Error, PartialEq)]
pub enum PriorError {
    /// A variance that is none.
    #[error("the prior variance must be a finite number > 0, got {found}")]
    Variance {
        /// What was given.
        found: f64,
    },
    /// Too few degrees of freedom for a variance.
    #[error("a Student-t prior needs more than 2 degrees of freedom to have a variance, got {found}")]
    Degrees {
        /// What was given.
        found: f64,
    },
}

/// `variance` if it is one.
fn positive(variance: f64) -> Result<f64, PriorError> {
    if variance.is_finite() && variance > 0.0 { Ok(variance) } else { Err(PriorError::Variance { found: variance }) }
}

/// Independent N(0, variance) for every parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IsotropicGaussian {
    variance: f64,
}

impl IsotropicGaussian {
    /// σ_p² is a variance.
    pub fn new(variance: f64) -> Result<Self, PriorError> {
        Ok(Self { variance: positive(variance)? })
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
    use crate::network::Network;

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
        assert!(Laplace::new(0.0).is_err() && StudentT::new(f64::NAN, 5.0).is_err());
        let error = StudentT::new(1.0, 2.0).unwrap_err();
        assert!(error.to_string().contains("more than 2 degrees of freedom"), "{error}");
    }

    fn all(layout: &Layout, variance: f64) -> Vec<Box<dyn Prior>> {
        vec![
            Box::new(IsotropicGaussian::new(variance).unwrap()),
            Box::new(LayerwiseGaussian::new(variance, layout).unwrap()),
            Box::new(Laplace::new(variance).unwrap()),
            Box::new(StudentT::new(variance, 4.5).unwrap()),
        ]
    }

    #[test]
    fn every_gradient_is_that_of_its_density() {
        let layout = Network::dense(3, &[2], 1).unwrap().layout();
        let position: Vec<f32> = (0..layout.len()).map(|i| ((i * 7 % 11) as f32 - 5.0) / 4.0 + 0.05).collect();
        for (which, prior) in all(&layout, 0.3).iter().enumerate() {
            let mut gradient = vec![0.5; layout.len()];
            prior.add_energy_gradient(&position, -2.0, &mut gradient);
            for index in 0..layout.len() {
                let at = |step: f32| {
                    let mut moved = position.clone();
                    moved[index] += step;
                    (-prior.log_density(&moved), f64::from(moved[index]))
                };
                let ((high, right), (low, left)) = (at(1e-3), at(-1e-3));
                let expected = -1.0 + (high - low) / (right - left);
                assert!((f64::from(gradient[index]) - expected).abs() < 1e-3, "prior {which}, {index}");
            }
        }
    }

    /// Densities integrate to 1 and have the variance they were asked for.
    #[test]
    fn every_density_is_normalised_and_has_its_variance() {
        let layout = Layout::flat(1);
        for (which, prior) in all(&layout, 0.3).iter().enumerate() {
            let (mut mass, mut variance) = (0.0, 0.0);
            // In t with θ = sinh t, so that far tails are seen too.
            for step in -20_000..20_000 {
                let t = (f64::from(step) + 0.5) * 1e-3;
                let (theta, width) = (t.sinh(), t.cosh() * 1e-3);
                let share = prior.log_density(&[theta as f32]).exp() * width;
                mass += share;
                variance += share * theta * theta;
            }
            assert!((mass - 1.0).abs() < 1e-4, "prior {which}: {mass}");
            assert!((variance / 0.3 - 1.0).abs() < 1e-3, "prior {which}: {variance}");
        }
    }

    #[test]
    fn kernels_are_scaled_by_what_they_take_in() {
        // 4-8-1: kernels 4 × 8 and 8 × 1; biases 8 and 1.
        let layout = Network::dense(4, &[8], 1).unwrap().layout();
        let prior = LayerwiseGaussian::new(0.8, &layout).unwrap();
        let mut gradient = vec![0.0; layout.len()];
        prior.add_energy_gradient(&vec![1.0; layout.len()], 1.0, &mut gradient);
        let of = |name: &str| {
            let tensor = layout.tensors().iter().find(|tensor| tensor.name.ends_with(name)).unwrap();
            gradient[tensor.range.start]
        };
        assert_eq!((of("1.kernel"), of("2.kernel"), of("1.bias")), (5.0, 10.0, 1.25));
        assert_eq!(prior.isotropic_variance(), None);
    }
}

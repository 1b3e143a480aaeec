//! Gaussian prior of all parameters but scales and offsets of norms, of which it says nothing.

use std::ops::Range;

use super::{IsotropicGaussian, Prior, PriorError};
use crate::network::{Layout, Role};
use crate::vector::scale_and_add;

/// Independent N(0, variance), except for scales and offsets of norms, whose density is flat (improper): Wenzel et al. (2020) have no
/// prior there.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianFreeNorms {
    gaussian: IsotropicGaussian,
    variance: f64,
    free: Vec<Range<usize>>,
}

impl GaussianFreeNorms {
    /// Of the parameters of this layout.
    ///
    /// # Errors
    /// Where the variance is none.
    pub fn new(variance: f64, layout: &Layout) -> Result<Self, PriorError> {
        let of_norms = layout.tensors().iter().filter(|tensor| matches!(tensor.role, Role::Scale | Role::Offset));
        let free = of_norms.map(|tensor| tensor.range.clone()).collect();
        Ok(Self { gaussian: IsotropicGaussian::new(variance)?, variance, free })
    }

    /// The ranges between those that are free, up to the last of `len` parameters.
    fn bound(&self, len: usize) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.free.iter().map(|free| free.end));
        let ends = self.free.iter().map(|free| free.start).chain(std::iter::once(len));
        starts.zip(ends).map(|(start, end)| start..end)
    }
}

impl Prior for GaussianFreeNorms {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        self.bound(parameters.len()).map(|range| self.gaussian.log_density(&parameters[range])).sum()
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        for range in self.bound(parameters.len()) {
            self.gaussian.add_energy_gradient(&parameters[range.clone()], scale, &mut gradient[range]);
        }
        for range in &self.free {
            scale_and_add(&mut gradient[range.clone()], scale, 0.0, &parameters[range.clone()]);
        }
    }

    fn gaussian_except(&self) -> Option<(f64, &[Range<usize>])> {
        Some((self.variance, &self.free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    /// Kernels and biases have the Gaussian's density and gradient, scales and offsets of batch norms none.
    #[test]
    fn norms_are_free_and_all_else_is_gaussian() {
        let layout = Network::resnet(8).unwrap().layout();
        let prior = GaussianFreeNorms::new(0.5, &layout).unwrap();
        let position: Vec<f32> = (0..layout.len()).map(|at| (at % 7) as f32 - 3.0).collect();
        let mut gradient = vec![1.0; layout.len()];
        prior.add_energy_gradient(&position, 2.0, &mut gradient);
        let (mut expected, mut num_free) = (0.0, 0);
        for tensor in layout.tensors() {
            let is_free = matches!(tensor.role, Role::Scale | Role::Offset);
            for at in tensor.range.clone() {
                assert_eq!(gradient[at], if is_free { 2.0 } else { 2.0 + 2.0 * position[at] }, "{}", tensor.name);
            }
            if is_free {
                num_free += tensor.range.len();
            } else {
                expected += IsotropicGaussian::new(0.5).unwrap().log_density(&position[tensor.range.clone()]);
            }
        }
        // Nine norms of 16 to 64 channels: 3·16 + 3·32 + 3·64 with the two of shortcuts, a scale and an offset each.
        assert_eq!(num_free, 2 * (3 * 16 + 3 * 32 + 3 * 64));
        assert!((prior.log_density(&position) - expected).abs() < 1e-9 * expected.abs());
        assert_eq!(prior.isotropic_variance(), None);
    }

    #[test]
    fn without_norms_it_is_the_gaussian() {
        let layout = Network::dense(3, &[2], 1).unwrap().layout();
        let (prior, gaussian) = (GaussianFreeNorms::new(0.3, &layout).unwrap(), IsotropicGaussian::new(0.3).unwrap());
        let position: Vec<f32> = (0..layout.len()).map(|at| at as f32 / 4.0).collect();
        let gradient = |prior: &dyn Prior| {
            let mut gradient = vec![0.5; layout.len()];
            prior.add_energy_gradient(&position, -2.0, &mut gradient);
            gradient
        };
        assert_eq!(gradient(&prior), gradient(&gaussian));
        assert_eq!(prior.log_density(&position), gaussian.log_density(&position));
        assert!(GaussianFreeNorms::new(0.0, &layout).is_err());
    }
}

//! Gaussian prior whose kernels have variance v / fan-in and whose other parameters have v: sums of inputs keep their size.

use super::{Prior, PriorError, positive};
use crate::network::{Layout, Role, Tensor};

/// Independent N(0, v/fan-in) for kernels and N(0, v) for all else.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerwiseGaussian {
    tensors: Vec<(std::ops::Range<usize>, f64)>,
}

impl LayerwiseGaussian {
    /// v is a variance.
    ///
    /// # Errors
    /// Where it is none.
    pub fn new(variance: f64, layout: &Layout) -> Result<Self, PriorError> {
        let variance = positive(variance)?;
        let of = |tensor: &Tensor| match tensor.role {
            Role::Kernel => variance / tensor.shape[..tensor.shape.len() - 1].iter().product::<usize>() as f64,
            _ => variance,
        };
        Ok(Self { tensors: layout.tensors().iter().map(|tensor| (tensor.range.clone(), of(tensor))).collect() })
    }
}

impl Prior for LayerwiseGaussian {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        let of_tensor = |(range, variance): &(std::ops::Range<usize>, f64)| {
            let squares: f64 = parameters[range.clone()].iter().map(|&theta| f64::from(theta).powi(2)).sum();
            -0.5 * (range.len() as f64 * (std::f64::consts::TAU * variance).ln() + squares / variance)
        };
        self.tensors.iter().map(of_tensor).sum()
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        for (range, variance) in &self.tensors {
            let (scale, precision) = (scale as f32, (1.0 / variance) as f32);
            for (gradient, &theta) in gradient[range.clone()].iter_mut().zip(&parameters[range.clone()]) {
                *gradient = scale * *gradient + precision * theta;
            }
        }
    }
}

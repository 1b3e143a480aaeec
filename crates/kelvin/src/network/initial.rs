//! Starting parameters: kernels from a truncated normal, scales one, everything else zero.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use super::{Network, Role};
use crate::random::{NoiseKey, Purpose};

/// Where the normal is cut off, in standard deviations.
const CUT: f64 = 2.0;
/// Standard deviation of a standard normal cut off at ±2.
const CUT_STD: f64 = 0.879_625_661_034_239_8;

/// The variance of starting kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelStart {
    /// 1/fan-in, Flax's default.
    #[default]
    Lecun,
    /// 2/fan-in, for deep ReLU networks.
    He,
}

impl KernelStart {
    fn gain(self) -> f64 {
        match self {
            Self::Lecun => 1.0,
            Self::He => 2.0,
        }
    }
}

impl Network {
    /// Statistics before the first batch: mean 0 and variance 1.
    pub fn initial_statistics(&self) -> Vec<f32> {
        let layout = self.statistics_layout();
        let mut statistics = vec![0.0; layout.len()];
        for tensor in layout.tensors().iter().filter(|tensor| tensor.role == Role::Variance) {
            statistics[tensor.range.clone()].fill(1.0);
        }
        statistics
    }

    /// The starting parameters named by seed and chain.
    pub fn initial_parameters(&self, seed: u64, chain: u32) -> Vec<f32> {
        let key = NoiseKey { seed, purpose: Purpose::InitialPosition, chain, step: 0 };
        let normal = Normal::standard();
        let (low, high) = (normal.cdf(-CUT), normal.cdf(CUT));
        let layout = self.layout();
        let mut parameters = vec![0.0; layout.len()];
        for tensor in layout.tensors().iter().filter(|tensor| tensor.role == Role::Scale) {
            parameters[tensor.range.clone()].fill(1.0);
        }
        for tensor in layout.tensors().iter().filter(|tensor| tensor.role == Role::Kernel) {
            let std = (self.start.gain() / tensor.fan_in() as f64).sqrt() / CUT_STD;
            for index in tensor.range.clone() {
                let quantile = low + (high - low) * key.uniform(index as u32);
                parameters[index] = (std * normal.inverse_cdf(quantile)) as f32;
            }
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_variance_one_over_fan_in_and_biases_are_zero() {
        let network = Network::dense(50, &[400], 1).unwrap();
        let parameters = network.initial_parameters(1, 0);
        let layout = network.layout();
        let kernel = &parameters[layout.tensors()[0].range.clone()];
        let variance = kernel.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>() / kernel.len() as f64;
        assert!((variance * 50.0 - 1.0).abs() < 0.03, "variance × fan-in = {}", variance * 50.0);
        let limit = CUT / CUT_STD / 50f64.sqrt();
        assert!(kernel.iter().all(|&w| f64::from(w).abs() <= limit * 1.000_001));
        assert!(parameters[layout.tensors()[1].range.clone()].iter().all(|&b| b == 0.0));
    }

    #[test]
    fn another_chain_starts_elsewhere() {
        let network = Network::dense(3, &[4], 1).unwrap();
        assert_ne!(network.initial_parameters(1, 0), network.initial_parameters(1, 1));
        assert_eq!(network.initial_parameters(1, 0), network.initial_parameters(1, 0));
    }
}

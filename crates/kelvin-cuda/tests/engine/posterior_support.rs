//! Posteriors with parameters that the likelihood does not know, so that these have the prior at the temperature; and z.

use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Role, Shape};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};

pub const PRIOR_VARIANCE: f64 = 0.5;

/// By how many standard errors the mean of independent values lies outside of an interval.
pub fn z(values: &[f64], [least, greatest]: [f64; 2]) -> f64 {
    assert!(values.len() >= 448, "too few averages for the false-alarm rate");
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean - mean.clamp(least, greatest)) / (variance / count).sqrt()
}

pub fn normals(len: usize, step: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    NoiseKey { seed: 8, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut values);
    values
}

/// A network with data, and its parameters on which the likelihood does not depend.
pub struct Unknowing {
    pub network: Network,
    pub examples: Examples,
    pub unknown: Vec<usize>,
    pub batch_size: Option<usize>,
    pub likelihood: Likelihood,
}

impl Unknowing {
    /// Biases of four convolutions, one of them in a projection shortcut: batch norm in training mode takes them away again.
    /// Channels are as many as the kernels of tensor cores want.
    pub fn batch_norm_biases(num_images: usize) -> Self {
        let conv = |filters, kernel, stride| Layer::Conv { filters, kernel, stride, groups: 1 };
        let body = vec![conv(32, 3, 2), Layer::BATCH_NORM, Layer::Relu, conv(32, 3, 1), Layer::BATCH_NORM];
        let layers = vec![
            conv(16, 3, 1),
            Layer::BATCH_NORM,
            Layer::Relu,
            Layer::Residual { body, shortcut: vec![conv(32, 1, 2), Layer::BATCH_NORM] },
            Layer::Relu,
            Layer::GlobalAvgPool,
            Layer::Dense { units: 2 },
        ];
        let network = Network::new(Shape::image(8, 8, 1), layers).unwrap();
        let inputs = normals(num_images * 64, 0);
        let labels = inputs.chunks_exact(64).map(|image| u32::from(image[18] + image[45] > 0.0)).collect();
        let layout = network.layout();
        let is_unknown = |role: Role, layer: &str| role == Role::Bias && layer.contains("conv");
        let tensors = layout.tensors().iter().filter(|tensor| is_unknown(tensor.role, tensor.layer()));
        let unknown: Vec<usize> = tensors.flat_map(|tensor| tensor.range.clone()).collect();
        assert_eq!(unknown.len(), 112);
        Self {
            network,
            examples: Examples { inputs: inputs.into(), num_features: 64, targets: Targets::Classes(labels) },
            unknown,
            batch_size: Some(16),
            likelihood: Likelihood::Categorical { num_classes: 2 },
        }
    }

    /// Weights of a table's last feature, which is always zero.
    pub fn weights_of_zeros() -> Self {
        const HIDDEN: usize = 16;
        let mut inputs = normals(24 * 4, 1);
        inputs.iter_mut().skip(3).step_by(4).for_each(|x| *x = 0.0);
        let targets = inputs.chunks_exact(4).map(|row| row[0] + (2.0 * row[1]).sin()).collect();
        Self {
            network: Network::dense(4, &[HIDDEN], 1).unwrap(),
            examples: Examples { inputs: inputs.into(), num_features: 4, targets: Targets::Real(targets) },
            unknown: (3 * HIDDEN..4 * HIDDEN).collect(),
            batch_size: None,
            likelihood: Likelihood::Gaussian { noise_variance: 10.0 },
        }
    }

    pub fn posterior(&self) -> Posterior {
        let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
        Posterior::new(&self.network, self.likelihood, prior, &self.examples).unwrap()
    }

    /// The gradient of what is unknown to the likelihood is the prior's.
    pub fn check_premise(&self) {
        let posterior = self.posterior();
        let position = normals(posterior.dim(), 9);
        let mut gradient = vec![0.0; posterior.dim()];
        posterior.evaluate(&position, Batch::ALL, &mut gradient, &mut posterior.workspace());
        for &index in &self.unknown {
            let of_prior = f64::from(position[index]) / PRIOR_VARIANCE;
            assert!((f64::from(gradient[index]) - of_prior).abs() < 1e-3, "parameter {index} is known");
        }
    }
}

//! Networks by name: dense, the paper's MNIST network, and the ResNets of CIFAR-10, narrow and wide.

use super::Network;
use super::error::NetworkError;
use super::initial::KernelStart;
use super::layers::{Activation, Layer, Shape};

/// What stands behind the convolutions of a ResNet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Normalisation {
    /// Batch norm, then ReLU.
    Batch {
        /// What a step leaves of the running statistics.
        momentum: f64,
        /// ε.
        epsilon: f64,
    },
    /// Filter response norm, then a learned threshold: outputs do not depend on the rest of the batch.
    FilterResponse {
        /// ε.
        epsilon: f64,
    },
}

impl Normalisation {
    /// Batch norm as in the paper.
    pub const BATCH: Self = Self::Batch { momentum: 0.99, epsilon: 1e-5 };
    /// Filter response norm as in its paper.
    pub const FILTER_RESPONSE: Self = Self::FilterResponse { epsilon: 1e-6 };

    fn norm(self) -> Layer {
        match self {
            Self::Batch { momentum, epsilon } => Layer::BatchNorm { momentum, epsilon },
            Self::FilterResponse { epsilon } => Layer::FilterResponseNorm { epsilon },
        }
    }

    fn activation(self) -> Layer {
        match self {
            Self::Batch { .. } => Layer::Relu,
            Self::FilterResponse { .. } => Layer::Threshold,
        }
    }
}

impl Network {
    /// A ReLU network with the given hidden widths.
    pub fn dense(num_inputs: usize, hidden: &[usize], num_outputs: usize) -> Result<Self, NetworkError> {
        Self::table(num_inputs, hidden, num_outputs, Activation::Relu, false)
    }

    /// A dense network with the given hidden widths and activation; with `skip` the inputs also reach the outputs by a dense layer of their
    /// own, so that what is linear in them needs no hidden units.
    pub fn table(
        num_inputs: usize,
        hidden: &[usize],
        num_outputs: usize,
        activation: Activation,
        skip: bool,
    ) -> Result<Self, NetworkError> {
        let mut layers = Vec::with_capacity(2 * hidden.len() + 1);
        for &units in hidden {
            layers.extend([Layer::Dense { units }, activation.layer()]);
        }
        let last = Layer::Dense { units: num_outputs };
        layers.push(last.clone());
        if skip {
            layers = vec![Layer::Residual { body: layers, shortcut: vec![last] }];
        }
        Self::new(Shape::flat(num_inputs), layers)
    }

    /// The paper's MNIST network: two convolutions with pooling, a hidden layer of 256 units, ten classes; 824,458
    /// parameters.
    ///
    /// # Panics
    /// Never: a test builds it.
    pub fn mnist_cnn() -> Self {
        Self::small_cnn(Shape::image(28, 28, 1), 10).expect("a network that a test builds")
    }

    /// The layers of [`Network::mnist_cnn`] for other images; sides must be multiples of 4.
    pub fn small_cnn(input: Shape, num_outputs: usize) -> Result<Self, NetworkError> {
        let conv = |filters| Layer::Conv { filters, kernel: 3, stride: 1, groups: 1 };
        let layers = vec![
            conv(32),
            Layer::Relu,
            Layer::AvgPool { size: 2 },
            conv(64),
            Layer::Relu,
            Layer::AvgPool { size: 2 },
            Layer::Dense { units: 256 },
            Layer::Relu,
            Layer::Dense { units: num_outputs },
        ];
        Self::new(input, layers)
    }

    /// ResNet (version 1) of 6n + 2 layers for CIFAR-10: `resnet(20)` has 273,258 parameters.
    pub fn resnet(depth: usize) -> Result<Self, NetworkError> {
        Self::resnet_for(Shape::image(32, 32, 3), depth, 10, Normalisation::BATCH)
    }

    /// The same for other images, classes and normalisation.
    pub fn resnet_for(
        input: Shape,
        depth: usize,
        num_outputs: usize,
        normalisation: Normalisation,
    ) -> Result<Self, NetworkError> {
        let num_blocks = depth.saturating_sub(2) / 6;
        if num_blocks == 0 || num_blocks * 6 + 2 != depth {
            return Err(NetworkError::ResnetDepth { found: depth });
        }
        let unit = |filters, kernel, stride| [Layer::Conv { filters, kernel, stride, groups: 1 }, normalisation.norm()];
        let mut layers = unit(16, 3, 1).to_vec();
        layers.push(normalisation.activation());
        for (stack, filters) in [16, 32, 64].into_iter().enumerate() {
            for block in 0..num_blocks {
                let shrinks = stack > 0 && block == 0;
                let stride = if shrinks { 2 } else { 1 };
                let mut body = unit(filters, 3, stride).to_vec();
                body.push(normalisation.activation());
                body.extend(unit(filters, 3, 1));
                let shortcut = if shrinks { unit(filters, 1, stride).to_vec() } else { Vec::new() };
                layers.extend([Layer::Residual { body, shortcut }, normalisation.activation()]);
            }
        }
        layers.extend([Layer::GlobalAvgPool, Layer::Dense { units: num_outputs }]);
        Ok(Self::new(input, layers)?.starting_from(KernelStart::He))
    }

    /// Wide ResNet of 6n + 4 layers, `width` times as wide as a ResNet (Zagoruyko and Komodakis 2016): norms and activations stand before
    /// convolutions, and where a block changes its image the shortcut reads what was normed, too. Convolutions have biases, as those of
    /// [`Network::resnet_for`]; there is no dropout.
    pub fn wide_resnet_for(
        input: Shape,
        depth: usize,
        width: usize,
        num_outputs: usize,
        normalisation: Normalisation,
    ) -> Result<Self, NetworkError> {
        let num_blocks = depth.saturating_sub(4) / 6;
        if num_blocks == 0 || num_blocks * 6 + 4 != depth || width == 0 {
            return Err(NetworkError::WideResnet { depth, width });
        }
        let conv = |filters, kernel, stride| Layer::Conv { filters, kernel, stride, groups: 1 };
        let before = [normalisation.norm(), normalisation.activation()];
        let mut layers = vec![conv(16, 3, 1)];
        let mut channels = 16;
        for (stack, narrow) in [16_usize, 32, 64].into_iter().enumerate() {
            let filters = narrow.saturating_mul(width);
            for block in 0..num_blocks {
                let stride = if stack > 0 && block == 0 { 2 } else { 1 };
                let (mut body, mut shortcut) = (Vec::new(), Vec::new());
                if channels == filters && stride == 1 {
                    body.extend(before.clone());
                } else {
                    layers.extend(before.clone());
                    shortcut.push(conv(filters, 1, stride));
                }
                body.push(conv(filters, 3, stride));
                body.extend(before.clone());
                body.push(conv(filters, 3, 1));
                layers.push(Layer::Residual { body, shortcut });
                channels = filters;
            }
        }
        layers.extend(before);
        layers.extend([Layer::GlobalAvgPool, Layer::Dense { units: num_outputs }]);
        Ok(Self::new(input, layers)?.starting_from(KernelStart::He))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_papers_parameters() {
        assert_eq!(Network::dense(8, &[64], 1).unwrap().layout().len(), 641);
        assert_eq!(Network::dense(14, &[64], 1).unwrap().layout().len(), 1025);
        let beside = Network::table(8, &[64], 1, Activation::Relu, true).unwrap();
        let names: Vec<String> = beside.layout().tensors().iter().map(|tensor| tensor.name.clone()).collect();
        assert_eq!((beside.layout().len(), names.len()), (641 + 9, 6));
        assert_eq!(names[4], "residual1.shortcut.dense1.kernel");
        assert_eq!(Network::mnist_cnn().layout().len(), 824_458);
        let resnet = Network::resnet(20).unwrap();
        assert_eq!(resnet.layout().len(), 273_258);
        assert_eq!(resnet.layout().tensors().len(), 86);
        assert_eq!(resnet.statistics_layout().len(), 1568, "mean and variance of each of 784 channels");
    }

    /// Their paper counts 36.5 and 8.9 million parameters; its convolutions have no biases.
    #[test]
    fn wide_resnets_are_those_of_their_authors() {
        let image = Shape::image(32, 32, 3);
        let build = |depth, width| Network::wide_resnet_for(image, depth, width, 10, Normalisation::BATCH);
        let without_biases = |network: &Network| {
            let layout = network.layout();
            let of_convolutions = |name: &str| name.contains("conv") && name.ends_with(".bias");
            layout
                .tensors()
                .iter()
                .filter(|tensor| !of_convolutions(&tensor.name))
                .map(|tensor| tensor.range.len())
                .sum()
        };
        let counts: [usize; 2] = [without_biases(&build(28, 10).unwrap()), without_biases(&build(40, 4).unwrap())];
        assert_eq!(counts, [36_479_194, 8_949_210]);
        for (depth, width) in [(4, 2), (20, 2), (28, 0)] {
            assert_eq!(build(depth, width), Err(NetworkError::WideResnet { depth, width }));
        }
        assert!(matches!(build(10, usize::MAX), Err(NetworkError::TooLarge { .. })));
    }

    #[test]
    fn other_depths_and_normalisations_are_built_or_refused() {
        assert!(Network::resnet(8).is_ok() && Network::resnet(110).is_ok());
        for depth in [0, 2, 7, 21] {
            assert_eq!(Network::resnet(depth), Err(NetworkError::ResnetDepth { found: depth }));
        }
        let small = Network::resnet_for(Shape::image(12, 12, 1), 8, 4, Normalisation::FILTER_RESPONSE).unwrap();
        assert!(small.statistics_layout().is_empty());
        assert_eq!(small.num_outputs(), 4);
    }
}

//! A network is data: a list of layers with a parameter layout; evaluators run it.

mod activation;
mod architectures;
mod dense;
mod dense_layer;
mod error;
mod evaluator;
mod images;
mod initial;
mod inputs;
mod kernels;
mod layers;
mod layout;
mod one_hidden;
mod pass;
mod products;
mod program;
mod skip;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use architectures::Normalisation;
pub use dense::DenseStack;
pub use error::NetworkError;
pub use evaluator::{Evaluator, Workspace};
pub use images::{ImageStack, Reference};
pub use initial::KernelStart;
pub use inputs::{PreparedInputs, Rows};
pub use layers::{Activation, Layer, Shape};
pub use layout::{Layout, Role, Tensor};
pub use pass::{Mode, OutputGradient, Weights};
pub use program::{BatchNorm, Convolution, Operation, Program, Value};

/// Layers in order, with what they take in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedNetwork", into = "UncheckedNetwork")]
pub struct Network {
    input: Shape,
    layers: Vec<Layer>,
    start: KernelStart,
    program: Arc<Program>,
}

/// A network as a file states it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedNetwork {
    input: Shape,
    layers: Vec<Layer>,
    #[serde(default)]
    start: KernelStart,
}

impl TryFrom<UncheckedNetwork> for Network {
    type Error = NetworkError;

    fn try_from(read: UncheckedNetwork) -> Result<Self, NetworkError> {
        Ok(Self::new(read.input, read.layers)?.starting_from(read.start))
    }
}

impl From<Network> for UncheckedNetwork {
    fn from(network: Network) -> Self {
        Self { input: network.input, layers: network.layers, start: network.start }
    }
}

impl Network {
    /// A network of the given layers.
    pub fn new(input: Shape, layers: Vec<Layer>) -> Result<Self, NetworkError> {
        let program = Arc::new(Program::new(input, &layers)?);
        Ok(Self { input, layers, start: KernelStart::default(), program })
    }

    /// The same with other starting kernels.
    pub fn starting_from(mut self, start: KernelStart) -> Self {
        self.start = start;
        self
    }

    /// What it takes in.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// Numbers in an input row.
    pub fn num_inputs(&self) -> usize {
        self.input.len()
    }

    /// Numbers in an output row.
    pub fn num_outputs(&self) -> usize {
        self.program.output().len()
    }

    /// The layers in order.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Where each tensor lies in the parameter vector, layer after layer.
    pub fn layout(&self) -> Layout {
        self.program.layout.clone()
    }

    /// Where the running mean and variance of each batch norm lie among the statistics.
    pub fn statistics_layout(&self) -> Layout {
        self.program.statistics.clone()
    }

    /// The network as a straight line of operations: what evaluators compile.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether what a row gives depends on the other rows of its batch.
    pub fn has_batch_norm(&self) -> bool {
        !self.program.norms.is_empty()
    }

    /// "8-64-1" for dense networks; else the input, each kind of layer with its count, and the outputs.
    pub fn describe(&self) -> String {
        let (layers, skip) = self.beside_skip();
        if layers.iter().all(|layer| matches!(layer, Layer::Dense { .. }) || layer.activation().is_some()) {
            let mut text = self.input.to_string();
            for layer in layers {
                if let Layer::Dense { units } = layer {
                    text.push_str(&format!("-{units}"));
                }
            }
            for by in Activation::ALL.into_iter().filter(|by| *by != Activation::Relu && layers.contains(&by.layer())) {
                text.push_str(&format!(" {}", by.name()));
            }
            if skip {
                text.push_str(" with a linear skip");
            }
            return text;
        }
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        count_kinds(&self.layers, &mut kinds);
        let parts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!("{} images, {}, {} outputs", self.input, parts.join(", "), self.num_outputs())
    }

    /// The layers, or those beside a linear skip connection around all of them, and whether there is such a skip.
    fn beside_skip(&self) -> (&[Layer], bool) {
        match &self.layers[..] {
            [Layer::Residual { body, shortcut }] if matches!(shortcut[..], [Layer::Dense { .. }]) => (body, true),
            layers => (layers, false),
        }
    }
}

/// Layers with parameters, by kind, those of residual layers included.
fn count_kinds<'a>(layers: &'a [Layer], kinds: &mut Vec<(&'a str, usize)>) {
    for layer in layers {
        match layer {
            Layer::Residual { body, shortcut } => {
                count_kinds(body, kinds);
                count_kinds(shortcut, kinds);
            }
            Layer::AvgPool { .. } | Layer::MaxPool { .. } | Layer::GlobalAvgPool => {}
            _ if layer.activation().is_some() => {}
            _ => match kinds.iter_mut().find(|(kind, _)| *kind == layer.kind()) {
                Some((_, count)) => *count += 1,
                None => kinds.push((layer.kind(), 1)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_say_what_they_are() {
        assert_eq!(Network::dense(14, &[64, 32], 3).unwrap().describe(), "14-64-32-3");
        let beside = Network::table(3, &[5], 2, Activation::Tanh, true).unwrap();
        assert_eq!(beside.describe(), "3-5-2 tanh with a linear skip");
        let resnet = Network::resnet(20).unwrap().describe();
        assert_eq!(resnet, "32×32×3 images, 21 conv, 21 batchnorm, 1 dense, 10 outputs");
    }

    #[test]
    fn multiply_adds_are_those_of_kernels() {
        assert_eq!(Network::dense(8, &[64], 1).unwrap().program().multiply_adds(), 8 * 64 + 64);
        let conv = Layer::Conv { filters: 5, kernel: 3, stride: 2, groups: 1 };
        let layers = vec![conv, Layer::Relu, Layer::Dense { units: 7 }];
        let network = Network::new(Shape::image(6, 8, 2), layers).unwrap();
        assert_eq!(network.program().multiply_adds(), 3 * 4 * (3 * 3 * 2 * 5) + 3 * 4 * 5 * 7);
    }

    #[test]
    fn refuses_what_computes_nothing() {
        assert!(matches!(Network::dense(0, &[4], 1), Err(NetworkError::Empty { inputs: 0, .. })));
        assert!(matches!(Network::dense(3, &[0], 1), Err(NetworkError::ZeroSize { .. })));
        assert!(matches!(Network::new(Shape::flat(3), vec![]), Err(NetworkError::Empty { .. })));
        let dense = Layer::Dense { units: 2 };
        let relu_last = Network::new(Shape::flat(3), vec![dense.clone(), Layer::Relu]);
        assert!(matches!(relu_last, Err(NetworkError::LastNotDense { .. })));
        let relu_first = Network::new(Shape::flat(3), vec![Layer::Relu, dense.clone()]);
        assert_eq!(relu_first, Err(NetworkError::MisplacedActivation { layer: "relu1".into() }));
        let conv = Layer::Conv { filters: 2, kernel: 3, stride: 1, groups: 1 };
        let late = Network::new(Shape::image(4, 4, 1), vec![dense.clone(), conv.clone(), dense.clone()]);
        assert_eq!(late, Err(NetworkError::NeedsImages { layer: "conv1".into(), found: Shape::flat(2) }));
        let pool = Network::new(Shape::image(5, 4, 1), vec![Layer::AvgPool { size: 2 }, dense.clone()]);
        assert!(matches!(pool, Err(NetworkError::PoolDoesNotDivide { size: 2, .. })));
        let wide = Network::new(
            Shape::image(4, 3, 1),
            vec![Layer::Conv { filters: 1, kernel: 10, stride: 1, groups: 1 }, dense.clone()],
        );
        assert!(matches!(wide, Err(NetworkError::Reach { what: "kernel", size: 10, most: 9, .. })));
        let error = |layers: Vec<Layer>| Network::new(Shape::image(4, 4, 6), layers).unwrap_err().to_string();
        let grouped = |filters, groups| Layer::Conv { filters, kernel: 3, stride: 1, groups };
        assert_eq!(
            error(vec![grouped(8, 4), dense.clone()]),
            "conv1: 4 groups do not divide 6 channels; choose a number that does"
        );
        assert!(error(vec![grouped(8, 3), dense.clone()]).contains("conv1: 3 groups do not divide 8 filters"));
        assert!(error(vec![grouped(8, 0), dense.clone()]).contains("conv1 has a size of 0"));
        let norm = Layer::GroupNorm { groups: 4, epsilon: 1e-5 };
        assert!(error(vec![norm, dense.clone()]).contains("groupnorm1: 4 groups do not divide 6 channels"));
        let norm = Layer::LayerNorm { epsilon: 0.0 };
        assert!(error(vec![norm, dense.clone()]).contains("layernorm1: epsilon must be a finite number > 0, got 0"));
        let pool = |size, stride| Layer::MaxPool { size, stride };
        assert!(error(vec![pool(10, None), dense.clone()]).contains("maxpool1: a size of 10 reaches beyond"));
        assert!(error(vec![pool(2, Some(0)), dense.clone()]).contains("maxpool1 has a size of 0"));
        assert!(error(vec![dense.clone(), Layer::LAYER_NORM, pool(2, None)]).contains("maxpool1 needs images"));
        assert!(error(vec![conv.clone(), Layer::Silu, Layer::Gelu]).contains("gelu1 has no layer to act on"));
        let residual = Layer::Residual { body: vec![conv], shortcut: vec![] };
        let sum = Network::new(Shape::image(4, 4, 1), vec![residual, dense]).unwrap_err().to_string();
        assert_eq!(sum, "residual1: its body gives 4×4×2 and its shortcut 4×4×1; they are added and must agree");
    }

    #[test]
    fn refuses_what_no_memory_holds() {
        let error = Network::dense(8, &[65_536, 65_536], 1).unwrap_err();
        assert!(matches!(error, NetworkError::TooLarge { .. }));
        assert!(error.to_string().contains("dense2") && error.to_string().contains("parameters"), "{error}");
        assert!(matches!(Network::dense(usize::MAX, &[2], 1), Err(NetworkError::TooLarge { .. })));
        assert!(matches!(Network::dense(1, &[usize::MAX; 2], 1), Err(NetworkError::TooLarge { .. })));
        let most = Network::dense(9_999, &[], 10_000).unwrap();
        assert_eq!(most.layout().len(), program::MOST_PARAMETERS);
        assert!(Network::dense(9_999, &[], 10_001).is_err());
    }

    #[test]
    fn a_network_that_is_read_is_checked_like_one_that_is_built() {
        let network = Network::dense(3, &[4], 2).unwrap();
        let text = serde_json::to_string(&network).unwrap();
        assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
        for (of, by) in [
            ("\"channels\":3", "\"channels\":0"),
            ("\"units\":4", "\"units\":0"),
            ("\"units\":2", "\"units\":999999999999"),
        ] {
            let damaged = text.replace(of, by);
            assert_ne!(damaged, text);
            assert!(serde_json::from_str::<Network>(&damaged).is_err(), "{damaged}");
        }
    }
}

//! A network is data: a list of layers with a parameter layout; two evaluators run it.

mod dense;
mod initial;
mod layer;
mod layout;
mod one_hidden;
mod products;

use aligned_vec::AVec;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use dense::DenseStack;
pub use layout::{Layout, Tensor};

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Layer {
    /// Every output is a weighted sum of every input, plus a bias.
    Dense {
        /// Outputs of the layer.
        units: usize,
    },
    /// max(x, 0).
    Relu,
}

/// Why a network cannot be built.
#[derive(Debug, Error, PartialEq)]
pub enum NetworkError {
    /// No inputs, no layers, or a layer without units.
    #[error(
        "a network needs at least one input, one layer and one unit in each: found {inputs} inputs, layers {layers:?}"
    )]
    Empty {
        /// Inputs asked for.
        inputs: usize,
        /// Layers asked for.
        layers: Vec<Layer>,
    },
    /// The last layer must give the outputs.
    #[error("the last layer must be dense, so that outputs can take any value; found {found:?}")]
    LastNotDense {
        /// What stands last.
        found: Layer,
    },
    /// Layers in an order that computes nothing.
    #[error("layer {position} is a ReLU that follows no dense layer; write the list as dense, relu, dense, …")]
    MisplacedRelu {
        /// Position from 0.
        position: usize,
    },
    /// More parameters than memory should hold.
    #[error(
        "a network of {inputs} inputs and dense layers of {units:?} units has more than {most} parameters; make the layers narrower (`model.hidden`)"
    )]
    TooLarge {
        /// Inputs asked for.
        inputs: usize,
        /// Units of its dense layers.
        units: Vec<usize>,
        /// How many parameters there may be.
        most: usize,
    },
}

/// The most parameters of a network: a chain holds several vectors of this length.
const MOST_PARAMETERS: usize = 100_000_000;

/// Layers in order, with what they take in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedNetwork")]
pub struct Network {
    num_inputs: usize,
    layers: Vec<Layer>,
}

/// A network as a file states it.
#[derive(Deserialize)]
struct UncheckedNetwork {
    num_inputs: usize,
    layers: Vec<Layer>,
}

impl TryFrom<UncheckedNetwork> for Network {
    type Error = NetworkError;

    fn try_from(read: UncheckedNetwork) -> Result<Self, NetworkError> {
        Self::new(read.num_inputs, read.layers)
    }
}

impl Network {
    /// A network of the given layers.
    pub fn new(num_inputs: usize, layers: Vec<Layer>) -> Result<Self, NetworkError> {
        let no_units = layers.contains(&Layer::Dense { units: 0 });
        let Some(&last) = layers.last().filter(|_| num_inputs > 0 && !no_units) else {
            return Err(NetworkError::Empty { inputs: num_inputs, layers });
        };
        if let Some(position) =
            (0..layers.len()).find(|&i| layers[i] == Layer::Relu && (i == 0 || layers[i - 1] == Layer::Relu))
        {
            return Err(NetworkError::MisplacedRelu { position });
        }
        if !matches!(last, Layer::Dense { .. }) {
            return Err(NetworkError::LastNotDense { found: last });
        }
        let network = Self { num_inputs, layers };
        if network.num_parameters().is_none_or(|count| count > MOST_PARAMETERS) {
            let units = network.dense_units().collect();
            return Err(NetworkError::TooLarge { inputs: num_inputs, units, most: MOST_PARAMETERS });
        }
        Ok(network)
    }

    fn dense_units(&self) -> impl Iterator<Item = usize> {
        self.layers.iter().filter_map(|layer| match layer {
            Layer::Dense { units } => Some(*units),
            Layer::Relu => None,
        })
    }

    /// Kernels and biases; `None` where the count overflows.
    fn num_parameters(&self) -> Option<usize> {
        let mut inputs = self.num_inputs;
        self.dense_units().try_fold(0_usize, |count, units| {
            let layer = inputs.checked_add(1)?.checked_mul(units)?;
            inputs = units;
            count.checked_add(layer)
        })
    }

    /// A ReLU network with the given hidden widths.
    pub fn dense(num_inputs: usize, hidden: &[usize], num_outputs: usize) -> Result<Self, NetworkError> {
        let mut layers = Vec::with_capacity(2 * hidden.len() + 1);
        for &units in hidden {
            layers.extend([Layer::Dense { units }, Layer::Relu]);
        }
        layers.push(Layer::Dense { units: num_outputs });
        Self::new(num_inputs, layers)
    }

    /// Numbers in an input row.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// Numbers in an output row.
    pub fn num_outputs(&self) -> usize {
        match self.layers.last() {
            Some(Layer::Dense { units }) => *units,
            _ => 0,
        }
    }

    /// The layers in order.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Where each tensor lies in the parameter vector: kernel, then bias, layer after layer.
    pub fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        let mut inputs = self.num_inputs;
        let mut number = 0;
        for layer in &self.layers {
            if let Layer::Dense { units } = *layer {
                number += 1;
                layout.push(format!("dense{number}.kernel"), &[inputs, units]);
                layout.push(format!("dense{number}.bias"), &[units]);
                inputs = units;
            }
        }
        layout
    }

    /// "8-64-1": inputs, hidden widths, outputs.
    pub fn describe(&self) -> String {
        let mut text = self.num_inputs.to_string();
        for units in self.dense_units() {
            text.push_str(&format!("-{units}"));
        }
        text
    }

    /// The evaluator to use: the fused one where it applies.
    pub fn evaluator(&self) -> Evaluator {
        match self.layers[..] {
            [Layer::Dense { units: hidden }, Layer::Relu, Layer::Dense { units: outputs }] => {
                Evaluator::OneHidden(one_hidden::OneHidden::new(self.num_inputs, hidden, outputs))
            }
            _ => self.general_evaluator(),
        }
    }

    /// The evaluator that serves every network.
    pub fn general_evaluator(&self) -> Evaluator {
        Evaluator::General(DenseStack::new(self))
    }
}

/// Receives a block of network outputs and replaces them by the gradient of what is to be summed over rows.
pub trait OutputGradient {
    /// `outputs` holds whole rows; the first of them is row `first_row` of this pass.
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]);
}

/// Which rows of the prepared inputs a pass visits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows<'a> {
    /// All, in order.
    All,
    /// These, in this order.
    These(&'a [u32]),
}

/// Inputs in the form an evaluator reads fastest.
#[derive(Clone, Debug)]
pub struct PreparedInputs {
    values: AVec<f32>,
    stride: usize,
    num_rows: usize,
}

impl PreparedInputs {
    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn count(&self, rows: Rows<'_>) -> usize {
        match rows {
            Rows::All => self.num_rows,
            Rows::These(list) => list.len(),
        }
    }

    /// Copies rows `first..first + count` of a pass to `to`, row after row.
    fn gather(&self, rows: Rows<'_>, first: usize, count: usize, to: &mut [f32]) {
        match rows {
            Rows::All => {
                let len = count * self.stride;
                to[..len].copy_from_slice(&self.values[first * self.stride..][..len]);
            }
            Rows::These(list) => {
                for (&row, to) in list[first..first + count].iter().zip(to.chunks_exact_mut(self.stride)) {
                    to.copy_from_slice(&self.values[row as usize * self.stride..][..self.stride]);
                }
            }
        }
    }
}

/// Runs a network forward and backward.
#[derive(Clone, Debug)]
pub enum Evaluator {
    /// One hidden layer, in one fused pass.
    OneHidden(one_hidden::OneHidden),
    /// Any dense network, layer by layer.
    General(DenseStack),
}

/// What an evaluator writes to on the way; one for each thread.
#[derive(Debug)]
pub enum Workspace {
    /// Of the fused evaluator.
    OneHidden(one_hidden::Workspace),
    /// Of the general evaluator.
    General(dense::Workspace<f32>),
}

const MISMATCH: &str = "a workspace belongs to the evaluator that made it";

impl Evaluator {
    /// Room for a pass over any number of rows.
    pub fn workspace(&self) -> Workspace {
        match self {
            Self::OneHidden(network) => Workspace::OneHidden(network.workspace()),
            Self::General(network) => Workspace::General(network.workspace()),
        }
    }

    /// Rearranges row-major inputs once, before many passes.
    pub fn prepare(&self, inputs: &[f32]) -> PreparedInputs {
        match self {
            Self::OneHidden(network) => network.prepare(inputs),
            Self::General(network) => network.prepare(inputs),
        }
    }

    /// Writes the outputs of the rows, row-major.
    pub fn outputs(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut Workspace,
    ) {
        match (self, work) {
            (Self::OneHidden(network), Workspace::OneHidden(work)) => {
                network.outputs(parameters, inputs, rows, outputs, work);
            }
            (Self::General(network), Workspace::General(work)) => {
                network.outputs(parameters, inputs, rows, outputs, work);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }

    /// Overwrites `gradient` with the sum over rows of ∂(what `head` differentiates)/∂parameters.
    pub fn gradient(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        head: &mut dyn OutputGradient,
        gradient: &mut [f32],
        work: &mut Workspace,
    ) {
        match (self, work) {
            (Self::OneHidden(network), Workspace::OneHidden(work)) => {
                network.gradient(parameters, inputs, rows, head, gradient, work);
            }
            (Self::General(network), Workspace::General(work)) => {
                network.gradient(parameters, inputs, rows, head, gradient, work);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }
}

/// The vector instructions that evaluators use on this machine, for provenance.
pub fn vector_instructions() -> String {
    format!("{:?}", pulp::Arch::new()).split('(').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_papers_parameters() {
        assert_eq!(Network::dense(8, &[64], 1).unwrap().layout().len(), 641);
        assert_eq!(Network::dense(14, &[64], 1).unwrap().layout().len(), 1025);
        assert_eq!(Network::dense(14, &[64, 32], 3).unwrap().describe(), "14-64-32-3");
    }

    #[test]
    fn refuses_what_computes_nothing() {
        assert!(matches!(Network::dense(0, &[4], 1), Err(NetworkError::Empty { inputs: 0, .. })));
        assert!(matches!(Network::dense(3, &[0], 1), Err(NetworkError::Empty { .. })));
        assert!(matches!(Network::new(3, vec![]), Err(NetworkError::Empty { .. })));
        let relu_last = Network::new(3, vec![Layer::Dense { units: 2 }, Layer::Relu]);
        assert!(matches!(relu_last, Err(NetworkError::LastNotDense { .. })));
        let relu_first = Network::new(3, vec![Layer::Relu, Layer::Dense { units: 2 }]);
        assert_eq!(relu_first, Err(NetworkError::MisplacedRelu { position: 0 }));
    }

    #[test]
    fn refuses_what_no_memory_holds() {
        let error = Network::dense(8, &[65_536, 65_536], 1).unwrap_err();
        assert!(matches!(error, NetworkError::TooLarge { inputs: 8, .. }));
        assert!(error.to_string().contains("8 inputs") && error.to_string().contains("[65536, 65536, 1]"), "{error}");
        assert!(matches!(Network::dense(usize::MAX, &[2], 1), Err(NetworkError::TooLarge { .. })));
        assert!(matches!(Network::dense(1, &[usize::MAX; 2], 1), Err(NetworkError::TooLarge { .. })));
        let most = Network::dense(9_999, &[], 10_000).unwrap();
        assert_eq!((most.num_parameters(), most.layout().len()), (Some(MOST_PARAMETERS), MOST_PARAMETERS));
        assert!(Network::dense(9_999, &[], 10_001).is_err());
    }

    #[test]
    fn a_network_that_is_read_is_checked_like_one_that_is_built() {
        let network = Network::dense(3, &[4], 2).unwrap();
        let text = serde_json::to_string(&network).unwrap();
        assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
        for (of, by) in [
            ("\"num_inputs\":3", "\"num_inputs\":0"),
            ("\"units\":4", "\"units\":0"),
            ("\"units\":2", "\"units\":999999999999"),
        ] {
            let damaged = text.replace(of, by);
            assert_ne!(damaged, text);
            assert!(serde_json::from_str::<Network>(&damaged).is_err(), "{damaged}");
        }
    }
}

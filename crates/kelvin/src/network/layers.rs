//! The layers a network is made of.

use serde::{Deserialize, Serialize};

pub use crate::data::Shape;

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Layer {
    /// Every output is a weighted sum of every input, plus a bias; images are flattened row by row, channels innermost.
    Dense {
        /// Outputs of the layer.
        units: usize,
    },
    /// A square kernel slid over the image, plus a bias; zero padding such that the output has ⌈size/stride⌉ pixels
    /// (TensorFlow's and Flax's SAME: of an odd padding the smaller half comes first).
    Conv {
        /// Channels of the output.
        filters: usize,
        /// Height and width of the kernel.
        kernel: usize,
        /// Pixels from one position of the kernel to the next.
        #[serde(default = "one")]
        stride: usize,
    },
    /// Subtracts mean and divides by √(variance + ε) of each channel over the batch, then scales and shifts.
    BatchNorm {
        /// The share of the running statistics that a step keeps.
        #[serde(default = "batch_norm_momentum")]
        momentum: f64,
        /// The number ε added to the variance.
        #[serde(default = "batch_norm_epsilon")]
        epsilon: f64,
    },
    /// Divides by √(mean square + ε) of each channel over the image, then scales and shifts: needs no batch
    /// (Singh and Krishnan 2020). [`Layer::Threshold`] should follow it.
    FilterResponseNorm {
        /// The number ε added to the mean square.
        #[serde(default = "filter_response_epsilon")]
        epsilon: f64,
    },
    /// max(x, τ) with a learned τ for each channel.
    Threshold,
    /// max(x, 0).
    Relu,
    /// tanh(x).
    Tanh,
    /// Means over squares of pixels that do not overlap.
    AvgPool {
        /// Height and width of a square.
        size: usize,
    },
    /// Means over all pixels.
    GlobalAvgPool,
    /// body(x) + shortcut(x); an empty shortcut is x itself.
    Residual {
        /// The layers of the body.
        body: Vec<Layer>,
        /// The layers of the shortcut.
        #[serde(default)]
        shortcut: Vec<Layer>,
    },
}

/// What stands between the dense layers of a table's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// tanh(x).
    Tanh,
}

impl Activation {
    /// The layer that does it.
    pub fn layer(self) -> Layer {
        match self {
            Self::Relu => Layer::Relu,
            Self::Tanh => Layer::Tanh,
        }
    }
}

impl Layer {
    /// What it does to each number, where it is such a layer.
    pub(super) fn activation(&self) -> Option<Activation> {
        match self {
            Self::Relu => Some(Activation::Relu),
            Self::Tanh => Some(Activation::Tanh),
            _ => None,
        }
    }

    /// Batch norm with the usual settings.
    pub const BATCH_NORM: Self = Self::BatchNorm { momentum: batch_norm_momentum(), epsilon: batch_norm_epsilon() };

    /// Filter response norm with the usual settings.
    pub const FILTER_RESPONSE_NORM: Self = Self::FilterResponseNorm { epsilon: filter_response_epsilon() };

    /// What it is called in names of tensors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Dense { .. } => "dense",
            Self::Conv { .. } => "conv",
            Self::BatchNorm { .. } => "batchnorm",
            Self::FilterResponseNorm { .. } => "frn",
            Self::Threshold => "threshold",
            Self::Relu => "relu",
            Self::Tanh => "tanh",
            Self::AvgPool { .. } => "avgpool",
            Self::GlobalAvgPool => "globalavgpool",
            Self::Residual { .. } => "residual",
        }
    }
}

const fn one() -> usize {
    1
}

const fn batch_norm_momentum() -> f64 {
    0.99
}

const fn batch_norm_epsilon() -> f64 {
    1e-5
}

const fn filter_response_epsilon() -> f64 {
    1e-6
}

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
        /// Channels and filters are cut into so many groups in order, and filters read the channels of their own group alone: as many groups as
        /// channels and filters make a depthwise convolution; 1 if not given.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        groups: usize,
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
    /// Subtracts mean and divides by √(variance + ε) of each image over its pixels and the channels of a group, then scales and shifts each
    /// channel: needs no batch (Wu and He 2018). One group takes all numbers of an image together, as many as there are channels make an
    /// instance norm.
    GroupNorm {
        /// Groups of channels, in order; they must divide the channels.
        groups: usize,
        /// The number ε added to the variance.
        #[serde(default = "layer_norm_epsilon")]
        epsilon: f64,
    },
    /// Subtracts mean and divides by √(variance + ε) of the channels of each pixel, or of all numbers of a row, then scales and shifts each channel
    /// (Ba, Kiros and Hinton 2016; of images as in Flax and ConvNeXt).
    LayerNorm {
        /// The number ε added to the variance.
        #[serde(default = "layer_norm_epsilon")]
        epsilon: f64,
    },
    /// max(x, 0).
    Relu,
    /// tanh(x).
    Tanh,
    /// x Φ(x), with Φ the distribution function of a standard normal: PyTorch's and Keras's default, not the approximation by tanh of Flax's.
    Gelu,
    /// x/(1 + exp(−x)), also known as swish.
    Silu,
    /// Means over squares of pixels that do not overlap.
    AvgPool {
        /// Height and width of a square.
        size: usize,
    },
    /// Maxima over squares of pixels; the output has ⌈size of the image/stride⌉ pixels, and squares lie as those of a convolution do: what is outside
    /// the image does not count.
    MaxPool {
        /// Height and width of a square.
        size: usize,
        /// Pixels from one square to the next; `size` if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<usize>,
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
    /// x Φ(x), with Φ the distribution function of a standard normal.
    Gelu,
    /// x/(1 + exp(−x)).
    Silu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Relu, Self::Tanh, Self::Gelu, Self::Silu];

    /// The layer that does it.
    pub fn layer(self) -> Layer {
        match self {
            Self::Relu => Layer::Relu,
            Self::Tanh => Layer::Tanh,
            Self::Gelu => Layer::Gelu,
            Self::Silu => Layer::Silu,
        }
    }

    /// What it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Tanh => "tanh",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
        }
    }
}

impl Layer {
    /// What it does to each number, where it is such a layer.
    pub(super) fn activation(&self) -> Option<Activation> {
        Activation::ALL.into_iter().find(|by| by.layer() == *self)
    }

    /// Batch norm with the usual settings.
    pub const BATCH_NORM: Self = Self::BatchNorm { momentum: batch_norm_momentum(), epsilon: batch_norm_epsilon() };

    /// Filter response norm with the usual settings.
    pub const FILTER_RESPONSE_NORM: Self = Self::FilterResponseNorm { epsilon: filter_response_epsilon() };

    /// Layer norm with the usual settings.
    pub const LAYER_NORM: Self = Self::LayerNorm { epsilon: layer_norm_epsilon() };

    /// What it is called in names of tensors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Dense { .. } => "dense",
            Self::Conv { .. } => "conv",
            Self::BatchNorm { .. } => "batchnorm",
            Self::FilterResponseNorm { .. } => "frn",
            Self::Threshold => "threshold",
            Self::GroupNorm { .. } => "groupnorm",
            Self::LayerNorm { .. } => "layernorm",
            Self::Relu => Activation::Relu.name(),
            Self::Tanh => Activation::Tanh.name(),
            Self::Gelu => Activation::Gelu.name(),
            Self::Silu => Activation::Silu.name(),
            Self::AvgPool { .. } => "avgpool",
            Self::MaxPool { .. } => "maxpool",
            Self::GlobalAvgPool => "globalavgpool",
            Self::Residual { .. } => "residual",
        }
    }
}

const fn one() -> usize {
    1
}

/// Whether a setting is the 1 that files may leave out.
fn is_one(setting: &usize) -> bool {
    *setting == 1
}

const fn batch_norm_momentum() -> f64 {
    0.99
}

const fn batch_norm_epsilon() -> f64 {
    1e-5
}

const fn layer_norm_epsilon() -> f64 {
    1e-5
}

const fn filter_response_epsilon() -> f64 {
    1e-6
}

//! Why a network cannot be built.

use thiserror::Error;

use super::layers::{Layer, Shape};

/// Why a network cannot be built.
#[derive(Debug, Error, PartialEq)]
pub enum NetworkError {
    /// No inputs or no layers.
    #[error("a network needs at least one input and one layer: found {inputs} inputs and {layers} layers")]
    Empty {
        /// Inputs asked for.
        inputs: usize,
        /// Layers asked for.
        layers: usize,
    },
    /// A size that must be at least 1.
    #[error("{layer} has a size of 0; units, filters, kernel, stride, groups and pool size must be at least 1")]
    ZeroSize {
        /// The layer's name.
        layer: String,
    },
    /// A kernel, pool or stride that reaches beyond every pixel.
    #[error("{layer}: a {what} of {size} reaches beyond an image of {found}; it can be at most {most}")]
    Reach {
        /// The layer's name.
        layer: String,
        /// "kernel", "size" or "stride".
        what: &'static str,
        /// Its size.
        size: usize,
        /// What reaches it.
        found: Shape,
        /// The largest that touches something.
        most: usize,
    },
    /// Groups that channels cannot be cut into.
    #[error("{layer}: {groups} groups do not divide {found} {what}; choose a number that does")]
    Groups {
        /// The layer's name.
        layer: String,
        /// How many groups were asked for.
        groups: usize,
        /// "channels" or "filters".
        what: &'static str,
        /// How many of them there are.
        found: usize,
    },
    /// A setting out of its range.
    #[error("{layer}: {setting} must be {range}, got {found}")]
    Setting {
        /// The layer's name.
        layer: String,
        /// Which setting.
        setting: &'static str,
        /// What it may be.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// The last layer must give the outputs.
    #[error(
        "the last layer must be dense, so that outputs can take any value, or a residual layer whose body and shortcut end so; found {found:?}"
    )]
    LastNotDense {
        /// What stands last.
        found: Layer,
    },
    /// Layers in an order that computes nothing.
    #[error("{layer} has no layer to act on: an activation stands first or behind another")]
    MisplacedActivation {
        /// The layer's name.
        layer: String,
    },
    /// A layer of images behind one that has flattened them.
    #[error("{layer} needs images, but what reaches it is a row of {found} numbers; put it before the dense layers")]
    NeedsImages {
        /// The layer's name.
        layer: String,
        /// What reaches it.
        found: Shape,
    },
    /// Squares that do not cover the image.
    #[error(
        "{layer}: squares of {size} pixels do not divide an image of {found}; choose a size that divides both sides"
    )]
    PoolDoesNotDivide {
        /// The layer's name.
        layer: String,
        /// The pool's size.
        size: usize,
        /// What reaches it.
        found: Shape,
    },
    /// Two ends of a residual layer.
    #[error("{layer}: its body gives {body} and its shortcut {shortcut}; they are added and must agree")]
    ResidualShape {
        /// The layer's name.
        layer: String,
        /// The body's end.
        body: Shape,
        /// The shortcut's end.
        shortcut: Shape,
    },
    /// A depth that no ResNet has.
    #[error("a ResNet of this family has 6n + 2 layers (8, 14, 20, 32, 44, 56, 110, …), got {found}")]
    ResnetDepth {
        /// What was asked.
        found: usize,
    },
    /// A depth or width that no wide ResNet has.
    #[error(
        "a wide ResNet of depth D and width K, as wide-resnet-28-10, has 6n + 4 layers (10, 16, 22, 28, 40, …) and a width of at least 1, got depth {depth} and width {width}"
    )]
    WideResnet {
        /// The depth that was asked.
        depth: usize,
        /// The width that was asked.
        width: usize,
    },
    /// More than memory should hold.
    #[error(
        "{layer} brings the network to more than {most} {what}; make layers narrower, or images smaller by strides and pools"
    )]
    TooLarge {
        /// The layer's name.
        layer: String,
        /// "parameters", or "activations of an image".
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
}

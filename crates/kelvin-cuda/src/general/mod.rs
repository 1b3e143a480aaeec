//! The engine of any network: groups of chains step together as one batch on the device.
//!
//! Chains of a *wave* live on the device; a *group* of them steps together, and the memory of its values serves the
//! next group as well; `lanes` keeps it. `plan` gives gradients their places; `lower`, `lower_norm`, `lower_conv`, `lower_dense`, `lower_depthwise`, `lower_layers`, `lower_image_norms` and
//! `lower_back` turn a program into launches. `conv_kernels` says which kernels a convolution is given, `dense_kernels` which a dense layer:
//! those that take whole tiles of images (`fast`) where `fast_plan` finds that shapes allow it, launched by `fast_lower`, else products of any
//! shape. `finishers` chooses which kernel finalises each norm.
//! `wave` records the launches of a step, `run` moves chains and `evaluate` looks at draws. The CPU's `network::images` is the
//! specification.

mod arguments;
mod block_size;
mod by_width;
mod compiled;
mod conv_defines;
mod conv_kernels;
mod conv_strided;
mod conv_tile;
mod conv_wide;
mod core;
mod data;
mod dense_kernels;
mod depthwise_kernels;
mod engine;
mod evaluate;
mod fast;
mod fast_back;
mod fast_lower;
mod fast_plan;
mod fast_shape;
mod finishers;
mod image_norms;
mod kernel_examples;
mod lanes;
mod layer_kernels;
mod lower;
mod lower_back;
mod lower_conv;
mod lower_dense;
mod lower_depthwise;
mod lower_image_norms;
mod lower_layers;
mod lower_norm;
mod masses;
mod memory;
mod parameter_blocks;
mod passes;
mod plan;
mod precision;
mod run;
mod slow_layers;
mod small_dense;
mod states;
mod steps;
mod wave;

pub use self::engine::{GeneralEngine, GeneralEngineError, Residence};
pub use self::kernel_examples::kernel_sources;
pub use self::precision::Precision;

//! What both forms of the fused evaluator share: its sizes, what a pass reads, and what it writes to on the way.

use std::any::Any;

use aligned_vec::{AVec, avec};
use pulp::Simd;

use super::super::inputs::{PaddedRows, Rows};
use super::super::pass::OutputGradient;

/// Rows in a block: what a block needs should stay in the nearest cache.
pub(super) const LARGE_BLOCK: usize = 64;
pub(super) const SMALL_BLOCK: usize = 32;
/// Hidden units and rows of inputs are padded to the widest vector.
pub(super) const WIDEST_VECTOR: usize = 16;
/// Inputs whose weights and sums fit the registers together.
pub(super) const WIDEST_TILE: usize = 9;

/// Blocks of inputs end with a spare row, so that each tile of columns can be cut into whole strides.
pub(super) const SPARE_ROW: usize = 1;

/// The fused evaluator of a network with one hidden layer: its sizes.
#[derive(Clone, Copy, Debug)]
pub struct OneHidden {
    pub(super) num_inputs: usize,
    pub(super) hidden: usize,
    pub(super) num_outputs: usize,
    pub(super) padded_hidden: usize,
    pub(super) tiles: usize,
    pub(super) tile_width: usize,
    pub(super) stride: usize,
}

/// Scratch of a pass.
#[derive(Debug)]
pub struct Workspace {
    /// Kernel of the hidden layer, one row an input, padded; with several outputs the bias is its last row.
    pub(super) weights: AVec<f32>,
    /// The weights of the outputs, one row an output, padded.
    pub(super) output_weights: AVec<f32>,
    /// Sums over rows, in the shape of `weights`.
    pub(super) sums: AVec<f32>,
    /// Inputs of a block.
    pub(super) inputs: AVec<f32>,
    /// Outputs of a block, not yet summed over the lanes.
    pub(super) lanes: AVec<f32>,
    /// Sixteen hidden units of a block: z while inputs take several tiles, or the gradient of z; then half a tile's part of it.
    pub(super) partial: AVec<f32>,
    pub(super) outputs: Vec<f32>,
    pub(super) own: Own,
}

/// What only one of the two forms needs.
#[derive(Debug)]
pub(super) enum Own {
    OneOutput(OneOutputScratch),
    SeveralOutputs(SeveralOutputsScratch),
}

/// What only the form with one output writes to on the way.
#[derive(Debug)]
pub(super) struct OneOutputScratch {
    /// −c, padded.
    pub(super) thresholds: AVec<f32>,
    /// C, padded.
    pub(super) bias_sums: AVec<f32>,
    /// e·x of a block.
    pub(super) scaled: AVec<f32>,
    /// Which units are on in a block, in the form that the schedule of this processor reads.
    pub(super) masks: Option<Box<dyn Any + Send>>,
}

impl OneOutputScratch {
    pub(super) fn new(network: &OneHidden) -> Self {
        Self {
            thresholds: avec![0.0; network.padded_hidden],
            bias_sums: avec![0.0; network.padded_hidden],
            scaled: avec![0.0; (LARGE_BLOCK + SPARE_ROW) * network.stride],
            masks: None,
        }
    }

    /// The masks of a schedule; made anew for the first pass, and where the vector instructions were changed since.
    pub(super) fn masks_as<M: Any + Send>(masks: &mut Option<Box<dyn Any + Send>>, make: impl Fn() -> M) -> &mut M {
        if !masks.as_ref().is_some_and(|masks| masks.is::<M>()) {
            *masks = Some(Box::new(make()));
        }
        masks.as_mut().and_then(|masks| masks.downcast_mut()).expect("masks of this kind were just made")
    }
}

/// What only the form with several outputs writes to on the way.
#[derive(Debug)]
pub(super) struct SeveralOutputsScratch {
    /// h of a block: for each vector of hidden units, its rows.
    pub(super) activations: AVec<f32>,
    /// ∂v, in the shape of the output weights.
    pub(super) output_sums: AVec<f32>,
    /// For each output, sixteen lanes with its bias in the first.
    pub(super) bias_lanes: AVec<f32>,
    /// ∂b, as sums over every [`WIDEST_VECTOR`]-th row.
    pub(super) bias_sums: Vec<f32>,
}

impl SeveralOutputsScratch {
    pub(super) fn new(network: &OneHidden) -> Self {
        Self {
            activations: avec![0.0; SMALL_BLOCK * network.padded_hidden],
            output_sums: avec![0.0; network.num_outputs * network.padded_hidden],
            bias_lanes: avec![0.0; network.num_outputs * WIDEST_VECTOR],
            bias_sums: vec![0.0; network.num_outputs * WIDEST_VECTOR],
        }
    }
}

/// What a pass reads and writes; the weights in `work` are set.
pub(super) struct Pass<'a, 'h> {
    pub(super) network: &'a OneHidden,
    pub(super) hidden_bias: &'a [f32],
    pub(super) output_bias: &'a [f32],
    pub(super) inputs: &'a PaddedRows,
    pub(super) rows: Rows<'a>,
    pub(super) head: &'h mut dyn OutputGradient,
    /// Left out where only outputs are wanted.
    pub(super) gradient: Option<&'a mut [f32]>,
    pub(super) work: &'a mut Workspace,
}

/// x·W for one row, one vector of hidden units and one tile of inputs.
#[inline(always)]
pub(super) fn weighted_sum<S: Simd, const J: usize>(simd: S, row: &[f32; J], weights: &[S::f32s; J]) -> S::f32s {
    // Two sums, so that a row does not wait for one long chain of multiply-adds.
    let half = J / 2;
    let mut sum = simd.mul_f32s(simd.splat_f32s(row[0]), weights[0]);
    let mut other = simd.mul_f32s(simd.splat_f32s(row[half]), weights[half]);
    for column in 1..half {
        sum = simd.mul_add_e_f32s(simd.splat_f32s(row[column]), weights[column], sum);
    }
    for column in half + 1..J {
        other = simd.mul_add_e_f32s(simd.splat_f32s(row[column]), weights[column], other);
    }
    simd.add_f32s(sum, other)
}

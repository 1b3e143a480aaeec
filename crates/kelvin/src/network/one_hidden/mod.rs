//! The fused evaluator of one hidden ReLU layer: sizes, padded weights, and the choice between one output and several.
//!
//! Both forms work on blocks of rows, one vector of hidden units at a time, with up to [`WIDEST_TILE`] inputs in
//! registers; wider inputs take several tiles. With several outputs the bias of the hidden layer is one more input that
//! is always 1; with one output it needs none.

mod blocks;
mod fused_rows;
mod one_output;
mod several_outputs;
mod split_rows;
#[cfg(test)]
mod tests;

use aligned_vec::{AVec, avec};
use pulp::Simd;

use super::OutputGradient;
use super::inputs::{PaddedRows, Rows};
use crate::vector::dispatch_vectors;
use one_output::OneOutput;
use several_outputs::SeveralOutputs;

/// Rows in a block: what a block needs should stay in the nearest cache.
const LARGE_BLOCK: usize = 64;
const SMALL_BLOCK: usize = 32;
/// Hidden units and rows of inputs are padded to the widest vector.
const WIDEST_VECTOR: usize = 16;
/// Inputs whose weights and sums fit the registers together.
const WIDEST_TILE: usize = 9;

/// Blocks of inputs end with a spare row, so that each tile of columns can be cut into whole strides.
const SPARE_ROW: usize = 1;

/// The network's sizes.
#[derive(Clone, Copy, Debug)]
pub struct OneHidden {
    num_inputs: usize,
    hidden: usize,
    num_outputs: usize,
    padded_hidden: usize,
    tiles: usize,
    tile_width: usize,
    stride: usize,
}

/// Scratch of a pass.
#[derive(Debug)]
pub struct Workspace {
    /// Kernel of the hidden layer, one row an input, padded; with several outputs the bias is its last row.
    weights: AVec<f32>,
    /// The weights of the outputs, one row an output, padded.
    output_weights: AVec<f32>,
    /// Sums over rows, in the shape of `weights`.
    sums: AVec<f32>,
    /// Inputs of a block.
    inputs: AVec<f32>,
    /// Outputs of a block, not yet summed over the lanes.
    lanes: AVec<f32>,
    /// Sixteen hidden units of a block: z while inputs take several tiles, or the gradient of z; then half a tile's part of it.
    partial: AVec<f32>,
    outputs: Vec<f32>,
    own: Own,
}

/// What only one of the two forms needs.
#[derive(Debug)]
enum Own {
    OneOutput(one_output::Scratch),
    SeveralOutputs(several_outputs::Scratch),
}

impl OneHidden {
    pub(super) fn new(num_inputs: usize, hidden: usize, num_outputs: usize) -> Self {
        let columns = num_inputs + usize::from(num_outputs > 1);
        let tiles = columns.div_ceil(WIDEST_TILE);
        let tile_width = match columns.div_ceil(tiles) {
            0..=3 => 3,
            4 | 5 => 5,
            6 | 7 => 7,
            wide => wide,
        };
        let stride = (tiles * tile_width).max(num_inputs + 1).next_multiple_of(WIDEST_VECTOR);
        let padded_hidden = hidden.next_multiple_of(WIDEST_VECTOR);
        Self { num_inputs, hidden, num_outputs, padded_hidden, tiles, tile_width, stride }
    }

    pub(super) fn workspace(&self) -> Workspace {
        let zeros = |len: usize| avec![0.0; len];
        let columns = self.tiles * self.tile_width;
        let own = if self.num_outputs == 1 {
            Own::OneOutput(one_output::Scratch::new(self))
        } else {
            Own::SeveralOutputs(several_outputs::Scratch::new(self))
        };
        Workspace {
            weights: zeros(columns * self.padded_hidden),
            output_weights: zeros(self.num_outputs * self.padded_hidden),
            sums: zeros(columns * self.padded_hidden),
            inputs: zeros((LARGE_BLOCK + SPARE_ROW) * self.stride),
            lanes: zeros(LARGE_BLOCK * self.num_outputs * WIDEST_VECTOR),
            partial: zeros(2 * LARGE_BLOCK * WIDEST_VECTOR),
            outputs: vec![0.0; LARGE_BLOCK * self.num_outputs],
            own,
        }
    }

    pub(super) fn prepare(&self, inputs: &[f32]) -> PaddedRows {
        let num_rows = inputs.len() / self.num_inputs;
        // Rows of zeros complete the last block, so that a pass over all rows reads its blocks in place.
        let mut values = avec![0.0; (num_rows.next_multiple_of(LARGE_BLOCK) + SPARE_ROW) * self.stride];
        for (row, to) in inputs.chunks_exact(self.num_inputs).zip(values.chunks_exact_mut(self.stride)) {
            to[..self.num_inputs].copy_from_slice(row);
            to[self.num_inputs] = 1.0;
        }
        PaddedRows { values, stride: self.stride, num_rows }
    }

    pub(super) fn outputs(
        &self,
        parameters: &[f32],
        inputs: &PaddedRows,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut Workspace,
    ) {
        let mut keep = KeepOutputs { outputs, num_outputs: self.num_outputs };
        self.pass(parameters, inputs, rows, &mut keep, None, work);
    }

    pub(super) fn gradient(
        &self,
        parameters: &[f32],
        inputs: &PaddedRows,
        rows: Rows<'_>,
        head: &mut dyn OutputGradient,
        gradient: &mut [f32],
        work: &mut Workspace,
    ) {
        self.pass(parameters, inputs, rows, head, Some(gradient), work);
    }

    fn pass(
        &self,
        parameters: &[f32],
        inputs: &PaddedRows,
        rows: Rows<'_>,
        head: &mut dyn OutputGradient,
        gradient: Option<&mut [f32]>,
        work: &mut Workspace,
    ) {
        let (first_layer, last_layer) = parameters.split_at((self.num_inputs + 1) * self.hidden);
        let weights = if self.num_outputs == 1 { &first_layer[..self.num_inputs * self.hidden] } else { first_layer };
        let from = weights.chunks_exact(self.hidden);
        for (from, to) in from.zip(work.weights.chunks_exact_mut(self.padded_hidden)) {
            to[..self.hidden].copy_from_slice(from);
        }
        let (kernel, output_bias) = last_layer.split_at(self.hidden * self.num_outputs);
        if self.num_outputs == 1 {
            work.output_weights[..self.hidden].copy_from_slice(kernel);
        } else {
            for (output, to) in work.output_weights.chunks_exact_mut(self.padded_hidden).enumerate() {
                for (to, from) in to.iter_mut().zip(kernel.chunks_exact(self.num_outputs)) {
                    *to = from[output];
                }
            }
        }
        let hidden_bias = &first_layer[self.num_inputs * self.hidden..];
        let pass = Pass { network: self, hidden_bias, output_bias, inputs, rows, head, gradient, work };
        if self.num_outputs == 1 {
            dispatch_vectors(OneOutput(pass));
        } else {
            dispatch_vectors(SeveralOutputs(pass));
        }
    }
}

/// Collects outputs and asks for no gradient.
struct KeepOutputs<'a> {
    outputs: &'a mut [f32],
    num_outputs: usize,
}

impl OutputGradient for KeepOutputs<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        self.outputs[first_row * self.num_outputs..][..outputs.len()].copy_from_slice(outputs);
    }
}

/// What a pass reads and writes; the weights in `work` are set.
struct Pass<'a, 'h> {
    network: &'a OneHidden,
    hidden_bias: &'a [f32],
    output_bias: &'a [f32],
    inputs: &'a PaddedRows,
    rows: Rows<'a>,
    head: &'h mut dyn OutputGradient,
    /// Left out where only outputs are wanted.
    gradient: Option<&'a mut [f32]>,
    work: &'a mut Workspace,
}

/// x·W for one row, one vector of hidden units and one tile of inputs.
#[inline(always)]
fn weighted_sum<S: Simd, const J: usize>(simd: S, row: &[f32; J], weights: &[S::f32s; J]) -> S::f32s {
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

//! The fused evaluator of one hidden ReLU layer: sizes, padded weights, and the choice between one output and several.
//!
//! Both forms work on blocks of rows, one vector of hidden units at a time, with up to [`workspace::WIDEST_TILE`] inputs in
//! registers; wider inputs take several tiles. With several outputs the bias of the hidden layer is one more input that
//! is always 1; with one output it needs none.

mod blocks;
mod fused_rows;
mod one_output;
mod several_outputs;
mod split_rows;
#[cfg(test)]
mod tests;
mod workspace;

use aligned_vec::avec;

use super::inputs::{PaddedRows, Rows};
use super::pass::OutputGradient;
use crate::vector::dispatch_vectors;
use one_output::OneOutput;
use several_outputs::SeveralOutputs;
use workspace::{
    LARGE_BLOCK, OneOutputScratch, Own, Pass, SPARE_ROW, SeveralOutputsScratch, WIDEST_TILE, WIDEST_VECTOR,
};
pub use workspace::{OneHidden, Workspace};

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
            Own::OneOutput(OneOutputScratch::new(self))
        } else {
            Own::SeveralOutputs(SeveralOutputsScratch::new(self))
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

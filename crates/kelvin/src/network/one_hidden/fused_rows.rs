//! The schedule of one output for vectors of sixteen: the backward pass of a block of rows shares a loop with the forward
//! pass of the next block, whose multiply-adds use other units of the processor. 32 registers hold what both need.

use pulp::Simd;

use super::blocks::{block_inputs, sum_lanes};
use super::one_output::scale_rows;
use super::workspace::{LARGE_BLOCK, OneOutputScratch, Own, Pass, weighted_sum};

impl Pass<'_, '_> {
    /// Runs all blocks forward and, where a gradient is wanted, backward; returns Σ e.
    #[inline(always)]
    pub(super) fn fused_rows<S: Simd, const J: usize>(
        &mut self,
        simd: S,
        count: usize,
        block_rows: usize,
        output_bias: f32,
    ) -> f32 {
        let Self { network, inputs, rows, head, gradient, work, .. } = self;
        let Own::OneOutput(OneOutputScratch { thresholds, bias_sums, scaled, masks }) = &mut work.own else {
            unreachable!("a workspace belongs to the network that made it");
        };
        let vectors = network.padded_hidden / S::F32_LANES;
        let zero = simd.splat_f32s(0.0);
        let off = simd.greater_than_f32s(zero, zero);
        let [new_masks, old_masks] = OneOutputScratch::masks_as::<[Vec<S::m32s>; 2]>(masks, || {
            std::array::from_fn(|_| vec![off; vectors * LARGE_BLOCK])
        });
        let (mut new_masks, mut old_masks) = (&mut new_masks[..], &mut old_masks[..]);
        let weights = S::as_simd_f32s(&work.weights).0;
        let output_weights = S::as_simd_f32s(&work.output_weights).0;
        let thresholds = S::as_simd_f32s(thresholds).0;
        let sums = S::as_mut_simd_f32s(&mut work.sums).0;
        let bias_sums = S::as_mut_simd_f32s(bias_sums).0;
        let partial = &mut S::as_mut_simd_f32s(&mut work.partial).0[..block_rows];
        let stride = network.stride;

        let mut bias_gradient = 0.0;
        let num_blocks = count.div_ceil(block_rows);
        let backward_too = gradient.is_some();
        for block in 0..num_blocks + usize::from(backward_too) {
            let forward = block < num_blocks;
            let backward = backward_too && block > 0;
            let first = block * block_rows;
            let num_rows = if forward { block_rows.min(count - first) } else { 0 };
            let block_inputs = if forward {
                block_inputs::<S>(inputs, *rows, first, num_rows, block_rows, &mut work.inputs)
            } else {
                &work.inputs[..]
            };
            let lanes = &mut S::as_mut_simd_f32s(&mut work.lanes).0[..block_rows];
            for vector in 0..vectors {
                let new_masks = &mut new_masks[vector * block_rows..][..block_rows];
                let old_masks = &old_masks[vector * block_rows..][..block_rows];
                for tile in 0..network.tiles {
                    let at = |column: usize| (tile * J + column) * vectors + vector;
                    let weights: [S::f32s; J] = std::array::from_fn(|column| weights[at(column)]);
                    let mut tile_sums: [S::f32s; J] = std::array::from_fn(|column| sums[at(column)]);
                    let mut rows = TileRows::<S, J> {
                        stride,
                        inputs: &block_inputs[tile * J..][..block_rows * stride],
                        scaled: &scaled[tile * J..][..block_rows * stride],
                        errors: &work.outputs[..block_rows],
                        weights: &weights,
                        threshold: thresholds[vector],
                        output_weight: output_weights[vector],
                        partial,
                        new_masks,
                        old_masks,
                        lanes,
                        sums: &mut tile_sums,
                        bias_sum: &mut bias_sums[vector],
                    };
                    let fresh = vector == 0;
                    match (tile == 0, tile + 1 == network.tiles) {
                        (true, true) => rows.run::<true, true>(simd, forward, backward, fresh),
                        (true, false) => rows.run::<true, false>(simd, forward, backward, fresh),
                        (false, true) => rows.run::<false, true>(simd, forward, backward, fresh),
                        (false, false) => rows.run::<false, false>(simd, forward, backward, fresh),
                    }
                    for column in 0..J {
                        sums[at(column)] = tile_sums[column];
                    }
                }
            }
            if forward {
                let outputs = &mut work.outputs[..block_rows];
                sum_lanes(&mut work.lanes[..block_rows * S::F32_LANES], output_bias, outputs);
                head.differentiate(first, &mut outputs[..num_rows]);
                if backward_too {
                    outputs[num_rows..].fill(0.0);
                    bias_gradient += scale_rows(simd, stride, block_inputs, outputs, scaled);
                    std::mem::swap(&mut new_masks, &mut old_masks);
                }
            }
        }
        bias_gradient
    }
}

/// One vector of hidden units against one tile of inputs, over the rows of a block.
struct TileRows<'a, S: Simd, const J: usize> {
    stride: usize,
    inputs: &'a [f32],
    scaled: &'a [f32],
    /// e of the block before.
    errors: &'a [f32],
    weights: &'a [S::f32s; J],
    threshold: S::f32s,
    output_weight: S::f32s,
    partial: &'a mut [S::f32s],
    new_masks: &'a mut [S::m32s],
    old_masks: &'a [S::m32s],
    lanes: &'a mut [S::f32s],
    sums: &'a mut [S::f32s; J],
    bias_sum: &'a mut S::f32s,
}

impl<S: Simd, const J: usize> TileRows<'_, S, J> {
    /// `fresh` starts the lanes of the outputs anew.
    #[inline(always)]
    fn run<const FIRST: bool, const LAST: bool>(&mut self, simd: S, forward: bool, backward: bool, fresh: bool) {
        match (forward, backward, fresh && LAST) {
            (true, true, true) => self.rows::<FIRST, LAST, true, true, true>(simd),
            (true, true, false) => self.rows::<FIRST, LAST, true, true, false>(simd),
            (true, false, true) => self.rows::<FIRST, LAST, true, false, true>(simd),
            (true, false, false) => self.rows::<FIRST, LAST, true, false, false>(simd),
            (false, true, _) => self.rows::<FIRST, LAST, false, true, false>(simd),
            (false, false, _) => {}
        }
    }

    #[inline(always)]
    fn rows<const FIRST: bool, const LAST: bool, const FORWARD: bool, const BACKWARD: bool, const FRESH: bool>(
        &mut self,
        simd: S,
    ) {
        let mut sums = *self.sums;
        let mut bias_sum = *self.bias_sum;
        let rows = self.inputs.chunks_exact(self.stride).zip(self.scaled.chunks_exact(self.stride)).zip(self.errors);
        let masks = self.new_masks.iter_mut().zip(self.old_masks);
        let state = self.lanes.iter_mut().zip(self.partial.iter_mut());
        for ((((row, scaled_row), error), (new_mask, old_mask)), (lanes, partial)) in rows.zip(masks).zip(state) {
            let (Some(row), Some(scaled_row)) = (row.first_chunk::<J>(), scaled_row.first_chunk::<J>()) else { break };
            if FORWARD {
                let mut z = weighted_sum(simd, row, self.weights);
                if !FIRST {
                    z = simd.add_f32s(z, *partial);
                }
                if LAST {
                    *new_mask = simd.greater_than_f32s(z, self.threshold);
                    let active = simd.max_f32s(z, self.threshold);
                    *lanes = if FRESH {
                        simd.mul_f32s(active, self.output_weight)
                    } else {
                        simd.mul_add_e_f32s(active, self.output_weight, *lanes)
                    };
                } else {
                    *partial = z;
                }
            }
            if BACKWARD {
                let add = |sum, value| simd.select_f32s(*old_mask, simd.add_f32s(sum, simd.splat_f32s(value)), sum);
                for column in 0..J {
                    sums[column] = add(sums[column], scaled_row[column]);
                }
                if FIRST {
                    // Read here, not with the row: next to its use it costs no instruction of its own.
                    bias_sum = add(bias_sum, *error);
                }
            }
        }
        *self.sums = sums;
        *self.bias_sum = bias_sum;
    }
}

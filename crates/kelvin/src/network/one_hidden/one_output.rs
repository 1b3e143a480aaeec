//! One output: the hot path of tables.
//!
//! z = x·W, μ = Σ_k max(z_k, 0) v_k + b. Given the gradient e of a row's output, the gradients are sums of e·x over
//! the rows where unit k is on:
//! ```text
//! G_jk = Σ_rows [z_k > 0] e x_j      ∂W_jk = v_k G_jk      ∂v_k = Σ_j W_jk G_jk      ∂b = Σ_rows e
//! ```
//! So the backward pass needs one bit for each row and unit, and only masked additions: it shares a loop with the
//! forward pass of the next block of rows, whose multiply-adds use other units of the processor.

use pulp::{Simd, WithSimd};

use super::blocks::{block_inputs, sum_lanes};
use super::{INPUT_STEP, LARGE_BLOCK, OneHidden, Own, Pass, SMALL_BLOCK, WIDEST_TILE, WIDEST_VECTOR, weighted_sum};

/// Passes of up to this many rows take small blocks: two blocks are in flight, and the last has no partner.
const SHORT_PASS: usize = 256;

pub(super) struct OneOutput<'a, 'h>(pub Pass<'a, 'h>);

impl WithSimd for OneOutput<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.0.network.tile_width {
            3 => self.run::<S, 3>(simd),
            5 => self.run::<S, 5>(simd),
            7 => self.run::<S, 7>(simd),
            8 => self.run::<S, 8>(simd),
            _ => self.run::<S, WIDEST_TILE>(simd),
        }
    }
}

impl OneOutput<'_, '_> {
    #[inline(always)]
    fn run<S: Simd, const J: usize>(self, simd: S) {
        let Pass { network, output_bias, inputs, rows, head, gradient, work } = self.0;
        let Own::OneOutput { scaled, masks } = &mut work.own else {
            unreachable!("a workspace belongs to the network that made it");
        };
        let count = inputs.count(rows);
        let block_rows = if count <= SHORT_PASS { SMALL_BLOCK } else { LARGE_BLOCK };
        let vectors = network.padded_hidden / S::F32_LANES;
        let zero = simd.splat_f32s(0.0);
        let off = simd.greater_than_f32s(zero, zero);

        let masks = masks.get_or_insert_with(|| {
            let masks: [Vec<S::m32s>; 2] = std::array::from_fn(|_| vec![off; vectors * LARGE_BLOCK]);
            Box::new(masks)
        });
        let Some([new_masks, old_masks]) = masks.downcast_mut::<[Vec<S::m32s>; 2]>() else {
            unreachable!("the vector width of a processor does not change");
        };
        let (mut new_masks, mut old_masks) = (&mut new_masks[..], &mut old_masks[..]);
        let weights = S::as_simd_f32s(&work.weights).0;
        let output_weights = S::as_simd_f32s(&work.output_weights).0;
        let sums = S::as_mut_simd_f32s(&mut work.sums).0;
        let partial = &mut S::as_mut_simd_f32s(&mut work.partial).0[..block_rows];
        let stride = network.stride;

        sums.fill(zero);
        let mut bias_gradient = 0.0;
        let num_blocks = count.div_ceil(block_rows);
        let backward_too = gradient.is_some();
        for block in 0..num_blocks + usize::from(backward_too) {
            let forward = block < num_blocks;
            let backward = backward_too && block > 0;
            let first = block * block_rows;
            let num_rows = if forward { block_rows.min(count - first) } else { 0 };
            let block_inputs = if forward {
                block_inputs(inputs, rows, first, num_rows, block_rows, &mut work.inputs)
            } else {
                &work.inputs[..]
            };
            if forward {
                work.lanes[..block_rows * S::F32_LANES].fill(0.0);
            }
            let lanes = &mut S::as_mut_simd_f32s(&mut work.lanes).0[..block_rows];
            for vector in 0..vectors {
                let output_weight = output_weights[vector];
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
                        weights: &weights,
                        output_weight,
                        partial,
                        new_masks,
                        old_masks,
                        lanes,
                        sums: &mut tile_sums,
                    };
                    match (tile == 0, tile + 1 == network.tiles) {
                        (true, true) => rows.run::<true, true>(simd, forward, backward),
                        (true, false) => rows.run::<true, false>(simd, forward, backward),
                        (false, true) => rows.run::<false, true>(simd, forward, backward),
                        (false, false) => rows.run::<false, false>(simd, forward, backward),
                    }
                    for column in 0..J {
                        sums[at(column)] = tile_sums[column];
                    }
                }
            }
            if forward {
                let outputs = &mut work.outputs[..block_rows];
                sum_lanes::<S>(&mut work.lanes[..block_rows * S::F32_LANES], output_bias[0], outputs);
                head.differentiate(first, &mut outputs[..num_rows]);
                if backward_too {
                    outputs[num_rows..].fill(0.0);
                    bias_gradient += scale_rows(stride, block_inputs, outputs, scaled);
                    std::mem::swap(&mut new_masks, &mut old_masks);
                }
            }
        }

        if let Some(gradient) = gradient {
            write_gradient(simd, network, weights, output_weights, sums, bias_gradient, gradient);
        }
    }
}

/// scaled = e·x for every row; returns Σ e.
#[inline(always)]
fn scale_rows(stride: usize, inputs: &[f32], factors: &[f32], scaled: &mut [f32]) -> f32 {
    let pieces = stride / INPUT_STEP;
    let inputs = inputs.as_chunks::<INPUT_STEP>().0.chunks_exact(pieces);
    let scaled = scaled.as_chunks_mut::<INPUT_STEP>().0.chunks_exact_mut(pieces);
    for ((inputs, scaled), &factor) in inputs.zip(scaled).zip(factors) {
        for (input, scaled) in inputs.iter().zip(scaled) {
            *scaled = input.map(|input| factor * input);
        }
    }
    let mut sums = [0.0; WIDEST_VECTOR];
    for factors in factors.as_chunks::<WIDEST_VECTOR>().0 {
        for (sum, factor) in sums.iter_mut().zip(factors) {
            *sum += factor;
        }
    }
    sums.iter().sum()
}

#[inline(always)]
fn write_gradient<S: Simd>(
    simd: S,
    network: &OneHidden,
    weights: &[S::f32s],
    output_weights: &[S::f32s],
    sums: &mut [S::f32s],
    bias_gradient: f32,
    gradient: &mut [f32],
) {
    let columns = network.num_inputs + 1;
    let hidden = network.hidden;
    let (first_layer, rest) = gradient.split_at_mut(columns * hidden);
    for (vector, &output_weight) in output_weights.iter().enumerate() {
        let start = vector * S::F32_LANES;
        if start >= hidden {
            break;
        }
        let end = hidden.min(start + S::F32_LANES);
        let mut output_gradient = simd.splat_f32s(0.0);
        for column in 0..columns {
            let at = column * output_weights.len() + vector;
            output_gradient = simd.mul_add_e_f32s(weights[at], sums[at], output_gradient);
            let value = simd.mul_f32s(sums[at], output_weight);
            simd.partial_store_f32s(&mut first_layer[column * hidden + start..column * hidden + end], value);
        }
        simd.partial_store_f32s(&mut rest[start..end], output_gradient);
    }
    rest[hidden] = bias_gradient;
}

/// One vector of hidden units against one tile of inputs, over the rows of a block.
struct TileRows<'a, S: Simd, const J: usize> {
    stride: usize,
    inputs: &'a [f32],
    scaled: &'a [f32],
    weights: &'a [S::f32s; J],
    output_weight: S::f32s,
    partial: &'a mut [S::f32s],
    new_masks: &'a mut [S::m32s],
    old_masks: &'a [S::m32s],
    lanes: &'a mut [S::f32s],
    sums: &'a mut [S::f32s; J],
}

impl<S: Simd, const J: usize> TileRows<'_, S, J> {
    #[inline(always)]
    fn run<const FIRST: bool, const LAST: bool>(&mut self, simd: S, forward: bool, backward: bool) {
        match (forward, backward) {
            (true, true) => self.rows::<FIRST, LAST, true, true>(simd),
            (true, false) => self.rows::<FIRST, LAST, true, false>(simd),
            (false, true) => self.rows::<FIRST, LAST, false, true>(simd),
            (false, false) => {}
        }
    }

    #[inline(always)]
    fn rows<const FIRST: bool, const LAST: bool, const FORWARD: bool, const BACKWARD: bool>(&mut self, simd: S) {
        let zero = simd.splat_f32s(0.0);
        let mut sums = *self.sums;
        let rows = self.inputs.chunks_exact(self.stride).zip(self.scaled.chunks_exact(self.stride));
        let masks = self.new_masks.iter_mut().zip(self.old_masks);
        let state = self.lanes.iter_mut().zip(self.partial.iter_mut());
        for (((row, scaled_row), (new_mask, old_mask)), (lanes, partial)) in rows.zip(masks).zip(state) {
            let (Some(row), Some(scaled_row)) = (row.first_chunk::<J>(), scaled_row.first_chunk::<J>()) else { break };
            if FORWARD {
                let mut z = weighted_sum(simd, row, self.weights);
                if !FIRST {
                    z = simd.add_f32s(z, *partial);
                }
                if LAST {
                    let on = simd.greater_than_f32s(z, zero);
                    *new_mask = on;
                    *lanes = simd.mul_add_e_f32s(simd.max_f32s(z, zero), self.output_weight, *lanes);
                } else {
                    *partial = z;
                }
            }
            if BACKWARD {
                for column in 0..J {
                    let sum = simd.add_f32s(sums[column], simd.splat_f32s(scaled_row[column]));
                    sums[column] = simd.select_f32s(*old_mask, sum, sums[column]);
                }
            }
        }
        *self.sums = sums;
    }
}

//! One output: the hot path of tables.
//!
//! With z = x·W, a unit is on where z_k > −c_k, and μ = Σ_k v_k max(z_k, −c_k) + Σ_k v_k c_k + b. Given the gradient e of
//! a row's output, the gradients are sums of e and e·x over the rows where unit k is on:
//! ```text
//! G_jk = Σ_rows [on] e x_j        ∂W_jk = v_k G_jk        ∂v_k = Σ_j W_jk G_jk + c_k C_k
//! C_k  = Σ_rows [on] e            ∂c_k  = v_k C_k         ∂b   = Σ_rows e
//! ```
//! So the backward pass needs one bit for each row and unit, and only masked additions: it shares a loop with the
//! forward pass of the next block of rows, whose multiply-adds use other units of the processor.

use std::any::Any;

use aligned_vec::{AVec, avec};
use pulp::{Simd, WithSimd};

use super::blocks::{block_inputs, sum_lanes};
use super::{LARGE_BLOCK, OneHidden, Own, Pass, SMALL_BLOCK, SPARE_ROW, WIDEST_TILE, weighted_sum};

/// Passes of up to this many rows take small blocks: two blocks are in flight, and the last has no partner.
const SHORT_PASS: usize = 256;

/// What this form writes to on the way.
#[derive(Debug)]
pub(super) struct Scratch {
    /// −c, padded.
    thresholds: AVec<f32>,
    /// C, padded.
    bias_sums: AVec<f32>,
    /// e·x of the block before.
    scaled: AVec<f32>,
    /// A `[Vec<mask>; 2]` of the mask type of this processor's vectors.
    masks: Option<Box<dyn Any + Send>>,
}

impl Scratch {
    pub(super) fn new(network: &OneHidden) -> Self {
        Self {
            thresholds: avec![0.0; network.padded_hidden],
            bias_sums: avec![0.0; network.padded_hidden],
            scaled: avec![0.0; (LARGE_BLOCK + SPARE_ROW) * network.stride],
            masks: None,
        }
    }
}

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
        let Pass { network, hidden_bias, output_bias, inputs, rows, head, gradient, work } = self.0;
        let Own::OneOutput(Scratch { thresholds, bias_sums, scaled, masks }) = &mut work.own else {
            unreachable!("a workspace belongs to the network that made it");
        };
        let mut output_bias = output_bias[0];
        for ((threshold, &bias), &weight) in thresholds.iter_mut().zip(hidden_bias).zip(&work.output_weights[..]) {
            *threshold = -bias;
            output_bias += weight * bias;
        }
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
        let thresholds = S::as_simd_f32s(thresholds).0;
        let sums = S::as_mut_simd_f32s(&mut work.sums).0;
        let bias_sums = S::as_mut_simd_f32s(bias_sums).0;
        let partial = &mut S::as_mut_simd_f32s(&mut work.partial).0[..block_rows];
        let stride = network.stride;

        sums.fill(zero);
        bias_sums.fill(zero);
        let mut bias_gradient = 0.0;
        let num_blocks = count.div_ceil(block_rows);
        let backward_too = gradient.is_some();
        for block in 0..num_blocks + usize::from(backward_too) {
            let forward = block < num_blocks;
            let backward = backward_too && block > 0;
            let first = block * block_rows;
            let num_rows = if forward { block_rows.min(count - first) } else { 0 };
            let block_inputs = if forward {
                block_inputs::<S>(inputs, rows, first, num_rows, block_rows, &mut work.inputs)
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
                sum_lanes::<S>(&mut work.lanes[..block_rows * S::F32_LANES], output_bias, outputs);
                head.differentiate(first, &mut outputs[..num_rows]);
                if backward_too {
                    outputs[num_rows..].fill(0.0);
                    bias_gradient += scale_rows(simd, stride, block_inputs, outputs, scaled);
                    std::mem::swap(&mut new_masks, &mut old_masks);
                }
            }
        }

        if let Some(gradient) = gradient {
            let sums = Sums { weights, thresholds, output_weights, sums, bias_sums };
            sums.write_gradient(simd, network, bias_gradient, gradient);
        }
    }
}

/// scaled = e·x for every row; returns Σ e.
#[inline(always)]
fn scale_rows<S: Simd>(simd: S, stride: usize, inputs: &[f32], factors: &[f32], scaled: &mut [f32]) -> f32 {
    let inputs = S::as_simd_f32s(inputs).0.chunks_exact(stride / S::F32_LANES);
    let scaled = S::as_mut_simd_f32s(scaled).0.chunks_exact_mut(stride / S::F32_LANES);
    for ((inputs, scaled), &factor) in inputs.zip(scaled).zip(factors) {
        let factor = simd.splat_f32s(factor);
        for (&input, scaled) in inputs.iter().zip(scaled) {
            *scaled = simd.mul_f32s(factor, input);
        }
    }
    let (vectors, rest) = S::as_simd_f32s(factors);
    let sum = vectors.iter().fold(simd.splat_f32s(0.0), |sum, &factors| simd.add_f32s(sum, factors));
    simd.reduce_sum_f32s(sum) + rest.iter().sum::<f32>()
}

/// What the gradient of all parameters follows from.
struct Sums<'a, S: Simd> {
    weights: &'a [S::f32s],
    thresholds: &'a [S::f32s],
    output_weights: &'a [S::f32s],
    sums: &'a [S::f32s],
    bias_sums: &'a [S::f32s],
}

impl<S: Simd> Sums<'_, S> {
    #[inline(always)]
    fn write_gradient(&self, simd: S, network: &OneHidden, output_bias_gradient: f32, gradient: &mut [f32]) {
        let OneHidden { num_inputs, hidden, .. } = *network;
        let vectors = self.output_weights.len();
        let (kernel, rest) = gradient.split_at_mut(num_inputs * hidden);
        let (bias, rest) = rest.split_at_mut(hidden);
        for vector in 0..hidden.div_ceil(S::F32_LANES) {
            let units = vector * S::F32_LANES..hidden.min((vector + 1) * S::F32_LANES);
            let output_weight = self.output_weights[vector];
            let bias_sum = self.bias_sums[vector];
            simd.partial_store_f32s(&mut bias[units.clone()], simd.mul_f32s(bias_sum, output_weight));
            let mut output_gradient = simd.neg_f32s(simd.mul_f32s(self.thresholds[vector], bias_sum));
            for (input, kernel) in kernel.chunks_exact_mut(hidden).enumerate() {
                let at = input * vectors + vector;
                output_gradient = simd.mul_add_e_f32s(self.weights[at], self.sums[at], output_gradient);
                simd.partial_store_f32s(&mut kernel[units.clone()], simd.mul_f32s(self.sums[at], output_weight));
            }
            simd.partial_store_f32s(&mut rest[units], output_gradient);
        }
        rest[hidden] = output_bias_gradient;
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

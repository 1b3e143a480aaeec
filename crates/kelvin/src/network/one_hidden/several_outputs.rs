//! Several outputs: logits of classes.
//!
//! h = max(x·W, 0), outputs o_k = h·v_k + b_k. Given the gradients e_k of a row's outputs, with d = [h > 0] Σ_k e_k v_k:
//! ```text
//! ∂W_j = Σ_rows x_j d      ∂v_k = Σ_rows e_k h      ∂b_k = Σ_rows e_k
//! ```
//! h of a block stays in cache between the two directions; loops hold up to [`MOST_OUTPUTS`] outputs in registers.

use pulp::{Simd, WithSimd};

use super::blocks::{block_inputs, sum_lanes};
use super::workspace::{OneHidden, Own, Pass, SMALL_BLOCK, WIDEST_TILE, WIDEST_VECTOR, weighted_sum};

/// Rows in a block.
const BLOCK: usize = SMALL_BLOCK;
/// Outputs in one loop. Forward, sixteen registers hold the sums of fewer.
const MOST_OUTPUTS: usize = 4;
const MOST_IN_SIXTEEN_REGISTERS: usize = 3;
/// Rows whose outputs are summed together.
const ROWS_TOGETHER: usize = 4;

pub(super) struct SeveralOutputs<'a, 'h>(pub Pass<'a, 'h>);

impl WithSimd for SeveralOutputs<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pass { network, output_bias, inputs, rows, head, gradient, work, .. } = self.0;
        let Own::SeveralOutputs(own) = &mut work.own else {
            unreachable!("a workspace belongs to the network that made it");
        };
        let OneHidden { num_outputs, stride, .. } = *network;
        let vectors = network.padded_hidden / S::F32_LANES;
        let zero = simd.splat_f32s(0.0);
        for (lanes, &bias) in own.bias_lanes.chunks_exact_mut(WIDEST_VECTOR).zip(output_bias) {
            lanes[0] = bias;
        }
        let bias_lanes = S::as_simd_f32s(&own.bias_lanes).0;
        let weights = S::as_simd_f32s(&work.weights).0;
        let output_weights = S::as_simd_f32s(&work.output_weights).0;
        let activations = S::as_mut_simd_f32s(&mut own.activations).0;
        let slope = &mut S::as_mut_simd_f32s(&mut work.partial).0[..BLOCK];
        let sums = S::as_mut_simd_f32s(&mut work.sums).0;
        let output_sums = S::as_mut_simd_f32s(&mut own.output_sums).0;
        sums.fill(zero);
        output_sums.fill(zero);
        own.bias_sums.fill(0.0);

        let count = inputs.count(rows);
        for first in (0..count).step_by(BLOCK) {
            let num_rows = BLOCK.min(count - first);
            let block_inputs = block_inputs::<S>(inputs, rows, first, num_rows, BLOCK, &mut work.inputs);
            let tile_inputs = |tile: usize| &block_inputs[tile * network.tile_width..][..BLOCK * stride];

            for (vector, activations) in activations.chunks_exact_mut(BLOCK).enumerate() {
                for tile in 0..network.tiles {
                    let tile = Tile { network, tile, vector, vectors, inputs: tile_inputs(tile) };
                    tile.forward(simd, weights, activations);
                }
            }
            let lanes = &mut work.lanes[..BLOCK * num_outputs * WIDEST_VECTOR];
            let heads = Outputs { vectors, num_outputs, weights: output_weights };
            heads.forward(simd, activations, bias_lanes, S::as_mut_simd_f32s(lanes).0);
            let outputs = &mut work.outputs[..BLOCK * num_outputs];
            sum_lanes(lanes, 0.0, outputs);
            head.differentiate(first, &mut outputs[..num_rows * num_outputs]);

            if gradient.is_some() {
                outputs[num_rows * num_outputs..].fill(0.0);
                for outputs in outputs.chunks_exact(own.bias_sums.len()) {
                    for (sum, output) in own.bias_sums.iter_mut().zip(outputs) {
                        *sum += output;
                    }
                }
                for (vector, activations) in activations.chunks_exact(BLOCK).enumerate() {
                    heads.backward(simd, vector, outputs, activations, slope, output_sums);
                    for tile in 0..network.tiles {
                        let tile = Tile { network, tile, vector, vectors, inputs: tile_inputs(tile) };
                        tile.backward(simd, slope, sums);
                    }
                }
            }
        }

        if let Some(gradient) = gradient {
            write_gradient(network, &work.sums, &own.output_sums, &own.bias_sums, gradient);
        }
    }
}

fn write_gradient(network: &OneHidden, sums: &[f32], output_sums: &[f32], bias_sums: &[f32], gradient: &mut [f32]) {
    let OneHidden { num_inputs, hidden, num_outputs, padded_hidden, .. } = *network;
    let (first_layer, last_layer) = gradient.split_at_mut((num_inputs + 1) * hidden);
    for (to, from) in first_layer.chunks_exact_mut(hidden).zip(sums.chunks_exact(padded_hidden)) {
        to.copy_from_slice(&from[..hidden]);
    }
    let (kernel, bias) = last_layer.split_at_mut(hidden * num_outputs);
    for (output, from) in output_sums.chunks_exact(padded_hidden).enumerate() {
        for (to, &from) in kernel.chunks_exact_mut(num_outputs).zip(from) {
            to[output] = from;
        }
    }
    for (output, to) in bias.iter_mut().enumerate() {
        *to = bias_sums[output..].iter().step_by(num_outputs).sum();
    }
}

/// One vector of hidden units against one tile of inputs, over the rows of a block.
struct Tile<'a> {
    network: &'a OneHidden,
    tile: usize,
    vector: usize,
    vectors: usize,
    inputs: &'a [f32],
}

impl Tile<'_> {
    #[inline(always)]
    fn at<const J: usize>(&self, column: usize) -> usize {
        (self.tile * J + column) * self.vectors + self.vector
    }

    /// activations += x·W, or = in the first tile; then max(…, 0) in the last.
    #[inline(always)]
    fn forward<S: Simd>(&self, simd: S, weights: &[S::f32s], activations: &mut [S::f32s]) {
        match self.network.tile_width {
            3 => self.forward_columns::<S, 3>(simd, weights, activations),
            5 => self.forward_columns::<S, 5>(simd, weights, activations),
            7 => self.forward_columns::<S, 7>(simd, weights, activations),
            8 => self.forward_columns::<S, 8>(simd, weights, activations),
            _ => self.forward_columns::<S, WIDEST_TILE>(simd, weights, activations),
        }
    }

    #[inline(always)]
    fn forward_columns<S: Simd, const J: usize>(&self, simd: S, weights: &[S::f32s], activations: &mut [S::f32s]) {
        let weights: [S::f32s; J] = std::array::from_fn(|column| weights[self.at::<J>(column)]);
        match (self.tile == 0, self.tile + 1 == self.network.tiles) {
            (true, true) => self.forward_rows::<S, J, true, true>(simd, &weights, activations),
            (true, false) => self.forward_rows::<S, J, true, false>(simd, &weights, activations),
            (false, true) => self.forward_rows::<S, J, false, true>(simd, &weights, activations),
            (false, false) => self.forward_rows::<S, J, false, false>(simd, &weights, activations),
        }
    }

    #[inline(always)]
    fn forward_rows<S: Simd, const J: usize, const FIRST: bool, const LAST: bool>(
        &self,
        simd: S,
        weights: &[S::f32s; J],
        activations: &mut [S::f32s],
    ) {
        let zero = simd.splat_f32s(0.0);
        for (row, activation) in self.inputs.chunks_exact(self.network.stride).zip(activations) {
            let Some(row) = row.first_chunk::<J>() else { break };
            let mut z = weighted_sum(simd, row, weights);
            if !FIRST {
                z = simd.add_f32s(z, *activation);
            }
            *activation = if LAST { simd.max_f32s(z, zero) } else { z };
        }
    }

    /// sums += x·d.
    #[inline(always)]
    fn backward<S: Simd>(&self, simd: S, slope: &[S::f32s], sums: &mut [S::f32s]) {
        match self.network.tile_width {
            3 => self.backward_columns::<S, 3>(simd, slope, sums),
            5 => self.backward_columns::<S, 5>(simd, slope, sums),
            7 => self.backward_columns::<S, 7>(simd, slope, sums),
            8 => self.backward_columns::<S, 8>(simd, slope, sums),
            _ => self.backward_columns::<S, WIDEST_TILE>(simd, slope, sums),
        }
    }

    #[inline(always)]
    fn backward_columns<S: Simd, const J: usize>(&self, simd: S, slope: &[S::f32s], sums: &mut [S::f32s]) {
        let mut tile_sums: [S::f32s; J] = std::array::from_fn(|column| sums[self.at::<J>(column)]);
        for (row, &slope) in self.inputs.chunks_exact(self.network.stride).zip(slope) {
            let Some(row) = row.first_chunk::<J>() else { break };
            for column in 0..J {
                tile_sums[column] = simd.mul_add_e_f32s(simd.splat_f32s(row[column]), slope, tile_sums[column]);
            }
        }
        for column in 0..J {
            sums[self.at::<J>(column)] = tile_sums[column];
        }
    }
}

/// The output layer over the rows of a block, a few outputs at a time.
struct Outputs<'a, S: Simd> {
    vectors: usize,
    num_outputs: usize,
    weights: &'a [S::f32s],
}

impl<S: Simd> Outputs<'_, S> {
    /// lanes = bias + h·v, not yet summed over the lanes.
    #[inline(always)]
    fn forward(&self, simd: S, activations: &[S::f32s], bias: &[S::f32s], lanes: &mut [S::f32s]) {
        let together = if S::REGISTER_COUNT >= 32 { MOST_OUTPUTS } else { MOST_IN_SIXTEEN_REGISTERS };
        for first in (0..self.num_outputs).step_by(together) {
            match together.min(self.num_outputs - first) {
                1 => self.forward_rows::<1>(simd, first, activations, bias, lanes),
                2 => self.forward_rows::<2>(simd, first, activations, bias, lanes),
                3 => self.forward_rows::<3>(simd, first, activations, bias, lanes),
                _ => self.forward_rows::<MOST_OUTPUTS>(simd, first, activations, bias, lanes),
            }
        }
    }

    #[inline(always)]
    fn forward_rows<const K: usize>(
        &self,
        simd: S,
        first: usize,
        activations: &[S::f32s],
        bias: &[S::f32s],
        lanes: &mut [S::f32s],
    ) {
        let weights: [&[S::f32s]; K] =
            std::array::from_fn(|output| &self.weights[(first + output) * self.vectors..][..self.vectors]);
        // Vectors that make sixteen lanes; each has its own sums.
        let parts = const { WIDEST_VECTOR / S::F32_LANES };
        let groups = activations.as_chunks::<ROWS_TOGETHER>().0;
        for (group, lanes) in lanes.chunks_exact_mut(ROWS_TOGETHER * self.num_outputs * parts).enumerate() {
            for part in 0..parts {
                let bias: [S::f32s; K] = std::array::from_fn(|output| bias[(first + output) * parts + part]);
                let mut sums = [bias; ROWS_TOGETHER];
                for vector in (part..self.vectors).step_by(parts) {
                    let activations = &groups[vector * (BLOCK / ROWS_TOGETHER) + group];
                    for output in 0..K {
                        let weight = weights[output][vector];
                        for row in 0..ROWS_TOGETHER {
                            sums[row][output] = simd.mul_add_e_f32s(activations[row], weight, sums[row][output]);
                        }
                    }
                }
                for (row, lanes) in lanes.chunks_exact_mut(self.num_outputs * parts).enumerate() {
                    for output in 0..K {
                        lanes[(first + output) * parts + part] = sums[row][output];
                    }
                }
            }
        }
    }

    /// slope = [h > 0] Σ_k e_k v_k and sums += e·h, for one vector of hidden units.
    #[inline(always)]
    fn backward(
        &self,
        simd: S,
        vector: usize,
        errors: &[f32],
        activations: &[S::f32s],
        slope: &mut [S::f32s],
        sums: &mut [S::f32s],
    ) {
        for first in (0..self.num_outputs).step_by(MOST_OUTPUTS) {
            let (weights, sums) = (&self.weights[first * self.vectors..], &mut sums[first * self.vectors..]);
            let rows = OutputRows { num_outputs: self.num_outputs, first, errors, activations };
            match self.num_outputs - first {
                1 => rows.backward::<1>(simd, self.vectors, vector, weights, slope, sums),
                2 => rows.backward::<2>(simd, self.vectors, vector, weights, slope, sums),
                3 => rows.backward::<3>(simd, self.vectors, vector, weights, slope, sums),
                _ => rows.backward::<MOST_OUTPUTS>(simd, self.vectors, vector, weights, slope, sums),
            }
        }
    }
}

/// The gradients of a block's outputs beside the activations of one vector of hidden units.
struct OutputRows<'a, S: Simd> {
    num_outputs: usize,
    first: usize,
    errors: &'a [f32],
    activations: &'a [S::f32s],
}

impl<S: Simd> OutputRows<'_, S> {
    #[inline(always)]
    fn backward<const K: usize>(
        &self,
        simd: S,
        vectors: usize,
        vector: usize,
        weights: &[S::f32s],
        slope: &mut [S::f32s],
        sums: &mut [S::f32s],
    ) {
        let zero = simd.splat_f32s(0.0);
        let weights: [S::f32s; K] = std::array::from_fn(|output| weights[output * vectors + vector]);
        let mut own_sums: [S::f32s; K] = std::array::from_fn(|output| sums[output * vectors + vector]);
        let rows = self.errors.chunks_exact(self.num_outputs).zip(self.activations).zip(slope);
        for ((errors, &activation), slope) in rows {
            let Some(errors) = errors[self.first..].first_chunk::<K>() else { break };
            let mut sum = if self.first == 0 { zero } else { *slope };
            for output in 0..K {
                let error = simd.splat_f32s(errors[output]);
                sum = simd.mul_add_e_f32s(error, weights[output], sum);
                own_sums[output] = simd.mul_add_e_f32s(error, activation, own_sums[output]);
            }
            *slope = simd.select_f32s(simd.greater_than_f32s(activation, zero), sum, zero);
        }
        for output in 0..K {
            sums[output * vectors + vector] = own_sums[output];
        }
    }
}

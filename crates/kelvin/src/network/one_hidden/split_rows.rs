//! The schedule of one output for vectors shorter than sixteen: a block of rows goes forward, then backward, two vectors of
//! hidden units at a time, so that each broadcast number serves both. Loops hold half a tile's columns, which is what sixteen
//! registers have room for. A mask is a vector of ones and zeros, and a masked addition a multiply-add with it: 1·v + s rounds
//! as v + s does, and 0·v + s is s.

use aligned_vec::{AVec, avec};
use pulp::Simd;

use super::blocks::{block_inputs, sum_lanes};
use super::one_output::scale_rows;
use super::workspace::{LARGE_BLOCK, OneOutputScratch, Own, Pass, WIDEST_VECTOR};

/// Vectors of hidden units in one loop.
const PAIR: usize = 2;

impl Pass<'_, '_> {
    /// Runs all blocks forward and, where a gradient is wanted, backward; returns Σ e.
    #[inline(always)]
    pub(super) fn split_rows<S: Simd, const J: usize>(
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
        let masks = OneOutputScratch::masks_as::<AVec<f32>>(masks, || avec![0.0; network.padded_hidden * LARGE_BLOCK]);
        let vectors = network.padded_hidden / S::F32_LANES;
        let mut bias_gradient = 0.0;
        for first in (0..count).step_by(block_rows) {
            let num_rows = block_rows.min(count - first);
            let block_inputs = block_inputs::<S>(inputs, *rows, first, num_rows, block_rows, &mut work.inputs);
            let mut shape =
                Shape { stride: network.stride, block_rows, vectors, tiles: network.tiles, tile: 0, vector: 0 };
            let (partial, halves) = work.partial.split_at_mut(LARGE_BLOCK * WIDEST_VECTOR);
            for vector in (0..vectors).step_by(PAIR) {
                for tile in 0..network.tiles {
                    (shape.tile, shape.vector) = (tile, vector);
                    let forward = Forward {
                        shape,
                        inputs: block_inputs,
                        weights: S::as_simd_f32s(&work.weights).0,
                        thresholds: pair(S::as_simd_f32s(thresholds).0, vector),
                        output_weights: pair(S::as_simd_f32s(&work.output_weights).0, vector),
                        halves: S::as_mut_simd_f32s(halves).0.as_chunks_mut().0,
                        partial: S::as_mut_simd_f32s(partial).0.as_chunks_mut().0,
                        masks: S::as_mut_simd_f32s(masks).0.as_chunks_mut().0,
                        lanes: S::as_mut_simd_f32s(&mut work.lanes).0.as_chunks_mut().0,
                    };
                    forward.run::<J>(simd);
                }
            }
            let outputs = &mut work.outputs[..block_rows];
            sum_lanes(&mut work.lanes[..block_rows * WIDEST_VECTOR], output_bias, outputs);
            head.differentiate(first, &mut outputs[..num_rows]);
            if gradient.is_none() {
                continue;
            }
            outputs[num_rows..].fill(0.0);
            bias_gradient += scale_rows(simd, network.stride, block_inputs, outputs, scaled);
            for vector in (0..vectors).step_by(PAIR) {
                for tile in 0..network.tiles {
                    (shape.tile, shape.vector) = (tile, vector);
                    let backward = Backward {
                        shape,
                        scaled,
                        errors: outputs,
                        masks: S::as_simd_f32s(masks).0.as_chunks().0,
                        sums: S::as_mut_simd_f32s(&mut work.sums).0,
                        bias_sums: S::as_mut_simd_f32s(bias_sums).0,
                    };
                    backward.run::<J>(simd);
                }
            }
        }
        bias_gradient
    }
}

#[inline(always)]
fn pair<V: Copy>(vectors: &[V], at: usize) -> [V; PAIR] {
    [vectors[at], vectors[at + 1]]
}

/// Two vectors of hidden units, from `vector` on, against a tile of inputs, over the rows of a block.
#[derive(Clone, Copy)]
struct Shape {
    /// Numbers from one row of inputs to the next.
    stride: usize,
    block_rows: usize,
    /// Vectors of all hidden units.
    vectors: usize,
    tiles: usize,
    tile: usize,
    vector: usize,
}

impl Shape {
    /// Where the weights of a column of the tile stand.
    #[inline(always)]
    fn at<const J: usize>(&self, column: usize) -> usize {
        (self.tile * J + column) * self.vectors + self.vector
    }

    /// The block's rows, each from the tile's first column on.
    #[inline(always)]
    fn rows<'a, const J: usize>(&self, values: &'a [f32]) -> std::slice::ChunksExact<'a, f32> {
        values[self.tile * J..][..self.block_rows * self.stride].chunks_exact(self.stride)
    }

    /// The masks of the pair: row after row of the block, one pair of vectors after the other.
    #[inline(always)]
    fn masks_at(&self) -> usize {
        self.vector / PAIR * self.block_rows
    }
}

struct Forward<'a, S: Simd> {
    shape: Shape,
    inputs: &'a [f32],
    weights: &'a [S::f32s],
    thresholds: [S::f32s; PAIR],
    output_weights: [S::f32s; PAIR],
    /// x·W over the first half of the tile's columns.
    halves: &'a mut [[S::f32s; PAIR]],
    /// z over the tiles so far.
    partial: &'a mut [[S::f32s; PAIR]],
    masks: &'a mut [[S::f32s; PAIR]],
    /// Sixteen for each row, summed over the vectors of hidden units that fall on them.
    lanes: &'a mut [[S::f32s; PAIR]],
}

/// Tiles of more columns are gone through in two halves.
const WHOLE_TILE: usize = 5;

impl<S: Simd> Forward<'_, S> {
    #[inline(always)]
    fn run<const J: usize>(mut self, simd: S) {
        let weights: [[S::f32s; PAIR]; J] =
            std::array::from_fn(|column| pair(self.weights, self.shape.at::<J>(column)));
        if J > WHOLE_TILE {
            for (row, half) in self.shape.rows::<J>(self.inputs).zip(&mut *self.halves) {
                let Some(row) = row.first_chunk::<J>() else { break };
                *half = weighted_sum(simd, row, &weights, 0, J / 2);
            }
        }
        // Whether the sixteen lanes begin anew with this pair.
        let fresh = self.shape.vector * S::F32_LANES < WIDEST_VECTOR;
        match (self.shape.tile == 0, self.shape.tile + 1 == self.shape.tiles, fresh) {
            (true, true, true) => self.rows::<J, true, true, true>(simd, &weights),
            (true, true, false) => self.rows::<J, true, true, false>(simd, &weights),
            (true, false, _) => self.rows::<J, true, false, false>(simd, &weights),
            (false, true, true) => self.rows::<J, false, true, true>(simd, &weights),
            (false, true, false) => self.rows::<J, false, true, false>(simd, &weights),
            (false, false, _) => self.rows::<J, false, false, false>(simd, &weights),
        }
    }

    /// Completes z of the tile; in the last one also what follows from it.
    #[inline(always)]
    fn rows<const J: usize, const FIRST: bool, const LAST: bool, const FRESH: bool>(
        &mut self,
        simd: S,
        weights: &[[S::f32s; PAIR]; J],
    ) {
        let one = simd.splat_f32s(1.0);
        let pairs_in_lanes = const { WIDEST_VECTOR / (S::F32_LANES * PAIR) };
        let lanes_at = self.shape.vector / PAIR % pairs_in_lanes;
        let rows = self.shape.rows::<J>(self.inputs).zip(&*self.halves).zip(&mut *self.partial);
        let masks = &mut self.masks[self.shape.masks_at()..][..self.shape.block_rows];
        let lanes = self.lanes[lanes_at..].iter_mut().step_by(pairs_in_lanes);
        for ((((row, half), partial), masks), lanes) in rows.zip(masks).zip(lanes) {
            let Some(row) = row.first_chunk::<J>() else { break };
            let half = if J > WHOLE_TILE { *half } else { weighted_sum(simd, row, weights, 0, J / 2) };
            let other = weighted_sum(simd, row, weights, J / 2, J);
            for v in 0..PAIR {
                let mut z = simd.add_f32s(half[v], other[v]);
                if !FIRST {
                    z = simd.add_f32s(z, partial[v]);
                }
                if LAST {
                    let threshold = self.thresholds[v];
                    // A comparison gives all bits or none.
                    let on: S::u32s = pulp::bytemuck::cast(simd.greater_than_f32s(z, threshold));
                    masks[v] = simd.and_f32s(simd.transmute_f32s_u32s(on), one);
                    let active = simd.max_f32s(z, threshold);
                    lanes[v] = if FRESH {
                        simd.mul_f32s(active, self.output_weights[v])
                    } else {
                        simd.mul_add_e_f32s(active, self.output_weights[v], lanes[v])
                    };
                } else {
                    partial[v] = z;
                }
            }
        }
    }
}

/// x·W of the columns from `first` to `end` for one row and a pair of vectors.
#[inline(always)]
fn weighted_sum<S: Simd, const J: usize>(
    simd: S,
    row: &[f32; J],
    weights: &[[S::f32s; PAIR]; J],
    first: usize,
    end: usize,
) -> [S::f32s; PAIR] {
    let x = simd.splat_f32s(row[first]);
    let mut sums = [simd.mul_f32s(x, weights[first][0]), simd.mul_f32s(x, weights[first][1])];
    for column in first + 1..end {
        let x = simd.splat_f32s(row[column]);
        for v in 0..PAIR {
            sums[v] = simd.mul_add_e_f32s(x, weights[column][v], sums[v]);
        }
    }
    sums
}

struct Backward<'a, S: Simd> {
    shape: Shape,
    /// e·x of the block, laid out as its inputs are.
    scaled: &'a [f32],
    errors: &'a [f32],
    masks: &'a [[S::f32s; PAIR]],
    sums: &'a mut [S::f32s],
    bias_sums: &'a mut [S::f32s],
}

impl<S: Simd> Backward<'_, S> {
    #[inline(always)]
    fn run<const J: usize>(mut self, simd: S) {
        if self.shape.tile == 0 {
            self.columns::<J, true>(simd, 0, J / 2);
        } else {
            self.columns::<J, false>(simd, 0, J / 2);
        }
        self.columns::<J, false>(simd, J / 2, J);
    }

    /// Adds e·x of the columns from `first` to `end` where a unit is on, and e itself if `BIAS`.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "sums stay in registers where their places are indices")]
    fn columns<const J: usize, const BIAS: bool>(&mut self, simd: S, first: usize, end: usize) {
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; PAIR]; J];
        for column in first..end {
            sums[column] = pair(self.sums, self.shape.at::<J>(column));
        }
        let mut bias_sums = pair(self.bias_sums, self.shape.vector);
        let masks = &self.masks[self.shape.masks_at()..];
        for ((row, error), mask) in self.shape.rows::<J>(self.scaled).zip(self.errors).zip(masks) {
            let Some(row) = row.first_chunk::<J>() else { break };
            for column in first..end {
                let value = simd.splat_f32s(row[column]);
                for v in 0..PAIR {
                    sums[column][v] = simd.mul_add_e_f32s(mask[v], value, sums[column][v]);
                }
            }
            if BIAS {
                let value = simd.splat_f32s(*error);
                for v in 0..PAIR {
                    bias_sums[v] = simd.mul_add_e_f32s(mask[v], value, bias_sums[v]);
                }
            }
        }
        for column in first..end {
            self.sums[self.shape.at::<J>(column)..][..PAIR].copy_from_slice(&sums[column]);
        }
        if BIAS {
            self.bias_sums[self.shape.vector..][..PAIR].copy_from_slice(&bias_sums);
        }
    }
}

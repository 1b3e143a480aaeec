//! The fused evaluator of one hidden ReLU layer and one output: the hot path of tables.
//!
//! With the bias as one more input that is always 1, z = x·W, μ = Σ_k max(z_k, 0) v_k + b. Given the gradient e of a
//! row's output, the gradients are sums of e·x over the rows where unit k is on:
//! ```text
//! G_jk = Σ_rows [z_k > 0] e x_j      ∂W_jk = v_k G_jk      ∂v_k = Σ_j W_jk G_jk      ∂b = Σ_rows e
//! ```
//! So the backward pass needs one bit for each row and unit, and only masked additions: it shares a loop with the
//! forward pass of the next block of rows, whose multiply-adds use other units of the processor. A loop holds one
//! vector of hidden units and up to [`WIDEST_TILE`] inputs in registers; wider inputs take several tiles.

use std::any::Any;

use aligned_vec::{AVec, avec};
use pulp::{Simd, WithSimd};

use super::{OutputGradient, PreparedInputs, Rows};

/// Rows in a block: two blocks are in flight, so short passes take smaller ones.
const LARGE_BLOCK: usize = 64;
const SMALL_BLOCK: usize = 32;
/// Passes of up to this many rows take small blocks.
const SHORT_PASS: usize = 256;
/// Hidden units are padded to the widest vector.
const WIDEST_VECTOR: usize = 16;
/// Inputs whose weights and sums fit the registers together.
const WIDEST_TILE: usize = 9;
/// Rows of inputs are padded to this many numbers, so that they move as whole vectors.
const INPUT_STEP: usize = 8;

/// Blocks of inputs end with a spare row, so that each tile of columns can be cut into whole strides.
const SPARE_ROW: usize = 1;

/// The network's sizes.
#[derive(Clone, Copy, Debug)]
pub struct OneHidden {
    num_inputs: usize,
    hidden: usize,
    padded_hidden: usize,
    tiles: usize,
    tile_width: usize,
    stride: usize,
}

/// Scratch of a pass; `masks` is a `[Vec<mask>; 2]` of the mask type of this processor's vectors.
#[derive(Debug)]
pub struct Workspace {
    /// Kernel and bias, one row an input, padded.
    weights: AVec<f32>,
    /// The weights of the output.
    output_weights: AVec<f32>,
    /// G, in the shape of `weights`.
    sums: AVec<f32>,
    /// Inputs of a block.
    inputs: AVec<f32>,
    /// e·x of the block before.
    scaled: AVec<f32>,
    /// Outputs of a block, not yet summed over the lanes.
    lanes: AVec<f32>,
    /// Unfinished z of a block, where inputs take several tiles.
    partial: AVec<f32>,
    outputs: Vec<f32>,
    masks: Option<Box<dyn Any + Send>>,
}

impl OneHidden {
    pub(super) fn new(num_inputs: usize, hidden: usize) -> Self {
        let columns = num_inputs + 1;
        let tiles = columns.div_ceil(WIDEST_TILE);
        let tile_width = match columns.div_ceil(tiles) {
            0..=3 => 3,
            4 | 5 => 5,
            6 | 7 => 7,
            wide => wide,
        };
        let stride = (tiles * tile_width).next_multiple_of(INPUT_STEP);
        Self { num_inputs, hidden, padded_hidden: hidden.next_multiple_of(WIDEST_VECTOR), tiles, tile_width, stride }
    }

    pub(super) fn workspace(&self) -> Workspace {
        let zeros = |len: usize| avec![0.0; len];
        let columns = self.tiles * self.tile_width;
        Workspace {
            weights: zeros(columns * self.padded_hidden),
            output_weights: zeros(self.padded_hidden),
            sums: zeros(columns * self.padded_hidden),
            inputs: zeros((LARGE_BLOCK + SPARE_ROW) * self.stride),
            scaled: zeros((LARGE_BLOCK + SPARE_ROW) * self.stride),
            lanes: zeros(LARGE_BLOCK * WIDEST_VECTOR),
            partial: zeros(LARGE_BLOCK * WIDEST_VECTOR),
            outputs: vec![0.0; LARGE_BLOCK],
            masks: None,
        }
    }

    pub(super) fn prepare(&self, inputs: &[f32]) -> PreparedInputs {
        let num_rows = inputs.len() / self.num_inputs;
        // Rows of zeros complete the last block, so that a pass over all rows reads its blocks in place.
        let mut values = avec![0.0; (num_rows.next_multiple_of(LARGE_BLOCK) + SPARE_ROW) * self.stride];
        for (row, to) in inputs.chunks_exact(self.num_inputs).zip(values.chunks_exact_mut(self.stride)) {
            to[..self.num_inputs].copy_from_slice(row);
            to[self.num_inputs] = 1.0;
        }
        PreparedInputs { values, stride: self.stride, num_rows }
    }

    pub(super) fn outputs(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut Workspace,
    ) {
        let mut keep = KeepOutputs(outputs);
        self.pass(parameters, inputs, rows, &mut keep, None, work);
    }

    pub(super) fn gradient(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
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
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        head: &mut dyn OutputGradient,
        gradient: Option<&mut [f32]>,
        work: &mut Workspace,
    ) {
        let first_layer = (self.num_inputs + 1) * self.hidden;
        let from = parameters[..first_layer].chunks_exact(self.hidden);
        for (from, to) in from.zip(work.weights.chunks_exact_mut(self.padded_hidden)) {
            to[..self.hidden].copy_from_slice(from);
        }
        work.output_weights[..self.hidden].copy_from_slice(&parameters[first_layer..first_layer + self.hidden]);
        let pass =
            Pass { network: self, bias: parameters[first_layer + self.hidden], inputs, rows, head, gradient, work };
        pulp::Arch::new().dispatch(pass);
    }
}

/// Collects outputs and asks for no gradient.
struct KeepOutputs<'a>(&'a mut [f32]);

impl OutputGradient for KeepOutputs<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        self.0[first_row..first_row + outputs.len()].copy_from_slice(outputs);
    }
}

struct Pass<'a, 'h> {
    network: &'a OneHidden,
    bias: f32,
    inputs: &'a PreparedInputs,
    rows: Rows<'a>,
    head: &'h mut dyn OutputGradient,
    gradient: Option<&'a mut [f32]>,
    work: &'a mut Workspace,
}

impl WithSimd for Pass<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.network.tile_width {
            3 => self.run::<S, 3>(simd),
            5 => self.run::<S, 5>(simd),
            7 => self.run::<S, 7>(simd),
            8 => self.run::<S, 8>(simd),
            _ => self.run::<S, WIDEST_TILE>(simd),
        }
    }
}

impl Pass<'_, '_> {
    #[inline(always)]
    fn run<S: Simd, const J: usize>(self, simd: S) {
        let Self { network, bias, inputs, rows, head, gradient, work } = self;
        let count = inputs.count(rows);
        let block_rows = if count <= SHORT_PASS { SMALL_BLOCK } else { LARGE_BLOCK };
        let vectors = network.padded_hidden / S::F32_LANES;
        let zero = simd.splat_f32s(0.0);
        let off = simd.greater_than_f32s(zero, zero);

        let masks = work.masks.get_or_insert_with(|| {
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
            let block_inputs = match rows {
                Rows::All if forward => &inputs.values[first * stride..],
                Rows::These(picked) if forward => {
                    gather::<{ INPUT_STEP }>(inputs, &picked[first..first + num_rows], &mut work.inputs);
                    work.inputs[num_rows * stride..block_rows * stride].fill(0.0);
                    &work.inputs[..]
                }
                _ => &work.inputs[..],
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
                        scaled: &work.scaled[tile * J..][..block_rows * stride],
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
                sum_lanes::<S>(&mut work.lanes[..block_rows * S::F32_LANES], bias, outputs);
                head.differentiate(first, &mut outputs[..num_rows]);
                if backward_too {
                    outputs[num_rows..].fill(0.0);
                    bias_gradient += scale_rows(stride, block_inputs, outputs, &mut work.scaled);
                    std::mem::swap(&mut new_masks, &mut old_masks);
                }
            }
        }

        if let Some(gradient) = gradient {
            write_gradient(simd, network, weights, output_weights, sums, bias_gradient, gradient);
        }
    }
}

/// Copies the picked rows, `STEP` numbers at a time: short rows move faster as whole vectors than through a call.
#[inline(always)]
fn gather<const STEP: usize>(inputs: &PreparedInputs, picked: &[u32], to: &mut [f32]) {
    let pieces = inputs.stride / STEP;
    let (from, to) = (inputs.values.as_chunks::<STEP>().0, to.as_chunks_mut::<STEP>().0);
    for (&row, to) in picked.iter().zip(to.chunks_exact_mut(pieces)) {
        let from = &from[row as usize * pieces..][..pieces];
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

/// outputs = bias + the sum of each row's lanes; the lanes are halved until four are left, all rows at once.
#[inline(always)]
fn sum_lanes<S: Simd>(lanes: &mut [f32], bias: f32, outputs: &mut [f32]) {
    if S::F32_LANES >= 16 {
        halve::<16, 8>(lanes);
    }
    if S::F32_LANES >= 8 {
        halve::<8, 4>(lanes);
    }
    if S::F32_LANES >= 4 {
        for (output, row) in outputs.iter_mut().zip(lanes.chunks_exact(4)) {
            *output = bias + ((row[0] + row[2]) + (row[1] + row[3]));
        }
    } else {
        for (output, row) in outputs.iter_mut().zip(lanes.chunks_exact(S::F32_LANES)) {
            *output = bias + row.iter().sum::<f32>();
        }
    }
}

/// Adds the second half of each row of `W` lanes to the first and closes the gaps.
#[inline(always)]
fn halve<const W: usize, const H: usize>(lanes: &mut [f32]) {
    let halves = lanes.as_chunks_mut::<H>().0;
    for row in 0..halves.len() / (W / H) {
        let (first, second) = (halves[2 * row], halves[2 * row + 1]);
        for lane in 0..H {
            halves[row][lane] = first[lane] + second[lane];
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
                // Two sums, so that a row does not wait for one long chain of multiply-adds.
                let half = J / 2;
                let mut z = simd.mul_f32s(simd.splat_f32s(row[0]), self.weights[0]);
                let mut other = simd.mul_f32s(simd.splat_f32s(row[half]), self.weights[half]);
                for column in 1..half {
                    z = simd.mul_add_e_f32s(simd.splat_f32s(row[column]), self.weights[column], z);
                }
                for column in half + 1..J {
                    other = simd.mul_add_e_f32s(simd.splat_f32s(row[column]), self.weights[column], other);
                }
                z = simd.add_f32s(z, other);
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

#[cfg(test)]
mod tests {
    use super::super::{Evaluator, Network};
    use super::*;

    struct HalfSquares;

    impl OutputGradient for HalfSquares {
        fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
    }

    /// Σ μ²/2 has the gradient μ; both evaluators must give it, for every shape of tile, block and padding.
    #[test]
    fn agrees_with_the_general_evaluator() {
        for (inputs, hidden, rows) in [
            (1, 1, 1),
            (2, 3, 5),
            (4, 16, 31),
            (6, 17, 64),
            (7, 64, 65),
            (8, 64, 824),
            (14, 64, 128),
            (30, 50, 300),
            (90, 33, 70),
        ] {
            let network = Network::dense(inputs, &[hidden], 1).unwrap();
            let (fused, general) = (network.evaluator(), network.general_evaluator());
            assert!(matches!(fused, Evaluator::OneHidden(_)));
            let mut parameters = network.initial_parameters(9, 0);
            for (index, value) in parameters.iter_mut().enumerate() {
                *value += 0.2 * (index as f32 * 1.3).sin();
            }
            let data: Vec<f32> = (0..inputs * rows).map(|i| (i as f32 * 0.37).sin()).collect();
            let picked: Vec<u32> = (0..rows as u32).rev().step_by(2).collect();
            for which in [Rows::All, Rows::These(&picked)] {
                let results = [&fused, &general].map(|evaluator| {
                    let (prepared, mut work) = (evaluator.prepare(&data), evaluator.workspace());
                    let mut outputs = vec![0.0; prepared.count(which)];
                    evaluator.outputs(&parameters, &prepared, which, &mut outputs, &mut work);
                    let mut gradient = vec![f32::NAN; parameters.len()];
                    evaluator.gradient(&parameters, &prepared, which, &mut HalfSquares, &mut gradient, &mut work);
                    (outputs, gradient)
                });
                let close = |a: &[f32], b: &[f32]| {
                    let size = b.iter().map(|b| b * b).sum::<f32>().sqrt().max(1e-3);
                    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / size
                };
                let error = close(&results[0].0, &results[1].0);
                assert!(error < 3e-6, "outputs of {}, {rows} rows: {error:e}", network.describe());
                let error = close(&results[0].1, &results[1].1);
                assert!(error < 1e-5, "gradient of {}, {rows} rows: {error:e}", network.describe());
            }
        }
    }
}

//! Blocks of rows: their inputs, in place or gathered, and their outputs, summed over the lanes.

use pulp::Simd;

use super::super::inputs::{PaddedRows, Rows};
use super::super::products::halve;

/// The inputs of `num_rows` rows from `first` on, followed by rows of zeros up to `block_rows`.
#[inline(always)]
pub(super) fn block_inputs<'a, S: Simd>(
    inputs: &'a PaddedRows,
    rows: Rows<'_>,
    first: usize,
    num_rows: usize,
    block_rows: usize,
    room: &'a mut [f32],
) -> &'a [f32] {
    match rows.listed() {
        None => &inputs.values[first * inputs.stride..],
        Some(picked) => {
            gather::<S>(inputs, &picked[first..first + num_rows], room);
            room[num_rows * inputs.stride..block_rows * inputs.stride].fill(0.0);
            room
        }
    }
}

/// Copies the picked rows, one vector at a time: short rows move faster so than through a call.
#[inline(always)]
fn gather<S: Simd>(inputs: &PaddedRows, picked: &[u32], to: &mut [f32]) {
    let pieces = inputs.stride / S::F32_LANES;
    let (from, to) = (S::as_simd_f32s(&inputs.values).0, S::as_mut_simd_f32s(to).0);
    for (&row, to) in picked.iter().zip(to.chunks_exact_mut(pieces)) {
        for (to, &from) in to.iter_mut().zip(&from[row as usize * pieces..][..pieces]) {
            *to = from;
        }
    }
}

/// outputs = bias + the sum of each output's sixteen lanes; they are halved until four are left, all outputs at once.
#[inline(always)]
pub(super) fn sum_lanes(lanes: &mut [f32], bias: f32, outputs: &mut [f32]) {
    halve::<f32, 16, 8>(lanes);
    halve::<f32, 8, 4>(lanes);
    for (output, row) in outputs.iter_mut().zip(lanes.chunks_exact(4)) {
        *output = bias + ((row[0] + row[2]) + (row[1] + row[3]));
    }
}

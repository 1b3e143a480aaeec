//! What dense layers do beside their products, inlined into loops that [`crate::vector`] compiles for the instructions in use.

use pulp::Simd;

use super::kernels::{Number, PIECE};

/// Rows of `width` numbers, padding included.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, T> {
    pub values: &'a [T],
    pub width: usize,
}

/// outputs(row, unit) = bias(unit) + inputs(row) · transposed(unit): for layers with few units.
///
/// Rows of outputs have `output_width` numbers; `lanes` has room for a piece a row: the lanes are summed for all rows at once.
#[inline(always)]
pub(super) fn dot_rows<S: Simd, T: Number>(
    simd: S,
    inputs: Matrix<'_, T>,
    transposed: &[T],
    bias: &[T],
    outputs: &mut [T],
    output_width: usize,
    lanes: &mut [T],
) {
    let (parts, num_vectors) = (T::num_vectors::<S>(PIECE), T::num_vectors::<S>(inputs.width));
    let num_rows = inputs.values.len() / inputs.width;
    let lanes = &mut lanes[..num_rows * PIECE];
    for (unit, (kernel, &bias)) in transposed.chunks_exact(inputs.width).zip(bias).enumerate() {
        let kernel = T::vectors::<S>(kernel);
        let rows = T::vectors::<S>(inputs.values).chunks_exact(num_vectors);
        for (row, lanes) in rows.zip(T::vectors_mut::<S>(lanes).chunks_exact_mut(parts)) {
            for (part, lanes) in lanes.iter_mut().enumerate() {
                let mut sum = T::splat(simd, T::default());
                for at in (part..num_vectors).step_by(parts) {
                    sum = T::mul_add(simd, row[at], kernel[at], sum);
                }
                *lanes = sum;
            }
        }
        halve::<T, 16, 8>(lanes);
        halve::<T, 8, 4>(lanes);
        for (outputs, lanes) in outputs.chunks_exact_mut(output_width).zip(lanes.as_chunks::<4>().0) {
            outputs[unit] = bias + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
        }
    }
}

/// Adds the second half of each row of `W` lanes to the first and closes the gaps.
#[inline(always)]
pub(super) fn halve<T: Number, const W: usize, const H: usize>(lanes: &mut [T]) {
    let halves = lanes.as_chunks_mut::<H>().0;
    for row in 0..halves.len() / (W / H) {
        let (first, second) = (halves[2 * row], halves[2 * row + 1]);
        for lane in 0..H {
            halves[row][lane] = first[lane] + second[lane];
        }
    }
}

/// sums += the sum of the rows.
#[inline(always)]
pub(super) fn add_rows<T: Number>(rows: Matrix<'_, T>, sums: &mut [T]) {
    let Matrix { values, width } = rows;
    let (pieces, rest) = sums.as_chunks_mut::<PIECE>();
    for (piece, sums) in pieces.iter_mut().enumerate() {
        let mut own = *sums;
        for row in values.chunks_exact(width) {
            let Some(row) = row[piece * PIECE..].first_chunk::<PIECE>() else { break };
            for lane in 0..PIECE {
                own[lane] += row[lane];
            }
        }
        *sums = own;
    }
    let first = width - rest.len();
    for row in values.chunks_exact(width) {
        for (sum, &value) in rest.iter_mut().zip(&row[first..]) {
            *sum += value;
        }
    }
}

/// to = fromᵀ, where rows have the given widths; columns of `from` and `to` beyond the other's rows are left alone.
#[inline(always)]
pub(super) fn transpose<T: Number>(from: &[T], from_width: usize, to: &mut [T], to_width: usize) {
    for (column, to) in to.chunks_exact_mut(to_width).enumerate() {
        for (to, from) in to.iter_mut().zip(from.chunks_exact(from_width)) {
            *to = from[column];
        }
    }
}

/// to = from, row by row, where rows have the given widths; what is wider is left alone.
#[inline(always)]
pub(super) fn copy_rows<T: Copy>(from: &[T], from_width: usize, to: &mut [T], to_width: usize) {
    if from_width == to_width {
        let len = from.len().min(to.len());
        to[..len].copy_from_slice(&from[..len]);
    } else {
        let width = from_width.min(to_width);
        for (to, from) in to.chunks_exact_mut(to_width).zip(from.chunks_exact(from_width)) {
            to[..width].copy_from_slice(&from[..width]);
        }
    }
}

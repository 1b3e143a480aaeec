//! The matrix products of dense layers, on blocks of padded rows, written so that compilers keep sums in registers.

use std::ops::{Add, AddAssign, Mul};

/// Rows are padded to whole pieces of this many numbers.
pub const LANES: usize = 16;
/// Rows of the result that one loop sums.
const ROWS_TOGETHER: usize = 4;

/// f32 for use, f64 for tests.
pub trait Real:
    Copy + Default + PartialOrd + Add<Output = Self> + AddAssign + Mul<Output = Self> + Send + Sync
{
    /// self · a + b with one rounding.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The larger one; the other one where one is not a number.
    fn max(self, other: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f32::mul_add(self, a, b)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        f32::max(self, other)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f64::mul_add(self, a, b)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        f64::max(self, other)
    }
}

/// A matrix of rows of `width` numbers.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    /// Row after row.
    pub values: &'a [T],
    /// Numbers in a row, padding included.
    pub width: usize,
}

/// results = start + factors · terms, where `start` is one row for all, or 0; the results have the width of `terms`.
#[inline(always)]
pub fn product<T: Real>(start: Option<&[T]>, factors: Matrix<'_, T>, terms: Matrix<'_, T>, results: &mut [T]) {
    let pieces = terms.width / LANES;
    let start = start.map(|start| start.as_chunks::<LANES>().0);
    let terms = terms.values.as_chunks::<LANES>().0;
    let group_size = ROWS_TOGETHER * pieces;
    let groups = results.as_chunks_mut::<LANES>().0.chunks_mut(group_size);
    for (factors, results) in factors.values.chunks(ROWS_TOGETHER * factors.width).zip(groups) {
        match results.len() / pieces {
            1 => product_rows::<T, 1>(start, factors, terms, pieces, results),
            2 => product_rows::<T, 2>(start, factors, terms, pieces, results),
            3 => product_rows::<T, 3>(start, factors, terms, pieces, results),
            _ => product_rows::<T, ROWS_TOGETHER>(start, factors, terms, pieces, results),
        }
    }
}

#[inline(always)]
fn product_rows<T: Real, const ROWS: usize>(
    start: Option<&[[T; LANES]]>,
    factors: &[T],
    terms: &[[T; LANES]],
    pieces: usize,
    results: &mut [[T; LANES]],
) {
    let (width, num_terms) = (factors.len() / ROWS, terms.len() / pieces);
    let rows: [&[T]; ROWS] = std::array::from_fn(|row| &factors[row * width..][..num_terms]);
    for piece in 0..pieces {
        let mut sums = [start.map_or([T::default(); LANES], |start| start[piece]); ROWS];
        for (index, term) in terms.chunks_exact(pieces).enumerate().take(num_terms) {
            let term = term[piece];
            for row in 0..ROWS {
                let factor = rows[row][index];
                for lane in 0..LANES {
                    sums[row][lane] = factor.mul_add(term[lane], sums[row][lane]);
                }
            }
        }
        for row in 0..ROWS {
            results[row * pieces + piece] = sums[row];
        }
    }
}

/// sums += factorsᵀ · terms; the sums have the width of `terms` and at most as many rows as `factors` has columns.
#[inline(always)]
pub fn add_transposed_product<T: Real>(factors: Matrix<'_, T>, terms: Matrix<'_, T>, sums: &mut [T]) {
    let pieces = terms.width / LANES;
    let terms = terms.values.as_chunks::<LANES>().0;
    let groups = sums.as_chunks_mut::<LANES>().0.chunks_mut(ROWS_TOGETHER * pieces);
    for (group, sums) in groups.enumerate() {
        let first = group * ROWS_TOGETHER;
        match sums.len() / pieces {
            1 => add_transposed_rows::<T, 1>(factors, first, terms, pieces, sums),
            2 => add_transposed_rows::<T, 2>(factors, first, terms, pieces, sums),
            3 => add_transposed_rows::<T, 3>(factors, first, terms, pieces, sums),
            _ => add_transposed_rows::<T, ROWS_TOGETHER>(factors, first, terms, pieces, sums),
        }
    }
}

#[inline(always)]
fn add_transposed_rows<T: Real, const ROWS: usize>(
    factors: Matrix<'_, T>,
    first: usize,
    terms: &[[T; LANES]],
    pieces: usize,
    sums: &mut [[T; LANES]],
) {
    for piece in 0..pieces {
        let mut own = [[T::default(); LANES]; ROWS];
        for row in 0..ROWS {
            own[row] = sums[row * pieces + piece];
        }
        for (factors, term) in factors.values.chunks_exact(factors.width).zip(terms.chunks_exact(pieces)) {
            let Some(factors) = factors[first..].first_chunk::<ROWS>() else { break };
            let term = term[piece];
            for row in 0..ROWS {
                for lane in 0..LANES {
                    own[row][lane] = factors[row].mul_add(term[lane], own[row][lane]);
                }
            }
        }
        for row in 0..ROWS {
            sums[row * pieces + piece] = own[row];
        }
    }
}

/// outputs(row, unit) = bias(unit) + inputs(row) · transposed(unit): for layers with few units.
///
/// `lanes` has room for a piece a row: the lanes are summed for all rows at once.
#[inline(always)]
pub fn dot_rows<T: Real>(
    inputs: Matrix<'_, T>,
    transposed: &[T],
    bias: &[T],
    outputs: &mut [T],
    output_width: usize,
    lanes: &mut [T],
) {
    let pieces = inputs.width / LANES;
    let inputs = inputs.values.as_chunks::<LANES>().0;
    let lanes = &mut lanes[..inputs.len() / pieces * LANES];
    let kernels = transposed.as_chunks::<LANES>().0.chunks_exact(pieces);
    for (unit, (kernel, &bias)) in kernels.zip(bias).enumerate() {
        for (row, lanes) in inputs.chunks_exact(pieces).zip(lanes.as_chunks_mut::<LANES>().0) {
            let mut sums = [T::default(); LANES];
            for (input, weight) in row.iter().zip(kernel) {
                for lane in 0..LANES {
                    sums[lane] = input[lane].mul_add(weight[lane], sums[lane]);
                }
            }
            *lanes = sums;
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
pub fn halve<T: Real, const W: usize, const H: usize>(lanes: &mut [T]) {
    let halves = lanes.as_chunks_mut::<H>().0;
    for row in 0..halves.len() / (W / H) {
        let (first, second) = (halves[2 * row], halves[2 * row + 1]);
        for lane in 0..H {
            halves[row][lane] = first[lane] + second[lane];
        }
    }
}

/// values = max(values, 0), and 0 for what is not a number.
#[inline(always)]
pub fn rectify<T: Real>(values: &mut [T]) {
    for value in values {
        *value = value.max(T::default());
    }
}

/// values = values where `signs` > 0, and 0 elsewhere.
#[inline(always)]
pub fn keep_where_positive<T: Real>(signs: &[T], values: &mut [T]) {
    for (value, &sign) in values.iter_mut().zip(signs) {
        *value = if sign > T::default() { *value } else { T::default() };
    }
}

/// sums += the sum of the rows.
#[inline(always)]
pub fn add_rows<T: Real>(rows: Matrix<'_, T>, sums: &mut [T]) {
    let (pieces, rest) = sums.as_chunks_mut::<LANES>();
    for (piece, sums) in pieces.iter_mut().enumerate() {
        let mut own = *sums;
        for row in rows.values.chunks_exact(rows.width) {
            let Some(row) = row[piece * LANES..].first_chunk::<LANES>() else { break };
            for lane in 0..LANES {
                own[lane] += row[lane];
            }
        }
        *sums = own;
    }
    let first = rows.width - rest.len();
    for row in rows.values.chunks_exact(rows.width) {
        for (sum, &value) in rest.iter_mut().zip(&row[first..]) {
            *sum += value;
        }
    }
}

/// to = fromᵀ, where rows have the given widths; columns of `from` and `to` beyond the other's rows are left alone.
#[inline(always)]
pub fn transpose<T: Real>(from: &[T], from_width: usize, to: &mut [T], to_width: usize) {
    for (column, to) in to.chunks_exact_mut(to_width).enumerate() {
        for (to, from) in to.iter_mut().zip(from.chunks_exact(from_width)) {
            *to = from[column];
        }
    }
}

/// to = from, row by row, where rows have the given widths; what is wider is left alone.
#[inline(always)]
pub fn copy_rows<T: Real>(from: &[T], from_width: usize, to: &mut [T], to_width: usize) {
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

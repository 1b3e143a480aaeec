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
}

impl Real for f32 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f32::mul_add(self, a, b)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f64::mul_add(self, a, b)
    }
}

/// Factors a(row, term) = values[row · row_step + term · term_step]: a matrix, or its transpose.
#[derive(Clone, Copy)]
pub struct Factors<'a, T> {
    pub values: &'a [T],
    pub row_step: usize,
    pub term_step: usize,
}

/// sums(row) += Σ_term a(row, term) · terms(term); both have rows of `width` numbers, a multiple of [`LANES`].
#[inline(always)]
pub fn add_product<T: Real>(factors: Factors<'_, T>, terms: &[T], width: usize, sums: &mut [T]) {
    let pieces = width / LANES;
    let terms = terms.as_chunks::<LANES>().0;
    let sums = sums.as_chunks_mut::<LANES>().0;
    let mut row = 0;
    let mut groups = sums.chunks_exact_mut(ROWS_TOGETHER * pieces);
    for sums in &mut groups {
        add_product_rows::<T, ROWS_TOGETHER>(factors, row, terms, pieces, sums);
        row += ROWS_TOGETHER;
    }
    for sums in groups.into_remainder().chunks_exact_mut(pieces) {
        add_product_rows::<T, 1>(factors, row, terms, pieces, sums);
        row += 1;
    }
}

#[inline(always)]
fn add_product_rows<T: Real, const ROWS: usize>(
    factors: Factors<'_, T>,
    first_row: usize,
    terms: &[[T; LANES]],
    pieces: usize,
    sums: &mut [[T; LANES]],
) {
    let Factors { values, row_step, term_step } = factors;
    for piece in 0..pieces {
        let mut own = [[T::default(); LANES]; ROWS];
        for row in 0..ROWS {
            own[row] = sums[row * pieces + piece];
        }
        let mut at = first_row * row_step;
        for term in terms[piece..].iter().step_by(pieces) {
            for row in 0..ROWS {
                let factor = values[at + row * row_step];
                for lane in 0..LANES {
                    own[row][lane] = factor.mul_add(term[lane], own[row][lane]);
                }
            }
            at += term_step;
        }
        for row in 0..ROWS {
            sums[row * pieces + piece] = own[row];
        }
    }
}

/// outputs(row, unit) = bias(unit) + inputs(row) · transposed(unit): for layers with few units.
#[inline(always)]
pub fn dot_rows<T: Real>(inputs: &[T], width: usize, transposed: &[T], bias: &[T], outputs: &mut [T], step: usize) {
    let pieces = width / LANES;
    let kernel = transposed.as_chunks::<LANES>().0;
    let rows = inputs.as_chunks::<LANES>().0.chunks_exact(pieces);
    for (row, outputs) in rows.zip(outputs.chunks_exact_mut(step)) {
        for ((output, kernel), &bias) in outputs.iter_mut().zip(kernel.chunks_exact(pieces)).zip(bias) {
            let mut sums = [T::default(); LANES];
            for (input, weight) in row.iter().zip(kernel) {
                for lane in 0..LANES {
                    sums[lane] = input[lane].mul_add(weight[lane], sums[lane]);
                }
            }
            *output = bias + sum_of(sums);
        }
    }
}

/// The sum of the lanes, by halving.
#[inline(always)]
fn sum_of<T: Real>(mut lanes: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = lanes[lane] + lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
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

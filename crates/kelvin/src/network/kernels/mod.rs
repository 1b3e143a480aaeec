//! The two products that all layers but the fused ones are made of, with sums kept in registers.
//!
//! ```text
//! product        c[m][n] (+)= Σ_s Σ_k a[m·step + s·stride + k] · b[s, k][n]      rows of a may overlap: a convolution
//! outer product  c[j][n]  += Σ_y Σ_p a[y·stride + p·step + j] · b[y, p][n]       its weight gradient
//! ```
//! Columns n are vectors; numbers of a are broadcast. No crate's product takes rows that overlap, and copying them out
//! first (nine times the image) costs more than is left of the time these take.

mod double;
mod plain;
mod single;

use std::ops::{Add, AddAssign, Mul, Sub};

use pulp::{Simd, WithSimd};

/// Columns come in whole pieces of this many numbers.
pub(super) const PIECE: usize = 16;
/// Columns of a wide panel of packed terms.
const WIDE: usize = 2 * PIECE;

/// The rows of a that a product reads.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a, T> {
    pub values: &'a [T],
    /// From one row of the result to the next.
    pub step: usize,
    /// Pieces of a row, how far apart they lie, and how long they are.
    pub num_pieces: usize,
    pub piece_stride: usize,
    pub piece_len: usize,
}

/// Where a product puts its rows.
pub struct Results<'a, T> {
    pub values: &'a mut [T],
    /// From one row to the next.
    pub step: usize,
    pub num_rows: usize,
    /// Columns, a multiple of [`PIECE`].
    pub num_columns: usize,
}

/// What a sum starts from.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a, T> {
    Zero,
    /// The same row for all.
    Row(&'a [T]),
    /// What is there.
    Results,
}

/// The rows of an outer product: `num_lines` lines of `len` pairs of rows.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a, T> {
    pub values: &'a [T],
    pub step: usize,
    pub line_stride: usize,
}

/// f32 for use, f64 for tests.
pub trait Number:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + AddAssign
    + Send
    + Sync
    + std::fmt::Debug
    + 'static
{
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;

    /// Some numbers that are worked on together.
    type Vector<S: Simd>: Copy;

    fn vectors<S: Simd>(values: &[Self]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(values: &mut [Self]) -> &mut [Self::Vector<S>];
    /// How many vectors make `len` numbers.
    fn num_vectors<S: Simd>(len: usize) -> usize;
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn minus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// a·b + c.
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// The larger one; b where one is not a number.
    fn max<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// The value where the sign is positive, else 0.
    fn where_positive<S: Simd>(simd: S, sign: Self::Vector<S>, value: Self::Vector<S>) -> Self::Vector<S>;

    fn tanh<S: Simd>(self) -> Self;
    /// The distribution function and the density of a standard normal.
    fn normal<S: Simd>(self) -> (Self, Self);
    /// 1/(1 + e^{−x}).
    fn logistic<S: Simd>(self) -> Self;

    /// Runs a job with the widest vectors there are.
    fn dispatch<J: WithSimd>(job: J) -> J::Output;

    /// `packed` holds the terms as [`pack`] lays them out.
    fn product<S: Simd>(
        simd: S,
        from: Factors<'_, Self>,
        packed: &[Self],
        start: Start<'_, Self>,
        to: Results<'_, Self>,
    );

    /// Adds Σ a[j] · b[n] over all pairs of rows to `to`, rows j and columns n.
    fn add_outer<S: Simd>(
        simd: S,
        a: Lines<'_, Self>,
        b: Lines<'_, Self>,
        num_lines: usize,
        len: usize,
        to: Results<'_, Self>,
    );
}

/// The width of the panel that starts at a column.
pub(super) fn panel_width(column: usize, num_columns: usize) -> usize {
    if num_columns - column >= WIDE { WIDE } else { PIECE }
}

/// Lays out terms for [`Number::product`]: panels of columns, in each row after row. `term(k, n)` gives the numbers.
pub(super) fn pack<T: Number>(
    num_rows: usize,
    num_columns: usize,
    packed: &mut [T],
    mut term: impl FnMut(usize, usize) -> T,
) {
    let mut column = 0;
    while column < num_columns {
        let width = panel_width(column, num_columns);
        let panel = &mut packed[column * num_rows..][..width * num_rows];
        for (k, row) in panel.chunks_exact_mut(width).enumerate() {
            for (n, to) in row.iter_mut().enumerate() {
                *to = term(k, column + n);
            }
        }
        column += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: f64) -> Vec<f64> {
        (0..len).map(|i| f64::from(((i as f64 + seed) * 0.7).sin() as f32)).collect()
    }

    fn narrow(values: &[f64]) -> Vec<f32> {
        values.iter().map(|&value| value as f32).collect()
    }

    struct BothProducts<'a, T> {
        a: &'a [T],
        b: &'a [T],
        columns: usize,
        rows: usize,
        results: &'a mut [T],
        sums: &'a mut [T],
    }

    impl<T: Number> WithSimd for BothProducts<'_, T> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self { a, b, columns, rows, results, sums } = self;
            let from = Factors { values: a, step: 5, num_pieces: 3, piece_stride: 40, piece_len: 7 };
            let to = || (rows, columns);
            let (num_rows, num_columns) = to();
            T::product(
                simd,
                from,
                b,
                Start::Results,
                Results { values: results, step: columns + 3, num_rows, num_columns },
            );
            let factors = Lines { values: a, step: 19, line_stride: 100 };
            let terms = Lines { values: b, step: columns, line_stride: 4 * columns };
            T::add_outer(
                simd,
                factors,
                terms,
                2,
                4,
                Results { values: sums, step: columns, num_rows: 17, num_columns },
            );
        }
    }

    #[test]
    fn vectors_give_the_sums_of_plain_loops() {
        for columns in [16, 32, 48, 80] {
            for rows in 1..20 {
                let (a, b) = (numbers(400, 0.3), numbers(21 * columns, 0.9));
                let (mut results, mut sums) = (numbers(rows * (columns + 3), 0.1), numbers(17 * columns, 0.2));
                let [a32, b32] = [&a, &b].map(|values| narrow(values));
                let [mut results32, mut sums32] = [&results, &sums].map(|values| narrow(values));
                f64::dispatch(BothProducts { a: &a, b: &b, columns, rows, results: &mut results, sums: &mut sums });
                let (results_to, sums_to) = (&mut results32, &mut sums32);
                f32::dispatch(BothProducts { a: &a32, b: &b32, columns, rows, results: results_to, sums: sums_to });
                let pairs = results.iter().zip(&results32).chain(sums.iter().zip(&sums32));
                for (wanted, &found) in pairs {
                    assert!((wanted - f64::from(found)).abs() < 2e-5, "{columns} {rows}: {wanted} {found}");
                }
            }
        }
    }

    #[test]
    fn packing_orders_by_panel() {
        let mut packed = vec![0.0f32; 2 * 48];
        pack(2, 48, &mut packed, |k, n| (100 * k + n) as f32);
        assert_eq!((packed[0], packed[31], packed[32]), (0.0, 31.0, 100.0));
        assert_eq!((packed[64], packed[80]), (32.0, 132.0));
    }
}

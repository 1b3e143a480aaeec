//! The two products that all layers of images are made of, with sums kept in registers.
//!
//! ```text
//! product        c[m][n] (+)= Σ_s Σ_k a[m·step + s·stride + k] · b[s, k][n]      rows of a may overlap: a convolution
//! outer product  c[j][n]  += Σ_y Σ_p a[y·stride + p·step + j] · b[y, p][n]       its weight gradient
//! ```
//! Columns n are vectors; numbers of a are broadcast. No crate's product takes rows that overlap, and copying them out
//! first (nine times the image) costs more than is left of the time these take.

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
    fn larger(self, other: Self) -> Self;

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

impl Number for f32 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    type Vector<S: Simd> = S::f32s;

    #[inline(always)]
    fn vectors<S: Simd>(values: &[f32]) -> &[S::f32s] {
        S::as_simd_f32s(values).0
    }

    #[inline(always)]
    fn vectors_mut<S: Simd>(values: &mut [f32]) -> &mut [S::f32s] {
        S::as_mut_simd_f32s(values).0
    }

    #[inline(always)]
    fn num_vectors<S: Simd>(len: usize) -> usize {
        len / S::F32_LANES
    }

    #[inline(always)]
    fn splat<S: Simd>(simd: S, value: f32) -> S::f32s {
        simd.splat_f32s(value)
    }

    #[inline(always)]
    fn plus<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(a, b)
    }

    #[inline(always)]
    fn minus<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.sub_f32s(a, b)
    }

    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, c)
    }

    #[inline(always)]
    fn max<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.max_f32s(a, b)
    }

    #[inline(always)]
    fn where_positive<S: Simd>(simd: S, sign: S::f32s, value: S::f32s) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        simd.select_f32s(simd.less_than_f32s(zero, sign), value, zero)
    }

    fn dispatch<J: WithSimd>(job: J) -> J::Output {
        pulp::Arch::new().dispatch(job)
    }

    #[inline(always)]
    fn product<S: Simd>(simd: S, from: Factors<'_, f32>, packed: &[f32], start: Start<'_, f32>, to: Results<'_, f32>) {
        simd.vectorize(ProductJob { from, packed, start, to });
    }

    #[inline(always)]
    fn add_outer<S: Simd>(
        simd: S,
        a: Lines<'_, f32>,
        b: Lines<'_, f32>,
        num_lines: usize,
        len: usize,
        to: Results<'_, f32>,
    ) {
        simd.vectorize(OuterJob { a, b, num_lines, len, to });
    }
}

/// A product as a function of its own: inlined into every layer it would take long to compile.
struct ProductJob<'a> {
    from: Factors<'a, f32>,
    packed: &'a [f32],
    start: Start<'a, f32>,
    to: Results<'a, f32>,
}

impl WithSimd for ProductJob<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { from, packed, start, to } = self;
        let depth = from.num_pieces * from.piece_len;
        let Results { values, step, num_rows, num_columns } = to;
        let mut column = 0;
        while column < num_columns {
            let width = panel_width(column, num_columns);
            let panel = &packed[column * depth..][..width * depth];
            let start = match start {
                Start::Row(row) => Start::Row(&row[column..column + width]),
                other => other,
            };
            let to = Results { values: &mut values[column..], step, num_rows, num_columns: width };
            match (S::F32_LANES, width) {
                (16, WIDE) => product_steps::<S, 2>(simd, from, panel, start, to),
                (16, _) => product_steps::<S, 1>(simd, from, panel, start, to),
                (8, WIDE) => product_rows::<S, 4, 0>(simd, from, panel, start, to),
                (8, _) => product_rows::<S, 2, 0>(simd, from, panel, start, to),
                (4, WIDE) => product_rows::<S, 8, 0>(simd, from, panel, start, to),
                (4, _) => product_rows::<S, 4, 0>(simd, from, panel, start, to),
                (_, WIDE) => product_rows::<S, 32, 0>(simd, from, panel, start, to),
                _ => product_rows::<S, 16, 0>(simd, from, panel, start, to),
            }
            column += width;
        }
    }
}

struct OuterJob<'a> {
    a: Lines<'a, f32>,
    b: Lines<'a, f32>,
    num_lines: usize,
    len: usize,
    to: Results<'a, f32>,
}

impl WithSimd for OuterJob<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, b, num_lines, len, to } = self;
        let Results { values, step, num_rows, num_columns } = to;
        let mut column = 0;
        while column < num_columns {
            let width = panel_width(column, num_columns);
            let b = Lines { values: &b.values[column..], ..b };
            let to = Results { values: &mut values[column..], step, num_rows, num_columns: width };
            match (S::F32_LANES, width) {
                (16, WIDE) => outer_rows::<S, 2, 8>(simd, a, b, num_lines, len, to),
                (16, _) => outer_rows::<S, 1, 16>(simd, a, b, num_lines, len, to),
                (8, WIDE) => outer_rows::<S, 4, 3>(simd, a, b, num_lines, len, to),
                (8, _) => outer_rows::<S, 2, 6>(simd, a, b, num_lines, len, to),
                (4, WIDE) => outer_rows::<S, 8, 2>(simd, a, b, num_lines, len, to),
                (4, _) => outer_rows::<S, 4, 4>(simd, a, b, num_lines, len, to),
                (_, WIDE) => outer_rows::<S, 32, 1>(simd, a, b, num_lines, len, to),
                _ => outer_rows::<S, 16, 1>(simd, a, b, num_lines, len, to),
            }
            column += width;
        }
    }
}

/// Steps between rows that the compiler knows need one register for all rows.
#[inline(always)]
fn product_steps<S: Simd, const VECTORS: usize>(
    simd: S,
    from: Factors<'_, f32>,
    panel: &[f32],
    start: Start<'_, f32>,
    to: Results<'_, f32>,
) {
    match from.step {
        // 16, 32 and 64 channels of Winograd's tiles.
        272 => product_rows::<S, VECTORS, 272>(simd, from, panel, start, to),
        528 => product_rows::<S, VECTORS, 528>(simd, from, panel, start, to),
        1040 => product_rows::<S, VECTORS, 1040>(simd, from, panel, start, to),
        _ => product_rows::<S, VECTORS, 0>(simd, from, panel, start, to),
    }
}

/// Rows of one panel, as many together as registers hold; `STEP` is the step between rows where it is not 0.
#[inline(always)]
fn product_rows<S: Simd, const VECTORS: usize, const STEP: usize>(
    simd: S,
    from: Factors<'_, f32>,
    panel: &[f32],
    start: Start<'_, f32>,
    to: Results<'_, f32>,
) {
    let terms = S::as_simd_f32s(panel).0.as_chunks::<VECTORS>().0;
    let Results { values, step, num_rows, num_columns } = to;
    // 32 registers hold 8 rows of two vectors beside what they are made of, 16 registers fewer.
    let together = match S::F32_LANES {
        16 => 8,
        8 if VECTORS == 2 => 6,
        _ => (12 / VECTORS).clamp(1, 8),
    };
    let mut row = 0;
    // A closure here would not be compiled for the vectors of `S`.
    while row < num_rows {
        // Tiles have 8, 6, 4, 2 or 1 rows.
        let rows = match together.min(num_rows - row) {
            1 => 1,
            rows => rows / 2 * 2,
        };
        let from = Factors { values: &from.values[row * from.step..], ..from };
        let to = Results { values: &mut values[row * step..], step, num_rows: rows, num_columns };
        match rows {
            1 => product_tile::<S, 1, VECTORS, STEP>(simd, from, terms, start, to),
            2 | 3 => product_tile::<S, 2, VECTORS, STEP>(simd, from, terms, start, to),
            4 | 5 => product_tile::<S, 4, VECTORS, STEP>(simd, from, terms, start, to),
            6 | 7 => product_tile::<S, 6, VECTORS, STEP>(simd, from, terms, start, to),
            _ => product_tile::<S, 8, VECTORS, STEP>(simd, from, terms, start, to),
        }
        row += rows;
    }
}

#[inline(always)]
fn product_tile<S: Simd, const ROWS: usize, const VECTORS: usize, const STEP: usize>(
    simd: S,
    from: Factors<'_, f32>,
    terms: &[[S::f32s; VECTORS]],
    start: Start<'_, f32>,
    to: Results<'_, f32>,
) {
    let width = to.num_columns;
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    match start {
        Start::Zero => {}
        Start::Row(row) => {
            let row = &S::as_simd_f32s(row).0[..VECTORS];
            for sums in &mut sums {
                sums.copy_from_slice(row);
            }
        }
        Start::Results => {
            for (m, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(S::as_simd_f32s(&to.values[m * to.step..][..width]).0);
            }
        }
    }
    let len = from.piece_len;
    for piece in 0..from.num_pieces {
        let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
        let values = &from.values[piece * from.piece_stride..];
        for (m, row) in rows.iter_mut().enumerate() {
            *row = &values[m * if STEP > 0 { STEP } else { from.step }..][..len];
        }
        let terms = &terms[piece * len..][..len];
        for k in 0..len {
            for m in 0..ROWS {
                let factor = simd.splat_f32s(rows[m][k]);
                for n in 0..VECTORS {
                    sums[m][n] = simd.mul_add_e_f32s(factor, terms[k][n], sums[m][n]);
                }
            }
        }
    }
    for (m, sums) in sums.iter().enumerate() {
        S::as_mut_simd_f32s(&mut to.values[m * to.step..][..width]).0.copy_from_slice(sums);
    }
}

/// Rows of one panel of an outer product, `TOGETHER` at a time.
#[inline(always)]
fn outer_rows<S: Simd, const VECTORS: usize, const TOGETHER: usize>(
    simd: S,
    a: Lines<'_, f32>,
    b: Lines<'_, f32>,
    num_lines: usize,
    len: usize,
    to: Results<'_, f32>,
) {
    let Results { values, step, num_rows, num_columns } = to;
    let mut row = 0;
    while row < num_rows {
        let a = Lines { values: &a.values[row..], ..a };
        let to = Results { values: &mut values[row * step..], step, num_rows, num_columns };
        let left = num_rows - row;
        row += if left >= TOGETHER {
            outer_tile::<S, TOGETHER, VECTORS>(simd, a, b, num_lines, len, to);
            TOGETHER
        } else if left >= 8 {
            outer_tile::<S, 8, VECTORS>(simd, a, b, num_lines, len, to);
            8
        } else if left >= 3 {
            outer_tile::<S, 3, VECTORS>(simd, a, b, num_lines, len, to);
            3
        } else {
            outer_tile::<S, 1, VECTORS>(simd, a, b, num_lines, len, to);
            1
        };
    }
}

#[inline(always)]
fn outer_tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    a: Lines<'_, f32>,
    b: Lines<'_, f32>,
    num_lines: usize,
    len: usize,
    to: Results<'_, f32>,
) {
    let width = to.num_columns;
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for (j, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(S::as_simd_f32s(&to.values[j * to.step..][..width]).0);
    }
    for line in 0..num_lines {
        let factors = a.values[line * a.line_stride..].chunks(a.step);
        let terms = b.values[line * b.line_stride..].chunks(b.step);
        for (factors, terms) in factors.zip(terms).take(len) {
            let factors: &[f32; ROWS] = factors.first_chunk().expect("a row of factors");
            let terms = S::as_simd_f32s(&terms[..width]).0.first_chunk::<VECTORS>().expect("a row of terms");
            for (&factor, sums) in factors.iter().zip(&mut sums) {
                let factor = simd.splat_f32s(factor);
                for (sum, &term) in sums.iter_mut().zip(terms) {
                    *sum = simd.mul_add_e_f32s(factor, term, *sum);
                }
            }
        }
    }
    for (j, sums) in sums.iter().enumerate() {
        S::as_mut_simd_f32s(&mut to.values[j * to.step..][..width]).0.copy_from_slice(sums);
    }
}

/// The reference: the same sums in plain loops.
impl Number for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    type Vector<S: Simd> = f64;

    fn vectors<S: Simd>(values: &[f64]) -> &[f64] {
        values
    }

    fn vectors_mut<S: Simd>(values: &mut [f64]) -> &mut [f64] {
        values
    }

    fn num_vectors<S: Simd>(len: usize) -> usize {
        len
    }

    fn splat<S: Simd>(_: S, value: f64) -> f64 {
        value
    }

    fn plus<S: Simd>(_: S, a: f64, b: f64) -> f64 {
        a + b
    }

    fn minus<S: Simd>(_: S, a: f64, b: f64) -> f64 {
        a - b
    }

    fn mul_add<S: Simd>(_: S, a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }

    fn max<S: Simd>(_: S, a: f64, b: f64) -> f64 {
        a.larger(b)
    }

    fn where_positive<S: Simd>(_: S, sign: f64, value: f64) -> f64 {
        if sign > 0.0 { value } else { 0.0 }
    }

    fn dispatch<J: WithSimd>(job: J) -> J::Output {
        job.with_simd(pulp::Scalar)
    }

    fn product<S: Simd>(_: S, from: Factors<'_, f64>, packed: &[f64], start: Start<'_, f64>, to: Results<'_, f64>) {
        let depth = from.num_pieces * from.piece_len;
        for m in 0..to.num_rows {
            let mut column = 0;
            while column < to.num_columns {
                let width = panel_width(column, to.num_columns);
                let panel = &packed[column * depth..][..width * depth];
                for n in 0..width {
                    let result = &mut to.values[m * to.step + column + n];
                    let mut sum = match start {
                        Start::Zero => 0.0,
                        Start::Row(row) => row[column + n],
                        Start::Results => *result,
                    };
                    for piece in 0..from.num_pieces {
                        for k in 0..from.piece_len {
                            let factor = from.values[m * from.step + piece * from.piece_stride + k];
                            sum += factor * panel[(piece * from.piece_len + k) * width + n];
                        }
                    }
                    *result = sum;
                }
                column += width;
            }
        }
    }

    fn add_outer<S: Simd>(
        _: S,
        a: Lines<'_, f64>,
        b: Lines<'_, f64>,
        num_lines: usize,
        len: usize,
        to: Results<'_, f64>,
    ) {
        for line in 0..num_lines {
            for p in 0..len {
                for j in 0..to.num_rows {
                    let factor = a.values[line * a.line_stride + p * a.step + j];
                    for n in 0..to.num_columns {
                        to.values[j * to.step + n] += factor * b.values[line * b.line_stride + p * b.step + n];
                    }
                }
            }
        }
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

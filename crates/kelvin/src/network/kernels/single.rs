//! Products in single precision: tiles of the result stay in registers, as many rows as there is room for.

use pulp::{Simd, WithSimd};

use super::{Factors, Lines, Number, PIECE, Results, Start, WIDE, panel_width, plain};
use crate::vector;

impl Number for f32 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
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

    #[inline(always)]
    fn tanh<S: Simd>(self) -> f32 {
        vector::tanh::<S>(self)
    }

    #[inline(always)]
    fn normal<S: Simd>(self) -> (f32, f32) {
        vector::normal::<S>(self)
    }

    #[inline(always)]
    fn logistic<S: Simd>(self) -> f32 {
        vector::logistic::<S>(self)
    }

    fn dispatch<J: WithSimd>(job: J) -> J::Output {
        vector::dispatch(job)
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
        if const { S::IS_SCALAR } {
            return plain::product(from, packed, start, to);
        }
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
            // Only the arms of this width are compiled. A wide panel has as many columns as sixteen registers hold twice.
            if const { S::F32_LANES == 16 } {
                match width {
                    WIDE => product_steps::<S, 2>(simd, from, panel, start, to),
                    _ => product_steps::<S, 1>(simd, from, panel, start, to),
                }
            } else if const { S::F32_LANES == 8 } {
                match width {
                    WIDE => product_halves::<S, 4, 2>(simd, from, panel, start, to),
                    _ => product_rows::<S, 2, 0, 2, 0>(simd, from, panel, start, to),
                }
            } else {
                match width {
                    WIDE => product_halves::<S, 8, 4>(simd, from, panel, start, to),
                    _ => product_rows::<S, 4, 0, 4, 0>(simd, from, panel, start, to),
                }
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
        if const { S::IS_SCALAR } {
            return plain::add_outer(a, b, num_lines, len, to);
        }
        let Results { values, step, num_rows, num_columns } = to;
        let mut column = 0;
        while column < num_columns {
            let width = if const { S::F32_LANES == 16 } { panel_width(column, num_columns) } else { PIECE };
            let b = Lines { values: &b.values[column..], ..b };
            let to = Results { values: &mut values[column..], step, num_rows, num_columns: width };
            if const { S::F32_LANES == 16 } {
                match width {
                    WIDE => outer_rows::<S, 2, 8>(simd, a, b, num_lines, len, to),
                    _ => outer_rows::<S, 1, 16>(simd, a, b, num_lines, len, to),
                }
            } else if const { S::F32_LANES == 8 } {
                outer_rows::<S, 2, 6>(simd, a, b, num_lines, len, to);
            } else {
                outer_rows::<S, 4, 6>(simd, a, b, num_lines, len, to);
            }
            column += width;
        }
    }
}

/// A wide panel, half of its columns after the other.
#[inline(always)]
fn product_halves<S: Simd, const PANEL: usize, const HALF: usize>(
    simd: S,
    from: Factors<'_, f32>,
    panel: &[f32],
    start: Start<'_, f32>,
    to: Results<'_, f32>,
) {
    let Results { values, step, num_rows, .. } = to;
    let starts = match start {
        Start::Row(row) => [Start::Row(&row[..PIECE]), Start::Row(&row[PIECE..])],
        other => [other; 2],
    };
    let to = Results { values: &mut *values, step, num_rows, num_columns: PIECE };
    product_rows::<S, PANEL, 0, HALF, 0>(simd, from, panel, starts[0], to);
    let to = Results { values: &mut values[PIECE..], step, num_rows, num_columns: PIECE };
    product_rows::<S, PANEL, HALF, HALF, 0>(simd, from, panel, starts[1], to);
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
        272 => product_rows::<S, VECTORS, 0, VECTORS, 272>(simd, from, panel, start, to),
        528 => product_rows::<S, VECTORS, 0, VECTORS, 528>(simd, from, panel, start, to),
        1040 => product_rows::<S, VECTORS, 0, VECTORS, 1040>(simd, from, panel, start, to),
        _ => product_rows::<S, VECTORS, 0, VECTORS, 0>(simd, from, panel, start, to),
    }
}

/// Rows of `VECTORS` vectors from vector `FIRST` of a panel on, as many together as registers hold; `STEP` is the step between rows
/// where it is not 0.
#[inline(always)]
fn product_rows<S: Simd, const PANEL: usize, const FIRST: usize, const VECTORS: usize, const STEP: usize>(
    simd: S,
    from: Factors<'_, f32>,
    panel: &[f32],
    start: Start<'_, f32>,
    to: Results<'_, f32>,
) {
    let terms = S::as_simd_f32s(panel).0.as_chunks::<PANEL>().0;
    let Results { values, step, num_rows, num_columns } = to;
    // 32 registers hold 24 sums beside what they are made of, 16 registers 12.
    let together = (S::REGISTER_COUNT * 3 / 4 / VECTORS).min(8);
    let mut row = 0;
    // A closure here would not be compiled for the vectors of `S`.
    while row < num_rows {
        // Tiles have 8, 6, 4, 3, 2 or 1 rows.
        let rows = match together.min(num_rows - row) {
            7 => 6,
            5 => 4,
            rows => rows,
        };
        let from = Factors { values: &from.values[row * from.step..], ..from };
        let to = Results { values: &mut values[row * step..], step, num_rows: rows, num_columns };
        match rows {
            1 => product_tile::<S, 1, PANEL, FIRST, VECTORS, STEP>(simd, from, terms, start, to),
            2 => product_tile::<S, 2, PANEL, FIRST, VECTORS, STEP>(simd, from, terms, start, to),
            3 => product_tile::<S, 3, PANEL, FIRST, VECTORS, STEP>(simd, from, terms, start, to),
            4 if const { S::REGISTER_COUNT > 4 * VECTORS } => {
                product_tile::<S, 4, PANEL, FIRST, VECTORS, STEP>(simd, from, terms, start, to);
            }
            6 if const { S::REGISTER_COUNT > 6 * VECTORS } => {
                product_tile::<S, 6, PANEL, FIRST, VECTORS, STEP>(simd, from, terms, start, to);
            }
            8 if const { S::REGISTER_COUNT > 8 * VECTORS } => {
                product_tile::<S, 8, PANEL, FIRST, VECTORS, STEP>(simd, from, terms, start, to);
            }
            _ => unreachable!("no tile has so many rows"),
        }
        row += rows;
    }
}

#[inline(always)]
fn product_tile<
    S: Simd,
    const ROWS: usize,
    const PANEL: usize,
    const FIRST: usize,
    const VECTORS: usize,
    const STEP: usize,
>(
    simd: S,
    from: Factors<'_, f32>,
    terms: &[[S::f32s; PANEL]],
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
                    sums[m][n] = simd.mul_add_e_f32s(factor, terms[k][FIRST + n], sums[m][n]);
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
        } else if const { TOGETHER > 8 } && left >= 8 {
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

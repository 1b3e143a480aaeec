//! Products in double precision, in plain loops: the reference.

use pulp::{Simd, WithSimd};

use super::{Factors, Lines, Number, Results, Start, panel_width};

/// The reference: the same sums in plain loops.
impl Number for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
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
        if a > b { a } else { b }
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

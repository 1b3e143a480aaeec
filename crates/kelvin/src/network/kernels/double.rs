//! Double precision: the reference.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

use pulp::{Simd, WithSimd};
use statrs::function::erf::erfc;

use super::plain::{add_outer, product};
use super::{Factors, Lines, Number, Results, Start};

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

    fn tanh<S: Simd>(self) -> f64 {
        f64::tanh(self)
    }

    fn normal<S: Simd>(self) -> (f64, f64) {
        let below = 0.5 * erfc(-self * FRAC_1_SQRT_2);
        (below, (-0.5 * self * self).exp() / TAU.sqrt())
    }

    fn logistic<S: Simd>(self) -> f64 {
        1.0 / (1.0 + (-self).exp())
    }

    fn dispatch<J: WithSimd>(job: J) -> J::Output {
        job.with_simd(pulp::Scalar)
    }

    fn product<S: Simd>(_: S, from: Factors<'_, f64>, packed: &[f64], start: Start<'_, f64>, to: Results<'_, f64>) {
        product(from, packed, start, to);
    }

    fn add_outer<S: Simd>(
        _: S,
        a: Lines<'_, f64>,
        b: Lines<'_, f64>,
        num_lines: usize,
        len: usize,
        to: Results<'_, f64>,
    ) {
        add_outer(a, b, num_lines, len, to);
    }
}

//! Vector instructions: which are in use, and the few operations that potentials and update rules share.
//!
//! Each is a value that `pulp` runs inside a function compiled for the instructions in use. Sums run in sixteen lanes
//! whatever the processor, so results do not depend on its vector width.

mod elementary;
mod instructions;

pub(crate) use elementary::{exp, ln, logistic, normal, tanh};
pub use instructions::{ENVIRONMENT_VARIABLE, Instructions, InstructionsError};
pub(crate) use instructions::{dispatch, dispatch_vectors};

use pulp::{Simd, WithSimd};

/// a·b + c, with one rounding where `S` has fused multiply-adds and with two where not.
#[inline(always)]
pub(crate) fn mul_add<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

/// The same in double precision.
#[inline(always)]
pub(crate) fn mul_add_f64<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

/// Lanes that sums run in, whatever the width of a vector.
const LANES: usize = 16;

/// Σ x², accumulated in sixteen f32 lanes and summed in f64.
pub(crate) fn sum_of_squares(values: &[f32]) -> f64 {
    dispatch(SumOfSquares { values })
}

/// target = scale · target + a · x + b · y.
pub(crate) fn combine(target: &mut [f32], scale: f64, a: f64, x: &[f32], b: f64, y: &[f32]) {
    dispatch(Combine { target, scale: scale as f32, a: a as f32, x, b: b as f32, y });
}

/// target = scale · target + a · x.
pub(crate) fn scale_and_add(target: &mut [f32], scale: f64, a: f64, x: &[f32]) {
    dispatch(ScaleAndAdd { target, scale: scale as f32, a: a as f32, x });
}

/// What a norm must be multiplied by so as not to exceed `limit`; 1 where it is below.
pub(crate) fn clip_factor(norm: f64, limit: f64) -> f64 {
    if norm < limit { 1.0 } else { limit / norm }
}

struct SumOfSquares<'a> {
    values: &'a [f32],
}

impl WithSimd for SumOfSquares<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut lanes = [0.0f32; LANES];
        let mut chunks = self.values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = mul_add::<S>(value, value, *lane);
            }
        }
        let rest: f64 = chunks.remainder().iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>() + rest
    }
}

struct Combine<'a> {
    target: &'a mut [f32],
    scale: f32,
    a: f32,
    x: &'a [f32],
    b: f32,
    y: &'a [f32],
}

impl WithSimd for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { target, scale, a, x, b, y } = self;
        for ((target, &x), &y) in target.iter_mut().zip(x).zip(y) {
            *target = mul_add::<S>(b, y, mul_add::<S>(a, x, scale * *target));
        }
    }
}

struct ScaleAndAdd<'a> {
    target: &'a mut [f32],
    scale: f32,
    a: f32,
    x: &'a [f32],
}

impl WithSimd for ScaleAndAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { target, scale, a, x } = self;
        for (target, &x) in target.iter_mut().zip(x) {
            *target = mul_add::<S>(a, x, scale * *target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_do_their_sums() {
        let x: Vec<f32> = (0..35).map(|i| i as f32).collect();
        assert_eq!(sum_of_squares(&x), (0..35).map(|i| f64::from(i * i)).sum::<f64>());
        let mut target = vec![1.0f32; 35];
        combine(&mut target, 2.0, 3.0, &x, -1.0, &x);
        assert!(target.iter().zip(&x).all(|(t, x)| *t == 2.0 + 2.0 * x));
        scale_and_add(&mut target, 3.0, -6.0, &x);
        assert!(target.iter().all(|t| *t == 6.0));
    }

    #[test]
    fn clips_to_the_limit_and_leaves_the_rest() {
        assert_eq!(clip_factor(3.0, 4.0), 1.0);
        assert_eq!(clip_factor(8.0, 4.0), 0.5);
    }
}

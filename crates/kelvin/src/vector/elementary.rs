//! Elementary functions for hot loops: plain arithmetic that compilers turn into vectors, the same bits for every width.
//!
//! ```text
//! e^x     = 2^k · 2^f,  k = round(x/ln 2),  2^f by its Taylor series to f⁷               relative error below 2e-7 for −87 ≤ x ≤ 88
//! tanh x  = x (945 + 105 x² + x⁴)/(945 + 420 x² + 15 x⁴)  for |x| < 0.7 (Lambert's fraction), else ±(1 − e^{−2|x|})/(1 + e^{−2|x|})
//! ```
//! tanh has an absolute error below 1.5e-7; both are constant beyond the range in which they differ from their limits.

use pulp::Simd;

use super::mul_add;

/// 2^52's fellow in single precision: added and taken away it rounds to whole numbers.
const ROUNDING: f32 = 12_582_912.0;
/// Where e^x is cut off, below and above.
const LEAST: f32 = -87.0;
const MOST: f32 = 88.0;
/// (ln 2)^k/k!.
const SERIES: [f32; 8] =
    [1.0, 0.693_147_2, 0.240_226_5, 0.055_504_11, 0.009_618_129, 0.001_333_355_8, 0.000_154_035_3, 0.000_015_252_734];

/// e^x, where x is taken for −87 below it and for 88 above.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    let scaled = x.clamp(LEAST, MOST) * std::f32::consts::LOG2_E;
    let shifted = scaled + ROUNDING;
    let f = scaled - (shifted - ROUNDING);
    let mut power = SERIES[7];
    for term in (0..7).rev() {
        power = mul_add::<S>(power, f, SERIES[term]);
    }
    let k = shifted.to_bits().wrapping_sub(ROUNDING.to_bits());
    power * f32::from_bits(k.wrapping_add(127) << 23)
}

/// tanh x.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(x: f32) -> f32 {
    let (size, square) = (x.abs(), x * x);
    let decay = exp::<S>(-2.0 * size);
    let near = mul_add::<S>(square, square + 105.0, 945.0) * size;
    let below = mul_add::<S>(square, mul_add::<S>(15.0, square, 420.0), 945.0);
    let is_small = size < 0.7;
    let numerator = if is_small { near } else { 1.0 - decay };
    let denominator = if is_small { below } else { 1.0 + decay };
    (numerator / denominator).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(range: std::ops::Range<i32>) -> impl Iterator<Item = f32> {
        range.map(|step| step as f32 / 1024.0)
    }

    #[test]
    fn exponentials_have_the_error_that_is_stated() {
        for x in every(-87 * 1024..88 * 1024) {
            let (found, wanted) = (f64::from(exp::<pulp::Scalar>(x)), f64::from(x).exp());
            // Rounding x/ln 2 costs |x| times half a unit in the last place.
            let error = 2e-7 + 6e-8 * f64::from(x.abs());
            assert!((found / wanted - 1.0).abs() < error, "{x}: {found} {wanted}");
        }
        assert_eq!(exp::<pulp::Scalar>(-1e9), exp::<pulp::Scalar>(-87.0));
        assert_eq!(exp::<pulp::Scalar>(1e9), exp::<pulp::Scalar>(88.0));
        assert!(exp::<pulp::Scalar>(88.0).is_finite() && exp::<pulp::Scalar>(f32::NAN).is_nan());
    }

    #[test]
    fn hyperbolic_tangents_have_the_error_that_is_stated() {
        for x in every(-20 * 1024..20 * 1024) {
            let (found, wanted) = (f64::from(tanh::<pulp::Scalar>(x)), f64::from(x).tanh());
            assert!((found - wanted).abs() < 1.5e-7, "{x}: {found} {wanted}");
            assert!((found - wanted).abs() < 2.5e-7 * wanted.abs().max(1e-30), "{x}: {found} {wanted}");
        }
        assert_eq!([tanh::<pulp::Scalar>(50.0), tanh::<pulp::Scalar>(-1e30)], [1.0, -1.0]);
        assert_eq!(tanh::<pulp::Scalar>(-0.0).to_bits(), (-0.0f32).to_bits());
        assert!(tanh::<pulp::Scalar>(f32::NAN).is_nan());
    }
}

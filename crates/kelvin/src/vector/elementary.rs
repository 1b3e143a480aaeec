//! Elementary functions for hot loops: plain arithmetic that compilers turn into vectors, the same bits for every width.
//!
//! ```text
//! e^x     = 2^k · e^f,  k = round(x/ln 2),  f = x − k ln 2,  e^f by its Taylor series to f⁷     relative error below 3e-7 for −87 ≤ x ≤ 88
//! tanh x  = x (945 + 105 x² + x⁴)/(945 + 420 x² + 15 x⁴)  for |x| < 0.7 (Lambert's fraction), else ±(1 − e^{−2|x|})/(1 + e^{−2|x|})
//! ln x    = k ln 2 + ln f,  x = 2^k f with ½√2 ≤ f < √2,  ln f = 2 (t + t³/3 + … + t⁹/9),  t = (f − 1)/(f + 1)     error below 1.2e-7 (1 + |ln x|) for normal x > 0
//! Φ(−a)   = e^{−a²/2} (c₀ t + c₁ t² + … + c₉ t¹⁰),  t = 1/(1 + 0.32 a),  Φ(a) = 1 − Φ(−a),  φ(a) = e^{−a²/2}/√(2π)    for a ≥ 0
//! σ(x)    = 1/(1 + e^{−x})
//! ```
//! The c are those of a polynomial through Φ(−a) e^{a²/2}/t at ten Chebyshev points of 0 < t < 1, which it meets with a relative error of 5e-8.
//! tanh has an absolute error below 1.5e-7, Φ one below 2e-7, φ and σ one below 1e-7. All are constant beyond the range in which they differ from their limits.

use pulp::Simd;

use super::mul_add;

/// 2^52's fellow in single precision: added and taken away it rounds to whole numbers.
const ROUNDING: f32 = 12_582_912.0;
/// Where e^x is cut off, below and above.
const LEAST: f32 = -87.0;
const MOST: f32 = 88.0;
/// ln 2 in two parts, the first so short that its multiples are exact.
const LN_2: [f32; 2] = [355.0 / 512.0, -0.000_212_194_44];
/// 1/k!.
const SERIES: [f32; 8] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];

/// e^x, where x is taken for −87 below it and for 88 above.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    let x = x.clamp(LEAST, MOST);
    let shifted = x * std::f32::consts::LOG2_E + ROUNDING;
    let k = shifted - ROUNDING;
    let f = mul_add::<S>(-k, LN_2[1], mul_add::<S>(-k, LN_2[0], x));
    let mut power = SERIES[7];
    for term in (0..7).rev() {
        power = mul_add::<S>(power, f, SERIES[term]);
    }
    let exponent = shifted.to_bits().wrapping_sub(ROUNDING.to_bits()).wrapping_add(127);
    power * f32::from_bits(exponent << 23)
}

/// ln x of a normal number above 0; of others a number that means nothing.
#[inline(always)]
pub(crate) fn ln<S: Simd>(x: f32) -> f32 {
    // Exponents count from where f becomes ½√2.
    let shifted = x.to_bits().wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits());
    let k = (shifted as i32) >> 23;
    let f = f32::from_bits(x.to_bits().wrapping_sub((k as u32) << 23));
    let t = (f - 1.0) / (f + 1.0);
    let square = t * t;
    let mut sum = 2.0 / 9.0;
    for term in [2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0] {
        sum = mul_add::<S>(sum, square, term);
    }
    let k = k as f32;
    mul_add::<S>(k, LN_2[0], mul_add::<S>(k, LN_2[1], sum * t))
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

/// What Φ(−a) e^{a²/2} is of t = 1/(1 + STEEPNESS a), without the first t.
const TAIL: [f32; 10] = [
    0.127_661_54,
    0.127_659_91,
    0.114_647_03,
    0.087_593_53,
    0.059_799_326,
    -0.012_533_999,
    0.070_468_26,
    -0.151_607_7,
    0.097_935_215,
    -0.021_623_132,
];
const STEEPNESS: f32 = 0.32;
/// Where Φ is taken for its limits.
const FARTHEST: f32 = 13.0;

/// The distribution function Φ(x) and the density φ(x) of a standard normal.
#[inline(always)]
pub(crate) fn normal<S: Simd>(x: f32) -> (f32, f32) {
    const PEAK: f32 = 0.398_942_3;
    let size = x.abs();
    let decay = exp::<S>(-0.5 * (size * size));
    let decay = if size > FARTHEST { 0.0 } else { decay };
    let t = 1.0 / mul_add::<S>(STEEPNESS, size, 1.0);
    let mut sum = TAIL[9];
    for term in (0..9).rev() {
        sum = mul_add::<S>(sum, t, TAIL[term]);
    }
    let tail = sum * t * decay;
    (if x < 0.0 { tail } else { 1.0 - tail }, PEAK * decay)
}

/// 1/(1 + e^{−x}), and 0 below −87.
#[inline(always)]
pub(crate) fn logistic<S: Simd>(x: f32) -> f32 {
    let share = 1.0 / (1.0 + exp::<S>(-x));
    if x < LEAST { 0.0 } else { share }
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
            assert!((found / wanted - 1.0).abs() < 3e-7, "{x}: {found} {wanted}");
        }
        assert_eq!(exp::<pulp::Scalar>(-1e9), exp::<pulp::Scalar>(-87.0));
        assert_eq!(exp::<pulp::Scalar>(1e9), exp::<pulp::Scalar>(88.0));
        assert!(exp::<pulp::Scalar>(88.0).is_finite() && exp::<pulp::Scalar>(f32::NAN).is_nan());
    }

    #[test]
    fn logarithms_have_the_error_that_is_stated() {
        for x in every(-87 * 1024..88 * 1024).map(exp::<pulp::Scalar>).chain([1.0, 0.5, 2.0, 1.0 + 1e-6]) {
            let (found, wanted) = (f64::from(ln::<pulp::Scalar>(x)), f64::from(x).ln());
            assert!((found - wanted).abs() < 1.2e-7 * (1.0 + wanted.abs()), "{x}: {found} {wanted}");
        }
        assert_eq!(ln::<pulp::Scalar>(1.0), 0.0);
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

    #[test]
    fn normal_distributions_have_the_error_that_is_stated() {
        for x in every(-20 * 1024..20 * 1024) {
            let wide = f64::from(x);
            let wanted = [
                0.5 * statrs::function::erf::erfc(-wide / 2f64.sqrt()),
                (-0.5 * wide * wide).exp() / std::f64::consts::TAU.sqrt(),
            ];
            let (below, density) = normal::<pulp::Scalar>(x);
            for ((found, wanted), most) in [below, density].map(f64::from).into_iter().zip(wanted).zip([2e-7, 1e-7]) {
                assert!((found - wanted).abs() < most, "{x}: {found} {wanted}");
                // What GELU multiplies by x must be small where x is large.
                let far = x.abs() > FARTHEST;
                assert!(far || (found - wanted).abs() < 1e-5 * wanted, "{x}: {found} {wanted}");
            }
        }
        assert_eq!(normal::<pulp::Scalar>(-1e30), (0.0, 0.0));
        assert_eq!(normal::<pulp::Scalar>(1e30), (1.0, 0.0));
        assert!(normal::<pulp::Scalar>(f32::NAN).0.is_nan());
    }

    #[test]
    fn logistic_functions_have_the_error_that_is_stated() {
        for x in every(-100 * 1024..100 * 1024) {
            let (found, wanted) = (f64::from(logistic::<pulp::Scalar>(x)), 1.0 / (1.0 + f64::from(-x).exp()));
            assert!((found - wanted).abs() < 1e-7, "{x}: {found} {wanted}");
            assert!(x < LEAST || (found - wanted).abs() < 4e-7 * wanted, "{x}: {found} {wanted}");
        }
        assert_eq!([logistic::<pulp::Scalar>(-1e30), logistic::<pulp::Scalar>(1e30)], [0.0, 1.0]);
        assert!(logistic::<pulp::Scalar>(f32::NAN).is_nan());
    }
}

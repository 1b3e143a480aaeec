//! Standard normal numbers by name, sixteen at a time: Philox words through Box–Muller in f32.
//!
//! Parameter `i` takes word `(i / 16) % 4` of block `16 (i / 64) + i % 16`, so a vector of sixteen blocks fills
//! four vectors of sixteen parameters without shuffling. Words pair up as (0, 1) and (2, 3):
//! `√(−2 ln u) · (cos 2πv, sin 2πv)` with `u` from the first word and `v` from the second.
//! Sixteen lanes and fused multiply-adds are spelled out, so the numbers do not depend on the processor.

use pulp::{Simd, WithSimd};

use super::philox::{MULTIPLIER, NoiseKey, ROUNDS, WEYL};
use crate::vector::{dispatch, mul_add};

const LANES: usize = 16;
/// Numbers made together.
const GROUP: usize = 4 * LANES;

type Words = [u32; LANES];
type Floats = [f32; LANES];

impl NoiseKey {
    /// Fills `out` with independent standard normal numbers; `out[i]` depends on the key and `i` alone.
    pub fn fill_normal(&self, out: &mut [f32]) {
        dispatch(FillNormal { key: *self, out });
    }
}

struct FillNormal<'a> {
    key: NoiseKey,
    out: &'a mut [f32],
}

impl WithSimd for FillNormal<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut groups = self.out.chunks_exact_mut(GROUP);
        let mut block = 0;
        for group in &mut groups {
            let numbers = normal_group(simd, &self.key, block);
            for (out, numbers) in group.chunks_exact_mut(LANES).zip(&numbers) {
                out.copy_from_slice(numbers);
            }
            block += LANES as u32;
        }
        let rest = groups.into_remainder();
        if !rest.is_empty() {
            let numbers = normal_group(simd, &self.key, block);
            for (out, number) in rest.iter_mut().zip(numbers.iter().flatten()) {
                *out = *number;
            }
        }
    }
}

#[inline(always)]
fn normal_group<S: Simd>(simd: S, key: &NoiseKey, first_block: u32) -> [Floats; 4] {
    let words = sixteen_blocks(simd, key, first_block);
    let (a, b) = box_muller::<S>(&words[0], &words[1]);
    let (c, d) = box_muller::<S>(&words[2], &words[3]);
    [a, b, c, d]
}

/// Sixteen consecutive Philox blocks, word by word.
#[inline(always)]
fn sixteen_blocks<S: Simd>(simd: S, name: &NoiseKey, first_block: u32) -> [Words; 4] {
    let mut words = [[0; LANES]; 4];
    if const { S::U32_LANES == LANES } {
        vectors_of_blocks::<S, 1>(simd, name, first_block, 0, &mut words);
    } else {
        // Two vectors at a time: the rounds of one alone would wait for each other.
        for part in (0..LANES / S::U32_LANES).step_by(2) {
            vectors_of_blocks::<S, 2>(simd, name, first_block, part, &mut words);
        }
    }
    words
}

/// `PARTS` vectors of blocks, from vector `first_part` of the sixteen on.
#[inline(always)]
fn vectors_of_blocks<S: Simd, const PARTS: usize>(
    simd: S,
    name: &NoiseKey,
    first_block: u32,
    first_part: usize,
    words: &mut [Words; 4],
) {
    let numbers: Words = std::array::from_fn(|lane| first_block.wrapping_add(lane as u32));
    let [_, second, third, fourth] = name.counter(0).map(|word| simd.splat_u32s(word));
    let multipliers = MULTIPLIER.map(|multiplier| simd.splat_u32s(multiplier));
    let mut counters = [[second, second, third, fourth]; PARTS];
    for (part, counter) in counters.iter_mut().enumerate() {
        counter[0] = S::as_simd_u32s(&numbers).0[first_part + part];
    }
    let mut key = name.key();
    for _ in 0..ROUNDS {
        let keys = key.map(|word| simd.splat_u32s(word));
        for counter in &mut counters {
            let (low, low_carry) = simd.widening_mul_u32s(counter[0], multipliers[0]);
            let (high, high_carry) = simd.widening_mul_u32s(counter[2], multipliers[1]);
            *counter = [
                simd.xor_u32s(simd.xor_u32s(high_carry, counter[1]), keys[0]),
                high,
                simd.xor_u32s(simd.xor_u32s(low_carry, counter[3]), keys[1]),
                low,
            ];
        }
        key[0] = key[0].wrapping_add(WEYL[0]);
        key[1] = key[1].wrapping_add(WEYL[1]);
    }
    for (part, counter) in counters.into_iter().enumerate() {
        for (words, vector) in words.iter_mut().zip(counter) {
            S::as_mut_simd_u32s(words).0[first_part + part] = vector;
        }
    }
}

#[inline(always)]
fn box_muller<S: Simd>(first: &Words, second: &Words) -> (Floats, Floats) {
    let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
    for lane in 0..LANES {
        // The top 31 bits, plus a half, make u in (0, 1].
        let u = ((first[lane] >> 1) as i32 as f32 + 0.5) * (1.0 / 2_147_483_648.0);
        let radius = (-2.0 * ln::<S>(u)).sqrt();
        let (sine, cosine) = sin_cos::<S>(second[lane] >> 8);
        a[lane] = radius * cosine;
        b[lane] = radius * sine;
    }
    (a, b)
}

/// ln x for x in (0, 1], by a polynomial on [√½, √2); absolute error below 1e-7 times its size.
#[inline(always)]
fn ln<S: Simd>(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(0x3F35_04F3); // bits of √½
    let exponent = ((shifted as i32) >> 23) as f32;
    let mantissa = f32::from_bits((shifted & 0x007F_FFFF).wrapping_add(0x3F35_04F3));
    let t = mantissa - 1.0;
    let mut polynomial = COEFFICIENTS[0];
    for &coefficient in &COEFFICIENTS[1..] {
        polynomial = mul_add::<S>(polynomial, t, coefficient);
    }
    let square = t * t;
    let tail = mul_add::<S>(polynomial * t, square, -0.5 * square);
    mul_add::<S>(exponent, std::f32::consts::LN_2, t + tail)
}

/// (sin 2πv, cos 2πv) for v = word/2²⁴ in [0, 1).
#[inline(always)]
fn sin_cos<S: Simd>(word: u32) -> (f32, f32) {
    // v = quarter/4 + rest with |rest| ≤ 1/8, both exact; the angle of the rest lies within ±π/4.
    let quarter = (word + (1 << 21)) >> 22;
    let rest = word.wrapping_sub(quarter << 22) as i32;
    let angle = rest as f32 * (std::f32::consts::TAU / 16_777_216.0);
    let square = angle * angle;
    let sine = {
        let p = mul_add::<S>(mul_add::<S>(-1.951_529_6e-4, square, 8.332_161e-3), square, -1.666_665_5e-1);
        mul_add::<S>(p * square, angle, angle)
    };
    let cosine = {
        let p = mul_add::<S>(mul_add::<S>(2.443_315_7e-5, square, -1.388_731_6e-3), square, 4.166_664_6e-2);
        mul_add::<S>(p * square, square, mul_add::<S>(-0.5, square, 1.0))
    };
    let odd = quarter & 1 == 1;
    let (s, c) = if odd { (cosine, sine) } else { (sine, cosine) };
    let s = f32::from_bits(s.to_bits() ^ ((quarter & 2) << 30));
    let c = f32::from_bits(c.to_bits() ^ (((quarter + 1) & 2) << 30));
    (s, c)
}

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    fn key(step: u64) -> NoiseKey {
        NoiseKey { seed: 11, purpose: Purpose::StepNoise, chain: 3, step }
    }

    #[test]
    fn the_vector_form_takes_the_words_it_names() {
        let words = dispatch(Blocks);
        for lane in 0..LANES {
            assert_eq!(words.map(|words| words[lane]), key(5).words(32 + lane as u32));
        }
    }

    /// Worked out from the words in Python, in double precision: cos and sin of words (0, 1) fill numbers 0–15 and 16–31 of a group
    /// of 64, those of words (2, 3) the other two sixteens.
    #[test]
    fn words_become_normal_numbers_in_the_order_described() {
        let mut numbers = [0.0; 130];
        key(5).fill_normal(&mut numbers);
        for (index, expected) in [
            (0, -1.3958087),
            (1, -0.2252643),
            (15, -0.7057848),
            (16, 0.7090560),
            (17, 1.5546864),
            (32, 0.2324016),
            (48, -0.3681531),
            (63, -0.4722875),
            (64, 1.4114467),
            (80, 0.8934600),
            (129, 0.3733771),
        ] {
            let found = numbers[index];
            assert!((f64::from(found) - expected).abs() < 1e-6, "number {index} is {found}, not {expected}");
        }
    }

    struct Blocks;

    impl WithSimd for Blocks {
        type Output = [Words; 4];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> [Words; 4] {
            sixteen_blocks(simd, &key(5), 32)
        }
    }

    #[test]
    fn a_number_depends_on_its_index_not_on_the_length() {
        let mut long = [0.0; 200];
        key(0).fill_normal(&mut long);
        for len in [1, 16, 63, 64, 65, 130] {
            let mut short = vec![0.0; len];
            key(0).fill_normal(&mut short);
            assert_eq!(short, long[..len]);
        }
    }

    #[test]
    fn logarithm_sine_and_cosine_agree_with_f64() {
        dispatch(Elementary);
    }

    struct Elementary;

    impl WithSimd for Elementary {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            elementary_functions::<S>();
        }
    }

    fn elementary_functions<S: Simd>() {
        for i in 1..100_000 {
            let x = i as f32 / 100_000.0;
            let expected = f64::from(x).ln();
            assert!((f64::from(ln::<S>(x)) - expected).abs() <= 3e-7 * expected.abs().max(1e-3), "ln {x}");
            let word = (x * 16_777_216.0) as u32;
            let (sine, cosine) = sin_cos::<S>(word);
            let angle = f64::from(word) / 16_777_216.0 * std::f64::consts::TAU;
            assert!((f64::from(sine) - angle.sin()).abs() < 4e-7, "sine of {word}");
            assert!((f64::from(cosine) - angle.cos()).abs() < 4e-7, "cosine of {word}");
        }
        assert!((f64::from(ln::<S>(1e-10)) - 1e-10f64.ln()).abs() < 3e-6);
    }

    /// Moments, tail and neighbour correlation of four million numbers; |z| < 5 each.
    #[test]
    fn the_numbers_are_standard_normal() {
        const N: usize = 1 << 16;
        const STEPS: u64 = 64;
        let mut numbers = vec![0.0; N];
        let (mut sum, mut squares, mut fourth, mut tail, mut neighbours) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for step in 0..STEPS {
            key(step).fill_normal(&mut numbers);
            for (i, &number) in numbers.iter().enumerate() {
                let x = f64::from(number);
                sum += x;
                squares += x * x;
                fourth += x.powi(4);
                tail += f64::from(x.abs() > 3.0);
                neighbours += x * f64::from(numbers[(i + 1) % N]);
            }
        }
        let n = (N as u64 * STEPS) as f64;
        let share = 0.002_699_796;
        for (what, value, expected, variance) in [
            ("mean", sum / n, 0.0, 1.0),
            ("variance", squares / n, 1.0, 2.0),
            ("fourth moment", fourth / n, 3.0, 96.0),
            ("share beyond 3", tail / n, share, share * (1.0 - share)),
            ("neighbours", neighbours / n, 0.0, 1.0),
        ] {
            let z = (value - expected) / (variance / n).sqrt();
            assert!(z.abs() < 5.0, "{what}: {value}, z = {z:.1}");
        }
    }
}

//! Student-t whose scale varies: y = μ(x) + e^{s(x)/2} ε, ε Student-t with ν = 4 degrees of freedom, μ the first output and s a bounded form of the second.
//!
//! ```text
//! s = 10 tanh(η/10)      L = log(1 + (y − μ)²/(ν e^s))      p^β as for one learned scale, e^s in the place of e^t
//! ∂/∂μ = β(ν+1) (y − μ)/(ν e^s + (y − μ)²)      ∂/∂η = (½ β(ν+1) (1 − e^{−L}) − ½) (1 − s²/100)
//! ```
//! Rows differ in how far their targets spread, and a few lie far off all the same: wages, prices, counts of people. The bound is that of a Gaussian's
//! varying noise; β is not identified for the reason given there.

use pulp::{Simd, WithSimd};

use super::model::{LogBetaCurve, LogLikelihood, Model, NOISE_HIDES_BETA, TargetKind, TemperedDensity};
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::student_t::{DEGREES, bend, constant, mean_tail, tempered_degrees};
use super::targets::numbers;
use super::varying_gaussian::bounded;
use crate::data::Targets;
use crate::vector::{dispatch, exp, tanh};

/// y ~ first output + e^{s/2} Student-t.
pub(super) struct VaryingStudentT;

/// Outputs of a row.
const WIDTH: usize = 2;

/// Rows as s and L.
fn rows<'v>(values: &'v [f32], targets: &'v Targets) -> impl Iterator<Item = (f64, f64)> + 'v {
    let row = |(row, &y): (&[f32], &f32)| {
        let s = bounded(row[1]);
        (s, ((f64::from(y) - f64::from(row[0])).powi(2) / (DEGREES * s.exp())).ln_1p())
    };
    values.chunks_exact(WIDTH).zip(numbers(targets)).map(row)
}

impl Model for VaryingStudentT {
    fn name(&self) -> &'static str {
        "Student-t with varying scale"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn num_outputs(&self) -> usize {
        WIDTH
    }

    fn spread_output(&self) -> Option<usize> {
        Some(1)
    }

    fn hides_beta(&self) -> Option<&'static str> {
        Some(NOISE_HIDES_BETA)
    }

    fn least_power(&self) -> f64 {
        1.0 / (DEGREES + 1.0)
    }

    /// The first sum is Σ L, the second Σ s.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        sums.count += outputs.len() / WIDTH;
        let weight = (given.beta * (DEGREES + 1.0)) as f32;
        let [first, second] = dispatch(Differentiate { targets, weight, outputs });
        sums.first += first;
        sums.second += second;
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        let (n, half) = (sums.count as f64, 0.5 * (DEGREES + 1.0) * given.beta);
        LogLikelihood {
            value: n * constant(given.beta) - 0.5 * sums.second - half * sums.first,
            log_beta_gradient: half * (n * mean_tail(given.beta) - sums.first),
        }
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        let constant = constant(1.0);
        rows(values, targets).map(|(s, tail)| constant - 0.5 * (s + (DEGREES + 1.0) * tail)).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        let (constant, mean_tail) = (constant(beta), mean_tail(beta));
        for (s, tail) in rows(values, targets) {
            let log_density = constant - 0.5 * (s + beta * (DEGREES + 1.0) * tail);
            show(TemperedDensity { log_density, slope: 0.5 * (DEGREES + 1.0) * (mean_tail - tail) });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let beta = log_beta.exp();
        let half = 0.5 * (DEGREES + 1.0) * beta;
        let (constant, mean_tail, bend) = (constant(beta), mean_tail(beta), bend(beta));
        let mut sums = LogBetaCurve::default();
        for (s, tail) in rows(values, targets) {
            sums.value += constant - 0.5 * s - half * tail;
            sums.slope += half * (mean_tail - tail);
            sums.curvature += half * (mean_tail - tail) + bend;
        }
        sums
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        let degrees = tempered_degrees(power);
        let square_scale = bounded(values[1]).exp() * DEGREES / degrees;
        NumberDistribution::student_t(f64::from(values[0]), square_scale.sqrt(), degrees)
    }
}

/// Replaces outputs by the derivatives of log p, and returns Σ L and Σ s.
struct Differentiate<'a> {
    targets: TargetRows<'a>,
    /// β(ν + 1).
    weight: f32,
    outputs: &'a mut [f32],
}

impl WithSimd for Differentiate<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 2] {
        const LANES: usize = 16;
        /// Blocks whose factors e^L, each below 1e77, are multiplied before a logarithm is taken.
        const PER_LOGARITHM: usize = 4;
        const BOUND: f32 = super::varying_gaussian::BOUND as f32;
        let Self { targets, weight, outputs } = self;
        let (mut logs, mut levels) = (0.0, [0.0f64; LANES]);
        let mut block = 0;
        for blocks in outputs.chunks_mut(LANES * WIDTH * PER_LOGARITHM) {
            let mut products = [1.0f64; LANES];
            for outputs in blocks.chunks_mut(LANES * WIDTH) {
                let num_rows = outputs.len() / WIDTH;
                let mut wanted = [0.0; LANES];
                targets.copy_numbers(block * LANES, &mut wanted[..num_rows]);
                let (mut mean, mut spread) = ([0.0f32; LANES], [0.0f32; LANES]);
                for (lane, row) in outputs.chunks_exact(WIDTH).enumerate() {
                    (mean[lane], spread[lane]) = (row[0], row[1]);
                }
                for lane in 0..LANES {
                    let bent = tanh::<S>(spread[lane] / BOUND);
                    let residual = wanted[lane] - mean[lane];
                    let square_scale = DEGREES as f32 * exp::<S>(BOUND * bent);
                    let total = square_scale + residual * residual;
                    // Rows that complete a block are of no one.
                    if lane < num_rows {
                        products[lane] *= f64::from(total) / f64::from(square_scale);
                        levels[lane] += f64::from(BOUND * bent);
                    }
                    mean[lane] = weight * residual / total;
                    spread[lane] = (0.5 * weight * residual * residual / total - 0.5) * (1.0 - bent * bent);
                }
                for (lane, row) in outputs.chunks_exact_mut(WIDTH).enumerate() {
                    (row[0], row[1]) = (mean[lane], spread[lane]);
                }
                block += 1;
            }
            logs += products.iter().map(|product| product.ln()).sum::<f64>();
        }
        [logs, levels.iter().sum()]
    }
}

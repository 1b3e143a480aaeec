//! Gaussian whose noise varies: y ~ N(μ(x), e^{s(x)}), μ the network's first output and s a bounded form of its second; tempered N(μ, e^s/β).
//!
//! ```text
//! s = 10 tanh(η/10)      log p = ½ (log β − s − log 2π) − ½ β e^{−s} (y − μ)²
//! ∂/∂μ = β e^{−s} (y − μ)      ∂/∂η = (½ β e^{−s} (y − μ)² − ½) (1 − s²/100)      ∂/∂log β = ½ − ½ β e^{−s} (y − μ)²
//! ```
//! The bound keeps rows far from all others finite: a standardised target's noise stays between e^{−5} and e^5 standard deviations. As with one learned
//! variance the likelihood knows only β/σ²(x), so that a joint maximum has no β to tell.

use std::f64::consts::TAU;

use pulp::{Simd, WithSimd};

use super::model::{LogBetaCurve, LogLikelihood, Model, NOISE_HIDES_BETA, TargetKind, TemperedDensity};
use super::normal;
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use crate::data::Targets;
use crate::vector::{dispatch, exp, tanh};

/// y ~ N(first output, e^s).
pub(super) struct VaryingGaussian;

/// Outputs of a row.
const WIDTH: usize = 2;
/// The largest |s|.
pub(super) const BOUND: f64 = 10.0;

/// s of a second output.
pub(super) fn bounded(output: f32) -> f64 {
    BOUND * (f64::from(output) / BOUND).tanh()
}

/// σ² of a second output.
fn variance(output: f32) -> f64 {
    bounded(output).exp()
}

/// Rows as residuals y − μ and variances.
fn rows<'v>(values: &'v [f32], targets: &'v Targets) -> impl Iterator<Item = (f64, f64)> + 'v {
    let row = |(row, &y): (&[f32], &f32)| (f64::from(y) - f64::from(row[0]), variance(row[1]));
    values.chunks_exact(WIDTH).zip(numbers(targets)).map(row)
}

impl Model for VaryingGaussian {
    fn name(&self) -> &'static str {
        "Gaussian with varying noise"
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

    /// The first sum is Σ e^{−s} (y − μ)², the second Σ s.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        sums.count += outputs.len() / WIDTH;
        let [first, second] = dispatch(Differentiate { targets, beta: given.beta as f32, outputs });
        sums.first += first;
        sums.second += second;
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        let (n, quadratic) = (sums.count as f64, 0.5 * given.beta * sums.first);
        LogLikelihood {
            value: 0.5 * (n * (given.beta / TAU).ln() - sums.second) - quadratic,
            log_beta_gradient: 0.5 * n - quadratic,
        }
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        rows(values, targets).map(|(residual, variance)| normal::log_density(residual, variance)).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        for (residual, variance) in rows(values, targets) {
            let slope = 0.5 * (1.0 / beta - residual * residual / variance);
            show(TemperedDensity { log_density: normal::log_density(residual, variance / beta), slope });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let mut sums = LogBetaCurve::default();
        for (residual, variance) in rows(values, targets) {
            let quadratic = 0.5 * log_beta.exp() * residual * residual / variance;
            sums.value += 0.5 * (log_beta - (TAU * variance).ln()) - quadratic;
            sums.slope += 0.5 - quadratic;
            sums.curvature -= quadratic;
        }
        sums
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        NumberDistribution::normal(f64::from(values[0]), variance(values[1]) / power)
    }
}

/// Replaces outputs by the derivatives of log p, and returns Σ e^{−s} (y − μ)² and Σ s.
struct Differentiate<'a> {
    targets: TargetRows<'a>,
    beta: f32,
    outputs: &'a mut [f32],
}

impl WithSimd for Differentiate<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 2] {
        const LANES: usize = 16;
        const BOUND: f32 = self::BOUND as f32;
        let Self { targets, beta, outputs } = self;
        let (mut squares, mut levels) = ([0.0f64; LANES], [0.0f64; LANES]);
        for (block, outputs) in outputs.chunks_mut(LANES * WIDTH).enumerate() {
            let num_rows = outputs.len() / WIDTH;
            let mut wanted = [0.0; LANES];
            targets.copy_numbers(block * LANES, &mut wanted[..num_rows]);
            let (mut mean, mut spread) = ([0.0f32; LANES], [0.0f32; LANES]);
            for (lane, row) in outputs.chunks_exact(WIDTH).enumerate() {
                (mean[lane], spread[lane]) = (row[0], row[1]);
            }
            for lane in 0..LANES {
                let bent = tanh::<S>(spread[lane] / BOUND);
                let (residual, precision) = (wanted[lane] - mean[lane], exp::<S>(-BOUND * bent));
                let square = precision * residual * residual;
                // Rows that complete a block are of no one.
                if lane < num_rows {
                    squares[lane] += f64::from(square);
                    levels[lane] += f64::from(BOUND * bent);
                }
                mean[lane] = beta * precision * residual;
                spread[lane] = (0.5 * beta * square - 0.5) * (1.0 - bent * bent);
            }
            for (lane, row) in outputs.chunks_exact_mut(WIDTH).enumerate() {
                (row[0], row[1]) = (mean[lane], spread[lane]);
            }
        }
        [squares.iter().sum(), levels.iter().sum()]
    }
}

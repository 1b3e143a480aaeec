//! Student-t with learned scale: y = μ + e^{t/2} ε, ε Student-t with ν = 4 degrees of freedom, μ the network's one output, t a parameter under N(0, 1).
//!
//! ```text
//! L = log(1 + (y − μ)²/(ν e^t))      p^β is a Student-t of ν' = β(ν + 1) − 1 degrees and scale² e^t ν/ν', where β > 1/(ν + 1); below it has no integral
//! log p = log Γ((ν'+1)/2) − log Γ(ν'/2) − ½ log(πν) − ½ t − ½ β(ν+1) L
//! ∂/∂μ = β(ν+1) (y − μ)/(ν e^t + (y − μ)²)      ∂/∂t = −½ + ½ β(ν+1) (1 − e^{−L})
//! ∂/∂β = ½(ν+1) (ψ((ν'+1)/2) − ψ(ν'/2) − L)
//! ```
//! β bends the tails and t the scale; their joint maximum tells how heavy tails are and not how hot the posterior should be, so that β is chosen by
//! held-out scores. Four degrees are heavy tails with a finite variance: an outlier of ten standard deviations costs about 9 nats, and not 50.

use std::f64::consts::PI;

use pulp::{Simd, WithSimd};
use statrs::function::gamma::{digamma, ln_gamma};

use super::model::{LogBetaCurve, LogLikelihood, Model, TargetKind, TemperedDensity};
use super::normal;
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use crate::data::Targets;
use crate::network::{Layout, Role};
use crate::vector::dispatch;

/// y ~ μ + e^{t/2} Student-t.
pub(super) struct StudentT;

/// ν.
pub(super) const DEGREES: f64 = 4.0;
/// The variance of t before the data, as that of a Gaussian's log σ².
const PRIOR_VARIANCE: f64 = 1.0;

/// ν' = β(ν + 1) − 1.
pub(super) fn tempered_degrees(beta: f64) -> f64 {
    beta * (DEGREES + 1.0) - 1.0
}

/// What a row's log density has beside t and L; no number where p^β has no integral.
pub(super) fn constant(beta: f64) -> f64 {
    let degrees = tempered_degrees(beta);
    if degrees <= 0.0 {
        return f64::NAN;
    }
    ln_gamma(0.5 * (degrees + 1.0)) - ln_gamma(0.5 * degrees) - 0.5 * (PI * DEGREES).ln()
}

/// ψ((ν'+1)/2) − ψ(ν'/2).
pub(super) fn mean_tail(beta: f64) -> f64 {
    let degrees = tempered_degrees(beta);
    digamma(0.5 * (degrees + 1.0)) - digamma(0.5 * degrees)
}

/// What a row's second derivative in log β has beside its first: that of `mean_tail`.
pub(super) fn bend(beta: f64) -> f64 {
    let (half, degrees) = (0.5 * (DEGREES + 1.0) * beta, tempered_degrees(beta));
    half * half * (trigamma(0.5 * (degrees + 1.0)) - trigamma(0.5 * degrees))
}

/// The derivative of the digamma function, by its recurrence up to 10 and its asymptotic series from there; x > 0.
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0));
    sum + 1.0 / x + square * (0.5 + series / x)
}

/// Rows as t and L.
fn rows<'v>(values: &'v [f32], targets: &'v Targets) -> impl Iterator<Item = (f64, f64)> + 'v {
    let row = |(row, &y): (&[f32], &f32)| {
        let t = f64::from(row[1]);
        (t, ((f64::from(y) - f64::from(row[0])).powi(2) / (DEGREES * t.exp())).ln_1p())
    };
    values.chunks_exact(2).zip(numbers(targets)).map(row)
}

impl Model for StudentT {
    fn name(&self) -> &'static str {
        "Student-t"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn num_outputs(&self) -> usize {
        1
    }

    fn add_tensors(&self, layout: &mut Layout) {
        layout.push("noise", Role::LogVariance, &[1]);
    }

    fn initial_parameters(&self) -> Vec<f32> {
        vec![0.0]
    }

    fn log_prior(&self, own: &[f32]) -> f64 {
        normal::log_density(f64::from(own[0]), PRIOR_VARIANCE)
    }

    fn add_prior_energy_gradient(&self, own: &[f32], scale: f64, gradient: &mut [f32]) {
        gradient[0] = (scale * f64::from(gradient[0]) + f64::from(own[0]) / PRIOR_VARIANCE) as f32;
    }

    fn hides_beta(&self) -> Option<&'static str> {
        Some("the scale of the noise is learned, and β would only bend the tails of what is left")
    }

    fn least_power(&self) -> f64 {
        1.0 / (DEGREES + 1.0)
    }

    /// The first sum is Σ L, the second Σ (1 − e^{−L}).
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        sums.count += outputs.len();
        let square_scale = (DEGREES * f64::from(given.own[0]).exp()) as f32;
        let weight = (given.beta * (DEGREES + 1.0)) as f32;
        let [first, second] = dispatch(Differentiate { targets, square_scale, weight, outputs });
        sums.first += first;
        sums.second += second;
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        let (n, half) = (sums.count as f64, 0.5 * (DEGREES + 1.0) * given.beta);
        LogLikelihood {
            value: n * (constant(given.beta) - 0.5 * f64::from(given.own[0])) - half * sums.first,
            log_beta_gradient: half * (n * mean_tail(given.beta) - sums.first),
        }
    }

    fn own_gradient(&self, given: Given<'_>, sums: &RowSums, gradient: &mut [f32]) {
        let half = 0.5 * (DEGREES + 1.0) * given.beta;
        gradient[0] = (half * sums.second - 0.5 * sums.count as f64) as f32;
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        let constant = constant(1.0);
        rows(values, targets).map(|(t, tail)| constant - 0.5 * (t + (DEGREES + 1.0) * tail)).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        let (constant, mean_tail) = (constant(beta), mean_tail(beta));
        for (t, tail) in rows(values, targets) {
            let log_density = constant - 0.5 * (t + beta * (DEGREES + 1.0) * tail);
            show(TemperedDensity { log_density, slope: 0.5 * (DEGREES + 1.0) * (mean_tail - tail) });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let beta = log_beta.exp();
        let half = 0.5 * (DEGREES + 1.0) * beta;
        let (constant, mean_tail, bend) = (constant(beta), mean_tail(beta), bend(beta));
        let mut sums = LogBetaCurve::default();
        for (t, tail) in rows(values, targets) {
            sums.value += constant - 0.5 * t - half * tail;
            sums.slope += half * (mean_tail - tail);
            sums.curvature += half * (mean_tail - tail) + bend;
        }
        sums
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        let degrees = tempered_degrees(power);
        let square_scale = f64::from(values[1]).exp() * DEGREES / degrees;
        NumberDistribution::student_t(f64::from(values[0]), square_scale.sqrt(), degrees)
    }
}

/// Replaces means by the derivatives of log p, and returns Σ L and Σ (1 − e^{−L}).
struct Differentiate<'a> {
    targets: TargetRows<'a>,
    /// ν e^t.
    square_scale: f32,
    /// β(ν + 1).
    weight: f32,
    outputs: &'a mut [f32],
}

impl WithSimd for Differentiate<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 2] {
        const LANES: usize = 16;
        /// Blocks whose factors 1 + u, each below 1e77, are multiplied before a logarithm is taken.
        const PER_LOGARITHM: usize = 4;
        let Self { targets, square_scale, weight, outputs } = self;
        let (mut logs, mut shares) = (0.0, [0.0f64; LANES]);
        let mut block = 0;
        for blocks in outputs.chunks_mut(LANES * PER_LOGARITHM) {
            let mut products = [1.0f64; LANES];
            for outputs in blocks.chunks_mut(LANES) {
                let mut wanted = [0.0; LANES];
                targets.copy_numbers(block * LANES, &mut wanted[..outputs.len()]);
                for (lane, output) in outputs.iter_mut().enumerate() {
                    let residual = wanted[lane] - *output;
                    let total = square_scale + residual * residual;
                    shares[lane] += f64::from(residual * residual / total);
                    products[lane] *= f64::from(total) / f64::from(square_scale);
                    *output = weight * residual / total;
                }
                block += 1;
            }
            logs += products.iter().map(|product| product.ln()).sum::<f64>();
        }
        [logs, shares.iter().sum()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_has_its_known_values() {
        for (x, expected) in [(1.0, PI * PI / 6.0), (0.5, PI * PI / 2.0), (2.0, PI * PI / 6.0 - 1.0)] {
            assert!((trigamma(x) - expected).abs() < 1e-11, "ψ'({x}) = {}", trigamma(x));
        }
    }
}

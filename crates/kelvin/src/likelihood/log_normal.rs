//! Positive numbers whose logarithm is normal with varying noise: with z = (log y − m)/s, z ~ N(μ(x), e^{S(x)}), μ the network's first output and S a bounded
//! form of its second; m and s are mean and standard deviation of log y over the training rows. The density is that of y, in its own units.
//!
//! ```text
//! S = −4 + 6 tanh((η + 4)/6)      q = z − μ − (1/β − 1) s e^S
//! log p = ½ (log β − S − log 2π) − ½ β e^{−S} q² − log s − log y
//! ∂/∂μ = β e^{−S} q      ∂/∂S = ½ β e^{−S} q² − ½ + (1 − β) s q      ∂/∂log β = ½ − ½ β e^{−S} q² − s q
//! ```
//! p^β is normalised over y, not over log y: it is log-normal again, with the variance e^S/β and, since y^{−β} leaves y^{1−β} to the left, another
//! centre. At β = 1 q is the residual z − μ. The bound keeps the noise of rows far from all others between e^{−5} and e times s, so that the
//! mean of y, which grows as e^{½ s² e^S}, stays finite. As with any learned noise a joint maximum has no β to tell.

use std::f64::consts::TAU;

use pulp::{Simd, WithSimd};

use super::model::{
    LikelihoodError, LogBetaCurve, LogLikelihood, Model, NOISE_HIDES_BETA, TargetKind, TemperedDensity,
};
use super::normal;
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use crate::data::Targets;
use crate::vector::{dispatch, exp, ln, tanh};

/// log y ~ N(m + s · first output, s² e^S).
pub(super) struct LogNormal {
    /// m.
    pub log_mean: f64,
    /// s.
    pub log_std: f64,
}

/// Outputs of a row.
const WIDTH: usize = 2;
/// The middle of what S can be, and how far it reaches from there.
pub(super) const MIDDLE: f64 = -4.0;
pub(super) const REACH: f64 = 6.0;

/// S of a second output.
pub(super) fn log_variance(output: f32) -> f64 {
    MIDDLE + REACH * ((f64::from(output) - MIDDLE) / REACH).tanh()
}

/// A row at β: log y, its tempered centre and variance.
struct LogRow {
    log_y: f64,
    centre: f64,
    variance: f64,
}

impl LogRow {
    /// log p(y | x, θ, β).
    fn log_density(&self) -> f64 {
        normal::log_density(self.log_y - self.centre, self.variance) - self.log_y
    }
}

impl LogNormal {
    /// The centre and the variance of log y under p^β.
    fn tempered(&self, values: &[f32], beta: f64) -> (f64, f64) {
        let variance = self.log_std * self.log_std * log_variance(values[1]).exp();
        let centre = self.log_mean + self.log_std * f64::from(values[0]);
        (centre + (1.0 / beta - 1.0) * variance, variance / beta)
    }

    fn rows<'v>(&'v self, values: &'v [f32], targets: &'v Targets, beta: f64) -> impl Iterator<Item = LogRow> + 'v {
        values.chunks_exact(WIDTH).zip(numbers(targets)).map(move |(values, &y)| {
            let (centre, variance) = self.tempered(values, beta);
            LogRow { log_y: f64::from(y).ln(), centre, variance }
        })
    }
}

impl Model for LogNormal {
    fn name(&self) -> &'static str {
        "log-normal"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn num_outputs(&self) -> usize {
        WIDTH
    }

    fn check_settings(&self) -> Result<(), LikelihoodError> {
        let (mean, std) = (self.log_mean, self.log_std);
        if mean.is_finite() && std.is_finite() && std > 0.0 {
            return Ok(());
        }
        Err(LikelihoodError::LogScale { mean, std })
    }

    fn spread_output(&self) -> Option<usize> {
        Some(1)
    }

    fn hides_beta(&self) -> Option<&'static str> {
        Some(NOISE_HIDES_BETA)
    }

    fn has_own_units(&self) -> bool {
        true
    }

    /// With r = z − μ the first sum is Σ e^{−S} r², the second Σ ½ S + log y, the third Σ r, the fourth Σ e^S: none of them knows β.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        sums.count += outputs.len() / WIDTH;
        let (log_mean, log_std) = (self.log_mean as f32, self.log_std as f32);
        let [first, second, third, fourth] =
            dispatch(Differentiate { targets, beta: given.beta as f32, log_mean, log_std, outputs });
        sums.first += first;
        sums.second += second;
        sums.third += third;
        sums.fourth += fourth;
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        let (n, shift) = (sums.count as f64, (1.0 / given.beta - 1.0) * self.log_std);
        let squares = sums.first - 2.0 * shift * sums.third + shift * shift * sums.fourth;
        let quadratic = 0.5 * given.beta * squares;
        LogLikelihood {
            value: n * (0.5 * (given.beta / TAU).ln() - self.log_std.ln()) - sums.second - quadratic,
            log_beta_gradient: 0.5 * n - quadratic - self.log_std * (sums.third - shift * sums.fourth),
        }
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        self.rows(values, targets, 1.0).map(|row| row.log_density()).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        for row in self.rows(values, targets, beta) {
            let residual = row.log_y - row.centre;
            let slope = (0.5 - 0.5 * residual * residual / row.variance - residual) / beta;
            show(TemperedDensity { log_density: row.log_density(), slope });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let mut sums = LogBetaCurve::default();
        for row in self.rows(values, targets, log_beta.exp()) {
            let residual = row.log_y - row.centre;
            let quadratic = 0.5 * residual * residual / row.variance;
            sums.value += row.log_density();
            sums.slope += 0.5 - quadratic - residual;
            sums.curvature -= quadratic + residual + row.variance;
        }
        sums
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        let (centre, variance) = self.tempered(values, power);
        NumberDistribution::log_normal(centre, variance)
    }
}

/// Replaces outputs by the derivatives of log p, and returns Σ e^{−S} r², Σ ½ S + log y, Σ r and Σ e^S.
struct Differentiate<'a> {
    targets: TargetRows<'a>,
    beta: f32,
    log_mean: f32,
    log_std: f32,
    outputs: &'a mut [f32],
}

impl WithSimd for Differentiate<'_> {
    type Output = [f64; 4];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 4] {
        const LANES: usize = 16;
        const MIDDLE: f32 = self::MIDDLE as f32;
        const REACH: f32 = self::REACH as f32;
        let Self { targets, beta, log_mean, log_std, outputs } = self;
        let (mut squares, mut levels) = ([0.0f64; LANES], [0.0f64; LANES]);
        let (mut residuals, mut variances) = ([0.0f64; LANES], [0.0f64; LANES]);
        let shift = (1.0 / beta - 1.0) * log_std;
        for (block, outputs) in outputs.chunks_mut(LANES * WIDTH).enumerate() {
            let num_rows = outputs.len() / WIDTH;
            let mut wanted = [1.0; LANES];
            targets.copy_numbers(block * LANES, &mut wanted[..num_rows]);
            let (mut mean, mut spread) = ([0.0f32; LANES], [0.0f32; LANES]);
            for (lane, row) in outputs.chunks_exact(WIDTH).enumerate() {
                (mean[lane], spread[lane]) = (row[0], row[1]);
            }
            for lane in 0..LANES {
                let bent = tanh::<S>((spread[lane] - MIDDLE) / REACH);
                let level = MIDDLE + REACH * bent;
                let (precision, variance, log_y) = (exp::<S>(-level), exp::<S>(level), ln::<S>(wanted[lane]));
                let residual = (log_y - log_mean) / log_std - mean[lane];
                let moved = residual - shift * variance;
                // Rows that complete a block are of no one.
                if lane < num_rows {
                    squares[lane] += f64::from(precision * residual * residual);
                    levels[lane] += f64::from(0.5 * level + log_y);
                    residuals[lane] += f64::from(residual);
                    variances[lane] += f64::from(variance);
                }
                mean[lane] = beta * precision * moved;
                spread[lane] = (0.5 * beta * precision * moved * moved - 0.5 + (1.0 - beta) * log_std * moved)
                    * (1.0 - bent * bent);
            }
            for (lane, row) in outputs.chunks_exact_mut(WIDTH).enumerate() {
                (row[0], row[1]) = (mean[lane], spread[lane]);
            }
        }
        [squares, levels, residuals, variances].map(|sums| sums.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::Likelihood;
    use crate::predictive::NumberMixture;

    const PRICES: Likelihood = Likelihood::LogNormal { log_mean: 8.0, log_std: 0.9 };

    /// In y itself, by the trapezoidal rule, under the model and its tempered form.
    #[test]
    fn densities_integrate_to_one_in_the_targets_own_units() {
        for beta in [0.5, 1.0, 3.0] {
            let ys: Vec<f32> = (1..200_000).map(|step| step as f32 * 0.5).collect();
            let values = [0.4f32, -1.5].repeat(ys.len());
            let mut total = 0.0;
            PRICES.tempered_densities(&values, &Targets::Real(ys), beta, |row| total += 0.5 * row.log_density.exp());
            assert!((total - 1.0).abs() < 1e-4, "β = {beta}: {total}");
        }
    }

    /// Quantiles of a mixture are those of its logarithms, and its mean is the integral of y.
    #[test]
    fn quantiles_map_and_means_are_those_of_y() {
        let draws: [[f32; 2]; 3] = [[0.4, -1.5], [0.1, -2.0], [0.6, -1.0]];
        let of = |power| NumberMixture::of(PRICES, draws.iter().map(|values| &values[..]), power).unwrap();
        for (power, p) in [(1.0, 0.05), (1.0, 0.5), (2.0, 0.95), (1.0, 0.999)] {
            let mixture = of(power);
            let y = mixture.quantile(p).unwrap();
            let model = LogNormal { log_mean: 8.0, log_std: 0.9 };
            let below = draws.iter().map(|values| {
                let (centre, variance) = model.tempered(values, power);
                normal::cumulative((y.ln() - centre) / variance.sqrt()) / 3.0
            });
            assert!((below.sum::<f64>() - p).abs() < 1e-10, "{power} {p}: {y}");
        }
        let mixture = of(1.0);
        let (mut mean, mut square) = (0.0, 0.0);
        for step in 1..400_000 {
            let y = f64::from(step) * 0.5;
            let mass = 0.5 * mixture.log_density(y).exp();
            (mean, square) = (mean + mass * y, square + mass * y * y);
        }
        assert!((mixture.mean() / mean - 1.0).abs() < 1e-3, "{} {mean}", mixture.mean());
        assert!((mixture.variance() / (square - mean * mean) - 1.0).abs() < 1e-2, "{}", mixture.variance());
    }

    #[test]
    fn a_scale_that_is_none_is_refused() {
        let error = Likelihood::LogNormal { log_mean: 1.0, log_std: 0.0 }.check_settings().unwrap_err().to_string();
        assert!(error.contains("positive numbers that differ"), "{error}");
        let error = PRICES.check(&Targets::Real(vec![2.0, -1.0])).unwrap_err().to_string();
        assert!(error.contains("a target is -1") && error.contains("varying_gaussian"), "{error}");
    }
}

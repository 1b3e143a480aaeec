//! Skewed numbers that a power transform T makes normal, with varying noise: with z = (T(y) − m)/s, z ~ N(μ(x), e^{S(x)}), μ the network's first output and S a bounded
//! form of its second; T is Yeo and Johnson's, with the λ that suits the training rows, m and s mean and standard deviation of T(y) there. The density is that of y.
//!
//! ```text
//! S = −4 + 6 tanh((η + 4)/6)      log p = ½ (log β − S − log 2π) − ½ β e^{−S} (z − μ)² + log T'(y) − log s
//! ∂/∂μ = β e^{−S} (z − μ)      ∂/∂S = ½ β e^{−S} (z − μ)² − ½      ∂/∂log β = ½ − ½ β e^{−S} (z − μ)²
//! ```
//! Its tempered form is that of the transformed number: the density of z to the power β, normalised over z, and then written as one of y. (T' to the power β has no
//! integral in closed form; energies of chains differ by a constant.) The bound is that of the log-normal likelihood, for the same reason: at λ = 0 the mean of y grows as
//! e^{½ s² e^S}. As with any learned noise a joint maximum has no β to tell.

use std::f64::consts::TAU;

use pulp::{Simd, WithSimd};

use super::log_normal::{MIDDLE, REACH, log_variance};
use super::model::{
    LikelihoodError, LogBetaCurve, LogLikelihood, Model, NOISE_HIDES_BETA, TargetKind, TemperedDensity,
};
use super::normal;
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use super::yeo_johnson::YeoJohnson;
use crate::data::Targets;
use crate::vector::{dispatch, exp, ln, tanh};

/// T(y) ~ N(m + s · first output, s² e^S).
pub(super) struct PowerNormal {
    /// λ.
    pub power: f64,
    /// m.
    pub mean: f64,
    /// s.
    pub std: f64,
}

/// Outputs of a row.
const WIDTH: usize = 2;

/// A row: z − μ, e^S, and log T'(y) − log s.
struct PowerRow {
    residual: f64,
    variance: f64,
    log_slope: f64,
}

impl PowerNormal {
    /// T; that of λ = 1 where λ is none, which is refused before.
    fn transform(&self) -> YeoJohnson {
        YeoJohnson::new(self.power).unwrap_or(YeoJohnson::IDENTITY)
    }

    fn rows<'v>(&'v self, values: &'v [f32], targets: &'v Targets) -> impl Iterator<Item = PowerRow> + 'v {
        let transform = self.transform();
        values.chunks_exact(WIDTH).zip(numbers(targets)).map(move |(values, &y)| {
            let y = f64::from(y);
            PowerRow {
                residual: (transform.transformed(y) - self.mean) / self.std - f64::from(values[0]),
                variance: log_variance(values[1]).exp(),
                log_slope: transform.log_slope(y) - self.std.ln(),
            }
        })
    }
}

impl Model for PowerNormal {
    fn name(&self) -> &'static str {
        "power-normal"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn num_outputs(&self) -> usize {
        WIDTH
    }

    fn check_settings(&self) -> Result<(), LikelihoodError> {
        let Self { power, mean, std } = *self;
        if YeoJohnson::new(power).is_some() && mean.is_finite() && std.is_finite() && std > 0.0 {
            return Ok(());
        }
        Err(LikelihoodError::PowerScale { power, mean, std })
    }

    fn spread_output(&self) -> Option<usize> {
        Some(1)
    }

    fn hides_beta(&self) -> Option<&'static str> {
        Some(NOISE_HIDES_BETA)
    }

    /// The first sum is Σ e^{−S} (z − μ)², the second Σ ½ S − log T'(y).
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        sums.count += outputs.len() / WIDTH;
        let exponents = self.transform().exponents().map(|exponent| exponent as f32);
        let (mean, std) = (self.mean as f32, self.std as f32);
        let [first, second] =
            dispatch(Differentiate { targets, beta: given.beta as f32, exponents, mean, std, outputs });
        sums.first += first;
        sums.second += second;
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        let (n, quadratic) = (sums.count as f64, 0.5 * given.beta * sums.first);
        LogLikelihood {
            value: n * (0.5 * (given.beta / TAU).ln() - self.std.ln()) - sums.second - quadratic,
            log_beta_gradient: 0.5 * n - quadratic,
        }
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        let log_density = |row: PowerRow| normal::log_density(row.residual, row.variance) + row.log_slope;
        self.rows(values, targets).map(log_density).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        for PowerRow { residual, variance, log_slope } in self.rows(values, targets) {
            let slope = 0.5 * (1.0 / beta - residual * residual / variance);
            show(TemperedDensity { log_density: normal::log_density(residual, variance / beta) + log_slope, slope });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let mut sums = LogBetaCurve::default();
        for PowerRow { residual, variance, log_slope } in self.rows(values, targets) {
            let quadratic = 0.5 * log_beta.exp() * residual * residual / variance;
            sums.value += 0.5 * (log_beta - (TAU * variance).ln()) - quadratic + log_slope;
            sums.slope += 0.5 - quadratic;
            sums.curvature -= quadratic;
        }
        sums
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        let centre = self.mean + self.std * f64::from(values[0]);
        let variance = self.std * self.std * log_variance(values[1]).exp() / power;
        NumberDistribution::power_normal(self.transform(), centre, variance)
    }
}

/// Replaces outputs by the derivatives of log p, and returns Σ e^{−S} (z − μ)² and Σ ½ S − log T'(y).
struct Differentiate<'a> {
    targets: TargetRows<'a>,
    beta: f32,
    /// Of numbers above 0 and below.
    exponents: [f32; 2],
    mean: f32,
    std: f32,
    outputs: &'a mut [f32],
}

impl WithSimd for Differentiate<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 2] {
        const LANES: usize = 16;
        const MIDDLE: f32 = self::MIDDLE as f32;
        const REACH: f32 = self::REACH as f32;
        let Self { targets, beta, exponents, mean, std, outputs } = self;
        let (mut squares, mut levels) = ([0.0f64; LANES], [0.0f64; LANES]);
        for (block, outputs) in outputs.chunks_mut(LANES * WIDTH).enumerate() {
            let num_rows = outputs.len() / WIDTH;
            let mut wanted = [0.0; LANES];
            targets.copy_numbers(block * LANES, &mut wanted[..num_rows]);
            let (mut centre, mut spread) = ([0.0f32; LANES], [0.0f32; LANES]);
            for (lane, row) in outputs.chunks_exact(WIDTH).enumerate() {
                (centre[lane], spread[lane]) = (row[0], row[1]);
            }
            for lane in 0..LANES {
                let bent = tanh::<S>((spread[lane] - MIDDLE) / REACH);
                let level = MIDDLE + REACH * bent;
                let y = wanted[lane];
                let exponent = if y < 0.0 { exponents[1] } else { exponents[0] };
                let log_size = ln::<S>(1.0 + y.abs());
                let powered = (exp::<S>(exponent * log_size) - 1.0) / exponent;
                let size = if exponent == 0.0 { log_size } else { powered };
                let residual = (size.copysign(y) - mean) / std - centre[lane];
                let precision = exp::<S>(-level);
                let square = precision * residual * residual;
                // Rows that complete a block are of no one.
                if lane < num_rows {
                    squares[lane] += f64::from(square);
                    levels[lane] += f64::from(0.5 * level - (exponent - 1.0) * log_size);
                }
                centre[lane] = beta * precision * residual;
                spread[lane] = (0.5 * beta * square - 0.5) * (1.0 - bent * bent);
            }
            for (lane, row) in outputs.chunks_exact_mut(WIDTH).enumerate() {
                (row[0], row[1]) = (centre[lane], spread[lane]);
            }
        }
        [squares.iter().sum(), levels.iter().sum()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::Likelihood;
    use crate::predictive::NumberMixture;

    /// λ at its ends, between them, and where it does nothing.
    fn every() -> Vec<Likelihood> {
        [0.0, 0.3, 1.0, 1.8, 2.0].map(|power| Likelihood::PowerNormal { power, mean: -0.1, std: 0.8 }).to_vec()
    }

    const STEP: f64 = 0.002;

    /// Over so many standardised units, by the trapezoidal rule.
    fn integral(of: impl Fn(f64) -> f64) -> f64 {
        (-40_000..40_000).map(|step| STEP * of((f64::from(step) + 0.5) * STEP)).sum()
    }

    #[test]
    fn densities_integrate_to_one() {
        for likelihood in every() {
            for beta in [0.5, 1.0, 3.0] {
                let density = |y: f64| {
                    let mut found = 0.0;
                    let target = Targets::Real(vec![y as f32]);
                    likelihood.tempered_densities(&[0.4, -1.5], &target, beta, |row| found = row.log_density.exp());
                    found
                };
                let total = integral(density);
                assert!((total - 1.0).abs() < 1e-4, "{likelihood:?}, β = {beta}: {total}");
            }
        }
    }

    /// Quantiles of a mixture are those of its transformed parts, and its moments are the integrals of y and y².
    #[test]
    fn quantiles_map_and_moments_are_those_of_y() {
        let draws: [[f32; 2]; 3] = [[0.4, -1.5], [0.1, -2.0], [0.6, -1.0]];
        for likelihood in every() {
            let Likelihood::PowerNormal { power, mean, std } = likelihood else { unreachable!() };
            let transform = YeoJohnson::new(power).unwrap();
            let mixture = NumberMixture::of(likelihood, draws.iter().map(|values| &values[..]), 1.0).unwrap();
            for p in [0.001, 0.05, 0.5, 0.95, 0.999] {
                let y = mixture.quantile(p).unwrap();
                let below = draws.iter().map(|values| {
                    let z = (transform.transformed(y) - mean) / std - f64::from(values[0]);
                    normal::cumulative(z / (0.5 * log_variance(values[1])).exp()) / 3.0
                });
                assert!((below.sum::<f64>() / p - 1.0).abs() < 1e-10, "{likelihood:?} {p}: {y}");
            }
            let moment = |power: i32| integral(|y| mixture.log_density(y).exp() * y.powi(power));
            let (first, second) = (moment(1), moment(2));
            assert!((mixture.mean() - first).abs() < 1e-4, "{likelihood:?}: {} {first}", mixture.mean());
            let variance = second - first * first;
            assert!((mixture.variance() / variance - 1.0).abs() < 1e-3, "{likelihood:?}: {variance}");
        }
    }

    /// λ = 1: nothing is transformed.
    #[test]
    fn the_identity_is_the_normal_distribution() {
        let plain = Likelihood::PowerNormal { power: 1.0, mean: 0.0, std: 1.0 };
        let found = plain.log_densities(&[0.4, -2.0], &Targets::Real(vec![0.9]))[0];
        let variance = log_variance(-2.0).exp();
        assert!((found - normal::log_density(f64::from(0.9f32) - f64::from(0.4f32), variance)).abs() < 1e-12);
        let part = plain.number_distribution(&[0.4, -2.0], 1.0);
        assert!((part.mean() - f64::from(0.4f32)).abs() < 1e-9 && (part.variance() / variance - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_transform_that_is_none_is_refused() {
        for (power, std) in [(2.5, 1.0), (f64::NAN, 1.0), (0.5, 0.0)] {
            let error = Likelihood::PowerNormal { power, mean: 0.0, std }.check_settings().unwrap_err().to_string();
            assert!(error.contains("between 0 and 2") && error.contains("numbers that differ"), "{error}");
        }
    }
}

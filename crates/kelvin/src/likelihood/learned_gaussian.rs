//! Gaussian with learned noise: y ~ N(μ, e^s), μ the network's one output, s = log σ² a parameter under N(0, 1); tempered N(μ, e^s/β).
//!
//! ```text
//! log p = ½ (log β − s − log 2π) − ½ β e^{−s} (y − μ)²      ∂/∂μ = β e^{−s} (y − μ)      ∂/∂s = −½ + ½ β e^{−s} (y − μ)² = −∂/∂log β
//! ```
//! The last equation is why β is not to be had from a joint maximum: the likelihood knows only β/σ².

use std::f64::consts::TAU;

use super::gaussian::Gaussian;
use super::model::{LogBetaCurve, LogLikelihood, Model, NOISE_HIDES_BETA, TargetKind, TemperedDensity};
use super::normal;
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use crate::data::Targets;
use crate::network::{Layout, Role};

/// y ~ N(output, e^s).
pub(super) struct LearnedGaussian;

/// The variance of s before the data; targets are standardised, so that 0 is the noise of a model that explains nothing.
const PRIOR_VARIANCE: f64 = 1.0;

/// The Gaussian that s makes.
fn gaussian(own: &[f32]) -> Gaussian {
    Gaussian { noise_variance: f64::from(own[0]).exp() }
}

/// Rows as residuals y − μ and variances e^s.
fn rows<'v>(values: &'v [f32], targets: &'v Targets) -> impl Iterator<Item = (f64, f64)> + 'v {
    let row = |(row, &y): (&[f32], &f32)| (f64::from(y) - f64::from(row[0]), f64::from(row[1]).exp());
    values.chunks_exact(2).zip(numbers(targets)).map(row)
}

impl Model for LearnedGaussian {
    fn name(&self) -> &'static str {
        "Gaussian"
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
        Some(NOISE_HIDES_BETA)
    }

    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        gaussian(given.own).differentiate(targets, given, outputs, sums);
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        gaussian(given.own).total(given, sums)
    }

    fn own_gradient(&self, given: Given<'_>, sums: &RowSums, gradient: &mut [f32]) {
        gradient[0] = -self.total(given, sums).log_beta_gradient as f32;
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
        NumberDistribution::normal(f64::from(values[0]), f64::from(values[1]).exp() / power)
    }
}

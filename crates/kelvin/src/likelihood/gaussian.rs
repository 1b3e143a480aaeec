//! Gaussian: y ~ N(μ, σ²), μ the network's one output; tempered N(μ, σ²/β).
//!
//! ```text
//! log p = ½ log(β/2πσ²) − ½ β (y − μ)²/σ²      ∂/∂μ = β (y − μ)/σ²      ∂/∂log β = ½ − ½ β (y − μ)²/σ²
//! ```

use std::f64::consts::TAU;

use super::model::{LikelihoodError, LogBetaCurve, LogLikelihood, Model, TargetKind, TemperedDensity};
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use crate::data::Targets;

/// y ~ N(output, σ²).
pub(super) struct Gaussian {
    pub noise_variance: f64,
}

impl Model for Gaussian {
    fn name(&self) -> &'static str {
        "Gaussian"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn num_outputs(&self) -> usize {
        1
    }

    fn check_settings(&self) -> Result<(), LikelihoodError> {
        let found = self.noise_variance;
        if found.is_finite() && found > 0.0 { Ok(()) } else { Err(LikelihoodError::NoiseVariance { found }) }
    }

    /// The first sum is Σ (y − μ)².
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        let residuals = Residuals { targets, precision: (given.beta / self.noise_variance) as f32, means: outputs };
        sums.count += residuals.means.len();
        sums.first += crate::vector::dispatch(residuals);
    }

    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood {
        let (n, precision) = (sums.count as f64, given.beta / self.noise_variance);
        let quadratic = 0.5 * precision * sums.first;
        LogLikelihood { value: 0.5 * n * (precision / TAU).ln() - quadratic, log_beta_gradient: 0.5 * n - quadratic }
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        let constant = -0.5 * (TAU * self.noise_variance).ln();
        let residuals = values.iter().zip(numbers(targets)).map(|(&mean, &y)| f64::from(y) - f64::from(mean));
        residuals.map(|residual| constant - 0.5 * residual * residual / self.noise_variance).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        for (&mean, &target) in values.iter().zip(numbers(targets)) {
            let square = (f64::from(target) - f64::from(mean)).powi(2) / self.noise_variance;
            let constant = (beta / (TAU * self.noise_variance)).ln();
            show(TemperedDensity { log_density: 0.5 * (constant - beta * square), slope: 0.5 * (1.0 / beta - square) });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let (beta, targets) = (log_beta.exp(), numbers(targets));
        let squares: f64 = values.iter().zip(targets).map(|(&mean, &y)| (f64::from(y) - f64::from(mean)).powi(2)).sum();
        let (n, quadratic) = (targets.len() as f64, 0.5 * beta * squares / self.noise_variance);
        LogBetaCurve {
            value: 0.5 * n * (beta / (TAU * self.noise_variance)).ln() - quadratic,
            slope: 0.5 * n - quadratic,
            curvature: -quadratic,
        }
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        NumberDistribution::normal(f64::from(values[0]), self.noise_variance / power)
    }

    fn known_noise_variance(&self) -> Option<f64> {
        Some(self.noise_variance)
    }
}

/// Replaces means by precision · (target − mean) and returns Σ (target − mean)².
struct Residuals<'a> {
    targets: TargetRows<'a>,
    precision: f32,
    means: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Residuals<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        const LANES: usize = 16;
        let Self { targets, precision, means } = self;
        let mut squares = [0.0f64; LANES];
        for (block, means) in means.chunks_mut(LANES).enumerate() {
            let mut wanted = [0.0; LANES];
            targets.copy_numbers(block * LANES, &mut wanted[..means.len()]);
            for ((mean, wanted), square) in means.iter_mut().zip(wanted).zip(&mut squares) {
                let difference = wanted - *mean;
                *square += f64::from(difference) * f64::from(difference);
                *mean = precision * difference;
            }
        }
        squares.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Likelihood;
    use super::*;

    #[test]
    fn the_gradient_in_log_beta_vanishes_at_the_closed_form() {
        let targets = Targets::Real(vec![1.0, -2.0, 0.5]);
        let outputs = [0.5, -1.0, 0.75];
        let likelihood = Likelihood::Gaussian { noise_variance: 0.01 };
        let squares = 0.25 + 1.0 + 0.0625;
        let beta = 0.01 * 3.0 / squares;
        assert!(likelihood.log_likelihood(&outputs, &targets, beta).log_beta_gradient.abs() < 1e-12);
    }
}

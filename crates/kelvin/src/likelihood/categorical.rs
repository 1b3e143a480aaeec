//! Categorical: y ~ softmax(z), z the network's outputs, one for each class; tempered softmax(β z).
//!
//! ```text
//! log p = β z_y − log Σ_k e^{β z_k}      ∂/∂z_k = β (1[k = y] − p_k)      ∂/∂log β = β (z_y − Σ_k p_k z_k)
//! ```
//! Logits are taken relative to the largest, so that no exponential overflows.

use super::model::{LogBetaCurve, LogLikelihood, Model, TargetKind, TemperedDensity};
use super::rows::{Given, RowSums, TargetRows};
use super::targets::labels;
use crate::data::Targets;

/// y ~ softmax(outputs).
pub(super) struct Categorical {
    pub num_classes: usize,
}

impl Model for Categorical {
    fn name(&self) -> &'static str {
        "categorical"
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Classes { num_classes: self.num_classes }
    }

    fn num_outputs(&self) -> usize {
        self.num_classes
    }

    /// The first sum is Σ log p, the second Σ ∂ log p / ∂ log β.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        let (labels, beta) = (labels(targets.targets), given.beta);
        for (index, logits) in outputs.chunks_exact_mut(self.num_classes).enumerate() {
            let label = labels[targets.place(index)] as usize;
            let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            let (mut total, mut weighted) = (0.0, 0.0);
            let own = f64::from(logits[label] - largest);
            for logit in &mut *logits {
                let shifted = f64::from(*logit - largest);
                let weight = (beta * shifted).exp();
                total += weight;
                weighted += weight * shifted;
                *logit = weight as f32;
            }
            sums.first += beta * own - total.ln();
            sums.second += beta * (own - weighted / total);
            for (class, logit) in logits.iter_mut().enumerate() {
                let probability = f64::from(*logit) / total;
                *logit = (beta * (f64::from(u8::from(class == label)) - probability)) as f32;
            }
            sums.count += 1;
        }
    }

    fn total(&self, _: Given<'_>, sums: &RowSums) -> LogLikelihood {
        LogLikelihood { value: sums.first, log_beta_gradient: sums.second }
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        let of_row = |(logits, &label): (&[f32], &u32)| {
            let largest = f64::from(logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)));
            let total: f64 = logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
            f64::from(logits[label as usize]) - largest - total.ln()
        };
        values.chunks_exact(self.num_classes).zip(labels(targets)).map(of_row).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        for (logits, &label) in values.chunks_exact(self.num_classes).zip(labels(targets)) {
            let largest = f64::from(logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)));
            let own = f64::from(logits[label as usize]) - largest;
            let (mut total, mut weighted) = (0.0, 0.0);
            for &logit in logits {
                let shifted = f64::from(logit) - largest;
                let weight = (beta * shifted).exp();
                total += weight;
                weighted += weight * shifted;
            }
            show(TemperedDensity { log_density: beta * own - total.ln(), slope: own - weighted / total });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let beta = log_beta.exp();
        let mut sums = LogBetaCurve::default();
        for (logits, &label) in values.chunks_exact(self.num_classes).zip(labels(targets)) {
            let largest = f64::from(logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)));
            let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
            for &logit in logits {
                let shifted = f64::from(logit) - largest;
                let weight = (beta * shifted).exp();
                total += weight;
                first += weight * shifted;
                second += weight * shifted * shifted;
            }
            let (mean, own) = (first / total, f64::from(logits[label as usize]) - largest);
            let variance = (second / total - mean * mean).max(0.0);
            sums.value += beta * own - total.ln();
            sums.slope += beta * (own - mean);
            sums.curvature += beta * (own - mean) - beta * beta * variance;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::Likelihood;
    use super::*;

    #[test]
    fn a_sure_wrong_class_stays_finite() {
        let likelihood = Likelihood::Categorical { num_classes: 2 };
        let sum = likelihood.log_likelihood(&[1000.0, 0.0], &Targets::Classes(vec![1]), 4.0);
        assert_eq!(sum.value, -4000.0);
    }
}

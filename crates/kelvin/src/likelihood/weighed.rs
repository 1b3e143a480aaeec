//! Rows that count other than once: Σ wᵢ log p(yᵢ|xᵢ,θ,β) with its gradients, one row after the other.

use super::known::Likelihood;
use super::model::LogLikelihood;
use super::rows::{Given, MOST_OWN, RowSums, TargetRows};

/// What rows that were weighed add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WeighedSums {
    /// Σ wᵢ log p, and its derivative in log β.
    pub total: LogLikelihood,
    own_gradient: [f64; MOST_OWN],
}

impl WeighedSums {
    /// Replaces the outputs of some rows by the gradient of the sum, and adds these rows; `weight` is asked for the row so far into the block.
    pub fn differentiate(
        &mut self,
        likelihood: Likelihood,
        targets: TargetRows<'_>,
        given: Given<'_>,
        outputs: &mut [f32],
        weight: impl Fn(usize) -> f64,
    ) {
        let num_outputs = likelihood.num_outputs();
        let mut own = [0.0f32; MOST_OWN];
        let own = &mut own[..given.own.len()];
        likelihood.ask(|model| {
            for (index, outputs) in outputs.chunks_exact_mut(num_outputs).enumerate() {
                let (weight, mut sums) = (weight(index), RowSums::default());
                let row = TargetRows { first_row: targets.first_row + index, ..targets };
                model.differentiate(row, given, outputs, &mut sums);
                outputs.iter_mut().for_each(|output| *output = (f64::from(*output) * weight) as f32);
                let of_row = model.total(given, &sums);
                self.total.value += weight * of_row.value;
                self.total.log_beta_gradient += weight * of_row.log_beta_gradient;
                model.own_gradient(given, &sums, own);
                self.own_gradient.iter_mut().zip(&*own).for_each(|(sum, own)| *sum += weight * f64::from(*own));
            }
        });
    }

    /// Overwrites `gradient` with the derivative of the sum in the likelihood's own parameters.
    pub fn write_own_gradient(&self, gradient: &mut [f32]) {
        gradient.iter_mut().zip(self.own_gradient).for_each(|(to, sum)| *to = sum as f32);
    }
}

//! Σ log p(y|x,θ,β) over blocks of rows, whose outputs are replaced by its gradient: what a network's backward pass starts from.

use super::known::Likelihood;
use super::model::LogLikelihood;
use super::rows::{Given, RowSums, TargetRows};
use super::weighed::WeighedSums;
use crate::data::Targets;
use crate::network::{OutputGradient, Rows};

/// Sums the log-likelihood over blocks of outputs and replaces them by its gradient.
pub(crate) struct LikelihoodSum<'a> {
    likelihood: Likelihood,
    given: Given<'a>,
    targets: &'a Targets,
    rows: Rows<'a>,
    sums: RowSums,
    /// What each row counts for, where it is not once.
    weighed: Option<(&'a [f32], WeighedSums)>,
}

impl<'a> LikelihoodSum<'a> {
    pub(crate) fn new(likelihood: Likelihood, given: Given<'a>, targets: &'a Targets, rows: Rows<'a>) -> Self {
        Self { likelihood, given, targets, rows, sums: RowSums::default(), weighed: None }
    }

    /// The same with a weight for each row, if any are given.
    pub(crate) fn weighed(self, weights: Option<&'a [f32]>) -> Self {
        Self { weighed: weights.map(|weights| (weights, WeighedSums::default())), ..self }
    }

    pub(crate) fn total(&self) -> LogLikelihood {
        match &self.weighed {
            None => self.likelihood.ask(|model| model.total(self.given, &self.sums)),
            Some((_, sums)) => sums.total,
        }
    }

    /// Overwrites `gradient` with the derivative of the sum in the likelihood's own parameters.
    pub(crate) fn own_gradient(&self, gradient: &mut [f32]) {
        match &self.weighed {
            None => self.likelihood.ask(|model| model.own_gradient(self.given, &self.sums, gradient)),
            Some((_, sums)) => sums.write_own_gradient(gradient),
        }
    }
}

impl OutputGradient for LikelihoodSum<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        let num_targets = self.likelihood.num_targets();
        let targets = TargetRows { targets: self.targets, rows: self.rows, first_row, num_targets, target: 0 };
        match &mut self.weighed {
            None => self.likelihood.ask(|model| model.differentiate(targets, self.given, outputs, &mut self.sums)),
            Some((weights, sums)) => {
                let weight = |index: usize| f64::from(weights[targets.place(index)]);
                sums.differentiate(self.likelihood, targets, self.given, outputs, weight);
            }
        }
    }
}

impl Likelihood {
    /// Σ log p(y | x, θ, β) of given rows, whose own parameters are those of the first.
    pub fn log_likelihood(&self, values: &[f32], targets: &Targets, inverse_temperature: f64) -> LogLikelihood {
        let (num_values, num_outputs) = (self.num_values(), self.num_outputs());
        let own = &values[num_outputs.min(values.len())..num_values.min(values.len())];
        let rows = values.chunks_exact(num_values);
        let mut outputs: Vec<f32> = rows.flat_map(|row| &row[..num_outputs]).copied().collect();
        let given = Given { beta: inverse_temperature, own };
        let mut sum = LikelihoodSum::new(*self, given, targets, Rows::All);
        sum.differentiate(0, &mut outputs);
        sum.total()
    }
}

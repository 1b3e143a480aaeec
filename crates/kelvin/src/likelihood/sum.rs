//! Σ log p(y|x,θ,β) over blocks of rows, whose outputs are replaced by its gradient: what a network's backward pass starts from.

use super::{Likelihood, LogLikelihood};
use crate::data::Targets;
use crate::network::{OutputGradient, Rows};

/// Sums the log-likelihood over blocks of outputs and replaces them by its gradient.
pub(crate) struct LikelihoodSum<'a> {
    likelihood: Likelihood,
    given: Given<'a>,
    targets: &'a Targets,
    rows: Rows<'a>,
    sums: RowSums,
}

/// What a sum over rows is a function of, beside the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    /// β of the tempered model.
    pub beta: f64,
    /// The likelihood's own parameters.
    pub own: &'a [f32],
}

/// What a likelihood adds up over rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowSums {
    /// How many rows.
    pub count: usize,
    /// Two sums whose meaning each likelihood gives them.
    pub first: f64,
    pub second: f64,
}

/// Targets of a block of rows.
#[derive(Clone, Copy)]
pub(super) struct TargetRows<'a> {
    pub targets: &'a Targets,
    pub rows: Rows<'a>,
    /// The first row of the block, counted among `rows`.
    pub first_row: usize,
}

impl TargetRows<'_> {
    /// Which target the row so far into the block has.
    pub fn place(&self, index: usize) -> usize {
        self.rows.listed().map_or(self.first_row + index, |rows| rows[self.first_row + index] as usize)
    }
}

impl<'a> LikelihoodSum<'a> {
    pub(crate) fn new(likelihood: Likelihood, given: Given<'a>, targets: &'a Targets, rows: Rows<'a>) -> Self {
        Self { likelihood, given, targets, rows, sums: RowSums::default() }
    }

    pub(crate) fn total(&self) -> LogLikelihood {
        self.likelihood.ask(|model| model.total(self.given, &self.sums))
    }

    /// Overwrites `gradient` with the derivative of the sum in the likelihood's own parameters.
    pub(crate) fn own_gradient(&self, gradient: &mut [f32]) {
        self.likelihood.ask(|model| model.own_gradient(self.given, &self.sums, gradient));
    }
}

impl OutputGradient for LikelihoodSum<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        let targets = TargetRows { targets: self.targets, rows: self.rows, first_row };
        self.likelihood.ask(|model| model.differentiate(targets, self.given, outputs, &mut self.sums));
    }
}

//! Blocks of rows that a likelihood is summed over.

use super::targets::numbers;
use crate::data::Targets;
use crate::network::Rows;

/// The most targets of a row.
pub(super) const MOST_TARGETS: usize = 32;
/// No likelihood has more parameters of its own.
pub(super) const MOST_OWN: usize = MOST_TARGETS;

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
    /// Sums whose meaning each likelihood gives them.
    pub first: f64,
    pub second: f64,
    pub third: f64,
    pub fourth: f64,
    /// The derivative in each own parameter, where a row has several targets.
    pub own: [f64; MOST_OWN],
}

/// Targets of a block of rows.
#[derive(Clone, Copy)]
pub(super) struct TargetRows<'a> {
    pub targets: &'a Targets,
    pub rows: Rows<'a>,
    /// The first row of the block, counted among `rows`.
    pub first_row: usize,
    /// How many targets a row has, and which of them is looked at.
    pub num_targets: usize,
    pub target: usize,
}

impl TargetRows<'_> {
    /// Copies targets that are numbers, from the row so far into the block on.
    #[inline(always)]
    pub fn copy_numbers(&self, first: usize, to: &mut [f32]) {
        let (numbers, first) = (numbers(self.targets), self.first_row + first);
        match self.rows.listed() {
            None if self.num_targets == 1 => to.copy_from_slice(&numbers[first..first + to.len()]),
            None => {
                let numbers = numbers[first * self.num_targets + self.target..].iter().step_by(self.num_targets);
                to.iter_mut().zip(numbers).for_each(|(to, &number)| *to = number);
            }
            Some(rows) => {
                for (to, &row) in to.iter_mut().zip(&rows[first..]) {
                    *to = numbers[row as usize * self.num_targets + self.target];
                }
            }
        }
    }

    /// Which of all rows is so far into the block.
    pub fn place(&self, index: usize) -> usize {
        self.rows.listed().map_or(self.first_row + index, |rows| rows[self.first_row + index] as usize)
    }
}

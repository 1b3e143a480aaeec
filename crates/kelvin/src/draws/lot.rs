//! Some draws of a chain in memory.

use std::borrow::Cow;
use std::ops::Range;

use crate::network::Weights;

/// The most numbers set aside before there is a draw, 1 GiB; beyond it room is made as draws come.
const MOST_VALUES: usize = 1 << 28;

/// Weights of some draws, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lot<'a> {
    /// Positions.
    pub positions: Cow<'a, [f32]>,
    /// Running statistics of batch norms; empty where there are none.
    pub statistics: Cow<'a, [f32]>,
    /// Numbers in a position.
    pub dim: usize,
}

impl Lot<'_> {
    /// How many draws there are.
    pub fn len(&self) -> usize {
        self.positions.len() / self.dim.max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The draws in order.
    pub fn iter(&self) -> impl Iterator<Item = Weights<'_>> {
        let per_draw = self.statistics_each();
        self.positions.chunks_exact(self.dim.max(1)).enumerate().map(move |(draw, parameters)| Weights {
            parameters,
            statistics: &self.statistics[draw * per_draw..][..per_draw],
        })
    }

    /// Some of them.
    pub(super) fn part(&self, range: Range<usize>) -> Lot<'_> {
        let each = self.statistics_each();
        Lot {
            positions: Cow::Borrowed(&self.positions[range.start * self.dim..range.end * self.dim]),
            statistics: Cow::Borrowed(&self.statistics[range.start * each..range.end * each]),
            dim: self.dim,
        }
    }

    pub(super) fn push(&mut self, weights: Weights<'_>) {
        self.positions.to_mut().extend_from_slice(weights.parameters);
        self.statistics.to_mut().extend_from_slice(weights.statistics);
    }

    pub(super) fn reserve(&mut self, num_draws: u64) {
        let num_values = usize::try_from(num_draws).unwrap_or(usize::MAX).saturating_mul(self.dim).min(MOST_VALUES);
        let positions = self.positions.to_mut();
        positions.reserve_exact(num_values.saturating_sub(positions.len()));
    }

    fn statistics_each(&self) -> usize {
        self.statistics.len() / self.len().max(1)
    }
}

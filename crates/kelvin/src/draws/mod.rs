//! Kept draws of a chain, in memory and on disk.

mod store;

pub use store::DrawsError;

use crate::network::Weights;

/// The kept states of one chain with what was measured at each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draws {
    /// Positions, one after the other.
    pub positions: Vec<f32>,
    /// Running statistics of batch norms, one draw after the other; empty where there are none.
    pub statistics: Vec<f32>,
    /// U(θ) over all training rows, one for each draw.
    pub potential_energy: Vec<f64>,
    /// ⟨θ, ∇U⟩/d over all training rows, one for each draw.
    pub configurational_temperature: Vec<f64>,
    /// Σ m²/M / d, one for each draw; empty for samplers without momentum.
    pub kinetic_temperature: Vec<f64>,
    /// Numbers in a position.
    pub dim: usize,
}

impl Draws {
    /// How many draws there are.
    pub fn len(&self) -> usize {
        self.positions.len() / self.dim.max(1)
    }

    /// Whether nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The draws in order.
    pub fn iter(&self) -> impl Iterator<Item = Weights<'_>> {
        let per_draw = self.statistics.len() / self.len().max(1);
        self.positions.chunks_exact(self.dim.max(1)).enumerate().map(move |(draw, parameters)| Weights {
            parameters,
            statistics: &self.statistics[draw * per_draw..][..per_draw],
        })
    }
}

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
    /// U(θ) = −log p(θ) − Σ log p(y|x,θ), one for each draw, whatever the temperature divides. Summed over all training
    /// rows, or over those of `sampler.energy_rows` and scaled up; with batch norm over batches of the sampler's size in
    /// row order, each with its own statistics, a remainder dropped and made up for by the scale. Images count as they
    /// are, also where training batches are augmented.
    pub potential_energy: Vec<f64>,
    /// ⟨θ, ∇E⟩/d over the same rows, one for each draw; E is what the sampler moves on: U, or U with its likelihood
    /// tempered.
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

//! The mass of each tensor: one for all, or from the size of its gradients (the layerwise preconditioner).

use std::ops::Range;

use super::batches::Batches;
use super::chain::Chain;
use super::rule::{Scratch, StepName};
use crate::network::{Layout, Mode};
use crate::potential::{Batch, Potential};
use crate::random::Purpose;
use crate::vector::sum_of_squares;

/// Where masses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MassRule {
    /// They stay as they are (1 unless set).
    #[default]
    Fixed,
    /// Estimated anew at the start of every epoch.
    Layerwise(LayerwiseMass),
}

/// M of a tensor = √(mean (∇Ũ/n)² + floor) over its elements and `num_batches` fresh batches, divided by the smallest.
/// With full batches one gradient tells all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerwiseMass {
    /// Fresh batches of an estimate.
    pub num_batches: u64,
    /// Added to the mean square.
    pub floor: f64,
    /// Whether batch norm uses each batch's own statistics, not the running ones. Then biases in front of it have no
    /// gradient, the smallest mass, and so dictate the scale of all others.
    pub training_mode: bool,
}

impl Default for LayerwiseMass {
    fn default() -> Self {
        Self { num_batches: 32, floor: 1e-7, training_mode: false }
    }
}

impl LayerwiseMass {
    /// Estimates the masses at the chain's position, θ frozen, and rescales its momentum.
    pub(super) fn update<P: Potential>(
        &self,
        potential: &P,
        name: &StepName,
        likelihood_weight: f64,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) {
        let epoch = chain.state.step / name.batches.steps_per_epoch();
        let visited = self.visited(&name.batches, epoch);
        scratch.mass.fill(0.0);
        for batch in visited.clone() {
            let rows = name.batches.rows(name.seed, Purpose::Preconditioner, chain.id, batch, &mut scratch.rows);
            let mode = if self.training_mode { Mode::Training } else { Mode::Inference(&chain.state.statistics) };
            let batch = Batch { rows, likelihood_weight, mode };
            potential.gradient(&chain.state.position, batch, &mut scratch.gradient, &mut scratch.work);
            for (tensor, square) in scratch.layout.tensors().iter().zip(&mut scratch.mass) {
                *square += sum_of_squares(&scratch.gradient[tensor.range.clone()]);
            }
        }
        let num_batches = visited.end - visited.start;
        if self.turn_into_masses(&mut scratch.mass, &scratch.layout, num_batches, potential.num_examples()) {
            chain.state.set_mass(&scratch.layout, &scratch.mass);
        }
    }

    /// Batches of an estimate: full ones are all the same.
    pub fn num_visited(&self, batches: &Batches) -> u64 {
        if batches.is_full() { 1 } else { self.num_batches }
    }

    /// The numbers of the batches that the estimate at the start of an epoch visits. They may be more than an epoch has: it takes as
    /// many whole epochs of names as it needs.
    pub fn visited(&self, batches: &Batches, epoch: u64) -> Range<u64> {
        let (count, epoch_len) = (self.num_visited(batches), batches.steps_per_epoch());
        let first = epoch * count.div_ceil(epoch_len) * epoch_len;
        first..first + count
    }

    /// Turns Σ ∇Ũ² of each tensor over its elements and so many batches into its mass; whether all are numbers.
    pub fn turn_into_masses(
        &self,
        squares: &mut [f64],
        layout: &Layout,
        num_batches: u64,
        num_examples: usize,
    ) -> bool {
        let readings = num_batches as f64 * (num_examples as f64).powi(2);
        for (tensor, square) in layout.tensors().iter().zip(&mut *squares) {
            *square = (*square / (readings * tensor.range.len() as f64) + self.floor).sqrt();
        }
        let smallest = squares.iter().copied().fold(f64::INFINITY, f64::min);
        squares.iter_mut().for_each(|mass| *mass /= smallest);
        squares.iter().all(|mass| mass.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Role;

    const ESTIMATE: LayerwiseMass = LayerwiseMass { num_batches: 5, floor: 0.0, training_mode: false };

    /// Σ ∇Ũ² of 3 batches over 1 number with n = 2: 3 · 4 · 1 readings. √(48/12) = 2, √(1200/12) = 10: masses 1 and 5.
    #[test]
    fn masses_are_roots_of_mean_squares_over_the_smallest() {
        let mut layout = Layout::default();
        ["first", "second"].iter().for_each(|layer| _ = layout.push(layer, Role::Bias, &[1]));
        let mut squares = [48.0, 1200.0];
        assert!(ESTIMATE.turn_into_masses(&mut squares, &layout, 3, 2));
        assert_eq!(squares, [1.0, 5.0]);
        // The floor is added to the mean square, before the root: √(0 + 4) and √(1152/12 + 4).
        let mut squares = [0.0, 1152.0];
        let with_floor = LayerwiseMass { floor: 4.0, ..ESTIMATE };
        assert!(with_floor.turn_into_masses(&mut squares, &layout, 3, 2));
        assert_eq!(squares, [1.0, 5.0]);
        assert!(!ESTIMATE.turn_into_masses(&mut [0.0, 1.0], &layout, 1, 1), "0 gives no scale");
    }

    #[test]
    fn estimates_visit_batches_of_their_own() {
        // Three steps an epoch: five batches are two epochs of names.
        let batches = Batches::new(10, Some(3)).unwrap();
        assert_eq!([0, 1, 2].map(|epoch| ESTIMATE.visited(&batches, epoch)), [0..5, 6..11, 12..17]);
        let full = Batches::full(10);
        assert_eq!((ESTIMATE.num_visited(&full), ESTIMATE.visited(&full, 4)), (1, 4..5));
    }
}

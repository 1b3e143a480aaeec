//! A chain: where it is, how it moves, what was measured on the way.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::adapted::Adapted;
use crate::diagnostics::{KineticTemperature, weighted_square};
use crate::network::{Layout, Weights};
use crate::temperature::Temperature;

/// Everything a chain needs to go on from here; all of it is part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainState {
    /// Steps done.
    pub step: u64,
    /// θ.
    pub position: Vec<f32>,
    /// m, or the velocity of an optimiser.
    pub momentum: Vec<f32>,
    /// The mass of each tensor.
    pub mass: Vec<f64>,
    /// log β, moved by rules that choose it.
    pub log_beta: f64,
    /// The velocity of log β.
    pub log_beta_velocity: f64,
    /// Running statistics of batch norms; empty where there are none.
    pub statistics: Vec<f32>,
    /// What the sampler carries beside θ and m, such as a thermostat; empty for most.
    pub auxiliary: Vec<f64>,
    /// What its warm-up has found; empty without one.
    pub adapted: Adapted,
}

impl ChainState {
    /// At rest at `position`, with unit masses and β = 1.
    pub fn at_rest(position: Vec<f32>, layout: &Layout) -> Self {
        let momentum = vec![0.0; position.len()];
        let mass = vec![1.0; layout.tensors().len()];
        Self {
            step: 0,
            position,
            momentum,
            mass,
            log_beta: 0.0,
            log_beta_velocity: 0.0,
            statistics: Vec::new(),
            auxiliary: Vec::new(),
            adapted: Adapted::default(),
        }
    }

    /// What the network predicts with here.
    pub fn weights(&self) -> Weights<'_> {
        Weights { parameters: &self.position, statistics: &self.statistics }
    }

    /// Whether all numbers that move are finite.
    pub fn is_finite(&self) -> bool {
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        let vectors_are_finite = finite(&self.position) && finite(&self.momentum) && finite(&self.statistics);
        vectors_are_finite && self.log_beta.is_finite() && self.auxiliary.iter().all(|number| number.is_finite())
    }

    /// Σ m²/M of each tensor.
    pub fn kinetic_squares(&self, layout: &Layout, squares: &mut [f64]) {
        for ((tensor, &mass), square) in layout.tensors().iter().zip(&self.mass).zip(squares) {
            *square = weighted_square(&self.momentum[tensor.range.clone()], mass);
        }
    }

    /// Changes the masses and keeps the kinetic energy: m ← √(M_new/M_old) m.
    pub fn set_mass(&mut self, layout: &Layout, mass: &[f64]) {
        for ((tensor, old), &new) in layout.tensors().iter().zip(&mut self.mass).zip(mass) {
            let factor = (new / *old).sqrt() as f32;
            for momentum in &mut self.momentum[tensor.range.clone()] {
                *momentum *= factor;
            }
            *old = new;
        }
    }
}

/// A chain that left the numbers: a value, not a crash.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[error("the chain left the finite numbers at step {step}")]
pub struct Divergence {
    /// The step that failed.
    pub step: u64,
}

/// One member of a population.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Names its random numbers; no two chains of a run share it.
    pub id: u32,
    /// Its temperature once the ramp is over.
    pub temperature: Temperature,
    /// Where it is.
    pub state: ChainState,
    /// Kinetic temperature over all steps after the burn-in.
    pub kinetic_all: KineticTemperature,
    /// Kinetic temperature at the kept states.
    pub kinetic_kept: KineticTemperature,
    /// Why it stopped early, if it did.
    pub divergence: Option<Divergence>,
}

impl Chain {
    /// A chain at rest.
    ///
    /// # Panics
    /// If the position does not have the layout's length, or the layout is empty.
    pub fn new(id: u32, temperature: Temperature, position: Vec<f32>, layout: &Layout) -> Self {
        assert_eq!(position.len(), layout.len(), "the starting position must have the potential's dimension");
        let sizes: Vec<usize> = layout.tensors().iter().map(|tensor| tensor.range.len()).collect();
        let kinetic = KineticTemperature::new(&sizes).expect("a layout has tensors, each with at least one number");
        Self {
            id,
            temperature,
            state: ChainState::at_rest(position, layout),
            kinetic_all: kinetic.clone(),
            kinetic_kept: kinetic,
            divergence: None,
        }
    }

    /// The same with all that was measured of it, and without what it would move on with.
    pub fn without_weights(mut self) -> Self {
        let ChainState { position, momentum, mass, statistics, auxiliary, .. } = &mut self.state;
        (*position, *momentum, *statistics) = Default::default();
        (*mass, *auxiliary) = Default::default();
        self
    }

    /// Whether there is nothing left to do up to step `num_steps`.
    pub fn is_done(&self, num_steps: u64) -> bool {
        self.divergence.is_some() || self.state.step >= num_steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    #[test]
    fn a_new_mass_keeps_the_kinetic_energy() {
        let layout = Network::dense(2, &[3], 1).unwrap().layout();
        let mut state = ChainState::at_rest(vec![0.0; layout.len()], &layout);
        state.momentum.iter_mut().enumerate().for_each(|(i, m)| *m = i as f32);
        let mut before = vec![0.0; 4];
        state.kinetic_squares(&layout, &mut before);
        state.set_mass(&layout, &[4.0, 1.0, 0.25, 9.0]);
        let mut after = vec![0.0; 4];
        state.kinetic_squares(&layout, &mut after);
        for (a, b) in after.iter().zip(&before) {
            assert!((a - b).abs() < 1e-5 * b.abs().max(1.0));
        }
        assert_eq!(state.mass, [4.0, 1.0, 0.25, 9.0]);
    }
}

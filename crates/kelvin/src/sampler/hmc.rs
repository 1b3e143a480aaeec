//! Hamiltonian Monte Carlo with a Metropolis test: exact whatever the step, at the price of all rows and many gradients a draw.
//!
//! ```text
//! m ~ N(0, T M);    L leapfrog steps   m ← m − ½h g;   θ ← θ + h M⁻¹ m;   m ← m − ½h g',    L = τ (½ + v)/h
//! accept with probability α = min(1, e^{−ΔH/T}),    H = U(θ) + ½ mᵀM⁻¹m
//! ```
//! with v and the test's number uniform on (0, 1). L is drawn before the trajectory, so that no orbit's period can trap the chain. Target: exp(−U/T) exactly. Duane et
//! al. 1987; Neal 2011, "MCMC using Hamiltonian dynamics". h is found by dual averaging in the warm-up (`dual_averaging.rs`) and stays from then on; masses are
//! those the chain has, or those of the adaptive warm-up's looks (`warm_up.rs`), h begins at their 1/√λmax.
//!
//! A step of the population's loop is one trajectory. U must be a function of θ alone: all rows, no augmentation, no batch norm.
//!
//! **Rounding.** Positions, momenta and gradients are f32, U is summed over rows in f64 from outputs in f32, kinetic energies in f64. Rounding of the way only
//! makes another proposal; what the test sees is the error of U at its two ends. Errors of rows are independent, about 10⁻⁶ each on the paper's tables, so U's is 10⁻⁴
//! at U ≈ 10³ to 10⁴: α is off by a relative 10⁻⁴/T. `trajectory.rs` tests both, that error and the way back of a trajectory.

use super::batches::Batches;
use super::chain::{Chain, ChainState, Divergence};
use super::dual_averaging::DualAveraging;
use super::rule::{Rule, Scratch, StepName};
use super::trajectory::{TrajectoryStart, kinetic_energy, leapfrog};
use super::warm_up::WarmUp;
use crate::network::{Mode, Rows};
use crate::potential::{Batch, Potential};
use crate::random::{NoiseKey, Purpose};
use crate::temperature::Tempering;
use crate::vector::scale_and_add;

/// ΔH/T beyond which a trajectory is called divergent, as Stan has it.
const DIVERGENT: f64 = 1000.0;

/// The sampler's settings; steps are trajectories.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hmc {
    /// Trajectories in which the step size is found.
    pub num_warm_up: u64,
    /// The first of these, each after a look at the curvature that sets the masses; 0 keeps the chain's. A chain whose
    /// [`Adapted`](super::Adapted) has no step size looks at least once.
    pub num_looks: u64,
    /// τ: mean length of a trajectory, in units of time.
    pub trajectory: f64,
    /// The most leapfrog steps of a trajectory.
    pub most_leapfrog_steps: u64,
    /// The share of trajectories to be accepted.
    pub acceptance: f64,
    /// What the temperature divides.
    pub tempering: Tempering,
}

impl Default for Hmc {
    fn default() -> Self {
        Self {
            num_warm_up: 200,
            num_looks: 20,
            trajectory: 0.12,
            most_leapfrog_steps: 512,
            acceptance: 0.8,
            tempering: Tempering::Posterior,
        }
    }
}

/// How a chain's trajectories went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HmcRecord {
    /// h.
    pub step_size: f64,
    /// Mean probability of acceptance after the warm-up; NaN before its end.
    pub acceptance: f64,
    /// Trajectories whose energy left all bounds, warm-up included; they were rejected.
    pub num_divergences: u64,
    /// Gradients, those of the warm-up and its looks included.
    pub num_gradients: u64,
}

/// What a chain carries in [`ChainState::auxiliary`].
struct Carried {
    averaging: DualAveraging,
    acceptance_sum: f64,
    num_divergences: f64,
    num_gradients: f64,
}

impl Carried {
    const COUNT: usize = 6;

    fn read(auxiliary: &[f64]) -> Option<Self> {
        let &[log_step, log_step_mean, shortfall, acceptance_sum, num_divergences, num_gradients] = auxiliary else {
            return None;
        };
        let averaging = DualAveraging { log_step, log_step_mean, shortfall };
        Some(Self { averaging, acceptance_sum, num_divergences, num_gradients })
    }

    fn write(&self, auxiliary: &mut Vec<f64>) {
        let DualAveraging { log_step, log_step_mean, shortfall } = self.averaging;
        let numbers: [f64; Self::COUNT] =
            [log_step, log_step_mean, shortfall, self.acceptance_sum, self.num_divergences, self.num_gradients];
        auxiliary.resize(Self::COUNT, 0.0);
        auxiliary.copy_from_slice(&numbers);
    }
}

impl Hmc {
    /// How a chain's trajectories went; none before the first.
    pub fn record(&self, state: &ChainState) -> Option<HmcRecord> {
        let carried = Carried::read(&state.auxiliary)?;
        let counted = state.step.saturating_sub(self.num_warm_up);
        Some(HmcRecord {
            step_size: self.step_size(state.step, &carried),
            acceptance: carried.acceptance_sum / counted as f64,
            num_divergences: carried.num_divergences as u64,
            num_gradients: carried.num_gradients as u64,
        })
    }

    fn step_size(&self, step: u64, carried: &Carried) -> f64 {
        let DualAveraging { log_step, log_step_mean, .. } = carried.averaging;
        if step < self.num_warm_up { log_step.exp() } else { log_step_mean.exp() }
    }

    fn num_leapfrog_steps(&self, step_size: f64, uniform: f64) -> u64 {
        let asked = (self.trajectory * (0.5 + uniform) / step_size).round();
        (asked as u64).clamp(1, self.most_leapfrog_steps)
    }

    /// Looks at the curvature, which sets masses and 1/√λmax, with which the search for h begins again; gradients it cost.
    fn look<P: Potential>(
        &self,
        potential: &P,
        name: &StepName,
        likelihood_weight: f64,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> u64 {
        let cost = WarmUp::gradients_of_look(chain.state.adapted.num_looks == 0);
        let name = StepName { batches: Batches::full(potential.num_examples()), ..*name };
        let warm_up = WarmUp { num_steps: self.num_looks, friction: None };
        let temperature = self.tempering.sampler_temperature(chain.temperature);
        warm_up.look(potential, &name, likelihood_weight, temperature, chain, scratch);
        cost
    }
}

impl<P: Potential> Rule<P> for Hmc {
    fn step(
        &self,
        potential: &P,
        name: &StepName,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> Result<(), Divergence> {
        let step = chain.state.step;
        let likelihood_weight = self.tempering.likelihood_power(chain.temperature);
        let batch = Batch { rows: Rows::All, likelihood_weight, mode: Mode::Training };
        let temperature = self.tempering.sampler_temperature(chain.temperature);
        let is_first = chain.state.auxiliary.len() != Carried::COUNT;
        let mut gradients = u64::from(is_first);
        if step < self.num_looks || is_first && chain.state.adapted.step_size == 0.0 {
            gradients += self.look(potential, name, likelihood_weight, chain, scratch);
        }
        let first_guess = chain.state.adapted.step_size;
        let mut carried = match Carried::read(&chain.state.auxiliary) {
            Some(carried) if step >= self.num_looks => carried,
            before => Carried {
                averaging: DualAveraging::new(first_guess),
                acceptance_sum: 0.0,
                num_divergences: before.as_ref().map_or(0.0, |carried| carried.num_divergences),
                num_gradients: before.as_ref().map_or(0.0, |carried| carried.num_gradients),
            },
        };

        let Scratch { layout, gradient, noise, work, start, .. } = scratch;
        let start = start.get_or_insert_with(|| Box::new(TrajectoryStart::new(layout.len())));
        let energy = match start.energy_of.take() {
            Some((of, energy)) if of == step => energy,
            // One that was lost with the scratch has been counted.
            _ => potential.evaluate(&chain.state.position, batch, gradient, work),
        };
        if !energy.is_finite() {
            return Err(Divergence { step });
        }
        start.position.copy_from_slice(&chain.state.position);
        start.gradient.copy_from_slice(gradient);

        let key = |purpose| NoiseKey { seed: name.seed, purpose, chain: chain.id, step };
        key(Purpose::Momentum).fill_normal(noise);
        let choice = key(Purpose::Trajectory);
        let state = &mut chain.state;
        for (tensor, mass) in layout.tensors().iter().zip(&state.mass) {
            let range = tensor.range.clone();
            scale_and_add(&mut state.momentum[range.clone()], 0.0, (temperature * mass).sqrt(), &noise[range]);
        }
        let before = energy + kinetic_energy(state, layout);
        let h = self.step_size(step, &carried);
        let num_steps = self.num_leapfrog_steps(h, choice.uniform(0));
        let new_energy = leapfrog(potential, batch, h, num_steps, layout, state, gradient, work);
        gradients += num_steps;
        let change = (new_energy + kinetic_energy(state, layout) - before) / temperature;

        // Where the energy is no number, so is nothing that follows from it.
        let acceptance = if change.is_nan() { 0.0 } else { (-change).exp().min(1.0) };
        carried.num_divergences += f64::from(change.is_nan() || change > DIVERGENT);
        carried.num_gradients += gradients as f64;
        if choice.uniform(1) < acceptance {
            start.energy_of = Some((step + 1, new_energy));
        } else {
            state.position.copy_from_slice(&start.position);
            gradient.copy_from_slice(&start.gradient);
            state.momentum.fill(0.0);
            start.energy_of = Some((step + 1, energy));
        }
        if step >= self.num_warm_up {
            carried.acceptance_sum += acceptance;
        } else if step >= self.num_looks {
            carried.averaging.count(step - self.num_looks + 1, acceptance, self.acceptance, first_guess);
        }
        carried.write(&mut state.auxiliary);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trajectories_have_lengths_around_their_mean_and_at_most_the_most() {
        let hmc = Hmc { trajectory: 1.0, most_leapfrog_steps: 12, ..Hmc::default() };
        assert_eq!([0.0, 0.5, 0.7, 1.0].map(|u| hmc.num_leapfrog_steps(0.1, u)), [5, 10, 12, 12]);
        assert_eq!(hmc.num_leapfrog_steps(50.0, 0.5), 1);
        assert_eq!(hmc.num_leapfrog_steps(0.0, 0.5), 12);
    }
}

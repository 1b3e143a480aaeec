//! The samplers as one update rule: evaluate, clip, make noise by name, and let the integrator move each tensor.

use super::chain::{Chain, Divergence};
use super::dynamics::Conditions;
use super::integrator::Integrator;
use super::mass::MassRule;
use super::rule::{Rule, Scratch, StepName};
use super::warm_up::WarmUp;
use crate::network::Mode;
use crate::potential::{Batch, Potential};
use crate::random::{NoiseKey, Purpose};
use crate::temperature::{Schedule, Tempering};
use crate::vector::{clip_factor, sum_of_squares};

/// A sampler of the tempered posterior.
#[derive(Clone, Debug, PartialEq)]
pub struct Langevin {
    /// The discretisation.
    pub integrator: Integrator,
    /// ℓ.
    pub learning_rate: f64,
    /// μ.
    pub momentum: f64,
    /// C: scales the step size, 1 at the top.
    pub step_scale: Schedule,
    /// Multiplies the chain's temperature: 0 before a ramp, 1 after it.
    pub temperature_scale: Schedule,
    /// What the temperature divides.
    pub tempering: Tempering,
    /// Largest norm of ∇Ũ.
    pub clip_norm: f64,
    /// Where masses come from.
    pub mass: MassRule,
    /// Finds masses and a constant step size for each chain, in place of ℓ, μ, C and `mass`.
    pub warm_up: Option<WarmUp>,
}

impl Langevin {
    /// A sampler with nothing special: constant step size and temperature, no clipping, masses as they are.
    ///
    /// ```
    /// use kelvin::sampler::{Integrator, Langevin};
    /// use kelvin::temperature::Schedule;
    ///
    /// let plain = Langevin::new(Integrator::Sghmc, 1e-3, 0.98);
    /// let cyclic = Langevin {
    ///     step_scale: Schedule::CosineCycle { start: 10_000, period: 200, value: 1.0 },
    ///     clip_norm: 1e6,
    ///     ..plain
    /// };
    /// assert_eq!(cyclic.learning_rate, 1e-3);
    /// ```
    pub fn new(integrator: Integrator, learning_rate: f64, momentum: f64) -> Self {
        Self {
            integrator,
            learning_rate,
            momentum,
            step_scale: Schedule::Constant { value: 1.0 },
            temperature_scale: Schedule::Constant { value: 1.0 },
            tempering: Tempering::Posterior,
            clip_norm: f64::INFINITY,
            mass: MassRule::Fixed,
            warm_up: None,
        }
    }

    /// The schedules read at a step, for a chain whose sampler has this temperature once the ramp is over.
    pub fn conditions(&self, step: u64, num_examples: usize, temperature: f64) -> Conditions {
        let (scale, temperature) = (self.step_scale.at(step), self.temperature_scale.at(step) * temperature);
        self.integrator.conditions(self.learning_rate, self.momentum, num_examples, scale, temperature)
    }

    /// The kinetic temperature to expect at a scale of the step size and a temperature of the noise.
    pub fn kinetic_target(&self, scale: f64, temperature: f64) -> f64 {
        // The retained momentum does not depend on n.
        let at = self.integrator.conditions(self.learning_rate, self.momentum, 1, scale, temperature);
        self.integrator.kinetic_target(&at)
    }

    /// Notes U at the state that so many steps led a chain to, where its warm-up asks for it: for devices that move chains themselves.
    pub fn note_energy<P: Potential>(
        &self,
        potential: &P,
        name: &StepName,
        step: u64,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) {
        if self.warm_up.is_some_and(|warm_up| warm_up.notes_energy_at(step)) {
            self.evaluate(potential, name, step, true, chain, scratch);
        }
    }

    /// Overwrites the gradient with that of a step's batch at the chain's position; its norm. A gradient that was computed before, and was
    /// lost with the scratch, is not new: its batch has been counted.
    fn evaluate<P: Potential>(
        &self,
        potential: &P,
        name: &StepName,
        step: u64,
        is_new: bool,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> f64 {
        let likelihood_weight = name.batches.weight() * self.tempering.likelihood_power(chain.temperature);
        let rows = name.batches.rows(name.seed, Purpose::BatchOrder, chain.id, step, &mut scratch.rows);
        let batch = Batch { rows, likelihood_weight, mode: Mode::Training };
        let (position, gradient, work) = (&chain.state.position, &mut scratch.gradient, &mut scratch.work);
        if is_new && self.warm_up.is_some_and(|warm_up| warm_up.notes_energy_at(step)) {
            let energy = potential.evaluate(position, batch, gradient, work);
            chain.state.adapted.energies.push(energy);
        } else {
            potential.gradient(position, batch, gradient, work);
        }
        if is_new {
            potential.update_statistics(&scratch.work, &mut chain.state.statistics);
        }
        sum_of_squares(&scratch.gradient).sqrt()
    }
}

impl<P: Potential> Rule<P> for Langevin {
    fn step(
        &self,
        potential: &P,
        name: &StepName,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> Result<(), Divergence> {
        let step = chain.state.step;
        let likelihood_weight = name.batches.weight() * self.tempering.likelihood_power(chain.temperature);
        let temperature = self.tempering.sampler_temperature(chain.temperature);
        if let Some(warm_up) = &self.warm_up {
            if warm_up.looks_at(step) {
                warm_up.look(potential, name, likelihood_weight, temperature, chain, scratch);
            } else if potential.curvature_grows() && warm_up.watches_at(step) {
                warm_up.watch(potential, name, likelihood_weight, chain, scratch);
            }
        } else if let MassRule::Layerwise(estimate) = &self.mass
            && step.is_multiple_of(name.batches.steps_per_epoch())
        {
            estimate.update(potential, name, likelihood_weight, chain, scratch);
            scratch.gradient_of = None;
        }

        let kicks_at_both_ends = self.integrator.kicks_at_both_ends();
        let norm = match scratch.gradient_of.take() {
            Some((of, norm)) if of == step => norm,
            _ => self.evaluate(potential, name, step, !kicks_at_both_ends || step == 0, chain, scratch),
        };

        let at = match &self.warm_up {
            None => self.conditions(step, potential.num_examples(), temperature),
            Some(warm_up) => {
                let scaled = self.temperature_scale.at(step) * temperature;
                warm_up.conditions(step, &chain.state.adapted, temperature, scaled)
            }
        };
        if at.temperature > 0.0 {
            let key = NoiseKey { seed: name.seed, purpose: Purpose::StepNoise, chain: chain.id, step };
            key.fill_normal(&mut scratch.noise);
        } else {
            scratch.noise.fill(0.0);
        }
        let clip = clip_factor(norm, self.clip_norm);
        let state = &mut chain.state;
        self.integrator.advance(
            &at,
            clip,
            &scratch.layout,
            &scratch.gradient,
            &scratch.noise,
            state,
            &mut scratch.kinetic,
        );
        let mut is_finite = norm.is_finite();
        if kicks_at_both_ends {
            let norm = self.evaluate(potential, name, step + 1, true, chain, scratch);
            let clip = clip_factor(norm, self.clip_norm);
            let state = &mut chain.state;
            self.integrator.close(&at, clip, &scratch.layout, &scratch.gradient, state, &mut scratch.kinetic);
            scratch.gradient_of = Some((step + 1, norm));
            is_finite &= norm.is_finite();
        }
        if is_finite && scratch.kinetic.iter().all(|kinetic| kinetic.is_finite()) {
            Ok(())
        } else {
            Err(Divergence { step })
        }
    }

    fn has_momentum_temperature(&self) -> bool {
        self.integrator.has_momentum_temperature()
    }
}

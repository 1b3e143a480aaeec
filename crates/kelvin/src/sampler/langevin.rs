//! The samplers as one update rule: evaluate, clip, make noise by name, and let the integrator move each tensor.

use serde::{Deserialize, Serialize};

use super::chain::{Chain, ChainState, Divergence};
use super::mass::MassRule;
use super::rule::{Rule, Scratch, StepName};
use super::{baoa, sghmc, sgld};
use crate::diagnostics::discretised_kinetic_target;
use crate::network::{Layout, Mode};
use crate::potential::{Batch, Potential};
use crate::random::{NoiseKey, Purpose};
use crate::temperature::{Schedule, Tempering};
use crate::vector::{clip_factor, sum_of_squares};

/// How the dynamics are discretised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Integrator {
    /// Symplectic Euler with friction, the paper's.
    #[default]
    Sghmc,
    /// Splitting with exact friction.
    Baoa,
    /// No momentum.
    Sgld,
}

/// Schedules already read: a step sees numbers only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// h, or ε for SGLD.
    pub step_size: f64,
    /// μ': the share of the momentum that a step keeps.
    pub retained_momentum: f64,
    /// T of the noise.
    pub temperature: f64,
}

impl Integrator {
    /// The numbers of a step from the learning rate ℓ, momentum μ, n and the scale C of the step size.
    ///
    /// C scales h and leaves the friction as it is. SGHMC: h = C√(ℓ/n), μ' = 1 − C(1−μ).
    /// BAOA: h = C√(2ℓ/(n(1+μ))), μ' = μ^C. SGLD: ε = Cℓ/n.
    pub fn conditions(
        self,
        learning_rate: f64,
        momentum: f64,
        num_examples: usize,
        scale: f64,
        temperature: f64,
    ) -> Conditions {
        let n = num_examples as f64;
        let (step_size, retained_momentum) = match self {
            Self::Sghmc => (scale * (learning_rate / n).sqrt(), 1.0 - scale * (1.0 - momentum)),
            Self::Baoa => (scale * (2.0 * learning_rate / (n * (1.0 + momentum))).sqrt(), momentum.powf(scale)),
            Self::Sgld => (scale * learning_rate / n, 0.0),
        };
        Conditions { step_size, retained_momentum, temperature }
    }

    /// The kinetic temperature that momenta at these conditions show as h → 0: symplectic Euler inflates it.
    pub fn kinetic_target(self, at: &Conditions) -> f64 {
        match self {
            Self::Sghmc => discretised_kinetic_target(at.temperature, at.retained_momentum),
            Self::Baoa | Self::Sgld => at.temperature,
        }
    }

    /// Moves a state by one step with the given gradient and noise; `kinetic` receives Σ m²/M of each tensor.
    #[expect(clippy::too_many_arguments, reason = "a step is a function of exactly these")]
    pub fn advance(
        self,
        at: &Conditions,
        clip: f64,
        layout: &Layout,
        gradient: &[f32],
        noise: &[f32],
        state: &mut ChainState,
        kinetic: &mut [f64],
    ) {
        for ((tensor, &mass), kinetic) in layout.tensors().iter().zip(&state.mass).zip(kinetic) {
            let range = tensor.range.clone();
            let slices = TensorSlices {
                position: &mut state.position[range.clone()],
                momentum: &mut state.momentum[range.clone()],
                gradient: &gradient[range.clone()],
                noise: &noise[range],
                mass,
            };
            *kinetic = match self {
                Self::Sghmc => sghmc::step(at, clip, slices),
                Self::Baoa => baoa::step(at, clip, slices),
                Self::Sgld => sgld::step(at, clip, slices),
            };
        }
    }
}

/// One tensor of a chain, as an integrator sees it.
pub(super) struct TensorSlices<'a> {
    pub position: &'a mut [f32],
    pub momentum: &'a mut [f32],
    pub gradient: &'a [f32],
    pub noise: &'a [f32],
    pub mass: f64,
}

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
        }
    }
}

impl Langevin {
    /// The kinetic temperature to expect at a scale of the step size and a temperature of the noise.
    pub fn kinetic_target(&self, scale: f64, temperature: f64) -> f64 {
        // The retained momentum does not depend on n.
        let at = self.integrator.conditions(self.learning_rate, self.momentum, 1, scale, temperature);
        self.integrator.kinetic_target(&at)
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
        if let MassRule::Layerwise(estimate) = &self.mass
            && step.is_multiple_of(name.batches.steps_per_epoch())
        {
            estimate.update(potential, name, likelihood_weight, chain, scratch);
        }

        let rows = name.batches.rows(name.seed, Purpose::BatchOrder, chain.id, step, &mut scratch.rows);
        let batch = Batch { rows, likelihood_weight, mode: Mode::Training };
        potential.gradient(&chain.state.position, batch, &mut scratch.gradient, &mut scratch.work);
        potential.update_statistics(&scratch.work, &mut chain.state.statistics);
        let norm = sum_of_squares(&scratch.gradient).sqrt();

        let temperature = self.temperature_scale.at(step) * self.tempering.sampler_temperature(chain.temperature);
        let at = self.integrator.conditions(
            self.learning_rate,
            self.momentum,
            potential.num_examples(),
            self.step_scale.at(step),
            temperature,
        );
        if temperature > 0.0 {
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
        if norm.is_finite() && scratch.kinetic.iter().all(|kinetic| kinetic.is_finite()) {
            Ok(())
        } else {
            Err(Divergence { step })
        }
    }

    fn has_momentum_temperature(&self) -> bool {
        self.integrator != Integrator::Sgld
    }
}

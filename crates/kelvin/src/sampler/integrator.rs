//! The list of samplers, by the names they have in settings.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::baoa::Baoa;
use super::baoab::Baoab;
use super::chain::ChainState;
use super::dynamics::{Coefficients, Conditions, Dynamics, advance, close};
use super::mclmc::Mclmc;
use super::sghmc::Sghmc;
use super::sgld::Sgld;
use super::sgnht::Sgnht;
use crate::network::Layout;

/// How the dynamics are discretised. Other devices may know fewer of them than the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Integrator {
    /// Symplectic Euler with friction, the paper's.
    #[default]
    Sghmc,
    /// Splitting with exact friction.
    Baoa,
    /// BAOA with its kick in two halves, so that positions and momenta belong to one moment.
    Baoab,
    /// No momentum.
    Sgld,
    /// BAOA with a Nosé–Hoover thermostat against the noise of minibatches.
    Sgnht,
    /// Velocity of constant length, turned by the gradient and by noise.
    Mclmc,
}

impl Integrator {
    /// All there are.
    pub const ALL: &[Self] = &[Self::Sghmc, Self::Baoa, Self::Baoab, Self::Sgld, Self::Sgnht, Self::Mclmc];

    fn dynamics(self) -> &'static dyn Dynamics {
        match self {
            Self::Sghmc => &Sghmc,
            Self::Baoa => &Baoa,
            Self::Baoab => &Baoab,
            Self::Sgld => &Sgld,
            Self::Sgnht => &Sgnht,
            Self::Mclmc => &Mclmc,
        }
    }
}

/// The name in settings.
impl fmt::Display for Integrator {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl Integrator {
    /// The numbers of a step from the learning rate ℓ, momentum μ, n and the scale C of the step size.
    ///
    /// C scales h and leaves the friction as it is; each sampler's file has its formula.
    pub fn conditions(
        self,
        learning_rate: f64,
        momentum: f64,
        num_examples: usize,
        scale: f64,
        temperature: f64,
    ) -> Conditions {
        let (step_size, retained_momentum) =
            self.dynamics().step_size_and_retained_momentum(learning_rate, momentum, num_examples as f64, scale);
        Conditions { step_size, retained_momentum, temperature }
    }

    /// The kinetic temperature that momenta at these conditions show as h → 0: symplectic Euler inflates it.
    pub fn kinetic_target(self, at: &Conditions) -> f64 {
        self.dynamics().kinetic_target(at)
    }

    /// Whether noise and gradient act on a momentum.
    pub fn has_momentum(self) -> bool {
        self.dynamics().has_momentum()
    }

    /// Whether momenta have a temperature worth measuring.
    pub fn has_momentum_temperature(self) -> bool {
        self.dynamics().has_momentum_temperature()
    }

    /// What a step multiplies by; `auxiliary` is that of the chain's state, empty for samplers that have none.
    pub fn coefficients(self, at: &Conditions, auxiliary: &[f64]) -> Coefficients {
        self.dynamics().coefficients(at, auxiliary)
    }

    /// The noise's standard deviation for a tensor of mass M.
    pub fn noise_std(self, by: &Coefficients, mass: f64) -> f64 {
        if self.has_momentum() { by.momentum_noise_std(mass) } else { by.position_noise_std(mass) }
    }

    /// By how much noise at T and mass M is larger than at T = 1 and mass 1: √(TM) on a momentum, √(T/M) on a position.
    pub fn noise_factor(self, temperature: f64, mass: f64) -> f64 {
        let variance = if self.has_momentum() { temperature * mass } else { temperature / mass };
        variance.sqrt()
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
        advance(self.dynamics(), at, clip, layout, gradient, noise, state, kinetic);
    }

    /// Whether a step also ends with a kick, by [`Integrator::close`]; the gradient for it is the one the next step begins with.
    pub fn kicks_at_both_ends(self) -> bool {
        self.dynamics().kicks_at_both_ends()
    }

    /// Ends a step with the gradient at the new position, for integrators that kick at both ends.
    pub fn close(
        self,
        at: &Conditions,
        clip: f64,
        layout: &Layout,
        gradient: &[f32],
        state: &mut ChainState,
        kinetic: &mut [f64],
    ) {
        close(self.dynamics(), at, clip, layout, gradient, state, kinetic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_listed_by_the_name_they_have_in_settings() {
        for integrator in Integrator::ALL {
            let text = format!("\"{integrator}\"");
            assert_eq!(serde_json::from_str::<Integrator>(&text).unwrap(), *integrator);
        }
    }

    /// Devices keep what all chains share apart from what a chain and its tensors multiply it by.
    #[test]
    fn noise_is_that_of_unit_temperature_and_mass_times_its_factor() {
        for integrator in Integrator::ALL {
            let std = |temperature: f64, mass: f64| {
                let at = Conditions { step_size: 0.2, retained_momentum: 0.9, temperature };
                let auxiliary = vec![0.0; integrator.dynamics().num_auxiliary()];
                integrator.noise_std(&integrator.coefficients(&at, &auxiliary), mass)
            };
            for (temperature, mass) in [(1.0, 1.0), (0.3, 2.5), (4.0, 0.2)] {
                let factored = std(1.0, 1.0) * integrator.noise_factor(temperature, mass);
                assert!((std(temperature, mass) / factored - 1.0).abs() < 1e-14, "{integrator}");
            }
        }
    }
}

//! Stochastic-gradient Nosé–Hoover thermostat: BAOA whose friction ξ grows while momenta are too hot and falls while too cold.
//!
//! ```text
//! m ← m − h g;   θ ← θ + ½h M⁻¹ m;   m ← k m + √(T (1−k²) γ/ξ) M^{1/2} R;   θ ← θ + ½h M⁻¹ m        k = e^{−hξ}
//! ξ ← ξ + h (T̂/T − 1)                                         T̂ = Σ m²/M / d over all d parameters
//! ```
//! Target: exp(−U/T − Σ m²/(2MT) − d (ξ−ξ₀)²/2), so exp(−U/T) for θ. Without gradient noise ξ₀ is the asked friction γ; noise on
//! the gradient that is the same in all directions raises ξ₀ until it takes away what the noise heats. Noise that differs between
//! directions is taken away on average only, since there is one thermostat. While T = 0 it rests, and the step is BAOA's.
//!
//! Ding et al. 2014, "Bayesian sampling using stochastic gradient thermostats" (there T = 1); the splitting follows Leimkuhler &
//! Shang 2016, "Adaptive thermostats for noisy gradient systems", in the order that takes one gradient a step.
//! `exact::thermostatted` is its stationary law on quadratics of many coordinates.

use super::baoa::Baoa;
use super::dynamics::{Coefficients, Conditions, Dynamics, TensorSlices};

pub(super) struct Sgnht;

impl Dynamics for Sgnht {
    /// Those of BAOA: μ' = e^{−hγ} with the asked friction γ.
    fn step_size_and_retained_momentum(&self, learning_rate: f64, momentum: f64, n: f64, scale: f64) -> (f64, f64) {
        Baoa.step_size_and_retained_momentum(learning_rate, momentum, n, scale)
    }

    /// ξ − γ.
    fn num_auxiliary(&self) -> usize {
        1
    }

    fn coefficients(&self, at: &Conditions, auxiliary: &[f64]) -> Coefficients {
        let (asked, added) = (-at.retained_momentum.ln(), at.step_size * auxiliary[0]); // hγ and h(ξ − γ)
        let heat = if asked.is_finite() { asked * lost_share(asked + added) } else { 1.0 };
        let keep = at.retained_momentum * (-added).exp();
        Coefficients { keep, heat: at.temperature * heat, ..Baoa.coefficients(at, &[]) }
    }

    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        Baoa.step(by, clip, tensor)
    }

    fn end_step(&self, at: &Conditions, kinetic: &[f64], num_parameters: usize, auxiliary: &mut [f64]) {
        if at.temperature > 0.0 {
            let measured = kinetic.iter().sum::<f64>() / num_parameters as f64;
            auxiliary[0] += at.step_size * (measured / at.temperature - 1.0);
        }
    }
}

/// (1 − e^{−2x})/x: what a step of damping x = hξ takes of a square, per damping; ξ may be negative or 0.
fn lost_share(damping: f64) -> f64 {
    if damping == 0.0 { 2.0 } else { -(-2.0 * damping).exp_m1() / damping }
}

#[cfg(test)]
mod tests {
    use super::super::chain::ChainState;
    use super::super::dynamics::advance;
    use super::super::worked_steps::{assert_all_near, assert_near};
    use super::*;
    use crate::network::{Layout, Role};

    const AT: Conditions = Conditions { step_size: 0.25, retained_momentum: 0.9, temperature: 0.3 };

    #[test]
    fn takes_the_steps_of_its_formula() {
        let mut layout = Layout::default();
        layout.push("light", Role::Bias, &[1]);
        layout.push("heavy", Role::Bias, &[1]);
        let masses = [1.0, 4.0];
        let (mut theta, mut m) = ([1.5, -0.5], [0.25, -1.0]);
        let gamma = -f64::ln(0.9) / 0.25;
        let mut xi = gamma;
        let mut state = ChainState::at_rest(theta.map(|theta| theta as f32).to_vec(), &layout);
        (state.mass, state.momentum) = (masses.to_vec(), m.map(|m| m as f32).to_vec());
        for noise in [[0.5_f32, -1.25], [-2.0, 0.75], [1.0, 1.5]] {
            let gradient = [state.position[0], 5.0 * state.position[1]];
            let mut kinetic = [f64::NAN; 2];
            advance(&Sgnht, &AT, 0.5, &layout, &gradient, &noise, &mut state, &mut kinetic);
            let keep = (-0.25 * xi).exp();
            let mut measured = 0.0;
            for (i, curvature) in [1.0, 5.0].into_iter().enumerate() {
                m[i] -= 0.25 * 0.5 * curvature * theta[i];
                theta[i] += 0.125 * m[i] / masses[i];
                let noise_std = (0.3 * (1.0 - keep * keep) * gamma / xi * masses[i]).sqrt();
                m[i] = keep * m[i] + noise_std * f64::from(noise[i]);
                theta[i] += 0.125 * m[i] / masses[i];
                measured += m[i] * m[i] / masses[i] / 2.0;
            }
            xi += 0.25 * (measured / 0.3 - 1.0);
            assert_all_near("θ", &state.position, theta);
            assert_all_near("m", &state.momentum, m);
            assert_near("ξ − γ", state.auxiliary[0], xi - gamma);
        }
    }

    /// Friction as asked for gives BAOA's numbers; none at all, or less, still gives noise of a positive variance.
    #[test]
    fn noise_is_finite_for_every_friction() {
        let (own, baoa) = (Sgnht.coefficients(&AT, &[0.0]), Baoa.coefficients(&AT, &[]));
        assert_eq!((own.keep, own.kick, own.drift), (baoa.keep, baoa.kick, baoa.drift));
        assert!((own.heat / baoa.heat - 1.0).abs() < 1e-14);
        let asked = -f64::ln(0.9);
        let at_rest = Sgnht.coefficients(&AT, &[-asked / 0.25]).heat;
        assert!((at_rest / (2.0 * asked * 0.3) - 1.0).abs() < 1e-14, "{at_rest}");
        assert!(Sgnht.coefficients(&AT, &[-2.0 * asked / 0.25]).heat > at_rest);
        // Without momentum, noise replaces it in every step whatever the thermostat says.
        let forgetful = Sgnht.coefficients(&Conditions { retained_momentum: 0.0, ..AT }, &[0.7]);
        assert_eq!((forgetful.keep, forgetful.heat), (0.0, 0.3));
    }

    #[test]
    fn the_thermostat_rests_without_temperature() {
        let mut friction = [0.2];
        Sgnht.end_step(&Conditions { temperature: 0.0, ..AT }, &[3.0], 2, &mut friction);
        assert_eq!(friction, [0.2]);
        Sgnht.end_step(&AT, &[3.0], 2, &mut friction);
        assert_eq!(friction, [0.2 + 0.25 * (1.5 / 0.3 - 1.0)]);
    }
}

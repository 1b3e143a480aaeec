//! Microcanonical Langevin Monte Carlo, unadjusted: a velocity of constant length that the gradient turns and noise turns a little further.
//!
//! ```text
//! u = M^{-1/2} m / √(dT),  |u| = 1,      e = −M^{-1/2} g / G,  G = |M^{-1/2} g|,      δ = ½h √(d/T) G / (d − 1)
//! u ← (u + e (sinh δ + ⟨e,u⟩ (cosh δ − 1))) / (cosh δ + ⟨e,u⟩ sinh δ)                                      half a kick
//! θ ← θ + ½h M⁻¹ m;   u ← (u + ν R)/|u + ν R|,  ν² d = 1/μ'² − 1  so that ⟨u, u'⟩ ≈ μ';   θ ← θ + ½h M⁻¹ m
//! half a kick by the gradient at the end, which the next step begins with
//! ```
//! Target: exp(−U/T) as h → 0, whatever the noise; the step sets the bias. Robnik, De Luca, Silverstein & Seljak 2023, "Microcanonical Hamiltonian Monte Carlo", in BAOAB's order, which
//! leaves the least bias in positions. In their words the step is ε = h√(dT), and the momentum decoheres over L = ε/−log μ' = √(dT)/γ. Momenta are written so that h, γ and T mean what they mean
//! in BAOAB, which it becomes as d → ∞, and take what the same warm-up finds: h = 1/√λmax, and γ by temperature. Σ m²/M is dT at every step: it measures no temperature.

use super::baoa::Baoa;
use super::dynamics::{Coefficients, Conditions, Dynamics, Sums, TensorSlices, WholeDynamics};
use crate::vector::{scale_and_add, sum_of_squares};

pub(super) struct Mclmc;

/// Half a kick, m ← keep m + kick g, of a momentum of length √(dT).
#[derive(Clone, Copy)]
struct HalfKick {
    keep: f64,
    kick: f64,
}

impl HalfKick {
    fn new(at: &Conditions, sums: &Sums) -> Self {
        let (d, speed, gradient) = (sums.dim as f64, sums.momentum_squares.sqrt(), sums.gradient_squares.sqrt());
        let delta = 0.5 * at.step_size * (d / at.temperature).sqrt() * gradient / (d - 1.0).max(1.0);
        let cosine = -sums.gradient_momentum / (speed * gradient);
        if cosine.is_finite() { Self::by(delta, cosine, speed / gradient) } else { Self { keep: 1.0, kick: 0.0 } }
    }

    /// Given δ, ⟨e, u⟩ and √(dT)/G.
    fn by(delta: f64, cosine: f64, speed_over_gradient: f64) -> Self {
        // All multiplied by 2e^{−δ}, so that nothing overflows.
        let zeta = (-delta).exp();
        let norm = (1.0 + zeta * zeta) + cosine * (1.0 - zeta * zeta);
        let along = (1.0 - zeta) * (1.0 + zeta + cosine * (1.0 - zeta));
        // Straight against an endless gradient there is no direction to turn to.
        let norm = norm.max(f64::MIN_POSITIVE);
        Self { keep: 2.0 * zeta / norm, kick: -along / norm * speed_over_gradient }
    }
}

/// The noise's turn, m ← keep m + noise M^{1/2} R, to the length √(dT); a momentum at rest takes the direction of the noise.
struct Turn {
    keep: f64,
    noise: f64,
}

impl Turn {
    fn new(at: &Conditions, sums: &Sums, kicked: HalfKick) -> Self {
        let (d, length) = (sums.dim as f64, (sums.dim as f64 * at.temperature).sqrt());
        let speed = sums.momentum_squares.sqrt();
        if length == 0.0 {
            return Self { keep: 0.0, noise: 0.0 };
        }
        if speed == 0.0 {
            return Self { keep: 0.0, noise: length / sums.noise_squares.sqrt() };
        }
        // A kick keeps the length; u has the length 1.
        let noise = ((at.retained_momentum.powi(-2) - 1.0) / d).sqrt();
        let along_noise = (kicked.keep * sums.momentum_noise + kicked.kick * sums.gradient_noise) / speed;
        let turned = (1.0 + 2.0 * noise * along_noise + noise * noise * sums.noise_squares).sqrt();
        Self { keep: length / (speed * turned), noise: length * noise / turned }
    }
}

impl Dynamics for Mclmc {
    /// Those of BAOA: h = C√(2ℓ/(n(1+μ))), μ' = μ^C.
    fn step_size_and_retained_momentum(&self, learning_rate: f64, momentum: f64, n: f64, scale: f64) -> (f64, f64) {
        Baoa.step_size_and_retained_momentum(learning_rate, momentum, n, scale)
    }

    fn has_momentum_temperature(&self) -> bool {
        false
    }

    /// Those that it has as d → ∞: BAOAB's. Where they depend on the chain they are worked out there.
    fn coefficients(&self, at: &Conditions, auxiliary: &[f64]) -> Coefficients {
        Coefficients { kick: -0.5 * at.step_size, ..Baoa.coefficients(at, auxiliary) }
    }

    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        Baoa.step(by, clip, tensor)
    }

    fn kicks_at_both_ends(&self) -> bool {
        true
    }

    fn whole(&self) -> Option<&dyn WholeDynamics> {
        Some(self)
    }
}

impl WholeDynamics for Mclmc {
    fn step(&self, at: &Conditions, sums: &Sums, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        let kick = HalfKick::new(at, sums);
        let turn = Turn::new(at, sums, kick);
        let half_drift = 0.5 * at.step_size / tensor.mass;
        scale_and_add(tensor.momentum, kick.keep, kick.kick * clip, tensor.gradient);
        scale_and_add(tensor.position, 1.0, half_drift, tensor.momentum);
        scale_and_add(tensor.momentum, turn.keep, turn.noise * tensor.mass.sqrt(), tensor.noise);
        scale_and_add(tensor.position, 1.0, half_drift, tensor.momentum);
        sum_of_squares(tensor.momentum) / tensor.mass
    }

    fn close(&self, at: &Conditions, sums: &Sums, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        let kick = HalfKick::new(at, sums);
        scale_and_add(tensor.momentum, kick.keep, kick.kick * clip, tensor.gradient);
        sum_of_squares(tensor.momentum) / tensor.mass
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::ChainState;
    use super::super::dynamics::{advance, close};
    use super::super::worked_steps::{assert_all_near, assert_near};
    use super::*;
    use crate::network::{Layout, Role};

    /// One step in unit vectors, as the formulas have it, on U = ½(θ₁² + 5 θ₂²) with masses.
    #[test]
    fn takes_the_steps_of_its_formula() {
        let mut layout = Layout::default();
        layout.push("light", Role::Bias, &[1]);
        layout.push("heavy", Role::Bias, &[1]);
        let (h, keep, temperature, d) = (0.25, 0.9, 0.3, 2.0_f64);
        let at = Conditions { step_size: h, retained_momentum: keep, temperature };
        let (masses, curvatures) = ([1.0_f64, 4.0], [1.0, 5.0]);
        let (mut theta, mut u) = ([1.5, -0.5], [0.6, -0.8]);
        let length = (d * temperature).sqrt();
        let mut state = ChainState::at_rest(theta.map(|theta| theta as f32).to_vec(), &layout);
        state.mass = masses.to_vec();
        state.momentum = (0..2).map(|i| (length * masses[i].sqrt() * u[i]) as f32).collect();
        let kick = |theta: [f64; 2], u: [f64; 2], clip: f64| {
            let z = [0, 1].map(|i| clip * curvatures[i] * theta[i] / masses[i].sqrt());
            let g = z[0].hypot(z[1]);
            let e = z.map(|z| -z / g);
            let delta = 0.5 * h * (d / temperature).sqrt() * g / (d - 1.0);
            let cosine = e[0] * u[0] + e[1] * u[1];
            let norm = delta.cosh() + cosine * delta.sinh();
            [0, 1].map(|i| (u[i] + e[i] * (delta.sinh() + cosine * (delta.cosh() - 1.0))) / norm)
        };
        let mut kinetic = [f64::NAN; 2];
        for noise in [[0.5_f32, -1.25], [-2.0, 0.75]] {
            let gradient = |state: &ChainState| [state.position[0], 5.0 * state.position[1]];
            let at_start = gradient(&state);
            advance(&Mclmc, &at, 0.5, &layout, &at_start, &noise, &mut state, &mut kinetic);
            let at_end = gradient(&state);
            close(&Mclmc, &at, 0.25, &layout, &at_end, &mut state, &mut kinetic);
            let nu = ((1.0 / (keep * keep) - 1.0) / d).sqrt();
            let drift =
                |theta: [f64; 2], u: [f64; 2]| [0, 1].map(|i| theta[i] + 0.5 * h * length * u[i] / masses[i].sqrt());
            u = kick(theta, u, 0.5);
            theta = drift(theta, u);
            let turned = [0, 1].map(|i| u[i] + nu * f64::from(noise[i]));
            u = turned.map(|x| x / turned[0].hypot(turned[1]));
            theta = drift(theta, u);
            u = kick(theta, u, 0.25);
            assert_all_near("θ", &state.position, theta);
            assert_all_near("m", &state.momentum, [0, 1].map(|i| length * masses[i].sqrt() * u[i]));
            assert_near("Σ m²/M", kinetic.iter().sum(), d * temperature);
        }
    }

    #[test]
    fn kicks_of_any_size_keep_the_length() {
        for delta in [1e-9, 1e-3, 1.0, 30.0, 800.0] {
            for cosine in [-0.999, -0.3, 0.0, 0.7, 1.0_f64] {
                // In the plane of u and e: e = (1, 0), u = (cos, sin), G = √(dT) = 1 and g = −e.
                let HalfKick { keep, kick } = HalfKick::by(delta, cosine, 1.0);
                let turned = [keep * cosine - kick, keep * (1.0 - cosine * cosine).sqrt()];
                assert!((turned[0].hypot(turned[1]) - 1.0).abs() < 1e-9, "{delta} {cosine}: {turned:?}");
                assert!(turned[0] >= cosine, "towards e");
            }
        }
    }

    /// Where no chain is known its numbers are BAOAB's: BAOA's but for half a kick.
    #[test]
    fn its_coefficients_are_those_of_many_dimensions() {
        let at = Conditions { step_size: 0.25, retained_momentum: 0.9, temperature: 0.3 };
        let (found, baoa) = (Mclmc.coefficients(&at, &[]), Baoa.coefficients(&at, &[]));
        assert_eq!(found.kick, -0.125);
        assert_eq!((found.keep, found.drift, found.heat), (baoa.keep, baoa.drift, baoa.heat));
        let moved = |dynamics: &dyn Dynamics| {
            let (mut position, mut momentum) = ([1.0, 2.0], [3.0, -4.0]);
            let (gradient, noise) = (&[0.5, -0.25][..], &[1.0, 2.0][..]);
            let tensor = TensorSlices { position: &mut position, momentum: &mut momentum, gradient, noise, mass: 2.0 };
            let kinetic = dynamics.step(&found, 0.5, tensor);
            (kinetic, position, momentum)
        };
        assert_eq!(moved(&Mclmc), moved(&Baoa));
    }
}

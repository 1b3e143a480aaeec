//! Microcanonical Langevin Monte Carlo, unadjusted: a velocity of constant length that the gradient turns and noise turns a little further.
//!
//! ```text
//! u = M^{-1/2} m / √(dT),  |u| = 1,      e = −M^{-1/2} g / G,  G = |M^{-1/2} g|,      δ = ½h √(d/T) G / (d − 1)
//! u ← (u + ν R)/|u + ν R|,               ν² d = 1/μ'² − 1                                                  so that ⟨u, u'⟩ ≈ μ'
//! u ← (u + e (sinh δ + ⟨e,u⟩ (cosh δ − 1))) / (cosh δ + ⟨e,u⟩ sinh δ)                                      half a kick
//! θ ← θ + h M⁻¹ m;   half a kick by the gradient at the end, which the next step begins with
//! ```
//! Target: exp(−U/T) as h → 0, whatever the noise; the step sets the bias. Robnik, De Luca, Silverstein & Seljak 2023, "Microcanonical Hamiltonian Monte Carlo".
//! In their words the step is ε = h√(dT) and the momentum decoheres over L = ε/−log μ' = √(dT)/γ. Momenta are written so that h, γ and T mean what they mean in BAOAB, which it becomes as
//! d → ∞, and take what the same warm-up finds: h = 1/√λmax, and γ by temperature. Σ m²/M is dT at every step: it measures no temperature.

use super::baoa::Baoa;
use super::dynamics::{Coefficients, Conditions, Dynamics, Sums, TensorSlices};
use super::sghmc::Sghmc;
use crate::vector::{scale_and_add, sum_of_squares};

pub(super) struct Mclmc;

/// What half a kick multiplies momentum and gradient by, given |u| = 1, ⟨e, u⟩ and √(dT)/G.
fn half_kick(delta: f64, cosine: f64, length_over_gradient: f64) -> (f64, f64) {
    // All multiplied by 2e^{−δ}, so that nothing overflows.
    let zeta = (-delta).exp();
    let norm = (1.0 + zeta * zeta) + cosine * (1.0 - zeta * zeta);
    let along = (1.0 - zeta) * (1.0 + zeta + cosine * (1.0 - zeta));
    if norm > f64::MIN_POSITIVE { (2.0 * zeta / norm, -along / norm * length_over_gradient) } else { (1.0, 0.0) }
}

impl Mclmc {
    /// δ, and √(dT)/G.
    fn turn(at: &Conditions, sums: &Sums) -> (f64, f64) {
        let (d, gradient) = (sums.dim as f64, sums.gradient_squares.sqrt());
        let delta = 0.5 * at.step_size * (d / at.temperature).sqrt() * gradient / (d - 1.0).max(1.0);
        (delta, (d * at.temperature).sqrt() / gradient)
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

    /// Before the gradient is known: those of a velocity at right angles to the noise.
    fn coefficients(&self, at: &Conditions, _: &[f64]) -> Coefficients {
        let keep = at.retained_momentum;
        Coefficients { keep, kick: 0.0, drift: at.step_size, heat: at.temperature * (1.0 - keep * keep) }
    }

    fn needs_sums(&self) -> bool {
        true
    }

    fn whole_coefficients(&self, at: &Conditions, sums: &Sums) -> Coefficients {
        let length = (sums.dim as f64 * at.temperature).sqrt();
        if length == 0.0 {
            return Coefficients { keep: 0.0, kick: 0.0, drift: at.step_size, heat: 0.0 };
        }
        // The refreshed momentum is a m + b M^{1/2} R, of length √(dT). One at rest takes the direction of the noise.
        let noise = ((at.retained_momentum.powi(-2) - 1.0) / sums.dim as f64).sqrt();
        let speed = sums.momentum_squares.sqrt();
        let (of_momentum, of_noise) = if speed > 0.0 { (1.0 / speed, noise) } else { (0.0, 1.0) };
        let squares = of_momentum.powi(2) * sums.momentum_squares
            + 2.0 * of_momentum * of_noise * sums.momentum_noise
            + of_noise.powi(2) * sums.noise_squares;
        let scale = length / squares.sqrt();
        let (a, b) = (scale * of_momentum, scale * of_noise);

        let (delta, length_over_gradient) = Self::turn(at, sums);
        if delta == 0.0 {
            return Coefficients { keep: a, kick: 0.0, drift: at.step_size, heat: b * b };
        }
        let product = a * sums.gradient_momentum + b * sums.gradient_noise;
        let cosine = -product / (sums.gradient_squares.sqrt() * length);
        let (keep, kick) = half_kick(delta, cosine, length_over_gradient);
        Coefficients { keep: keep * a, kick, drift: at.step_size, heat: (keep * b).powi(2) }
    }

    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        Sghmc.step(by, clip, tensor)
    }

    fn kicks_at_both_ends(&self) -> bool {
        true
    }

    fn closing_coefficients(&self, at: &Conditions, sums: &Sums) -> Coefficients {
        let none = Coefficients { keep: 1.0, kick: 0.0, drift: 0.0, heat: 0.0 };
        let (delta, length_over_gradient) = Self::turn(at, sums);
        if at.temperature == 0.0 || delta == 0.0 {
            return none;
        }
        let cosine = -sums.gradient_momentum / (sums.gradient_squares * sums.momentum_squares).sqrt();
        let (keep, kick) = half_kick(delta, cosine, length_over_gradient);
        Coefficients { keep, kick, ..none }
    }

    fn close(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        scale_and_add(tensor.momentum, by.keep, by.kick * clip, tensor.gradient);
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
            let turned = [0, 1].map(|i| u[i] + nu * f64::from(noise[i]));
            u = turned.map(|x| x / turned[0].hypot(turned[1]));
            u = kick(theta, u, 0.5);
            theta = [0, 1].map(|i| theta[i] + h * length * u[i] / masses[i].sqrt());
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
                let (keep, kick) = half_kick(delta, cosine, 1.0);
                let turned = [keep * cosine - kick, keep * (1.0 - cosine * cosine).sqrt()];
                assert!((turned[0].hypot(turned[1]) - 1.0).abs() < 1e-9, "{delta} {cosine}: {turned:?}");
                assert!(turned[0] >= cosine, "towards e");
            }
        }
    }
}

//! Two steps of a sampler beside its formula worked in plain f64: goldens that need no reference files.

use super::chain::ChainState;
use super::dynamics::{Conditions, Dynamics, advance};
use crate::network::{Layout, Role};

pub(super) fn assert_near(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{what}: {found} instead of {expected}");
}

pub(super) fn assert_all_near(what: &str, found: &[f32], expected: [f64; 2]) {
    found.iter().zip(expected).for_each(|(&found, expected)| assert_near(what, found.into(), expected));
}

/// One step of one number at h = 0.25, μ' = 0.9 and T = 0.3, as the head of a sampler's file writes it: θ and m after it.
pub(super) type Worked = fn(theta: f64, m: f64, g: f64, r: f64, mass: f64) -> (f64, f64);

/// Takes two steps of two tensors in the energy ½(θ₁² + 5θ₂²) with given noise; the state after them.
pub(super) fn assert_takes_the_steps_of(dynamics: &dyn Dynamics, worked: Worked) -> ChainState {
    const CLIP: f64 = 0.5;
    let at = Conditions { step_size: 0.25, retained_momentum: 0.9, temperature: 0.3 };
    let mut layout = Layout::default();
    layout.push("light", Role::Bias, &[1]);
    layout.push("heavy", Role::Bias, &[1]);
    let mass = [1.0, 4.0];
    let mut state = ChainState::at_rest(vec![1.5, -0.5], &layout);
    state.mass = mass.to_vec();
    let momentum = if dynamics.has_momentum() { [0.25, -1.0] } else { [0.0, 0.0] };
    state.momentum = momentum.map(|m| m as f32).to_vec();
    let mut expected = [(1.5, momentum[0]), (-0.5, momentum[1])];
    for noise in [[0.5_f32, -1.25], [-2.0, 0.75]] {
        let gradient = [state.position[0], 5.0 * state.position[1]];
        let mut kinetic = [f64::NAN; 2];
        advance(dynamics, &at, CLIP, &layout, &gradient, &noise, &mut state, &mut kinetic);
        for (i, curvature) in [1.0, 5.0].into_iter().enumerate() {
            let (theta, m) = expected[i];
            expected[i] = worked(theta, m, CLIP * curvature * theta, noise[i].into(), mass[i]);
            assert_near("kinetic", kinetic[i], expected[i].1.powi(2) / mass[i]);
        }
        assert_all_near("θ", &state.position, expected.map(|(theta, _)| theta));
        assert_all_near("m", &state.momentum, expected.map(|(_, m)| m));
    }
    state
}

//! Two steps of every update rule, worked in plain f64: goldens that need no reference files.

use super::{AscentObjective, ChainState, ClipScope, Conditions, Integrator, JointAscent};
use crate::likelihood::LogLikelihood;
use crate::network::{Layout, Mode, Role, Rows};
use crate::potential::{Batch, Potential, TemperedModel};
use crate::temperature::Schedule;

fn assert_near(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{what}: {found} instead of {expected}");
}

fn assert_all_near(what: &str, found: &[f32], expected: [f64; 2]) {
    found.iter().zip(expected).for_each(|(&found, expected)| assert_near(what, found.into(), expected));
}

/// log p = log β − ½β((a − 1)² + 3(b + 2)²).
struct TwoParameters;

impl Potential for TwoParameters {
    type Workspace = ();

    fn dim(&self) -> usize {
        2
    }

    fn evaluate(&self, _: &[f32], _: Batch<'_>, _: &mut [f32], (): &mut ()) -> f64 {
        unreachable!("joint ascent has no prior")
    }

    fn workspace(&self) {}
}

impl TemperedModel for TwoParameters {
    fn tempered_gradient(
        &self,
        position: &[f32],
        _: Rows<'_>,
        _: Mode<'_>,
        inverse_temperature: f64,
        gradient: &mut [f32],
        (): &mut (),
    ) -> LogLikelihood {
        let (a, b, beta) = (f64::from(position[0]), f64::from(position[1]), inverse_temperature);
        let squares = (a - 1.0).powi(2) + 3.0 * (b + 2.0).powi(2);
        gradient[0] = (beta * (1.0 - a)) as f32;
        gradient[1] = (3.0 * beta * (-2.0 - b)) as f32;
        LogLikelihood { value: beta.ln() - 0.5 * beta * squares, log_beta_gradient: 1.0 - 0.5 * beta * squares }
    }

    fn add_prior_energy_gradient(&self, _: &[f32], _: f64, _: &mut [f32]) {
        unreachable!("these ascents have no prior")
    }
}

#[test]
fn joint_ascent_clips_gathers_momentum_and_spares_log_beta_from_decay() {
    const RATE: f64 = 0.125;
    const MOMENTUM: f64 = 0.5;
    const DECAY: f64 = 2.0;
    const CLIP: f64 = 6.0;
    for scope in [ClipScope::All, ClipScope::Theta] {
        let rule = JointAscent {
            objective: AscentObjective::default(),
            learning_rate: Schedule::Constant { value: RATE },
            momentum: MOMENTUM,
            weight_decay: DECAY,
            clip_norm: CLIP,
            clip_scope: scope,
        };
        let mut state = ChainState::at_rest(vec![2.0, 1.0], &Layout::flat(2));
        let batch = Batch { rows: Rows::All, likelihood_weight: 4.0, mode: Mode::Training };
        let mut step = || {
            let norm = rule.ascend(&TwoParameters, batch, &mut state, &mut [0.0; 2], &mut ()).unwrap();
            (norm, state.clone())
        };

        // At (2, 1) and β = 1, four times: G = 4 (−1, −9), ∂/∂log β = 4 (1 − ½ (1 + 27)) = −52.
        let squares: f64 = 4.0 * 4.0 + 36.0 * 36.0;
        let first_norm = if scope == ClipScope::All { (squares + 52.0 * 52.0).sqrt() } else { squares.sqrt() };
        let clip = CLIP / first_norm;
        let velocity = [-4.0 * clip, -36.0 * clip];
        let beta_velocity = if scope == ClipScope::All { -52.0 * clip } else { -52.0 };
        // ℓλ = ¼: three quarters of θ stay, all of log β.
        let position = [0.75 * 2.0 + RATE * velocity[0], 0.75 * 1.0 + RATE * velocity[1]];
        let log_beta = RATE * beta_velocity;
        let (norm, after) = step();
        assert_near("first norm", norm, first_norm);
        assert_all_near("first velocity", &after.momentum, velocity);
        assert_all_near("first position", &after.position, position);
        assert_near("first velocity of log β", after.log_beta_velocity, beta_velocity);
        assert_near("first log β", after.log_beta, log_beta);

        let beta = log_beta.exp();
        let squares = (position[0] - 1.0).powi(2) + 3.0 * (position[1] + 2.0).powi(2);
        let gradient = [4.0 * beta * (1.0 - position[0]), 12.0 * beta * (-2.0 - position[1])];
        let beta_gradient = 4.0 * (1.0 - 0.5 * beta * squares);
        let theta_squares = gradient[0] * gradient[0] + gradient[1] * gradient[1];
        let all_squares = theta_squares + beta_gradient * beta_gradient;
        let second_norm = if scope == ClipScope::All { all_squares.sqrt() } else { theta_squares.sqrt() };
        let clip = if second_norm > CLIP { CLIP / second_norm } else { 1.0 };
        let beta_clip = if scope == ClipScope::All { clip } else { 1.0 };
        let velocity = [0.5 * velocity[0] + clip * gradient[0], 0.5 * velocity[1] + clip * gradient[1]];
        let beta_velocity = 0.5 * beta_velocity + beta_clip * beta_gradient;
        let position = [0.75 * position[0] + RATE * velocity[0], 0.75 * position[1] + RATE * velocity[1]];
        let (norm, after) = step();
        assert_near("second norm", norm, second_norm);
        assert_all_near("second velocity", &after.momentum, velocity);
        assert_all_near("second position", &after.position, position);
        assert_near("second velocity of log β", after.log_beta_velocity, beta_velocity);
        assert_near("second log β", after.log_beta, log_beta + RATE * beta_velocity);
    }
}

/// One step of one number, as the head of each integrator's file writes it: θ and m after it.
type Worked = fn(theta: f64, m: f64, g: f64, r: f64, mass: f64) -> (f64, f64);

const H: f64 = 0.25;
const KEEP: f64 = 0.9;
const T: f64 = 0.3;

#[test]
fn integrators_take_the_steps_of_their_formulas() {
    const CLIP: f64 = 0.5;
    let sghmc: Worked = |theta, m, g, r, mass| {
        let m = 0.9 * m - 0.25 * g + (2.0 * 0.1 * 0.3 * mass).sqrt() * r;
        (theta + 0.25 * m / mass, m)
    };
    let baoa: Worked = |theta, m, g, r, mass| {
        let m = m - 0.25 * g;
        let theta = theta + 0.125 * m / mass;
        let m = 0.9 * m + (0.3 * (1.0 - 0.81) * mass).sqrt() * r;
        (theta + 0.125 * m / mass, m)
    };
    let sgld: Worked = |theta, m, g, r, mass| (theta - 0.25 * g / mass + (2.0 * 0.3 * 0.25 / mass).sqrt() * r, m);

    let mut layout = Layout::default();
    layout.push("light", Role::Bias, &[1]);
    layout.push("heavy", Role::Bias, &[1]);
    let mass = [1.0, 4.0];
    // Energy ½(θ₁² + 5θ₂²); the noise is given.
    let noise = [[0.5_f32, -1.25], [-2.0, 0.75]];
    for (integrator, worked) in [(Integrator::Sghmc, sghmc), (Integrator::Baoa, baoa), (Integrator::Sgld, sgld)] {
        let at = Conditions { step_size: H, retained_momentum: KEEP, temperature: T };
        let mut state = ChainState::at_rest(vec![1.5, -0.5], &layout);
        state.mass = mass.to_vec();
        let momentum = if integrator == Integrator::Sgld { [0.0, 0.0] } else { [0.25, -1.0] };
        state.momentum = momentum.map(|m| m as f32).to_vec();
        let mut expected = [(1.5, momentum[0]), (-0.5, momentum[1])];
        for noise in noise {
            let gradient = [state.position[0], 5.0 * state.position[1]];
            let mut kinetic = [f64::NAN; 2];
            integrator.advance(&at, CLIP, &layout, &gradient, &noise, &mut state, &mut kinetic);
            for (i, curvature) in [1.0, 5.0].into_iter().enumerate() {
                let (theta, m) = expected[i];
                expected[i] = worked(theta, m, CLIP * curvature * theta, noise[i].into(), mass[i]);
                assert_near("kinetic", kinetic[i], expected[i].1.powi(2) / mass[i]);
            }
            assert_all_near(&format!("{integrator:?} θ"), &state.position, expected.map(|(theta, _)| theta));
            assert_all_near(&format!("{integrator:?} m"), &state.momentum, expected.map(|(_, m)| m));
        }
    }
}

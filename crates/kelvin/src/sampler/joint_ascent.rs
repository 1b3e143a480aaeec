//! Joint ascent in (θ, log β): SGD with momentum on the log-likelihood of the tempered model (the paper's eq. 9).
//!
//! ```text
//! G ← (n/|B|) Σ_B ∇ log p(y|x,θ,β)   clipped by its norm
//! v ← G + μ v
//! θ ← θ + ℓ (v_θ − λ θ),   log β ← log β + ℓ v_β          weight decay λ is decoupled and spares log β
//! ```
//! [`AscentObjective`] adds log p(θ) and log p(log β) to what is maximised, or holds log β still (plain SGD). Both priors count
//! in full at every step, whatever the batch.

use serde::{Deserialize, Serialize};

use super::chain::{Chain, ChainState, Divergence};
use super::rule::{Rule, Scratch, StepName};
use crate::network::Mode;
use crate::potential::{Batch, TemperedModel};
use crate::random::Purpose;
use crate::temperature::Schedule;
use crate::vector::{clip_factor, scale_and_add, sum_of_squares};

/// Whose norm is clipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClipScope {
    /// θ and log β together.
    #[default]
    All,
    /// θ alone; log β is not clipped.
    Theta,
}

/// How often log p(θ) counts beside Σ log p(y|x,θ,β).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorShare {
    /// Not at all: maximum likelihood.
    #[default]
    None,
    /// Once in all: the maximum of the posterior.
    Once,
    /// Once for each of the n rows, as the paper prints it.
    PerDatum,
}

/// What becomes of log β.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LogBeta {
    /// It moves.
    #[default]
    Free,
    /// It stays where it starts: plain SGD on θ.
    Frozen,
    /// It moves, and log N(log β | mean, variance) is added to the objective.
    Normal {
        /// Where it is expected.
        mean: f64,
        /// How far from there.
        variance: f64,
    },
}

impl LogBeta {
    /// ∂/∂log β of the objective, given that of the likelihood.
    fn gradient(self, log_beta: f64, likelihood_gradient: f64) -> f64 {
        match self {
            Self::Free => likelihood_gradient,
            Self::Frozen => 0.0,
            Self::Normal { mean, variance } => likelihood_gradient - (log_beta - mean) / variance,
        }
    }
}

/// What joint ascent maximises: Σ log p(y|x,θ,β) and, where asked for, priors of θ and log β.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AscentObjective {
    /// The share of log p(θ).
    pub prior: PriorShare,
    /// What becomes of log β.
    pub log_beta: LogBeta,
}

/// The optimiser's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct JointAscent {
    /// What is maximised.
    pub objective: AscentObjective,
    /// ℓ at each step.
    pub learning_rate: Schedule,
    /// μ.
    pub momentum: f64,
    /// λ.
    pub weight_decay: f64,
    /// Largest norm of G.
    pub clip_norm: f64,
    /// Whose norm.
    pub clip_scope: ClipScope,
}

impl JointAscent {
    /// Ascends by one step on the rows of a batch; returns the norm of G that was compared with `clip_norm`.
    ///
    /// # Errors
    /// When G or log β is no longer finite.
    pub fn ascend<P: TemperedModel>(
        &self,
        potential: &P,
        batch: Batch<'_>,
        state: &mut ChainState,
        gradient: &mut [f32],
        work: &mut P::Workspace,
    ) -> Result<f64, Divergence> {
        let weight = batch.likelihood_weight;
        let sum =
            potential.tempered_gradient(&state.position, batch.rows, batch.mode, state.log_beta.exp(), gradient, work);

        potential.update_statistics(work, &mut state.statistics);
        let log_beta_gradient = self.objective.log_beta.gradient(state.log_beta, weight * sum.log_beta_gradient);
        // G = scale · gradient; with a prior the buffer holds −G/count.
        let with_prior = |count: f64, gradient: &mut [f32]| {
            potential.add_prior_energy_gradient(&state.position, -weight / count, gradient);
            -count
        };
        let scale = match self.objective.prior {
            PriorShare::None => weight,
            PriorShare::Once => with_prior(1.0, gradient),
            PriorShare::PerDatum => with_prior(potential.num_examples() as f64, gradient),
        };
        let theta_squares = scale * scale * sum_of_squares(gradient);
        let (norm, log_beta_clipped) = match self.clip_scope {
            ClipScope::All => ((theta_squares + log_beta_gradient * log_beta_gradient).sqrt(), true),
            ClipScope::Theta => (theta_squares.sqrt(), false),
        };
        let clip = clip_factor(norm, self.clip_norm);
        let log_beta_clip = if log_beta_clipped { clip } else { 1.0 };

        let rate = self.learning_rate.at(state.step);
        scale_and_add(&mut state.momentum, self.momentum, scale * clip, gradient);
        state.log_beta_velocity = self.momentum * state.log_beta_velocity + log_beta_clip * log_beta_gradient;
        let decay = 1.0 - rate * self.weight_decay;
        scale_and_add(&mut state.position, decay, rate, &state.momentum);
        state.log_beta += rate * state.log_beta_velocity;

        let finite = norm.is_finite() && state.log_beta.is_finite();
        if finite { Ok(norm) } else { Err(Divergence { step: state.step }) }
    }
}

impl<P: TemperedModel> Rule<P> for JointAscent {
    fn step(
        &self,
        potential: &P,
        name: &StepName,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> Result<(), Divergence> {
        let step = chain.state.step;
        let rows = name.batches.rows(name.seed, Purpose::BatchOrder, chain.id, step, &mut scratch.rows);
        let batch = Batch { rows, likelihood_weight: name.batches.weight(), mode: Mode::Training };
        self.ascend(potential, batch, &mut chain.state, &mut scratch.gradient, &mut scratch.work).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked_steps::{assert_all_near, assert_near};
    use super::*;
    use crate::data::{Examples, Targets};
    use crate::likelihood::{Likelihood, LogLikelihood};
    use crate::network::{Layout, Network, Rows};
    use crate::potential::{Posterior, Potential};
    use crate::prior::IsotropicGaussian;

    const BATCH: Batch<'static> = Batch { likelihood_weight: 2.5, ..Batch::ALL };

    fn examples() -> Examples {
        let inputs: Vec<f32> = (0..12).map(|i| ((i * 7 % 12) as f32 - 5.5) / 4.0).collect();
        Examples {
            inputs: inputs.into(),
            num_features: 2,
            targets: Targets::Real(vec![0.3, -1.0, 0.8, 0.1, -0.4, 1.2]),
        }
    }

    fn rule(objective: AscentObjective) -> JointAscent {
        JointAscent {
            objective,
            learning_rate: Schedule::Constant { value: 1e-3 },
            momentum: 0.9,
            weight_decay: 0.0,
            clip_norm: f64::INFINITY,
            clip_scope: ClipScope::All,
        }
    }

    fn start(posterior: &Posterior) -> ChainState {
        let position = posterior.network().initial_parameters(3, 0);
        ChainState { log_beta: 0.4, ..ChainState::at_rest(position, &posterior.layout()) }
    }

    /// The first velocity is the gradient of w Σ log p(y|x,θ,β) + count · log p(θ) + log N(log β).
    #[test]
    fn ascends_the_objective_it_names() {
        let (examples, network) = (examples(), Network::dense(2, &[3], 1).unwrap());
        let likelihood = Likelihood::Gaussian { noise_variance: 0.2 };
        let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(0.3).unwrap(), &examples).unwrap();
        let normal = LogBeta::Normal { mean: -0.5, variance: 0.05 };
        for (prior, count) in [(PriorShare::None, 0.0), (PriorShare::Once, 1.0), (PriorShare::PerDatum, 6.0)] {
            for log_beta in [LogBeta::Free, LogBeta::Frozen, normal] {
                let objective = |position: &[f32], at: f64| {
                    let mut unused = vec![0.0; position.len()];
                    let mut work = posterior.workspace();
                    let (rows, mode) = (BATCH.rows, BATCH.mode);
                    let sum = posterior.tempered_gradient(position, rows, mode, at.exp(), &mut unused, &mut work);
                    let of_log_beta = if log_beta == normal { -(at + 0.5).powi(2) / 0.1 } else { 0.0 };
                    BATCH.likelihood_weight * sum.value + count * posterior.log_prior(position) + of_log_beta
                };
                let mut state = start(&posterior);
                let before = state.clone();
                let (mut gradient, mut work) = (vec![0.0; posterior.dim()], posterior.workspace());
                let rule = rule(AscentObjective { prior, log_beta });
                rule.ascend(&posterior, BATCH, &mut state, &mut gradient, &mut work).unwrap();
                for (index, &found) in state.momentum.iter().enumerate() {
                    let at = |step: f32| {
                        let mut moved = before.position.clone();
                        moved[index] += step;
                        (objective(&moved, 0.4), f64::from(moved[index]))
                    };
                    let ((high, right), (low, left)) = (at(1e-3), at(-1e-3));
                    let slope = (high - low) / (right - left);
                    assert!((f64::from(found) - slope).abs() < 2e-3 * slope.abs().max(10.0), "{found} {slope}");
                }
                let at = |log_beta: f64| objective(&before.position, log_beta);
                let slope = if log_beta == LogBeta::Frozen { 0.0 } else { (at(0.4 + 1e-4) - at(0.4 - 1e-4)) / 2e-4 };
                assert!((state.log_beta_velocity - slope).abs() < 1e-4 * slope.abs().max(1.0), "{log_beta:?}");
            }
        }
    }

    #[test]
    fn a_frozen_temperature_stays_and_leaves_plain_sgd() {
        let (examples, network) = (examples(), Network::dense(2, &[3], 1).unwrap());
        let likelihood = Likelihood::Gaussian { noise_variance: 0.2 };
        let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(0.3).unwrap(), &examples).unwrap();
        let mut state = start(&posterior);
        let first = state.position.clone();
        let (mut gradient, mut work) = (vec![0.0; posterior.dim()], posterior.workspace());
        let rule = rule(AscentObjective { log_beta: LogBeta::Frozen, ..AscentObjective::default() });
        for _ in 0..20 {
            rule.ascend(&posterior, BATCH, &mut state, &mut gradient, &mut work).unwrap();
        }
        assert_eq!((state.log_beta, state.log_beta_velocity), (0.4, 0.0));
        assert_ne!(state.position, first);
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
}

//! Joint ascent in (θ, log β): SGD with momentum on the log-likelihood of the tempered model (the paper's eq. 9).
//!
//! ```text
//! G ← (n/|B|) Σ_B ∇ log p(y|x,θ,β)   clipped by its norm
//! v ← G + μ v
//! θ ← θ + ℓ (v_θ − λ θ),   log β ← log β + ℓ v_β          weight decay λ is decoupled and spares log β
//! ```

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

/// The optimiser's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct JointAscent {
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
        let log_beta_gradient = weight * sum.log_beta_gradient;
        let theta_squares = weight * weight * sum_of_squares(gradient);
        let (norm, log_beta_clipped) = match self.clip_scope {
            ClipScope::All => ((theta_squares + log_beta_gradient * log_beta_gradient).sqrt(), true),
            ClipScope::Theta => (theta_squares.sqrt(), false),
        };
        let clip = clip_factor(norm, self.clip_norm);
        let log_beta_clip = if log_beta_clipped { clip } else { 1.0 };

        let rate = self.learning_rate.at(state.step);
        scale_and_add(&mut state.momentum, self.momentum, weight * clip, gradient);
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

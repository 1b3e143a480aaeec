//! Joint ascent in (θ, log β): SGD with momentum on the log-likelihood of the tempered model (the paper's eq. 9).
//!
//! ```text
//! G ← (n/|B|) Σ_B ∇ log p(y|x,θ,β)   clipped by its norm
//! v ← G + μ v
//! θ ← θ + ℓ (v_θ − λ θ),   log β ← log β + ℓ v_β          weight decay λ is decoupled and spares log β
//! ```

use serde::{Deserialize, Serialize};

use super::chain::{Chain, Divergence};
use super::rule::{Rule, Scratch, StepName};
use crate::potential::TemperedModel;
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

impl<P: TemperedModel> Rule<P> for JointAscent {
    fn step(
        &self,
        potential: &P,
        name: &StepName,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> Result<(), Divergence> {
        let state = &mut chain.state;
        let (step, weight) = (state.step, name.batches.weight());
        let rows = name.batches.rows(name.seed, Purpose::BatchOrder, chain.id, step, &mut scratch.rows);
        let gradient = &mut scratch.gradient;
        let sum = potential.tempered_gradient(&state.position, rows, state.log_beta.exp(), gradient, &mut scratch.work);

        let log_beta_gradient = weight * sum.log_beta_gradient;
        let theta_squares = weight * weight * sum_of_squares(gradient);
        let (norm, log_beta_clipped) = match self.clip_scope {
            ClipScope::All => ((theta_squares + log_beta_gradient * log_beta_gradient).sqrt(), true),
            ClipScope::Theta => (theta_squares.sqrt(), false),
        };
        let clip = clip_factor(norm, self.clip_norm);
        let log_beta_clip = if log_beta_clipped { clip } else { 1.0 };

        let rate = self.learning_rate.at(step);
        scale_and_add(&mut state.momentum, self.momentum, weight * clip, gradient);
        state.log_beta_velocity = self.momentum * state.log_beta_velocity + log_beta_clip * log_beta_gradient;
        let decay = 1.0 - rate * self.weight_decay;
        scale_and_add(&mut state.position, decay, rate, &state.momentum);
        state.log_beta += rate * state.log_beta_velocity;

        if norm.is_finite() && state.log_beta.is_finite() { Ok(()) } else { Err(Divergence { step }) }
    }
}

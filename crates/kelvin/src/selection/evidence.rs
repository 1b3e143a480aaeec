//! Laplace evidence: the β under which training answers are most probable, prior and parameters taken together.
//!
//! ```text
//! β̂ = argmax_β log ∫ Π p(y|x,θ,β) p(θ)^β dθ/Z  ≈  n/2 log β − β U₀(θ̂) + const   ⇒   β̂ = n / (2 U₀(θ̂))
//! U₀(θ) = Σ (y − μ)²/(2σ²) + ‖θ‖²/(2σ_p²)
//! ```
//! (MacKay 1992; Immer et al., ICML 2021, for networks.) With posterior tempering β scales noise and prior alike, so neither the
//! mode θ̂ nor the shape of the Hessian depends on β, and Laplace's determinant cancels against the prior's normaliser: what is
//! left needs only U₀ at the mode. Exact for linear regressions, where it is n/(yᵀK⁻¹y), K = σ²I + σ_p²XXᵀ. Networks are singular models,
//! and their Laplace evidence is known to mislead (the paper's Appendix D): the mode is the best checkpoint of a MAP search at β = 1.
//! Cost: one SGD run for each start. Objective: evidence, not held-out density.

use super::error::SelectionError;
use super::joint::best_choice;
use super::laboratory::Laboratory;
use super::selector::{BetaInterval, Goal, Selection, Selector};
use crate::likelihood::Likelihood;
use crate::potential::{Batch, Potential};
use crate::sampler::{AscentObjective, LogBeta, PriorShare};
use crate::temperature::Tempering;

/// Laplace evidence of a regression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvidenceSelector;

impl Selector for EvidenceSelector {
    fn name(&self) -> &'static str {
        "evidence"
    }

    fn goal(&self) -> Goal {
        Goal::Evidence
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let method = self.name();
        let refused = |reason: &'static str| Err(SelectionError::DoesNotSuit { method, reason: reason.into() });
        let posterior = laboratory.posterior();
        let Likelihood::Gaussian { noise_variance } = posterior.likelihood() else {
            return refused("softmax(β z) has no scale that cancels, so it would need the Hessian; choose by LPD");
        };
        let Some(prior_variance) = posterior.prior().isotropic_variance() else {
            return refused("it needs a Gaussian prior that β scales (model.prior = \"gaussian\")");
        };
        if laboratory.tempering() == Tempering::Likelihood {
            return refused("with likelihood tempering the mode moves with β; set sampler.tempering = \"posterior\"");
        }
        let map = AscentObjective { prior: PriorShare::Once, log_beta: LogBeta::Frozen };
        let choices = laboratory.search(map)?;
        let best = best_choice(method, &choices)?;
        let constant = 0.5
            * (posterior.num_examples() as f64 * (std::f64::consts::TAU * noise_variance).ln()
                + posterior.dim() as f64 * (std::f64::consts::TAU * prior_variance).ln());
        let beta_at = |position: &[f32]| {
            let mut gradient = vec![0.0; posterior.dim()];
            let energy =
                posterior.workspaces().lend(|_, work| posterior.evaluate(position, Batch::ALL, &mut gradient, work));
            posterior.num_examples() as f64 / (2.0 * (energy - constant))
        };
        let betas: Vec<f64> = choices.iter().map(|choice| beta_at(&choice.position)).collect();
        let prices = laboratory.prices();
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: beta_at(&best.position),
            intervals: BetaInterval::over_starts(&betas).into_iter().collect(),
            cost: prices.cost(prices.search * choices.len() as f64),
            warnings: best.not_converged().into_iter().collect(),
        })
    }
}

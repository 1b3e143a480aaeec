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
//!
//! Where no scale cancels (classes, whose tempered model is softmax(β z); likelihood tempering, whose mode moves with β) the evidence of the small
//! model (logistic, or a linearised network) is computed with its determinant, and β̂ is looked for between 1/1000 and 1000.
//! Cost: one SGD run for each start; linear and logistic models instead some 30 fits. Objective: evidence, not held-out density.

use super::error::SelectionError;
use super::joint_selector::best_search;
use super::laboratory::Laboratory;
use super::selector::{BetaInterval, Goal, Selection, Selector};
use super::small_model::SmallModel;
use crate::diagnostics::Warning;
use crate::network::Layer;
use crate::potential::{Batch, Potential};
use crate::sampler::{AscentObjective, LogBeta, PriorShare};
use crate::temperature::Tempering;

/// The grid on which the best β is first looked for: decades and their middles.
const NUM_GRID: i32 = 13;
/// Parabolas through three points, each narrower than the one before.
const NUM_PARABOLAS: i32 = 5;

/// Laplace evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvidenceSelector;

impl EvidenceSelector {
    fn select_with_determinant(self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let num_fits = f64::from(NUM_GRID + 3 * NUM_PARABOLAS);
        let model = SmallModel::new(self.name(), laboratory, |_| num_fits)?;
        let value_at = |log_beta: f64| model.log_evidence(log_beta.exp());
        let spacing = 0.5 * std::f64::consts::LN_10;
        let mut width = spacing;
        let middle = f64::from(NUM_GRID / 2);
        let mut best = (f64::NEG_INFINITY, 0.0);
        for point in 0..NUM_GRID {
            let log_beta = (f64::from(point) - middle) * spacing;
            let value = value_at(log_beta)?;
            if value > best.0 {
                best = (value, log_beta);
            }
        }
        let (mut log_beta, end) = (best.1, middle * spacing);
        let is_at_edge = log_beta.abs() >= end;
        if !is_at_edge {
            for _ in 0..NUM_PARABOLAS {
                let [low, at, high] = [value_at(log_beta - width)?, value_at(log_beta)?, value_at(log_beta + width)?];
                let move_by = 0.5 * width * (high - low) / (2.0 * at - low - high);
                log_beta += if move_by.is_finite() { move_by.clamp(-spacing, spacing) } else { 0.0 };
                width /= 8.0;
            }
        }
        let mut selection = model.selection(self.goal(), log_beta.exp());
        if is_at_edge {
            let (beta, metric) = (selection.inverse_temperature, "evidence".into());
            selection.warnings.push(Warning::BetaAtGridEdge { beta, metric });
        }
        Ok(selection)
    }
}

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
        let is_linear = matches!(posterior.network().layers(), [Layer::Dense { .. }]);
        let scale_cancels = !is_linear && laboratory.tempering() == Tempering::Posterior;
        let Some(noise_variance) = posterior.likelihood().known_noise_variance().filter(|_| scale_cancels) else {
            return self.select_with_determinant(laboratory);
        };
        let Some(prior_variance) = posterior.prior().isotropic_variance() else {
            return refused("it needs a Gaussian prior that β scales (model.prior = \"gaussian\")");
        };
        let map = AscentObjective { prior: PriorShare::Once, log_beta: LogBeta::Frozen };
        let searched = laboratory.search(map)?;
        let best = &best_search(method, &searched)?.choice;
        let constant = 0.5
            * (posterior.num_examples() as f64 * (std::f64::consts::TAU * noise_variance).ln()
                + posterior.dim() as f64 * (std::f64::consts::TAU * prior_variance).ln());
        let beta_at = |position: &[f32]| {
            let mut gradient = vec![0.0; posterior.dim()];
            let energy =
                posterior.workspaces().lend(|_, work| posterior.evaluate(position, Batch::ALL, &mut gradient, work));
            posterior.num_examples() as f64 / (2.0 * (energy - constant))
        };
        let betas: Vec<f64> = searched.iter().map(|one| beta_at(&one.choice.position)).collect();
        let prices = laboratory.prices();
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: beta_at(&best.position),
            intervals: BetaInterval::over_starts(&betas).into_iter().collect(),
            cost: prices.cost(prices.search * searched.len() as f64),
            warnings: best.not_converged().into_iter().collect(),
        })
    }
}

//! Joint maximum likelihood of network and temperature: one optimisation, the best validation checkpoint wins.
//!
//! ```text
//! θ̂*, β̂* = argmax Σ log p(y|x,θ,β)  [+ log p(θ), or + n log p(θ)]        from log β = 0, by SGD with momentum
//! ```
//! and the checkpoint is kept whose validation log-likelihood of the tempered model is largest, the start (θ₀, β = 1) among them (Ng,
//! van der Heide, Hodgkinson, Wei, UAI 2025, eq. 9; the terms in brackets are the MAP variants of its Appendix D). So a search that
//! diverges before it looks again answers β = 1, and a warning says so.
//! With n log p(θ) a narrow prior outweighs the data: the maximum of a network with a hidden layer can be θ = 0, from every start
//! the same, which predicts the mean and has β̂* = σ²/Var y. That is no end of the search: log β is not bounded.
//! Cost: one SGD run for each start. Objective: held-out density of the tempered plug-in.

use super::error::SelectionError;
use super::laboratory::{Laboratory, SearchedStart};
use super::selector::{BetaInterval, Goal, Selection, Selector};
use crate::diagnostics::{Limits, Warning};
use crate::sampler::{AscentObjective, LogBeta, PriorShare};

/// Joint ascent in (θ, log β) as a selector: of the starts' choices the one with the best validation score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JointSelector {
    /// The share of log p(θ) in what is maximised: none is maximum likelihood, all else a maximum of the posterior.
    pub prior: PriorShare,
    /// What is known of log β beforehand. It cannot be frozen: that would choose nothing.
    pub log_beta: LogBeta,
}

impl Selector for JointSelector {
    fn name(&self) -> &'static str {
        match self.prior {
            PriorShare::None => "joint",
            PriorShare::Once => "map",
            PriorShare::PerDatum => "map-per-datum",
        }
    }

    fn goal(&self) -> Goal {
        Goal::PlugInDensity
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let method = self.name();
        if self.log_beta == LogBeta::Frozen {
            return Err(SelectionError::DoesNotSuit { method, reason: "log β is frozen; let it move".into() });
        }
        if let Some(why) = laboratory.posterior().likelihood().hides_beta() {
            let reason = format!("{why}: a joint maximum has no β to tell; choose by LPD");
            return Err(SelectionError::DoesNotSuit { method, reason: reason.into() });
        }
        let searched = laboratory.search(AscentObjective { prior: self.prior, log_beta: self.log_beta })?;
        let best = &best_search(method, &searched)?.choice;
        let prices = laboratory.prices();
        let betas: Vec<f64> = searched.iter().map(|one| one.choice.inverse_temperature).collect();
        let limits = Limits::default();
        let mut warnings: Vec<Warning> = limits.check_seeds(&betas).into_iter().collect();
        warnings.extend(limits.check_beta(best.inverse_temperature));
        warnings.extend(best.not_converged());
        warnings.extend(searched.iter().filter_map(|one| one.choice.diverged_at_once(one.start + 1)));
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: best.inverse_temperature,
            intervals: BetaInterval::over_starts(&betas).into_iter().collect(),
            cost: prices.cost(prices.search * searched.len() as f64),
            warnings,
        })
    }
}

/// The search with the best finite validation score.
pub(super) fn best_search<'s>(
    method: &'static str,
    searched: &'s [SearchedStart],
) -> Result<&'s SearchedStart, SelectionError> {
    let finite = searched.iter().filter(|one| one.choice.validation_lpd().is_finite());
    let best = finite.max_by(|a, b| a.choice.validation_lpd().total_cmp(&b.choice.validation_lpd()));
    best.ok_or(SelectionError::NothingFound {
        method,
        reason: "no search has a finite validation score; lower selection.learning_rate".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::{Checkpoint, JointChoice};

    fn searched(start: u32, validation_lpd: f64) -> SearchedStart {
        let checkpoint = Checkpoint { step: 0, inverse_temperature: 1.0, validation_lpd };
        let choice = JointChoice {
            position: Vec::new(),
            statistics: Vec::new(),
            inverse_temperature: 1.0,
            best: 0,
            path: vec![checkpoint],
            divergence: None,
        };
        SearchedStart { start, choice }
    }

    #[test]
    fn the_start_with_the_largest_finite_score_is_chosen() {
        let scores = [-3.0, f64::NAN, -1.0, f64::INFINITY, -2.0];
        let starts: Vec<SearchedStart> = (0..).zip(scores).map(|(start, score)| searched(start, score)).collect();
        assert_eq!(best_search("joint", &starts).unwrap().start, 2);
        assert!(best_search("joint", &starts[1..2]).is_err());
    }
}

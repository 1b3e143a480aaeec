//! A posterior run at every β of a grid; the best by a criterion on validation rows, interpolated between grid points.
//!
//! ```text
//! β̂ = argmax_β score(p̂_β on validation rows)          score: LPD, −MSE or accuracy, −ECE, −Brier, −coverage error
//! ```
//! What the paper compares with (Section 5). Between points the score is a parabola in log β ([`Curve`]); at an end of the grid
//! there is nothing to interpolate, and a warning says so. Criteria that count (accuracy, ECE, coverage) move in jumps of one row,
//! so their β is rough; the LPD's comes with intervals.
//! Cost: one chain for each β and start. Objective: the criterion, on validation rows.

use super::beta_posterior::BetaPosterior;
use super::cost::Cost;
use super::curve::Curve;
use super::error::SelectionError;
use super::flatness::flat_interval;
use super::judged::{Criterion, Judged};
use super::laboratory::Laboratory;
use super::selector::{Goal, Selection, Selector};
use crate::diagnostics::{Limits, Warning};
use crate::predictive::PredictiveModel;

/// The probability that the credible interval of β is given for.
const CREDIBLE: f64 = 0.9;

/// A grid of β and what to choose by.
#[derive(Clone, Debug, PartialEq)]
pub struct GridSelector {
    /// The grid.
    pub inverse_temperatures: Vec<f64>,
    /// What to choose by.
    pub criterion: Criterion,
    /// Whose density.
    pub model: PredictiveModel,
}

impl Selector for GridSelector {
    fn name(&self) -> &'static str {
        match (self.criterion, self.model) {
            (Criterion::Lpd, PredictiveModel::Standard) => "grid-lpd-sm",
            (Criterion::Lpd, PredictiveModel::Tempered) => "grid-lpd-tm",
            (Criterion::PointError, PredictiveModel::Standard) => "grid-point-sm",
            (Criterion::PointError, PredictiveModel::Tempered) => "grid-point-tm",
            (Criterion::Ece, PredictiveModel::Standard) => "grid-ece-sm",
            (Criterion::Ece, PredictiveModel::Tempered) => "grid-ece-tm",
            (Criterion::Brier, PredictiveModel::Standard) => "grid-brier-sm",
            (Criterion::Brier, PredictiveModel::Tempered) => "grid-brier-tm",
            (Criterion::Coverage, PredictiveModel::Standard) => "grid-coverage-sm",
            (Criterion::Coverage, PredictiveModel::Tempered) => "grid-coverage-tm",
        }
    }

    fn goal(&self) -> Goal {
        self.criterion.goal(self.model)
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        self.check(laboratory)?;
        self.choose(&MeasuredGrid::new(laboratory, &self.inverse_temperatures)?)
    }
}

impl GridSelector {
    /// Refuses a criterion that the targets have no use for.
    fn check(&self, laboratory: &dyn Laboratory) -> Result<(), SelectionError> {
        let method = self.name();
        if self.criterion.applies_to(laboratory.posterior().likelihood()) {
            return Ok(());
        }
        let reason = match self.criterion {
            Criterion::Coverage => "coverage is of a regression's intervals; choose by ECE or Brier score",
            _ => "it scores class probabilities, and the targets are numbers; choose by LPD, point error or coverage",
        };
        Err(SelectionError::DoesNotSuit { method, reason: reason.into() })
    }

    /// The best of a grid that was measured; several criteria can share its chains.
    ///
    /// # Errors
    /// Where no β has a finite score.
    pub fn choose(&self, measured: &MeasuredGrid) -> Result<Selection, SelectionError> {
        let method = self.name();
        let scores =
            measured.judged.iter().map(|judged| (judged.inverse_temperature, judged.score(self.criterion, self.model)));
        let curve = Curve::new(scores).ok_or(SelectionError::NothingFound {
            method,
            reason: "no β of the grid has a finite score; lower sampler.learning_rate".into(),
        })?;
        let (_, best_on_grid) = curve.best_point();
        let mut warnings = measured.warnings.clone();
        let grid = curve.inverse_temperatures();
        warnings.extend(Limits::default().check_grid(&grid, best_on_grid, self.criterion.name()));
        let mut intervals = Vec::new();
        if self.criterion == Criterion::Lpd {
            let points = measured.log_densities(self.model);
            intervals.extend(flat_interval(&points));
            intervals.extend(BetaPosterior::new(&points, None).map(|posterior| posterior.interval(CREDIBLE)));
        }
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: curve.best_inverse_temperature(),
            intervals,
            cost: measured.cost,
            warnings,
        })
    }
}

/// Chains at every β of a grid, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredGrid {
    /// What the draws at each β are worth, in the order of the grid; those without draws are missing.
    pub judged: Vec<Judged>,
    /// What it took.
    pub cost: Cost,
    /// The β that kept no draws.
    pub warnings: Vec<Warning>,
}

impl MeasuredGrid {
    /// Samples at every β and judges the draws.
    ///
    /// # Errors
    /// Where the laboratory fails.
    pub fn new(laboratory: &dyn Laboratory, inverse_temperatures: &[f64]) -> Result<Self, SelectionError> {
        let sampled = laboratory.sample(inverse_temperatures)?;
        let (mut judged, mut warnings) = (Vec::new(), Vec::new());
        let num_starts = sampled.iter().map(Vec::len).max().unwrap_or(0);
        for (&beta, chains) in inverse_temperatures.iter().zip(&sampled) {
            if chains.is_empty() {
                let label = format!("every chain at β = {beta}, before its first draw,");
                warnings.push(Warning::ChainDiverged { label, step: 0 });
            } else {
                judged.push(Judged::new(laboratory, beta, chains)?);
            }
        }
        let prices = laboratory.prices();
        let num_chains = (num_starts * inverse_temperatures.len()) as f64;
        Ok(Self { judged, cost: prices.cost(prices.chain * num_chains), warnings })
    }

    /// β with the log densities of all validation rows.
    pub fn log_densities(&self, model: PredictiveModel) -> Vec<(f64, &[f64])> {
        self.judged.iter().map(|judged| (judged.inverse_temperature, &judged.log_densities.get(model)[..])).collect()
    }
}

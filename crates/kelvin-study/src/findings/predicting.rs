//! Which model predicts new rows: the one that scored best on rows that were not seen, or a simpler one that scored as well.
//!
//! ```text
//! best       the largest mean log predictive density over the held-out rows
//! as well    no more than one standard error behind the best: that of the difference row by row, and of the best over its draws
//! simpler    linear; β = 1; β̂* SM; β̂* TM; one network with a Gaussian over its last layer; SWAG; several networks; one network
//! ```
//! β = 1 is simpler than β̂*, since nothing was chosen for it; what an optimiser found comes last, since its uncertainty rests on the settings of a
//! search. A model whose own draws leave its score uncertain is not taken for as good because of that. A β of a grid is no candidate: its scores are those of a comparison.

use kelvin::diagnostics::number_or_nan;
use kelvin::predictive::PredictiveModel;
use serde::{Deserialize, Serialize};

use crate::findings::cross_validation::{CrossValidation, FoldPredictions, HeldOutModel, ModelKind};

/// The model that predicts new rows, and what it was chosen from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicting {
    /// The model.
    pub what: HeldOutModel,
    /// Which rows it was chosen by.
    pub judged_on: JudgedOn,
    /// How many rows these are.
    pub num_judged: usize,
    /// Rows that what predicts has learned from.
    pub num_rows: usize,
    /// Everything that could have predicted, from the best to the worst.
    pub candidates: Vec<Candidate>,
}

/// Rows by which a model is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgedOn {
    /// Every row of the table, each held out once.
    Folds,
    /// The held-out rows of repeated random splits.
    Splits,
    /// The validation rows of the run.
    Validation,
}

/// A model that could predict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The model.
    pub what: HeldOutModel,
    /// Mean log predictive density of a held-out row in nats; numbers in units of the table's standard deviation.
    pub lpd: f64,
    /// How far it is behind the best, in nats a row.
    #[serde(deserialize_with = "number_or_nan")]
    pub behind: f64,
    /// The standard error of that over rows, and of the best over its draws; NaN of a single row.
    #[serde(deserialize_with = "number_or_nan")]
    pub error: f64,
}

impl Candidate {
    /// Whether it scored as well as the best.
    pub fn is_as_good(&self) -> bool {
        self.behind <= self.error
    }
}

impl HeldOutModel {
    /// The place in the order of simplicity, the simplest first; none of what is no candidate.
    fn simplicity(&self) -> Option<u8> {
        Some(match (self.kind, self.model) {
            (ModelKind::Linear, _) => 0,
            (ModelKind::Bayes, _) => 1,
            (ModelKind::Chosen, PredictiveModel::Standard) => 2,
            (ModelKind::Chosen, PredictiveModel::Tempered) => 3,
            (ModelKind::Laplace, _) => 4,
            (ModelKind::Swag, _) => 5,
            (ModelKind::Ensemble, _) => 6,
            (ModelKind::Sgd, _) => 7,
            (ModelKind::Grid, _) => return None,
        })
    }
}

/// Models of these folds from the best to the worst, those whose score is a finite number; `is_candidate` is asked by their places.
pub(super) fn ranked(
    folds: &[FoldPredictions],
    table_stds: &[f64],
    is_candidate: impl Fn(usize) -> bool,
) -> Vec<(usize, Candidate)> {
    let num_models = folds.first().map_or(0, |fold| fold.models.len());
    let scores = (0..num_models).filter(|&index| is_candidate(index));
    let scores = scores.map(|index| (index, CrossValidation::scores(folds, index, table_stds).lpd));
    let mut scores: Vec<(usize, f64)> = scores.filter(|(_, lpd)| lpd.is_finite()).collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(&(best, _)) = scores.first() else { return Vec::new() };
    let error_of_best = CrossValidation::monte_carlo_error(folds, best);
    let candidate = |(index, lpd): (usize, f64)| {
        let what = folds[0].models[index].what.clone();
        if index == best {
            return (index, Candidate { what, lpd, behind: 0.0, error: 0.0 });
        }
        let difference = CrossValidation::difference(folds, best, index);
        (index, Candidate { what, lpd, behind: difference.mean, error: difference.row_error.hypot(error_of_best) })
    };
    scores.into_iter().map(candidate).collect()
}

/// Rows that at least one of the folds held out.
pub(super) fn num_judged(folds: &[FoldPredictions]) -> usize {
    let mut rows: Vec<usize> = folds.iter().flat_map(|fold| fold.rows.iter().copied()).collect();
    rows.sort_unstable();
    rows.dedup();
    rows.len()
}

impl Predicting {
    /// Lets the best model of this kind predict, where there is one.
    pub(crate) fn prefer(&mut self, kind: ModelKind) {
        if let Some(best) = self.candidates.iter().find(|candidate| candidate.what.kind == kind) {
            self.what = best.what.clone();
        }
    }

    /// The choice between the models of these folds; none of no folds, or where no score is a finite number.
    pub(crate) fn of(folds: &[FoldPredictions], table_stds: &[f64], judged_on: JudgedOn) -> Option<Self> {
        let models = &folds.first()?.models;
        let candidates = ranked(folds, table_stds, |index| models[index].what.simplicity().is_some());
        let candidates: Vec<Candidate> = candidates.into_iter().map(|(_, candidate)| candidate).collect();
        let as_good = candidates.iter().filter(|candidate| candidate.is_as_good());
        let what = as_good.min_by_key(|candidate| candidate.what.simplicity())?.what.clone();
        Some(Self { what, judged_on, num_judged: num_judged(folds), num_rows: 0, candidates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::cross_validation::ModelPredictions;

    fn what(kind: ModelKind) -> HeldOutModel {
        HeldOutModel { kind, model: PredictiveModel::Standard, beta: None, label: format!("{kind:?}") }
    }

    /// One fold of a hundred rows, in which every model is its level plus a noise of this size that differs from the first model's.
    fn folds(levels: &[(ModelKind, f64)], noise: f64) -> Vec<FoldPredictions> {
        let model = |(index, &(kind, level)): (usize, &(ModelKind, f64))| {
            let alternating = |row: usize| if row.is_multiple_of(2) { 1.0 } else { -1.0 };
            let density = |row: usize| level + if index == 0 { 0.0 } else { noise * alternating(row) };
            ModelPredictions {
                what: what(kind),
                log_densities: (0..100).map(density).collect(),
                points: vec![0.0; 100],
                pit: vec![0.5; 100],
                monte_carlo_error: 0.0,
            }
        };
        let models = levels.iter().enumerate().map(model).collect();
        let rows = (0..100).collect();
        vec![FoldPredictions { rows, truths: vec![0.0; 100], target_stds: vec![1.0], beta_star: 1.0, models }]
    }

    fn chosen(levels: &[(ModelKind, f64)], noise: f64) -> ModelKind {
        Predicting::of(&folds(levels, noise), &[1.0], JudgedOn::Folds).unwrap().what.kind
    }

    #[test]
    fn the_best_predicts_and_within_an_error_the_simpler() {
        use ModelKind::{Bayes, Chosen, Ensemble, Grid, Linear};
        // Differences of 0.1 with an error of 0.05, of 0.02 with the same.
        assert_eq!(chosen(&[(Chosen, 0.1), (Bayes, 0.0)], 0.5), Chosen);
        assert_eq!(chosen(&[(Chosen, 0.02), (Bayes, 0.0)], 0.5), Bayes);
        assert_eq!(chosen(&[(Ensemble, 0.1), (Bayes, 0.0)], 0.5), Ensemble);
        assert_eq!(chosen(&[(Bayes, 0.02), (Ensemble, 0.0), (Linear, -0.01)], 0.5), Linear);
        assert_eq!(chosen(&[(Grid, 5.0), (Bayes, 0.0)], 0.5), Bayes);
        assert_eq!(chosen(&[(Bayes, f64::NAN), (Chosen, 0.0)], 0.5), Chosen);
        assert!(Predicting::of(&[], &[1.0], JudgedOn::Folds).is_none());
    }

    #[test]
    fn a_model_is_not_excused_by_its_own_draws() {
        use ModelKind::{Bayes, Chosen};
        let mut folds = folds(&[(Chosen, 0.1), (Bayes, 0.0)], 0.5);
        let chosen = |folds: &[FoldPredictions]| Predicting::of(folds, &[1.0], JudgedOn::Folds).unwrap().what.kind;
        folds[0].models[1].monte_carlo_error = 10.0;
        assert_eq!(chosen(&folds), Chosen, "the simpler one is 0.1 ± 0.05 behind, and its chains say nothing");
        folds[0].models[0].monte_carlo_error = 0.2;
        assert_eq!(chosen(&folds), Bayes, "the best is only known to 0.2");
    }

    #[test]
    fn candidates_are_listed_from_the_best_with_their_distances() {
        let levels = [(ModelKind::Linear, -1.0), (ModelKind::Bayes, 0.0), (ModelKind::Chosen, 0.25)];
        let found = Predicting::of(&folds(&levels, 0.5), &[1.0], JudgedOn::Validation).unwrap();
        let kinds: Vec<ModelKind> = found.candidates.iter().map(|candidate| candidate.what.kind).collect();
        assert_eq!(kinds, [ModelKind::Chosen, ModelKind::Bayes, ModelKind::Linear]);
        let last = &found.candidates[2];
        assert!((last.behind - 1.25).abs() < 1e-12 && (last.error - 0.5 / 99f64.sqrt()).abs() < 1e-12);
        assert_eq!((found.num_judged, found.candidates[0].behind), (100, 0.0));
    }
}

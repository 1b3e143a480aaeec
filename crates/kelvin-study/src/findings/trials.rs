//! What a run tried by short chains before it chose: likelihoods, hidden layers or inverse temperatures, and how they scored on rows that were not seen.

use serde::{Deserialize, Serialize};

use crate::findings::cross_validation::FoldPredictions;
use crate::findings::predicting::{Candidate, JudgedOn, num_judged, ranked};

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tried {
    /// The distribution of a target given the network's outputs.
    Likelihood,
    /// The widths of the network's hidden layers.
    Hidden,
    /// The inverse temperature, where the likelihood learns its noise and so has none to tell.
    Beta,
}

/// Choices that were tried, and the one that was made: the simplest that scored within one standard error of the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// What was tried.
    pub of: Tried,
    /// Which rows they were judged by.
    pub judged_on: JudgedOn,
    /// How many rows these are.
    pub num_judged: usize,
    /// The label of the one that was chosen.
    pub chosen: String,
    /// All of them, from the best to the worst.
    pub candidates: Vec<Candidate>,
}

impl Trials {
    /// The choice between the models of these folds, which are in the order of simplicity, and its place among them; none where no score is a finite
    /// number.
    pub(crate) fn of(
        tried: Tried,
        folds: &[FoldPredictions],
        table_stds: &[f64],
        judged_on: JudgedOn,
    ) -> Option<(usize, Self)> {
        let found = ranked(folds, table_stds, |_| true);
        let as_good = found.iter().filter(|(_, candidate)| candidate.is_as_good());
        let (place, chosen) = as_good.min_by_key(|(place, _)| *place)?;
        let (place, chosen) = (*place, chosen.what.label.clone());
        let candidates = found.into_iter().map(|(_, candidate)| candidate).collect();
        Some((place, Self { of: tried, judged_on, num_judged: num_judged(folds), chosen, candidates }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::cross_validation::{HeldOutModel, ModelKind, ModelPredictions};
    use kelvin::predictive::PredictiveModel;

    #[test]
    fn the_first_within_an_error_of_the_best_is_chosen() {
        let model = |(index, level): (usize, &f64)| ModelPredictions {
            what: HeldOutModel {
                kind: ModelKind::Bayes,
                model: PredictiveModel::Standard,
                beta: None,
                label: format!("choice {index}"),
            },
            log_densities: (0..100).map(|row| level + [0.5, -0.5][row % 2] * index as f64).collect(),
            points: vec![0.0; 100],
            pit: vec![0.5; 100],
            monte_carlo_error: 0.0,
        };
        let chosen = |levels: &[f64]| {
            let models = levels.iter().enumerate().map(model).collect();
            let (rows, truths) = ((0..100).collect(), vec![0.0; 100]);
            let folds = [FoldPredictions { rows, truths, target_stds: vec![1.0], beta_star: 1.0, models }];
            Trials::of(Tried::Likelihood, &folds, &[1.0], JudgedOn::Folds).map(|(place, trials)| (place, trials.chosen))
        };
        // The error of a difference to the next is 0.05.
        assert_eq!(chosen(&[0.0, 0.03, 0.02]), Some((0, "choice 0".into())));
        assert_eq!(chosen(&[0.0, 0.2, 0.21]), Some((1, "choice 1".into())));
        assert_eq!(chosen(&[f64::NAN, -3.0, 0.0]), Some((2, "choice 2".into())));
        assert_eq!(chosen(&[f64::NAN]), None);
    }
}

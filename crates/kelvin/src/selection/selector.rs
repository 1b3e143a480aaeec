//! What every way to choose β has in common: a name, the goal it serves, and an answer with its uncertainty and cost.

use serde::{Deserialize, Serialize};

use super::cost::Cost;
use super::error::SelectionError;
use super::laboratory::Laboratory;
use crate::diagnostics::Warning;
use crate::predictive::PredictiveModel;

/// A way to choose β.
pub trait Selector {
    /// What it is called, in one word: `joint`, `guo`.
    fn name(&self) -> &'static str;

    /// What its β is meant to be best for.
    fn goal(&self) -> Goal;

    /// Chooses β by what the laboratory finds.
    ///
    /// # Errors
    /// Where the method does not suit the model, nothing was found, or the laboratory fails.
    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError>;
}

/// What a β is meant to be best for. Methods with different goals choose different β, and each may be right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Held-out log density of the tempered plug-in p(y|x,θ̂,β): a stand-in for the LPD of the posterior.
    PlugInDensity,
    /// Held-out log predictive density of the posterior.
    PredictiveDensity(PredictiveModel),
    /// Held-out squared error, or share of wrong classes.
    PointError,
    /// Held-out agreement of stated and observed frequencies.
    Calibration,
    /// Held-out Brier score.
    BrierScore,
    /// That the posterior gathers around the best parameters of a wrong model. Not held-out density.
    Concentration,
    /// That data tell as much about the parameters as they would if the model were right. Not held-out density.
    InformationGain,
    /// That the posterior is as wide as the spread of estimates over new data. Not held-out density.
    BootstrapSpread,
    /// That credible sets, of parameters or of a network's outputs, hold the estimate as often as they say. Not held-out density.
    CredibleCoverage,
    /// That prediction intervals hold new answers as often as they say. Not held-out density.
    PredictionCoverage,
    /// Probability of the training answers under model and prior together. Not held-out density.
    Evidence,
}

impl Goal {
    /// Whether a β with this goal is meant to raise the held-out log predictive density, or stands in for one that is.
    pub fn serves_lpd(self) -> bool {
        matches!(self, Self::PlugInDensity | Self::PredictiveDensity(_))
    }

    /// The goal in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::PlugInDensity => "held-out log density of one tempered network",
            Self::PredictiveDensity(PredictiveModel::Standard) => "held-out log predictive density (SM)",
            Self::PredictiveDensity(PredictiveModel::Tempered) => "held-out log predictive density (TM)",
            Self::PointError => "held-out error of point predictions",
            Self::Calibration => "held-out calibration",
            Self::BrierScore => "held-out Brier score",
            Self::Concentration => "a posterior that gathers around the best parameters (not LPD)",
            Self::InformationGain => "information gained about the parameters (not LPD)",
            Self::BootstrapSpread => "a posterior as wide as estimates spread over new data (not LPD)",
            Self::CredibleCoverage => "coverage of credible sets (not LPD)",
            Self::PredictionCoverage => "coverage of prediction intervals (not LPD)",
            Self::Evidence => "probability of the training answers (not LPD)",
        }
    }
}

/// What a selector found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selection {
    /// The selector's name.
    pub method: &'static str,
    /// What β is meant to be best for.
    pub goal: Goal,
    /// β.
    pub inverse_temperature: f64,
    /// How well β is known, in the ways the method has; empty where it has none.
    pub intervals: Vec<BetaInterval>,
    /// What it took.
    pub cost: Cost,
    /// What to know before believing it.
    pub warnings: Vec<Warning>,
}

/// A range of β.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetaInterval {
    /// The smallest β in it.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// What is said of those between.
    pub meaning: IntervalMeaning,
}

impl BetaInterval {
    /// From the smallest to the largest; none of fewer than two.
    pub fn over_starts(betas: &[f64]) -> Option<Self> {
        let low = betas.iter().copied().fold(f64::INFINITY, f64::min);
        let high = betas.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let meaning = IntervalMeaning::OverStarts { count: betas.len() };
        (betas.len() > 1).then_some(Self { low, high, meaning })
    }
}

/// What an interval of β says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMeaning {
    /// From the smallest to the largest β that different starts found.
    OverStarts {
        /// How many starts.
        count: usize,
    },
    /// Validation LPD within one standard error (of the difference, point by point) of the best.
    Flat,
    /// Holds β with this probability, given the validation rows.
    Credible {
        /// The probability.
        probability: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_span_from_their_smallest_to_their_largest() {
        let interval = BetaInterval::over_starts(&[3.0, 0.5, 7.0]).unwrap();
        assert_eq!((interval.low, interval.high), (0.5, 7.0));
        assert_eq!(interval.meaning, IntervalMeaning::OverStarts { count: 3 });
        assert_eq!(BetaInterval::over_starts(&[3.0]), None);
    }

    #[test]
    fn every_goal_has_words_of_its_own() {
        let goals = [
            Goal::PlugInDensity,
            Goal::PredictiveDensity(PredictiveModel::Standard),
            Goal::PredictiveDensity(PredictiveModel::Tempered),
            Goal::PointError,
            Goal::Calibration,
            Goal::BrierScore,
            Goal::Concentration,
            Goal::InformationGain,
            Goal::BootstrapSpread,
            Goal::CredibleCoverage,
            Goal::PredictionCoverage,
            Goal::Evidence,
        ];
        for (place, goal) in goals.iter().enumerate() {
            assert!(goals[..place].iter().all(|other| other.describe() != goal.describe()), "{goal:?}");
        }
    }
}

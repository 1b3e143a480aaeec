//! The numbers by which a predictive density is judged, as plain data for tables and files.

use serde::{Deserialize, Serialize};

use super::error::{PredictiveError, positive};
use crate::diagnostics::number_or_nan;

/// How well a regression's predictive density meets its held-out targets, in the units of those targets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "RegressionScores::missing")]
pub struct RegressionScores {
    /// Log predictive density: the mean over points of log p̂(y|x).
    #[serde(deserialize_with = "number_or_nan")]
    pub lpd: f64,
    /// Mean squared error of the draws' mean prediction (the same for both models).
    #[serde(deserialize_with = "number_or_nan")]
    pub mse: f64,
    /// Mean absolute error of the same prediction.
    #[serde(deserialize_with = "number_or_nan")]
    pub mae: f64,
    /// Mean over points of the predictive variance, noise plus spread of the draws.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_variance: f64,
    /// Share of targets inside the central 50 % predictive interval.
    #[serde(deserialize_with = "number_or_nan")]
    pub coverage_50: f64,
    /// Share of targets inside the central 90 % predictive interval.
    #[serde(deserialize_with = "number_or_nan")]
    pub coverage_90: f64,
    /// Share of targets inside the central 95 % predictive interval.
    #[serde(deserialize_with = "number_or_nan")]
    pub coverage_95: f64,
    /// Mean over [`COVERAGE_LEVELS`](super::COVERAGE_LEVELS) of |nominal − observed coverage|.
    #[serde(deserialize_with = "number_or_nan")]
    pub calibration_error: f64,
}

impl RegressionScores {
    /// All NaN: what a file of a kelvin without a score has in its place.
    fn missing() -> Self {
        let nan = f64::NAN;
        Self {
            lpd: nan,
            mse: nan,
            mae: nan,
            mean_variance: nan,
            coverage_50: nan,
            coverage_90: nan,
            coverage_95: nan,
            calibration_error: nan,
        }
    }

    /// Root of the mean squared error.
    pub fn rmse(&self) -> f64 {
        self.mse.sqrt()
    }

    /// The scores in the units from which the targets were standardised by dividing by `target_std`.
    ///
    /// y = a + std · y' makes errors larger by std, squares by std², and a density smaller by std; what lies
    /// inside an interval stays inside.
    pub fn in_original_units(&self, target_std: f64) -> Result<Self, PredictiveError> {
        let std = positive("the targets' standard deviation", target_std)?;
        Ok(Self {
            lpd: self.lpd - std.ln(),
            mse: self.mse * std * std,
            mae: self.mae * std,
            mean_variance: self.mean_variance * std * std,
            ..*self
        })
    }
}

/// How well a classifier's predictive density meets its held-out labels; logarithms are natural.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "ClassificationScores::missing")]
pub struct ClassificationScores {
    /// Log predictive density: the mean over points of log p̂(label|x).
    #[serde(deserialize_with = "number_or_nan")]
    pub lpd: f64,
    /// Share of points whose most probable class is the label.
    #[serde(deserialize_with = "number_or_nan")]
    pub accuracy: f64,
    /// Mean over points of the largest class probability: above the accuracy predictions are overconfident, below it underconfident.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_confidence: f64,
    /// Expected calibration error over ten equal bins of confidence.
    #[serde(deserialize_with = "number_or_nan")]
    pub ece: f64,
    /// Brier score, the mean over points of Σ_k (p_k − 1\[y = k\])², between 0 and 2.
    #[serde(deserialize_with = "number_or_nan")]
    pub brier: f64,
    /// Brier score of always predicting the label frequencies.
    #[serde(deserialize_with = "number_or_nan")]
    pub brier_uncertainty: f64,
    /// How far label frequencies differ between predicted classes.
    #[serde(deserialize_with = "number_or_nan")]
    pub brier_resolution: f64,
    /// How far probabilities lie from the label frequencies of their predicted class.
    #[serde(deserialize_with = "number_or_nan")]
    pub brier_reliability: f64,
    /// What the three leave over: brier = uncertainty − resolution + reliability + remainder.
    #[serde(deserialize_with = "number_or_nan")]
    pub brier_remainder: f64,
    /// Mean over points of the entropy of the averaged probabilities.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_entropy: f64,
    /// Mean over points of the mutual information between label and parameters: disagreement among draws.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_mutual_information: f64,
}

impl ClassificationScores {
    /// All NaN: what a file of a kelvin without a score has in its place.
    fn missing() -> Self {
        let nan = f64::NAN;
        Self {
            lpd: nan,
            accuracy: nan,
            mean_confidence: nan,
            ece: nan,
            brier: nan,
            brier_uncertainty: nan,
            brier_resolution: nan,
            brier_reliability: nan,
            brier_remainder: nan,
            mean_entropy: nan,
            mean_mutual_information: nan,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: RegressionScores = RegressionScores {
        lpd: 1.0,
        mse: 0.25,
        mae: 0.4,
        mean_variance: 0.01,
        coverage_50: 0.5,
        coverage_90: 0.9,
        coverage_95: 0.95,
        calibration_error: 0.0,
    };

    #[test]
    fn original_units_undo_the_standardisation() {
        let original = SCORES.in_original_units(4.0).unwrap();
        assert_eq!((original.mse, original.rmse(), original.mae), (4.0, 2.0, 1.6));
        assert_eq!((original.lpd, original.mean_variance), (1.0 - 4f64.ln(), 0.16));
        assert_eq!(original.coverage_90, SCORES.coverage_90);
        assert!(SCORES.in_original_units(0.0).is_err());
    }

    #[test]
    fn scores_survive_a_file() {
        let text = serde_json::to_string(&SCORES).unwrap();
        assert!(text.starts_with(r#"{"lpd":1.0,"mse":0.25"#), "{text}");
        assert_eq!(serde_json::from_str::<RegressionScores>(&text).unwrap(), SCORES);
    }

    /// A score that a file does not have, or has as null, is NaN and stays so; the others are read.
    #[test]
    fn a_score_that_is_new_is_missing_in_old_files() {
        let old: RegressionScores = serde_json::from_str(r#"{"lpd":1.0,"mse":0.25,"mae":null}"#).unwrap();
        assert_eq!((old.lpd, old.mse), (1.0, 0.25));
        assert!(old.mae.is_nan() && old.calibration_error.is_nan());
        let again: RegressionScores = serde_json::from_str(&serde_json::to_string(&old).unwrap()).unwrap();
        assert!(again.lpd == 1.0 && again.calibration_error.is_nan());
        let old: ClassificationScores = serde_json::from_str(r#"{"lpd":-0.5,"accuracy":0.9}"#).unwrap();
        assert!(old.accuracy == 0.9 && old.mean_mutual_information.is_nan());
    }
}

//! Uncertainty on images of another data set, and how well it separates them from test images.

use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use kelvin::diagnostics::number_or_nan;
use kelvin::predictive::{ByModel, Predictive, PredictiveModel, Separation};

/// Uncertainty on images of another data set, in nats, and how well it separates them from the test images, under one model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfDistributionScores {
    /// Mean entropy of the averaged probabilities: the total uncertainty.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_entropy: f64,
    /// Mean mutual information of label and parameters: how much the draws disagree.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_mutual_information: f64,
    /// AUROC of the entropy: the probability that an image of the other set has a larger one than a test image.
    pub entropy_auroc: Option<f64>,
    /// AUPR of the entropy, with images of the other set as the positives; none in runs of older kelvins.
    pub entropy_aupr: Option<f64>,
    /// FPR95 of the entropy: the share of test images that are flagged with 95 % of the others; none in runs of older kelvins.
    pub entropy_fpr95: Option<f64>,
    /// AUROC of the mutual information; none for a single draw, which cannot disagree.
    pub mutual_information_auroc: Option<f64>,
    /// AUPR of the mutual information.
    pub mutual_information_aupr: Option<f64>,
    /// FPR95 of the mutual information.
    pub mutual_information_fpr95: Option<f64>,
}

impl OutOfDistributionScores {
    /// Compares predictions on the other set with those on the test rows; none for a regression.
    ///
    /// # Errors
    /// If there are no draws to score.
    pub fn new(test: &Predictive, other: &Predictive) -> Result<Option<ByModel<Self>>, ExperimentError> {
        let (Predictive::Classification(test), Predictive::Classification(other)) = (test, other) else {
            return Ok(None);
        };
        let scores = |model: PredictiveModel| -> Result<Self, ExperimentError> {
            let (entropies, informations) = (other.entropies(model)?, other.mutual_informations(model)?);
            let of_entropy = Separation::of(&test.entropies(model)?, &entropies);
            let of_information = match test.num_draws() {
                1 => None,
                _ => Separation::of(&test.mutual_informations(model)?, &informations),
            };
            Ok(Self {
                mean_entropy: mean(&entropies),
                mean_mutual_information: mean(&informations),
                entropy_auroc: of_entropy.map(|of| of.auroc),
                entropy_aupr: of_entropy.map(|of| of.aupr),
                entropy_fpr95: of_entropy.map(|of| of.fpr95),
                mutual_information_auroc: of_information.map(|of| of.auroc),
                mutual_information_aupr: of_information.map(|of| of.aupr),
                mutual_information_fpr95: of_information.map(|of| of.fpr95),
            })
        };
        let (standard, tempered) = (scores(PredictiveModel::Standard)?, scores(PredictiveModel::Tempered)?);
        Ok(Some(ByModel { standard, tempered }))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::predictive::ClassificationPredictive;

    fn predictive(draws: &[&[f32]]) -> Predictive {
        let mut predictive = ClassificationPredictive::new(&[0, 0], 2, 2.0).unwrap();
        for logits in draws {
            predictive.add_draw(logits).unwrap();
        }
        Predictive::Classification(predictive)
    }

    /// Sure and nearly agreed on the test rows; on the others one row is an agreed toss of a coin, the other disputed.
    #[test]
    fn doubt_tells_the_sets_apart() {
        let test = predictive(&[&[9.0, 0.0, 9.0, 0.0], &[9.1, 0.0, 8.9, 0.0]]);
        let other = predictive(&[&[0.0, 0.0, 90.0, 0.0], &[0.0, 0.0, 0.0, 90.0]]);
        let scores = OutOfDistributionScores::new(&test, &other).unwrap().unwrap();
        for scores in [scores.standard, scores.tempered] {
            assert!((scores.mean_entropy - 2f64.ln()).abs() < 1e-12);
            assert!((scores.mean_mutual_information - 0.5 * 2f64.ln()).abs() < 1e-12);
            assert_eq!((scores.entropy_auroc, scores.mutual_information_auroc), (Some(1.0), Some(0.5)));
            assert_eq!((scores.entropy_aupr, scores.entropy_fpr95), (Some(1.0), Some(0.0)));
            // The agreed toss of a coin has less mutual information than a test row: thresholds flag one of one, and all four.
            assert_eq!((scores.mutual_information_aupr, scores.mutual_information_fpr95), (Some(0.75), Some(1.0)));
        }
        let one = OutOfDistributionScores::new(&predictive(&[&[9.0; 4]]), &predictive(&[&[0.0; 4]])).unwrap().unwrap();
        assert_eq!(one.standard.mutual_information_auroc, None);
        assert_eq!((one.standard.mutual_information_aupr, one.standard.mutual_information_fpr95), (None, None));
    }

    /// What an older kelvin wrote has AUROC alone.
    #[test]
    fn scores_of_an_older_kelvin_are_read() {
        let old =
            r#"{"mean_entropy":1.0,"mean_mutual_information":0.1,"entropy_auroc":0.9,"mutual_information_auroc":null}"#;
        let old: OutOfDistributionScores = serde_json::from_str(old).unwrap();
        assert_eq!((old.entropy_auroc, old.entropy_aupr, old.mutual_information_fpr95), (Some(0.9), None, None));
    }
}

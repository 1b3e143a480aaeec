//! AUROC: how well a classifier's uncertainty separates out-of-distribution images from test images.

use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use kelvin::diagnostics::number_or_nan;
use kelvin::predictive::{ByModel, Predictive, PredictiveModel, auroc};

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
    /// AUROC of the mutual information; none for a single draw, which cannot disagree.
    pub mutual_information_auroc: Option<f64>,
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
            Ok(Self {
                mean_entropy: mean(&entropies),
                mean_mutual_information: mean(&informations),
                entropy_auroc: auroc(&test.entropies(model)?, &entropies),
                mutual_information_auroc: match test.num_draws() {
                    1 => None,
                    _ => auroc(&test.mutual_informations(model)?, &informations),
                },
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
        }
        let one = OutOfDistributionScores::new(&predictive(&[&[9.0; 4]]), &predictive(&[&[0.0; 4]])).unwrap().unwrap();
        assert_eq!(one.standard.mutual_information_auroc, None);
    }
}

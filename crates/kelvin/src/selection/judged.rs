//! Draws at one β, judged by the validation rows: log densities point by point, and every criterion to choose by.

use serde::{Deserialize, Serialize};

use super::error::SelectionError;
use super::laboratory::{Laboratory, SampledStart};
use super::selector::Goal;
use crate::likelihood::{Likelihood, TargetKind};
use crate::predictive::{ByModel, Predictive, PredictiveModel, Scores};

/// What a grid is judged by on validation rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Mean log predictive density.
    Lpd,
    /// Mean squared error, or share of wrong classes.
    PointError,
    /// Expected calibration error of class probabilities.
    Ece,
    /// Brier score of class probabilities.
    Brier,
    /// Mean distance between nominal and observed coverage of a regression's intervals.
    Coverage,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lpd, Self::PointError, Self::Ece, Self::Brier, Self::Coverage];

    /// Its name in tables and warnings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lpd => "validation LPD",
            Self::PointError => "validation point error",
            Self::Ece => "validation ECE",
            Self::Brier => "validation Brier score",
            Self::Coverage => "validation coverage error",
        }
    }

    /// The goal of a choice by it.
    pub fn goal(self, model: PredictiveModel) -> Goal {
        match self {
            Self::Lpd => Goal::PredictiveDensity(model),
            Self::PointError => Goal::PointError,
            Self::Ece | Self::Coverage => Goal::Calibration,
            Self::Brier => Goal::BrierScore,
        }
    }

    /// Whether it is defined where targets are numbers, or else where they are classes.
    pub fn applies_to(self, likelihood: Likelihood) -> bool {
        match self {
            Self::Lpd | Self::PointError => true,
            Self::Ece | Self::Brier => matches!(likelihood.kind(), TargetKind::Classes { .. }),
            Self::Coverage => likelihood.kind() == TargetKind::Numbers,
        }
    }
}

/// What draws at one β are worth on validation rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// β.
    pub inverse_temperature: f64,
    /// log p̂(y_i|x_i) of every validation row.
    pub log_densities: ByModel<Vec<f64>>,
    scores: Scores,
}

impl Judged {
    /// Judges draws of all chains at β together.
    ///
    /// # Errors
    /// Where draws cannot be read or evaluated, or there are none.
    pub fn new(
        laboratory: &dyn Laboratory,
        inverse_temperature: f64,
        chains: &[SampledStart],
    ) -> Result<Self, SelectionError> {
        let likelihood = laboratory.posterior().likelihood();
        let (engine, validation) = (laboratory.engine(), laboratory.validation());
        let draws = SampledStart::draws_of(chains);
        let predictive: Result<_, SelectionError> =
            Predictive::of_draws(engine, likelihood, validation, inverse_temperature, draws);
        let predictive = predictive?;
        let log_densities = ByModel {
            standard: predictive.log_densities(PredictiveModel::Standard)?,
            tempered: predictive.log_densities(PredictiveModel::Tempered)?,
        };
        Ok(Self { inverse_temperature, log_densities, scores: predictive.scores()? })
    }

    /// A criterion turned so that larger is better; NaN where it does not apply.
    pub fn score(&self, criterion: Criterion, model: PredictiveModel) -> f64 {
        match (criterion, &self.scores) {
            (Criterion::Lpd, scores) => *scores.lpd().get(model),
            (Criterion::PointError, Scores::Regression(scores)) => -scores.get(model).mse,
            (Criterion::PointError, Scores::Classification(scores)) => scores.get(model).accuracy - 1.0,
            (Criterion::Coverage, Scores::Regression(scores)) => -scores.get(model).calibration_error,
            (Criterion::Ece, Scores::Classification(scores)) => -scores.get(model).ece,
            (Criterion::Brier, Scores::Classification(scores)) => -scores.get(model).brier,
            (Criterion::Coverage, Scores::Classification(_))
            | (Criterion::Ece | Criterion::Brier, Scores::Regression(_)) => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictive::{ClassificationPredictive, RegressionPredictive};

    fn judged(scores: Scores) -> Judged {
        Judged { inverse_temperature: 2.0, log_densities: ByModel::default(), scores }
    }

    /// Every score is turned so that the better one is larger, and asks the model it is asked about.
    #[test]
    fn better_is_larger() {
        let mut numbers = RegressionPredictive::new(&[0.0], 1.0, 4.0).unwrap();
        numbers.add_draw(&[0.5]).unwrap();
        let scores = numbers.both_scores().unwrap();
        let numbers = judged(Scores::Regression(scores));
        let mut classes = ClassificationPredictive::new(&[0, 1], 2, 2.0).unwrap();
        classes.add_draw(&[3f32.ln(), 0.0, 3f32.ln(), 0.0]).unwrap();
        let of_classes = classes.both_scores().unwrap();
        let classes = judged(Scores::Classification(of_classes));
        for model in PredictiveModel::BOTH {
            assert_eq!(numbers.score(Criterion::Lpd, model), scores.get(model).lpd);
            assert_eq!(numbers.score(Criterion::PointError, model), -0.25);
            assert_eq!(numbers.score(Criterion::Coverage, model), -scores.get(model).calibration_error);
            assert_eq!(classes.score(Criterion::Lpd, model), of_classes.get(model).lpd);
            assert_eq!(classes.score(Criterion::PointError, model), -0.5);
            assert_eq!(classes.score(Criterion::Ece, model), -of_classes.get(model).ece);
            assert_eq!(classes.score(Criterion::Brier, model), -of_classes.get(model).brier);
            assert!(
                numbers.score(Criterion::Ece, model).is_nan() && classes.score(Criterion::Coverage, model).is_nan()
            );
        }
        assert!(of_classes.standard.ece != of_classes.tempered.ece && scores.standard.lpd != scores.tempered.lpd);
    }

    #[test]
    fn criteria_have_names_and_suit_numbers_or_classes() {
        let numbers = Likelihood::Gaussian { noise_variance: 1.0 };
        let classes = Likelihood::Categorical { num_classes: 3 };
        let suit = Criterion::ALL.map(|one| (one.applies_to(numbers), one.applies_to(classes)));
        assert_eq!(suit, [(true, true), (true, true), (false, true), (false, true), (true, false)]);
        for (place, one) in Criterion::ALL.iter().enumerate() {
            assert!(one.name().starts_with("validation "), "{}", one.name());
            assert!(Criterion::ALL[..place].iter().all(|other| other.name() != one.name()));
        }
    }
}

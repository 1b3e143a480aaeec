//! Draws at one β, judged by the validation rows: log densities point by point, and every criterion to choose by.

use serde::{Deserialize, Serialize};

use super::error::SelectionError;
use super::laboratory::Laboratory;
use super::selector::Goal;
use crate::data::Targets;
use crate::draws::Draws;
use crate::likelihood::Likelihood;
use crate::predictive::{ByModel, ClassificationPredictive, PredictiveModel, RegressionPredictive, for_each_output};

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
            Self::Ece | Self::Brier => matches!(likelihood, Likelihood::Categorical { .. }),
            Self::Coverage => matches!(likelihood, Likelihood::Gaussian { .. }),
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
    losses: ByModel<Losses>,
}

/// Criteria of which less is better; NaN where one does not apply.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Losses {
    point_error: f64,
    ece: f64,
    brier: f64,
    coverage: f64,
}

impl Judged {
    /// Judges draws of all chains at β together.
    ///
    /// # Errors
    /// Where draws cannot be read or evaluated, or there are none.
    pub fn new(laboratory: &dyn Laboratory, inverse_temperature: f64, draws: &[Draws]) -> Result<Self, SelectionError> {
        let (engine, held_out) = (laboratory.engine(), laboratory.validation());
        match (laboratory.posterior().likelihood(), held_out.targets()) {
            (Likelihood::Gaussian { noise_variance }, Targets::Real(targets)) => {
                let mut predictive = RegressionPredictive::new(targets, noise_variance, inverse_temperature)?;
                for draws in draws {
                    for_each_output(engine, held_out, draws, |outputs| {
                        predictive.add_draw(&outputs).map_err(SelectionError::from)
                    })?;
                }
                let losses = |model| -> Result<Losses, SelectionError> {
                    let scores = predictive.scores(model)?;
                    let (point_error, coverage) = (scores.mse, scores.calibration_error);
                    Ok(Losses { point_error, ece: f64::NAN, brier: f64::NAN, coverage })
                };
                Ok(Self {
                    inverse_temperature,
                    log_densities: by_model(|model| Ok(predictive.log_densities(model)?))?,
                    losses: by_model(losses)?,
                })
            }
            (Likelihood::Categorical { num_classes }, Targets::Classes(labels)) => {
                let mut predictive = ClassificationPredictive::new(labels, num_classes, inverse_temperature)?;
                for draws in draws {
                    for_each_output(engine, held_out, draws, |outputs| {
                        predictive.add_draw(&outputs).map_err(SelectionError::from)
                    })?;
                }
                let losses = |model| -> Result<Losses, SelectionError> {
                    let scores = predictive.scores(model)?;
                    let (point_error, ece, brier) = (1.0 - scores.accuracy, scores.ece, scores.brier);
                    Ok(Losses { point_error, ece, brier, coverage: f64::NAN })
                };
                Ok(Self {
                    inverse_temperature,
                    log_densities: by_model(|model| Ok(predictive.log_densities(model)?))?,
                    losses: by_model(losses)?,
                })
            }
            _ => unreachable!("the posterior checked that likelihood and targets fit"),
        }
    }

    /// The mean log density.
    pub fn lpd(&self, model: PredictiveModel) -> f64 {
        let log_densities = self.log_densities.get(model);
        log_densities.iter().sum::<f64>() / log_densities.len() as f64
    }

    /// A criterion turned so that larger is better; NaN where it does not apply.
    pub fn score(&self, criterion: Criterion, model: PredictiveModel) -> f64 {
        let losses = self.losses.get(model);
        match criterion {
            Criterion::Lpd => self.lpd(model),
            Criterion::PointError => -losses.point_error,
            Criterion::Ece => -losses.ece,
            Criterion::Brier => -losses.brier,
            Criterion::Coverage => -losses.coverage,
        }
    }
}

fn by_model<T>(value_of: impl Fn(PredictiveModel) -> Result<T, SelectionError>) -> Result<ByModel<T>, SelectionError> {
    Ok(ByModel { standard: value_of(PredictiveModel::Standard)?, tempered: value_of(PredictiveModel::Tempered)? })
}

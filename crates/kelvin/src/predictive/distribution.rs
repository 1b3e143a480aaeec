//! A predictive distribution of numbers or of classes, whichever the likelihood is of, and its scores.

use serde::{Deserialize, Serialize};

use super::classification::ClassificationPredictive;
use super::error::PredictiveError;
use super::model::{ByModel, PredictiveModel};
use super::outputs::for_each_output;
use super::regression::RegressionPredictive;
use super::scores::{ClassificationScores, RegressionScores};
use crate::data::Targets;
use crate::draws::{Draws, DrawsError};
use crate::held_out::HeldOut;
use crate::likelihood::{Likelihood, TargetKind};
use crate::sampler::{Engine, EngineError};

/// A predictive distribution at held-out points, point by point.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictive {
    /// Of numbers.
    Regression(RegressionPredictive),
    /// Of classes.
    Classification(ClassificationPredictive),
}

/// Its scores, under the standard and the tempered model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scores {
    /// Of numbers (standardised units).
    Regression(ByModel<RegressionScores>),
    /// Of classes.
    Classification(ByModel<ClassificationScores>),
}

impl Predictive {
    /// Of no draws yet.
    ///
    /// # Errors
    /// Where there are no targets, or they or β are no numbers to predict with.
    pub fn new(likelihood: Likelihood, targets: &Targets, inverse_temperature: f64) -> Result<Self, PredictiveError> {
        Ok(match (likelihood.kind(), targets) {
            (TargetKind::Numbers, Targets::Real(targets)) => {
                Self::Regression(RegressionPredictive::of(likelihood, targets, inverse_temperature)?)
            }
            (TargetKind::Classes { num_classes }, Targets::Classes(labels)) => {
                Self::Classification(ClassificationPredictive::new(labels, num_classes, inverse_temperature)?)
            }
            _ => unreachable!("the posterior checked that likelihood and targets fit"),
        })
    }

    /// Counts one draw, given the likelihood's values at every point; after an error nothing has changed.
    pub fn add_draw(&mut self, outputs: &[f32]) -> Result<(), PredictiveError> {
        match self {
            Self::Regression(predictive) => predictive.add_draw(outputs),
            Self::Classification(predictive) => predictive.add_draw(outputs),
        }
    }

    /// Counts the draws of another at the same points.
    ///
    /// # Errors
    /// Where the points are others.
    pub fn merge(&mut self, other: &Self) -> Result<(), PredictiveError> {
        match (self, other) {
            (Self::Regression(mine), Self::Regression(theirs)) => mine.merge(theirs),
            (Self::Classification(mine), Self::Classification(theirs)) => mine.merge(theirs),
            _ => Err(PredictiveError::OtherPoints),
        }
    }

    /// The sums so far, as checkpoints keep them.
    pub fn state(&self) -> Vec<f64> {
        match self {
            Self::Regression(predictive) => predictive.state(),
            Self::Classification(predictive) => predictive.state(),
        }
    }

    /// Takes up sums that [`Self::state`] gave; `None` where they are of other points.
    pub fn restore(&mut self, state: &[f64]) -> Option<()> {
        match self {
            Self::Regression(predictive) => predictive.restore(state),
            Self::Classification(predictive) => predictive.restore(state),
        }
    }

    /// The predictive distribution of all these draws at held-out rows; a bounded number of them is in memory at a time.
    ///
    /// # Errors
    /// Where draws cannot be read or evaluated, or their outputs are no numbers.
    pub fn of_draws<'d, E: From<PredictiveError> + From<EngineError> + From<DrawsError>>(
        engine: &dyn Engine,
        likelihood: Likelihood,
        held_out: &HeldOut,
        inverse_temperature: f64,
        draws: impl IntoIterator<Item = &'d Draws>,
    ) -> Result<Self, E> {
        let mut predictive = Self::new(likelihood, held_out.targets(), inverse_temperature)?;
        for draws in draws {
            for_each_output(engine, held_out, draws, |outputs| predictive.add_draw(&outputs).map_err(E::from))?;
        }
        Ok(predictive)
    }

    /// log p̂(y_i|x_i) of every point.
    ///
    /// # Errors
    /// Where there are no draws.
    pub fn log_densities(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        match self {
            Self::Regression(predictive) => predictive.log_densities(model),
            Self::Classification(predictive) => predictive.log_densities(model),
        }
    }

    /// Mean log predictive density under both models: that of [`Predictive::scores`], without the rest.
    ///
    /// # Errors
    /// Where there are no draws.
    pub fn lpd(&self) -> Result<ByModel<f64>, PredictiveError> {
        let average = |densities: Vec<f64>| densities.iter().sum::<f64>() / densities.len() as f64;
        let of = |model| self.log_densities(model).map(average);
        Ok(ByModel { standard: of(PredictiveModel::Standard)?, tempered: of(PredictiveModel::Tempered)? })
    }

    /// Its scores.
    ///
    /// # Errors
    /// Where there are no draws.
    pub fn scores(&self) -> Result<Scores, PredictiveError> {
        Ok(match self {
            Self::Regression(predictive) => Scores::Regression(predictive.both_scores()?),
            Self::Classification(predictive) => Scores::Classification(predictive.both_scores()?),
        })
    }
}

impl Scores {
    /// Mean log predictive density under both models.
    pub fn lpd(&self) -> ByModel<f64> {
        match self {
            Self::Regression(scores) => ByModel::from_fn(|model| scores.get(model).lpd),
            Self::Classification(scores) => ByModel::from_fn(|model| scores.get(model).lpd),
        }
    }

    /// MSE of the mean, or accuracy of the standard model's most probable class.
    pub fn point_metric(&self) -> f64 {
        match self {
            Self::Regression(scores) => scores.standard.mse,
            Self::Classification(scores) => scores.standard.accuracy,
        }
    }

    /// Whether a larger point metric is the better one.
    pub fn larger_point_metric_is_better(&self) -> bool {
        matches!(self, Self::Classification(_))
    }
}

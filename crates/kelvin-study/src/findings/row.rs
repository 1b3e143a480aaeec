//! One line of results: a method at one inverse temperature with its scores and measurements.

use crate::error::{Context, ExperimentError, Result};
use crate::experiment::{
    ChainGroup, Experiment, HeldOutPredictives, Measured, OutOfDistributionScores, SampledChain, Slot,
};
use kelvin::data::Corruption;
use kelvin::draws::Draws;
use kelvin::predictive::{ByModel, Predictive, RegressionScores, Scores};
use kelvin::selection::JointChoice;
use serde::{Deserialize, Serialize};

use crate::findings::predictions::Predictions;

/// How the predictive distribution was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The optimiser's point estimate.
    Sgd,
    /// Draws at β = 1.
    Bayes,
    /// Draws at β̂*, the β that the search chose.
    Chosen,
    /// Draws at a temperature of the grid (β = 1 of a sweep is one of these).
    Grid,
}

impl Method {
    /// What a chain of this slot is sampled for.
    pub(crate) fn of(slot: Slot) -> Self {
        match slot {
            Slot::Chosen => Self::Chosen,
            Slot::Bayes => Self::Bayes,
            Slot::Grid(_) => Self::Grid,
            Slot::Selector | Slot::Pilot | Slot::Continued(_) => Self::Sgd,
        }
    }

    /// The name in CSV files and in names of predictions: "sgd", "bayes", "chosen" or "grid".
    pub fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Bayes => "bayes",
            Self::Chosen => "chosen",
            Self::Grid => "grid",
        }
    }
}

/// Scores of one method at one β: a line of the tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How the predictions were made.
    pub method: Method,
    /// What people see in tables.
    pub label: String,
    /// `None` where several chains are pooled.
    pub repetition: Option<u32>,
    /// The inverse temperature of the predictions.
    pub beta: f64,
    /// Draws that were averaged, of all chains together; 1 for SGD.
    pub num_draws: usize,
    /// Scores on the validation rows.
    pub validation: Scores,
    /// Scores on the test rows.
    pub test: Scores,
    /// Scores of each of several targets on the test rows, whatever the others of a row are; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test_targets: Vec<ByModel<RegressionScores>>,
    /// How well uncertainty separates images of another data set from the test images; none if no other set is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_distribution: Option<ByModel<OutOfDistributionScores>>,
    /// Scores on the test images, corrupted; none if no corruptions are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrupted: Vec<CorruptedScores>,
    /// Temperatures and agreement of its chains; none for SGD.
    pub measured: Option<Measured>,
    /// Time of its chains, one after the other.
    pub seconds: f64,
}

/// Scores on test images that are corrupted in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorruptedScores {
    /// The kind of corruption and its strength.
    pub corruption: Corruption,
    /// What the method scored on these images.
    pub scores: Scores,
}

/// "β̂*", spelled so that the hat stands on the β.
pub const BETA_STAR: &str = "β\u{302}*";

impl Row {
    /// The plug-in of an optimiser's result.
    pub(crate) fn sgd(
        experiment: &Experiment,
        choice: &JointChoice,
        repetition: Option<u32>,
        seconds: f64,
    ) -> Result<(Self, Predictions)> {
        let beta = choice.inverse_temperature;
        let point = Draws::of_point(choice.weights());
        let predictives = HeldOutPredictives::of_draws(experiment, beta, &point)?;
        let what = What { method: Method::Sgd, label: "SGD", repetition, beta, num_draws: 1, seconds };
        let row = what.scored(&predictives, None)?;
        Ok((row, Predictions::of(experiment, beta, &predictives.test, [&point])?))
    }

    /// The pooled draws of chains at one β; also the predictive distribution at each test row.
    pub(crate) fn posterior(
        experiment: &Experiment,
        method: Method,
        group: &ChainGroup<'_>,
        repetition: Option<u32>,
        seconds: f64,
    ) -> Result<(Self, Predictions)> {
        let beta = group.inverse_temperature;
        let predictives = group.predictives()?.with_context(|| format!("{} has no chain", group.label))?;
        let mut measured = group.measured(experiment.sampler_temperature(beta)?, experiment.expected_inflation()?);
        measured.step_ratio = group.step_ratio(experiment)?;
        let what = What { method, label: &group.label, repetition, beta, num_draws: group.num_draws(), seconds };
        let row = what.scored(&predictives, Some(measured))?;
        let draws = group.draws().filter(|_| row.has_intervals());
        let predictions = Predictions::of(experiment, beta, &predictives.test, draws)?;
        Ok((row, predictions))
    }

    /// Whether its predictions have intervals: all rows of a run, and SGD and β̂* of a sweep. Quantiles of mixtures are expensive,
    /// and nobody looks at the other rows of a sweep point by point.
    pub fn has_intervals(&self) -> bool {
        self.repetition.is_none() || matches!(self.method, Method::Chosen | Method::Sgd)
    }

    /// The name of its file of predictions, without its ending.
    pub fn file_name(&self) -> String {
        let method = match self.method {
            Method::Grid => format!("beta-{}", self.beta),
            other => other.name().to_owned(),
        };
        self.repetition.map_or(method.clone(), |repetition| format!("{method}-{}", repetition + 1))
    }
}

/// Whose scores a row holds.
struct What<'a> {
    method: Method,
    label: &'a str,
    repetition: Option<u32>,
    beta: f64,
    num_draws: usize,
    seconds: f64,
}

impl What<'_> {
    fn scored(self, predictives: &HeldOutPredictives, measured: Option<Measured>) -> Result<Row, ExperimentError> {
        let HeldOutScores { validation, test, test_targets, out_of_distribution, corrupted } =
            HeldOutScores::of(predictives)?;
        let Self { method, label, repetition, beta, num_draws, seconds } = self;
        Ok(Row {
            method,
            label: label.into(),
            repetition,
            beta,
            num_draws,
            validation,
            test,
            test_targets,
            out_of_distribution,
            corrupted,
            measured,
            seconds,
        })
    }
}

/// Scores on all rows that an experiment holds out.
pub struct HeldOutScores {
    /// On the validation rows.
    pub validation: Scores,
    /// On the test rows.
    pub test: Scores,
    /// Those of each of several targets; empty where there is one.
    pub test_targets: Vec<ByModel<RegressionScores>>,
    /// On images of another data set; none if none is named, or for a regression.
    pub out_of_distribution: Option<ByModel<OutOfDistributionScores>>,
    /// On the test images, corrupted.
    pub corrupted: Vec<CorruptedScores>,
}

impl HeldOutScores {
    /// Scores these predictive distributions.
    ///
    /// # Errors
    /// If there are no draws to score.
    pub fn of(predictives: &HeldOutPredictives) -> Result<Self, ExperimentError> {
        let HeldOutPredictives { validation, test, out_of_distribution, corrupted } = predictives;
        let other = out_of_distribution.as_ref().map(|other| OutOfDistributionScores::new(test, other)).transpose()?;
        let corrupted = corrupted
            .iter()
            .map(|(corruption, at)| Ok(CorruptedScores { corruption: *corruption, scores: at.scores()? }));
        Ok(Self {
            validation: validation.scores()?,
            test: test.scores()?,
            test_targets: match test {
                Predictive::Regression(several) if several.num_targets() > 1 => several.scores_by_target()?,
                _ => Vec::new(),
            },
            out_of_distribution: other.flatten(),
            corrupted: corrupted.collect::<Result<_, ExperimentError>>()?,
        })
    }
}

/// The chains that reached at least one draw, and whose draws all give finite outputs.
pub(crate) fn with_draws<'a>(chains: impl Iterator<Item = &'a SampledChain>) -> Vec<&'a SampledChain> {
    chains.filter(|chain| !chain.draws.is_empty() && chain.scores.failed_at.is_none()).collect()
}

/// Whether these are rows of a classification.
pub fn are_classes(rows: &[Row]) -> bool {
    rows.first().is_some_and(|row| matches!(row.test, Scores::Classification(_)))
}

/// The sample standard deviation; none for fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| mean_and_std(values).1)
}

/// Mean and sample standard deviation; the deviation of one value is 0.
pub fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
}

//! model.json: what `predict` needs beside the draws.

use kelvin::data::{FeatureKind, Standardiser, TargetNames, one_or_several};
use kelvin::likelihood::{EachNumber, Likelihood, TargetKind};
use kelvin::network::Network;
use kelvin::predictive::PredictiveModel;
use serde::{Deserialize, Serialize};

use crate::findings::{BETA_STAR, Findings, HeldOutModel, ModelKind};
use crate::problem::{Problem, TableSource};

/// The name of the file of the fitted model in a run folder.
pub(crate) const MODEL: &str = "model.json";
/// The format of model.json that this kelvin writes; it also reads those before. Files without a number are of the first.
const FORMAT: u32 = 3;
/// That of models of one target, which kelvins before several could be had read, too.
const FORMAT_OF_ONE_TARGET: u32 = 2;

/// Fitted models without their draws, which are in files of their own.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedModel {
    /// The format of the file.
    #[serde(default = "first_format")]
    pub format: u32,
    /// β̂* of the run.
    pub inverse_temperature: f64,
    /// Gaussian with its noise variance, or categorical.
    pub likelihood: Likelihood,
    /// The network, without weights: those are in the draws.
    pub network: Network,
    /// The columns a table must have; none for images, whose shape is the network's input.
    pub feature_names: Vec<String>,
    /// The columns that were learned.
    #[serde(rename = "target_name")]
    pub target_names: TargetNames,
    /// The classes, in the order of their labels.
    pub class_names: Vec<String>,
    /// Training statistics of a table; none for images, which are divided by 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standardiser: Option<Standardiser>,
    /// The smallest and largest value of each number or date (in days since 1970) in the training rows; none for images, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_ranges: Option<Vec<(f64, f64)>>,
    /// Which predictive model at β̂* has the larger validation LPD; none if they are equal, and in runs of the first version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictive_model: Option<PredictiveModel>,
    /// Names of the draws files of β̂*.
    pub draws: Vec<String>,
    /// How rows are read by predictors that learned from all rows; none where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_rows: Option<SavedRows>,
    /// Every model of the run that can predict, that which does first; empty in runs of older kelvins, where β̂* predicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictors: Vec<SavedPredictor>,
}

/// How rows are read and shown to a network, in place of what stands at the top of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedRows {
    /// The network, without weights.
    pub network: Network,
    /// Statistics of all rows.
    pub standardiser: Standardiser,
    /// The smallest and largest value of each column.
    pub feature_ranges: Vec<(f64, f64)>,
}

/// A model that can predict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedPredictor {
    /// Which model.
    pub what: HeldOutModel,
    /// Rows that it learned from.
    pub num_rows: usize,
    /// Whether it reads rows by `all_rows`.
    #[serde(default)]
    pub on_all_rows: bool,
    /// Weights, or where they are.
    pub form: SavedForm,
}

/// Weights of a predictor, or where they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedForm {
    /// Draws of the network, each as likely as the others.
    Draws(Vec<SavedDraws>),
    /// A linear model of the standardised inputs.
    Linear {
        /// For each input, and then for a 1, a weight for each output.
        weights: Vec<f32>,
        /// σ² of each target that is a number; 1 for classes.
        #[serde(with = "one_or_several", rename = "noise_variance")]
        noise_variances: Vec<f64>,
    },
}

/// A file of draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDraws {
    /// Its name in the folder of draws, without the ending.
    pub file: String,
    /// The power of the likelihood that they predict with: 1, or β of the tempered model.
    pub power: f64,
}

fn first_format() -> u32 {
    1
}

impl SavedModel {
    /// The fitted models of a run; `draws` are the names of its draws files at β̂*.
    pub(crate) fn of(problem: &Problem, beta: f64, findings: &Findings, draws: Vec<String>) -> Self {
        let table = problem.table();
        Self {
            format: if problem.likelihood.num_targets() > 1 { FORMAT } else { FORMAT_OF_ONE_TARGET },
            inverse_temperature: beta,
            likelihood: problem.likelihood,
            network: problem.network.clone(),
            feature_names: table.map_or(Vec::new(), |table| table.dataset.feature_names.clone()),
            target_names: table.map_or("class".into(), |table| table.dataset.target_names.clone()),
            class_names: problem.class_names().to_vec(),
            standardiser: table.map(|table| table.standardiser.clone()),
            feature_ranges: table.map(feature_ranges),
            predictive_model: better_model(findings),
            draws,
            all_rows: None,
            predictors: Vec::new(),
        }
    }

    /// Why this kelvin cannot read it; none where it can.
    pub(super) fn unknown_format(&self) -> Option<String> {
        let found = self.format;
        (found == 0 || found > FORMAT).then(|| {
            format!("it has format {found}, and this kelvin knows 1 to {FORMAT}; predict with the kelvin that wrote it")
        })
    }

    /// The models that can predict, that which does first. Of a run of an older kelvin: the draws of β̂*, under both models.
    pub fn all_predictors(&self) -> Vec<SavedPredictor> {
        if !self.predictors.is_empty() {
            return self.predictors.clone();
        }
        let default = match self.likelihood.kind() {
            TargetKind::Numbers => PredictiveModel::Tempered,
            TargetKind::Classes { .. } => PredictiveModel::Standard,
        };
        let first = self.predictive_model.unwrap_or(default);
        let of = |model| SavedPredictor::at_beta_star(model, self.inverse_temperature, &self.draws, 0);
        let second = PredictiveModel::BOTH.into_iter().find(|model| *model != first);
        std::iter::once(first).chain(second).map(of).collect()
    }
}

impl SavedRows {
    /// Of a table all of whose rows are learned from; none of images.
    pub(crate) fn of(problem: &Problem) -> Option<Self> {
        let table = problem.table()?;
        Some(Self {
            network: problem.network.clone(),
            standardiser: table.standardiser.clone(),
            feature_ranges: feature_ranges(table),
        })
    }
}

impl SavedPredictor {
    /// Draws of β̂* under one of the two models.
    pub(crate) fn at_beta_star(model: PredictiveModel, beta: f64, draws: &[String], num_rows: usize) -> Self {
        let short = if model == PredictiveModel::Standard { "SM" } else { "TM" };
        let what = HeldOutModel { kind: ModelKind::Chosen, model, beta: None, label: format!("{BETA_STAR} {short}") };
        Self { what, num_rows, on_all_rows: false, form: SavedForm::draws(draws, model.power(beta)) }
    }
}

impl SavedForm {
    /// Draws files that all predict with one power.
    pub(crate) fn draws(files: &[String], power: f64) -> Self {
        Self::Draws(files.iter().map(|file| SavedDraws { file: file.clone(), power }).collect())
    }
}

/// A linear model as the likelihood and the parameters of a network without hidden layers, followed by those of the likelihood.
pub fn linear_form(kind: TargetKind, weights: &[f32], noise_variances: &[f64]) -> (Likelihood, Vec<f32>) {
    let mut parameters = weights.to_vec();
    let likelihood = match (kind, noise_variances) {
        (TargetKind::Classes { num_classes }, _) => Likelihood::Categorical { num_classes },
        (TargetKind::Numbers, &[noise_variance]) => Likelihood::Gaussian { noise_variance },
        (TargetKind::Numbers, several) => {
            parameters.extend(several.iter().map(|variance| variance.ln() as f32));
            Likelihood::Independent { each: EachNumber::LearnedGaussian, num_targets: several.len() }
        }
    };
    (likelihood, parameters)
}

/// The smallest and largest training value of each number or date; 0 and 0 of other columns, whose levels the standardiser knows.
fn feature_ranges(table: &TableSource) -> Vec<(f64, f64)> {
    let range = |(feature, kind): (usize, &FeatureKind)| {
        if !matches!(kind, FeatureKind::Number | FeatureKind::Date(_)) {
            return (0.0, 0.0);
        }
        let mut range = (f64::INFINITY, f64::NEG_INFINITY);
        for &row in &table.split.train {
            let value = table.dataset.row(row)[feature];
            range = (value.min(range.0), value.max(range.1));
        }
        if range.0 <= range.1 { range } else { (0.0, 0.0) }
    };
    table.dataset.kinds.iter().enumerate().map(range).collect()
}

/// The predictive model with the better LPD of the validation rows at β̂*.
fn better_model(findings: &Findings) -> Option<PredictiveModel> {
    let lpd = findings.shown_row()?.validation.lpd();
    let is_tempered = lpd.tempered > lpd.standard;
    let better = if is_tempered { PredictiveModel::Tempered } else { PredictiveModel::Standard };
    (lpd.tempered != lpd.standard).then_some(better)
}

//! model.json: what `predict` needs beside the draws.

use kelvin::data::{FeatureKind, Standardiser};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::predictive::PredictiveModel;
use serde::{Deserialize, Serialize};

use crate::findings::{Findings, Method};
use crate::problem::{Problem, TableSource};

/// The name of the file of the fitted model in a run folder.
pub(crate) const MODEL: &str = "model.json";

/// A fitted model without its draws, which are in files of their own.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedModel {
    /// β̂*, the inverse temperature of its draws.
    pub inverse_temperature: f64,
    /// Gaussian with its noise variance, or categorical.
    pub likelihood: Likelihood,
    /// The network, without weights: those are in the draws.
    pub network: Network,
    /// The columns a table must have; none for images, whose shape is the network's input.
    pub feature_names: Vec<String>,
    /// The column that was learned.
    pub target_name: String,
    /// The classes, in the order of their labels.
    pub class_names: Vec<String>,
    /// Training statistics of a table; none for images, which are divided by 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standardiser: Option<Standardiser>,
    /// The smallest and largest value of each number or date (in days since 1970) in the training rows; none for images, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_ranges: Option<Vec<(f64, f64)>>,
    /// Which predictive model has the larger validation LPD; none if they are equal, and in runs of the first version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictive_model: Option<PredictiveModel>,
    /// Names of the draws files of β̂*.
    pub draws: Vec<String>,
}

impl SavedModel {
    /// The fitted model of a run; `draws` are the names of its draws files at β̂*.
    pub(crate) fn of(problem: &Problem, beta: f64, findings: &Findings, draws: Vec<String>) -> Self {
        let table = problem.table();
        Self {
            inverse_temperature: beta,
            likelihood: problem.likelihood,
            network: problem.network.clone(),
            feature_names: table.map_or(Vec::new(), |table| table.dataset.feature_names.clone()),
            target_name: table.map_or("class".into(), |table| table.dataset.target_name.clone()),
            class_names: problem.class_names().to_vec(),
            standardiser: table.map(|table| table.standardiser.clone()),
            feature_ranges: table.map(feature_ranges),
            predictive_model: better_model(findings),
            draws,
        }
    }
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
    let lpd = findings.rows.iter().find(|row| row.method == Method::Chosen)?.validation.lpd();
    let is_tempered = lpd.tempered > lpd.standard;
    let better = if is_tempered { PredictiveModel::Tempered } else { PredictiveModel::Standard };
    (lpd.tempered != lpd.standard).then_some(better)
}

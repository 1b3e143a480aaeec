//! What β̂* gains over β = 1: the difference of test LPD on the same rows and repetitions, with its standard error.

use kelvin_study::error::Result;
use std::collections::HashMap;
use std::path::Path;

use kelvin::predictive::{ByModel, PredictiveModel};

use crate::compare::comparison::Kind;
use crate::compare::difference::{Difference, Pairing, Scores, difference};
use kelvin_study::findings::{Findings, Predictions, Row};

/// Test LPD at β̂* minus test LPD at β = 1, in nats, under each model; none if the standard error is not known.
/// At β = 1 the two models are the same.
pub type Gain = ByModel<Option<Difference>>;

/// The log density of every test row under each model.
type ByRow = ByModel<Vec<f64>>;

/// The gain, from the predictions in a run folder; none if some cannot be read, or a row has no finite density.
pub fn gain(folder: &Path, findings: &Findings) -> Gain {
    let (chosen, one) = log_densities(folder, findings).unwrap_or_default();
    ByModel::from_fn(|model| {
        let chosen: Scores = chosen.iter().map(|own| own.get(model).clone()).collect();
        let found = difference(&chosen, &one, Pairing { points: true, repetitions: true });
        found.filter(|found| found.standard_error.is_finite())
    })
}

/// Log densities at β̂* under each model, and at β = 1, of each repetition that has both.
fn log_densities(folder: &Path, findings: &Findings) -> Result<(Vec<ByRow>, Scores)> {
    let mut at_one: HashMap<Option<u32>, &Row> = HashMap::new();
    for one in Kind::Bayes.rows(findings) {
        at_one.entry(one.repetition).or_insert(one);
    }
    let read = |row: &Row| Predictions::read(&folder.join(format!("predictions/{}.csv", row.file_name())));
    let (mut at_chosen, mut at_bayes) = (Vec::new(), Scores::new());
    for chosen in Kind::Chosen.rows(findings) {
        if let Some(one) = at_one.get(&chosen.repetition) {
            let (chosen, one) = (read(chosen)?, read(one)?);
            at_chosen.push(ByRow::from_fn(|model| chosen.log_densities(model)));
            at_bayes.push(one.log_densities(PredictiveModel::Standard));
        }
    }
    Ok((at_chosen, at_bayes))
}

//! What β̂* gains over β = 1: the difference of test LPD on the same rows and repetitions, with its standard error.

use kelvin_study::error::Result;
use std::path::Path;

use kelvin::predictive::{ByModel, PredictiveModel};

use crate::compare::comparison::Kind;
use crate::compare::difference::{Difference, Pairing, Scores, difference};
use kelvin_study::findings::{Findings, Predictions};

/// Test LPD at β̂* minus test LPD at β = 1, in nats, under each model; none if the standard error is not known.
/// At β = 1 the two models are the same.
pub type Gain = ByModel<Option<Difference>>;

/// The gain, from the predictions in a run folder; none if some cannot be read, or a row has no finite density.
pub fn gain(folder: &Path, findings: &Findings) -> Gain {
    let pairs = predictions(folder, findings).unwrap_or_default();
    ByModel::from_fn(|model| {
        let (chosen, one): (Scores, Scores) = pairs
            .iter()
            .map(|(chosen, one)| (chosen.log_densities(model), one.log_densities(PredictiveModel::Standard)))
            .unzip();
        let found = difference(&chosen, &one, Pairing { points: true, repetitions: true });
        found.filter(|found| found.standard_error.is_finite())
    })
}

/// Predictions at β̂* and at β = 1, of each repetition that has both.
fn predictions(folder: &Path, findings: &Findings) -> Result<Vec<(Predictions, Predictions)>> {
    let mut pairs = Vec::new();
    for chosen in Kind::Chosen.rows(findings) {
        let read = |name: String| Predictions::read(&folder.join(format!("predictions/{name}.csv")));
        if let Some(one) = Kind::Bayes.rows(findings).find(|one| one.repetition == chosen.repetition) {
            pairs.push((read(chosen.file_name())?, read(one.file_name())?));
        }
    }
    Ok(pairs)
}

//! The test points a person should look at: the most uncertain and the most wrong, with pictures of them where they are images.

use kelvin_study::error::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

use kelvin::data::Inputs;
use kelvin::predictive::PredictiveModel;
use kelvin_study::problem::Problem;

use crate::chart::encode;
use kelvin_study::findings::{ClassPrediction, Findings, Predictions, TargetPredictions};
use kelvin_study::folder::write;

/// The most cases of each kind.
const COUNT: usize = 12;
/// The folder of pictures in a run folder.
const FOLDER: &str = "cases";

/// The predictive model whose uncertainty is shown: tempered for numbers, standard for classes, as in `kelvin predict`.
pub(crate) fn model_of(predictions: &Predictions) -> PredictiveModel {
    match predictions {
        Predictions::Numbers(_) => PredictiveModel::Tempered,
        Predictions::Classes(_) => PredictiveModel::Standard,
    }
}

/// Test points worth a look, as indices into predictions, the worst first.
#[derive(Debug, PartialEq)]
pub(crate) struct Cases {
    /// Points with the largest predictive standard deviation, which of several targets is added up in units of their truths' range, or of classes with the largest entropy.
    pub uncertain: Vec<usize>,
    /// Points whose truth has the lowest predictive density; of classes only those that are predicted wrongly.
    pub wrong: Vec<usize>,
}

/// The predictive standard deviation of a point; of several targets their sum, each in units of the range of its truths.
fn spread(targets: &[TargetPredictions], index: usize, model: PredictiveModel) -> f64 {
    let of = |own: &TargetPredictions| *own.points[index].sd.get(model);
    let in_range = |own: &TargetPredictions| {
        let truths = || own.points.iter().map(|point| point.truth);
        let range = truths().fold(f64::NEG_INFINITY, f64::max) - truths().fold(f64::INFINITY, f64::min);
        of(own) / range.max(f64::MIN_POSITIVE)
    };
    match targets {
        [own] => of(own),
        several => several.iter().map(in_range).sum(),
    }
}

impl Cases {
    /// The most uncertain and the worst predicted test points, at most twelve of each.
    pub(crate) fn of(predictions: &Predictions) -> Self {
        let model = model_of(predictions);
        let log_densities = predictions.log_densities(model);
        let (doubts, is_wrong): (Vec<f64>, Vec<bool>) = match predictions {
            Predictions::Numbers(targets) => {
                (0..log_densities.len()).map(|index| (spread(targets, index, model), true)).unzip()
            }
            Predictions::Classes(points) => {
                let is_wrong = |point: &ClassPrediction| *point.predicted.get(model) != point.label;
                points.iter().map(|point| (*point.entropy.get(model), is_wrong(point))).unzip()
            }
        };
        let first = |mut indices: Vec<usize>, key: &dyn Fn(usize) -> f64| {
            indices.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
            indices.truncate(COUNT);
            indices
        };
        let all: Vec<usize> = (0..doubts.len()).collect();
        let wrong = all.iter().copied().filter(|&index| is_wrong[index]).collect();
        Self { uncertain: first(all, &|index| -doubts[index]), wrong: first(wrong, &|index| log_densities[index]) }
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        self.uncertain.iter().chain(&self.wrong).copied()
    }
}

/// Writes pictures of the cases of the row that reports show; of tables there are none.
///
/// # Errors
/// Where the predictions of that row cannot be read, or pictures cannot be written.
pub fn keep_pictures(folder: &Path, findings: &Findings, problem: &Problem) -> Result<()> {
    let (Some([height, width, channels]), Inputs::Bytes(bytes), Some(row)) =
        (findings.problem.image, &problem.test.inputs, findings.shown_row())
    else {
        return Ok(());
    };
    let predictions = Predictions::read(&folder.join(format!("predictions/{}.csv", row.file_name())))?;
    let path = folder.join(FOLDER);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot create the folder {}", path.display()))?;
    let size = height * width * channels;
    for index in Cases::of(&predictions).all() {
        let png = encode(&bytes[index * size..][..size], height, width, channels)?;
        write(folder, &format!("{FOLDER}/{index}.png"), &png)?;
    }
    Ok(())
}

/// The pictures of a run folder, by test image; those that are missing are left out.
pub(crate) fn read_pictures(folder: &Path, cases: &Cases) -> BTreeMap<usize, Vec<u8>> {
    let picture = |index: usize| Some((index, std::fs::read(folder.join(FOLDER).join(format!("{index}.png"))).ok()?));
    cases.all().filter_map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::predictive::ByModel;

    #[test]
    fn wrong_answers_are_sorted_by_how_wrong_and_right_ones_left_out() {
        let both = |value: f64| ByModel { standard: value, tempered: 0.0 };
        let point = |label, log_density, entropy| ClassPrediction {
            row: 0,
            label,
            predicted: ByModel { standard: 0, tempered: 0 },
            log_density: both(log_density),
            entropy: both(entropy),
            information: both(0.0),
            probabilities: ByModel { standard: vec![1.0, 0.0], tempered: vec![1.0, 0.0] },
        };
        let points = vec![point(0, -9.0, 0.1), point(1, -2.0, 0.3), point(1, -5.0, 0.2)];
        let cases = Cases::of(&Predictions::Classes(points));
        assert_eq!(cases, Cases { uncertain: vec![1, 2, 0], wrong: vec![2, 1] });
    }
}

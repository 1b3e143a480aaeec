//! What single draws predict at the test rows: outputs, replicated answers and log densities.

use kelvin::data::Targets;
use kelvin::likelihood::{Likelihood, NumberDistribution, TargetKind};
use kelvin::predictive::{ClassificationPredictive, PredictiveModel, RegressionPredictive};
use kelvin::random::{NoiseKey, Purpose};
use kelvin_study::error::{ExperimentError, Result, refused};
use kelvin_study::experiment::Experiment;

use super::array::{Array, Coordinate, Element, f64_bytes};
use kelvin_study::findings::ChainFindings;
use kelvin_study::problem::{Units, in_units};

pub struct Predicted<'e> {
    pub experiment: &'e Experiment,
    targets: Answers<'e>,
    /// Places in the table, or among the test images.
    rows: Vec<usize>,
}

/// The answers of the test rows.
enum Answers<'e> {
    Numbers { targets: &'e [f32], likelihood: Likelihood, units: Vec<Units> },
    Classes { labels: &'e [u32], num_classes: usize },
}

/// Axes after chain and draw.
type Axes = Vec<(String, usize)>;

impl<'e> Predicted<'e> {
    pub const UNITS: &'static str = "answers and means are in original units; log densities are of standardised units, as \
                                     kelvin's LPD is";

    pub fn new(experiment: &'e Experiment) -> Result<Self> {
        let problem = &experiment.problem;
        let likelihood = problem.likelihood;
        let targets = match (&problem.test.targets, likelihood.kind()) {
            (Targets::Real(targets), TargetKind::Numbers) => {
                Answers::Numbers { targets, likelihood, units: problem.target_units() }
            }
            (Targets::Classes(labels), TargetKind::Classes { num_classes }) => Answers::Classes { labels, num_classes },
            _ => return Err(refused("the likelihood does not fit the targets")),
        };
        let rows = match problem.table() {
            Some(table) => table.split.test.clone(),
            None => (0..problem.test.len()).collect(),
        };
        Ok(Self { experiment, targets, rows })
    }

    fn row_axis(&self) -> (String, usize) {
        ("row".into(), self.rows.len())
    }

    /// Those of an answer: rows, and targets where a row has several.
    fn answer_axes(&self) -> Axes {
        let num_targets = self.experiment.problem.likelihood.num_targets();
        let of_targets = (num_targets > 1).then(|| ("target".to_owned(), num_targets));
        std::iter::once(self.row_axis()).chain(of_targets).collect()
    }

    /// Arrays without draws, with their numbers.
    pub fn constants(&self) -> Vec<(Array, Vec<u8>)> {
        let axes = self.answer_axes();
        let array = |group, name: &str, dims, element, about: &str| Array {
            group,
            name: name.into(),
            dims,
            element,
            about: about.into(),
        };
        let mut constants = Vec::new();
        match &self.targets {
            Answers::Numbers { targets, units, .. } => {
                let values = in_units(units, targets.iter().map(|&value| f64::from(value)));
                let about = "answers of the test rows, in original units";
                constants.push((array("observed_data", "y", axes, Element::Float64, about), f64_bytes(&values)));
            }
            Answers::Classes { labels, .. } => {
                let bytes = labels.iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
                let about = "labels of the test rows, from 0";
                constants.push((array("observed_data", "y", axes, Element::Int64, about), bytes));
            }
        }
        // Images would be most of the file, and are in theirs.
        if let Some(table) = self.experiment.problem.table() {
            let inputs: Vec<f64> = self.rows.iter().flat_map(|&row| table.dataset.row(row).iter().copied()).collect();
            let dims = vec![self.row_axis(), ("feature".into(), table.dataset.num_features())];
            let about = "features of the test rows, in original units; NaN where missing, of text the position among its levels in order";
            constants.push((array("constant_data", "x", dims, Element::Float64, about), f64_bytes(&inputs)));
        }
        constants
    }

    /// Arrays with draws, in the order of [`Predicted::of_draw`].
    pub fn arrays(&self, per_draw: &Axes) -> Vec<Array> {
        let (standard, tempered) = ("the standard model p(y|x,θ)", "the tempered model p(y|x,θ)^β, normalised");
        let mut arrays = Vec::new();
        let mut push = |group, name: &str, more: Axes, element, about: String| {
            let dims = [per_draw.clone(), more].concat();
            arrays.push(Array { group, name: name.into(), dims, element, about });
        };
        let answers = || self.answer_axes();
        let element = match &self.targets {
            Answers::Numbers { .. } => {
                push("posterior_predictive", "mean", answers(), Element::Float64, "E[y|x,θ] of the draw".into());
                Element::Float64
            }
            Answers::Classes { num_classes, .. } => {
                let axes = vec![self.row_axis(), ("class".into(), *num_classes)];
                let about = format!("probabilities of the classes under {standard}");
                push("posterior_predictive", "probability", axes, Element::Float32, about);
                Element::Int64
            }
        };
        for (name, model) in [("y", standard), ("y_tempered", tempered)] {
            push("posterior_predictive", name, answers(), element, format!("an answer drawn from {model}"));
        }
        for (name, model) in [("y", standard), ("y_tempered", tempered)] {
            let rows = vec![self.row_axis()];
            push("log_likelihood", name, rows, Element::Float64, format!("log density of the answer under {model}"));
        }
        arrays
    }

    pub fn coordinates(&self) -> Vec<Coordinate> {
        let problem = &self.experiment.problem;
        let mut coordinates = vec![Coordinate::of_numbers("row", self.rows.iter().copied())];
        if let Some(table) = problem.table() {
            coordinates.push(Coordinate::of_words("feature", &table.dataset.feature_names));
        }
        if self.answer_axes().len() > 1 {
            let names = problem.table().map_or(&[][..], |table| &table.dataset.target_names);
            coordinates.push(Coordinate::of_words("target", names));
        }
        if !problem.class_names().is_empty() {
            coordinates.push(Coordinate::of_words("class", problem.class_names()));
        }
        coordinates
    }

    /// The numbers of one draw. A replicated answer is drawn with its noise, so that it can be laid beside the observed ones as
    /// ArviZ's checks do; the noise has a name, so that it is the same every time, and is shared by the two models.
    pub fn of_draw(&self, outputs: &[f32], chain: &ChainFindings, step: u64) -> Result<[Vec<u8>; 5], ExperimentError> {
        let key = NoiseKey {
            seed: self.experiment.settings.run.seed,
            purpose: Purpose::Replication,
            chain: chain.repetition,
            step,
        };
        match &self.targets {
            Answers::Numbers { targets, likelihood, units } => {
                let mut predictive = RegressionPredictive::of(*likelihood, targets, chain.beta)?;
                predictive.add_draw(outputs)?;
                let mut noise = vec![0.0; targets.len()];
                key.fill_normal(&mut noise);
                let distributions = |model: PredictiveModel| {
                    let rows = outputs.chunks_exact(likelihood.num_values());
                    let of = move |row, target| likelihood.number_distribution_of(target, row, model.power(chain.beta));
                    rows.flat_map(move |row| (0..likelihood.num_targets()).map(move |target| of(row, target)))
                };
                let replicated = |model: PredictiveModel| {
                    let answers = distributions(model).zip(&noise).map(|(answer, &z)| answer.at(f64::from(z)));
                    f64_bytes(&in_units(units, answers))
                };
                let means = distributions(PredictiveModel::Standard).map(|answer: NumberDistribution| answer.mean());
                let means = in_units(units, means);
                Ok([
                    f64_bytes(&means),
                    replicated(PredictiveModel::Standard),
                    replicated(PredictiveModel::Tempered),
                    f64_bytes(&predictive.log_densities(PredictiveModel::Standard)?),
                    f64_bytes(&predictive.log_densities(PredictiveModel::Tempered)?),
                ])
            }
            Answers::Classes { labels, num_classes } => {
                let mut predictive = ClassificationPredictive::new(labels, *num_classes, chain.beta)?;
                predictive.add_draw(outputs)?;
                let replicated = |model| -> Result<Vec<u8>, ExperimentError> {
                    let probabilities = predictive.probabilities(model)?;
                    let answers = probabilities
                        .chunks_exact(*num_classes)
                        .zip(0..)
                        .map(|(shares, row)| class_at(shares, key.uniform(row)));
                    Ok(answers.flat_map(|class| (class as i64).to_le_bytes()).collect())
                };
                let probabilities = predictive.probabilities(PredictiveModel::Standard)?;
                Ok([
                    probabilities.iter().flat_map(|&share| (share as f32).to_le_bytes()).collect(),
                    replicated(PredictiveModel::Standard)?,
                    replicated(PredictiveModel::Tempered)?,
                    f64_bytes(&predictive.log_densities(PredictiveModel::Standard)?),
                    f64_bytes(&predictive.log_densities(PredictiveModel::Tempered)?),
                ])
            }
        }
    }
}

/// The class where the running sum of probabilities passes a number between 0 and 1.
fn class_at(shares: &[f64], at: f64) -> usize {
    let mut sum = 0.0;
    let passed = shares.iter().position(|share| {
        sum += share;
        sum > at
    });
    passed.unwrap_or(shares.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_its_share_of_the_unit_interval() {
        let shares = [0.25, 0.0, 0.5, 0.25];
        let found: Vec<usize> = [0.0, 0.24, 0.25, 0.74, 0.76, 1.0].map(|at| class_at(&shares, at)).to_vec();
        assert_eq!(found, [0, 0, 2, 2, 3, 3]);
    }
}

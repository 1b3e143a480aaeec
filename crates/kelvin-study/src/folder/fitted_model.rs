//! A fitted model in memory: what a finished run stored of it, its draws, and what they predict for new rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kelvin::data::{Inputs, Standardiser};
use kelvin::draws::Draws;
use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::network::{Network, Weights};
use kelvin::predictive::NumberMixture;
use kelvin::sampler::Engine;
use kelvin::write_file::write_atomically;
use rayon::prelude::*;

use crate::error::{Context, Result, StudyError, refused};
use crate::findings::{Findings, ModelKind, RowBlocks, outputs_of_draws};
use crate::folder::hashes::{HASHES, Hashes};
use crate::folder::links::check_keeps_to_itself;
use crate::folder::model::{MODEL, SavedForm, SavedModel, SavedPredictor, linear_form};

/// What is not part of a model: it can be made again, or belongs to a run that is going on.
const LEFT_OUT: [&str; 6] = ["figures", "tables", "exports", "report.html", "checkpoints", HASHES];

/// A fitted model that owns all it needs: the files of its run folder, and the draws it predicts with.
#[derive(Debug)]
pub struct FittedModel {
    files: BTreeMap<String, Vec<u8>>,
    model: SavedModel,
    findings: Findings,
    chosen: Vec<Draws>,
    predictor: Predictor,
}

/// The model among those of a run that predicts.
#[derive(Debug)]
struct Predictor {
    label: String,
    network: Network,
    likelihood: Likelihood,
    standardiser: Option<Standardiser>,
    ranges: Vec<(f64, f64)>,
    /// With the power of the likelihood that each predicts with.
    draws: Vec<(Draws, f64)>,
}

/// What is predicted for numbers, in the target's own units: a value for each row, or one for each of its targets, row after row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberPredictions {
    /// Mean of the predictive distribution.
    pub mean: Vec<f64>,
    /// Its standard deviation.
    pub std: Vec<f64>,
    /// Standard deviation of the noise: what more rows would not make smaller.
    pub aleatoric: Vec<f64>,
    /// Standard deviation of the means over draws: what more rows would make smaller. `std² = aleatoric² + epistemic²`.
    pub epistemic: Vec<f64>,
    /// For each probability that was asked for, its quantile in each row.
    pub quantiles: Vec<Vec<f64>>,
}

/// What is predicted for classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassPredictions {
    /// The probability of each class, row after row.
    pub probabilities: Vec<f64>,
    /// Mean entropy of the draws' distributions in nats: what more rows would not make smaller.
    pub aleatoric: Vec<f64>,
    /// Mutual information of class and draw in nats: entropy of the mean distribution minus `aleatoric`.
    pub epistemic: Vec<f64>,
}

impl FittedModel {
    /// Reads the model of a finished run from its folder, or from one that [`FittedModel::write`] wrote: the one that was asked for, or the one
    /// that the run chose.
    ///
    /// # Errors
    /// Where the folder holds no finished run or no such model, or files of it are damaged.
    pub fn read(folder: &Path, asked: Option<ModelKind>) -> Result<Self> {
        check_keeps_to_itself(folder)?;
        let path = folder.join(MODEL);
        let bytes = std::fs::read(&path).with_context(|| {
            format!("{} holds no fitted model: a run that is finished, and stored its draws, has one", folder.display())
        })?;
        let model = SavedModel::from_json(&path, &bytes)?;
        let all = model.all_predictors();
        let of_kind = |asked| all.iter().find(|predictor| predictor.what.kind == asked);
        let first = match asked {
            None => all.first(),
            // Where β = 1 was chosen, its draws are those of β̂*.
            Some(ModelKind::Chosen) if model.inverse_temperature == 1.0 => {
                of_kind(ModelKind::Chosen).or_else(|| of_kind(ModelKind::Bayes))
            }
            Some(asked) => of_kind(asked),
        };
        let first = first.with_context(|| {
            let labels: Vec<&str> = all.iter().map(|predictor| predictor.what.label.as_str()).collect();
            format!("the run has no such model to predict with\n  it has: {}", labels.join(", "))
        })?;
        let predictor = Predictor::read(folder, &model, first)?;
        let layout = (&model.network, model.likelihood);
        let chosen = model.draws.iter().map(|name| load(folder, name, layout)).collect::<Result<Vec<_>>>()?;
        let findings = Findings::read(folder)?;
        let mut files = BTreeMap::new();
        collect(folder, &PathBuf::new(), &mut files)?;
        Ok(Self { files, model, findings, chosen, predictor })
    }

    /// Writes it as a run folder, which `kelvin predict` and the like read, too.
    ///
    /// # Errors
    /// Where the folder is there and holds anything, or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(refused(format!(
                "{} is there and not empty; nothing was changed. Name another folder",
                folder.display()
            )));
        }
        write_files(&self.files, folder)?;
        let text = serde_json::to_string_pretty(&Hashes::of(folder)?)?;
        let path = folder.join(HASHES);
        write_atomically(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The files it consists of, by their paths in the folder.
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// What predicts, as tables call it.
    pub fn label(&self) -> &str {
        &self.predictor.label
    }

    /// How the columns of a table are scaled for what predicts; none for images.
    pub fn standardiser(&self) -> Option<&Standardiser> {
        self.predictor.standardiser.as_ref()
    }

    /// The smallest and largest value of each column in the rows that it learned from; empty where they are not known.
    pub fn ranges(&self) -> &[(f64, f64)] {
        &self.predictor.ranges
    }

    /// Network, likelihood, columns and scales of the run.
    pub fn model(&self) -> &SavedModel {
        &self.model
    }

    /// Everything that its run found.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The draws of each chain at β̂*.
    pub fn draws(&self) -> &[Draws] {
        &self.chosen
    }

    /// What it predicts for numbers, with a quantile of each probability.
    ///
    /// # Errors
    /// Where it predicts classes, a probability is not between 0 and 1, or draws cannot be evaluated.
    pub fn numbers(&self, engine: &dyn Engine, inputs: &Inputs, probabilities: &[f64]) -> Result<NumberPredictions> {
        let likelihood = self.predictor.likelihood;
        let (TargetKind::Numbers, Some(standardiser)) = (likelihood.kind(), self.standardiser()) else {
            return Err(StudyError::WrongQuestion("the model predicts classes, and numbers were asked for".into()));
        };
        let (width, num_targets) = (likelihood.num_values(), likelihood.num_targets());
        let mut all = NumberPredictions { quantiles: vec![Vec::new(); probabilities.len()], ..Default::default() };
        self.for_blocks(engine, inputs, |outputs, num_rows| {
            let points = (0..num_rows * num_targets).into_par_iter().map(|point| -> Result<_> {
                let (row, target) = (point / num_targets, point % num_targets);
                let of_row = outputs.iter().map(|(output, power)| (&output[row * width..][..width], *power));
                let mixture = NumberMixture::of_powers(likelihood, target, of_row)?;
                let quantiles = mixture.quantiles(probabilities)?;
                Ok((mixture, quantiles))
            });
            for (point, found) in points.collect::<Vec<_>>().into_iter().enumerate() {
                let (mixture, quantiles) = found?;
                let units = &standardiser.targets[point % num_targets];
                let std = |variance: f64| units.std * variance.sqrt();
                all.mean.push(units.original(mixture.mean()));
                all.std.push(std(mixture.variance()));
                all.aleatoric.push(std(mixture.aleatoric_variance()));
                all.epistemic.push(std(mixture.epistemic_variance()));
                for (to, quantile) in all.quantiles.iter_mut().zip(quantiles) {
                    to.push(units.original(quantile));
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// What it predicts for classes.
    ///
    /// # Errors
    /// Where it predicts numbers, or draws cannot be evaluated.
    pub fn classes(&self, engine: &dyn Engine, inputs: &Inputs) -> Result<ClassPredictions> {
        let TargetKind::Classes { num_classes } = self.predictor.likelihood.kind() else {
            return Err(StudyError::WrongQuestion("the model predicts numbers, and classes were asked for".into()));
        };
        let mut all = ClassPredictions::default();
        self.for_blocks(engine, inputs, |outputs, num_rows| {
            let rows = (0..num_rows).into_par_iter().map(|row| class_row(outputs, num_classes, row));
            for (mean, entropy) in rows.collect::<Vec<_>>() {
                all.aleatoric.push(entropy);
                all.epistemic.push((self::entropy(&mean) - entropy).max(0.0));
                all.probabilities.extend(mean);
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// The likelihood's values of every draw with its power, for so many rows at a time.
    fn for_blocks(
        &self,
        engine: &dyn Engine,
        inputs: &Inputs,
        mut each: impl FnMut(&[(Vec<f32>, f64)], usize) -> Result<()>,
    ) -> Result<()> {
        let Predictor { network, likelihood, draws, .. } = &self.predictor;
        let num_draws = draws.iter().map(|(draws, _)| draws.len()).sum();
        for block in RowBlocks::new(network, *likelihood, inputs, num_draws) {
            let mut outputs = Vec::new();
            for (draws, power) in draws {
                let of_draws = outputs_of_draws(engine, (network, *likelihood), &block, [draws])?;
                outputs.extend(of_draws.into_iter().map(|values| (values, *power)));
            }
            each(&outputs, block.len())?;
        }
        Ok(())
    }
}

impl Predictor {
    fn read(folder: &Path, model: &SavedModel, saved: &SavedPredictor) -> Result<Self> {
        let (network, standardiser, ranges) = match model.all_rows.as_ref().filter(|_| saved.on_all_rows) {
            Some(rows) => (&rows.network, Some(&rows.standardiser), Some(&rows.feature_ranges)),
            None => (&model.network, model.standardiser.as_ref(), model.feature_ranges.as_ref()),
        };
        let (network, likelihood, draws) = match &saved.form {
            SavedForm::Draws(files) => {
                let layout = (network, model.likelihood);
                let draws = files.iter().map(|file| Ok((load(folder, &file.file, layout)?, file.power)));
                (network.clone(), model.likelihood, draws.collect::<Result<Vec<_>>>()?)
            }
            SavedForm::Linear { weights, noise_variances } => {
                let (likelihood, parameters) = linear_form(model.likelihood.kind(), weights, noise_variances);
                let network = Network::dense(network.num_inputs(), &[], likelihood.num_outputs())?;
                let draws = Draws::of_point(Weights { parameters: &parameters, statistics: &[] });
                (network, likelihood, vec![(draws, 1.0)])
            }
        };
        if draws.iter().all(|(draws, _)| draws.is_empty()) {
            return Err(refused(format!(
                "{} holds no draws to predict with\n  fit again with sampler.draws = \"stored\"",
                folder.display()
            )));
        }
        let (standardiser, ranges) = (standardiser.cloned(), ranges.cloned().unwrap_or_default());
        Ok(Self { label: saved.what.label.clone(), network, likelihood, standardiser, ranges, draws })
    }
}

fn load(folder: &Path, name: &str, layout: (&Network, Likelihood)) -> Result<Draws> {
    Ok(Draws::load(&folder.join(format!("draws/{name}.safetensors")), layout)?)
}

/// The mean distribution over draws, and the mean of their entropies.
fn class_row(outputs: &[(Vec<f32>, f64)], num_classes: usize, row: usize) -> (Vec<f64>, f64) {
    let share = 1.0 / outputs.len() as f64;
    let (mut mean, mut entropies) = (vec![0.0; num_classes], 0.0);
    for (output, power) in outputs {
        let logits = &output[row * num_classes..][..num_classes];
        let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let mut weights: Vec<f64> = logits.iter().map(|&z| (power * f64::from(z - largest)).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (mean, weight) in mean.iter_mut().zip(&mut weights) {
            *weight /= total;
            *mean += share * *weight;
        }
        entropies += share * entropy(&weights);
    }
    (mean, entropies)
}

fn entropy(probabilities: &[f64]) -> f64 {
    -probabilities.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// Writes files by their paths in a folder; one that would lie elsewhere is refused.
///
/// # Errors
/// Where a path leaves the folder, or a file cannot be written.
pub fn write_files(files: &BTreeMap<String, Vec<u8>>, folder: &Path) -> Result<()> {
    for (name, bytes) in files {
        if name.split('/').any(|part| part.is_empty() || part == "." || part == ".." || part.contains('\\')) {
            return Err(refused(format!("`{name}` is no name of a file inside a model's folder")));
        }
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create the folder {}", parent.display()))?;
        write_atomically(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Reads the files of a folder and of those inside it, but for what is left out.
fn collect(root: &Path, inside: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let folder = root.join(inside);
    let cannot = || format!("cannot read {}", folder.display());
    for entry in folder.read_dir().with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let name = inside.join(entry.file_name());
        let Some(text) = name.to_str().filter(|text| !LEFT_OUT.contains(text)) else { continue };
        let kind = entry.file_type().with_context(cannot)?;
        if kind.is_dir() {
            collect(root, &name, files)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).with_context(cannot)?;
            files.insert(text.replace('\\', "/"), bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertainty_of_classes_is_split() {
        // Two draws that are each certain of another class: all of it is about the draws.
        let certain = [(vec![50.0f32, -50.0], 1.0), (vec![-50.0, 50.0], 1.0)];
        let (mean, within) = class_row(&certain, 2, 0);
        assert!((mean[0] - 0.5).abs() < 1e-12 && within < 1e-12);
        // Two draws that both do not know: all of it is noise.
        let unsure = [(vec![0.0f32, 0.0], 1.0), (vec![0.0, 0.0], 3.0)];
        let (mean, within) = class_row(&unsure, 2, 0);
        assert!((entropy(&mean) - within).abs() < 1e-15 && (within - 2f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn files_stay_inside_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| BTreeMap::from([(name.to_owned(), b"x".to_vec())]);
        for outside in ["../x", "/x", "a/../../x", "a//x", ".", ""] {
            assert!(write_files(&file(outside), folder.path()).is_err(), "{outside}");
        }
        write_files(&file("draws/a.safetensors"), folder.path()).unwrap();
        assert_eq!(std::fs::read(folder.path().join("draws/a.safetensors")).unwrap(), b"x");
    }
}

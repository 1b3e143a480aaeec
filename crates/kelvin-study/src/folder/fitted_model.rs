//! A fitted model in memory: what a finished run stored of it, its draws, and what they predict for new rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kelvin::data::Inputs;
use kelvin::draws::Draws;
use kelvin::likelihood::TargetKind;
use kelvin::predictive::{NumberMixture, PredictiveModel};
use kelvin::sampler::Engine;
use kelvin::write_file::write_atomically;
use rayon::prelude::*;

use crate::error::{Context, Result, StudyError, refused};
use crate::findings::{Findings, RowBlocks, outputs_of_draws};
use crate::folder::hashes::{HASHES, Hashes};
use crate::folder::links::check_keeps_to_itself;
use crate::folder::model::{MODEL, SavedModel};

/// What is not part of a model: it can be made again, or belongs to a run that is going on.
const LEFT_OUT: [&str; 6] = ["figures", "tables", "exports", "report.html", "checkpoints", HASHES];

/// A fitted model that owns all it needs: the files of its run folder and the draws it predicts with.
#[derive(Debug)]
pub struct FittedModel {
    files: BTreeMap<String, Vec<u8>>,
    model: SavedModel,
    findings: Findings,
    draws: Vec<Draws>,
}

/// What is predicted for numbers, a value for each row, in the target's own units.
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
    /// Reads the model of a finished run from its folder, or from one that [`FittedModel::write`] wrote.
    ///
    /// # Errors
    /// Where the folder holds no finished run, or files of it are damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        check_keeps_to_itself(folder)?;
        let path = folder.join(MODEL);
        let bytes = std::fs::read(&path).with_context(|| {
            format!("{} holds no fitted model: a run that is finished, and stored its draws, has one", folder.display())
        })?;
        let model: SavedModel =
            serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
        check_parts(&model).with_context(|| format!("{} is damaged", path.display()))?;
        let layout = (&model.network, model.likelihood);
        let open = |name: &String| Draws::load(&folder.join(format!("draws/{name}.safetensors")), layout);
        let draws = model.draws.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        if draws.iter().all(Draws::is_empty) {
            return Err(refused(format!(
                "{} holds no draws to predict with\n  fit again with sampler.draws = \"stored\"",
                folder.display()
            )));
        }
        let findings = Findings::read(folder)?;
        let mut files = BTreeMap::new();
        collect(folder, &PathBuf::new(), &mut files)?;
        Ok(Self { files, model, findings, draws })
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

    /// Network, likelihood, columns and scales.
    pub fn model(&self) -> &SavedModel {
        &self.model
    }

    /// Everything that its run found.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The draws of each chain that it predicts with.
    pub fn draws(&self) -> &[Draws] {
        &self.draws
    }

    /// What it predicts for numbers, with a quantile of each probability.
    ///
    /// # Errors
    /// Where it predicts classes, a probability is not between 0 and 1, or draws cannot be evaluated.
    pub fn numbers(&self, engine: &dyn Engine, inputs: &Inputs, probabilities: &[f64]) -> Result<NumberPredictions> {
        let (TargetKind::Numbers, Some(units)) = (self.model.likelihood.kind(), &self.model.standardiser) else {
            return Err(StudyError::WrongQuestion("the model predicts classes, and numbers were asked for".into()));
        };
        let power = self.power(PredictiveModel::Tempered);
        let likelihood = self.model.likelihood;
        let width = likelihood.num_values();
        let mut all = NumberPredictions { quantiles: vec![Vec::new(); probabilities.len()], ..Default::default() };
        self.for_blocks(engine, inputs, |outputs, num_rows| {
            let rows = (0..num_rows).into_par_iter().map(|row| -> Result<_> {
                let of_row = || outputs.iter().map(|output| &output[row * width..][..width]);
                let mixture = NumberMixture::of(likelihood, of_row(), power)?;
                let noise = of_row().map(|values| likelihood.number_distribution(values, power).variance()).sum::<f64>()
                    / outputs.len() as f64;
                let quantiles = probabilities.iter().map(|&p| mixture.quantile(p)).collect::<Result<Vec<_>, _>>()?;
                Ok((mixture.mean(), mixture.variance(), noise, quantiles))
            });
            for row in rows.collect::<Vec<_>>() {
                let (mean, variance, noise, quantiles) = row?;
                all.mean.push(units.target_value(mean));
                all.std.push(units.target_std(variance.sqrt()));
                all.aleatoric.push(units.target_std(noise.min(variance).sqrt()));
                all.epistemic.push(units.target_std((variance - noise).max(0.0).sqrt()));
                for (to, quantile) in all.quantiles.iter_mut().zip(quantiles) {
                    to.push(units.target_value(quantile));
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
        let TargetKind::Classes { num_classes } = self.model.likelihood.kind() else {
            return Err(StudyError::WrongQuestion("the model predicts numbers, and classes were asked for".into()));
        };
        let power = self.power(PredictiveModel::Standard);
        let mut all = ClassPredictions::default();
        self.for_blocks(engine, inputs, |outputs, num_rows| {
            let rows = (0..num_rows).into_par_iter().map(|row| class_row(outputs, num_classes, power, row));
            for (mean, entropy) in rows.collect::<Vec<_>>() {
                all.aleatoric.push(entropy);
                all.epistemic.push((self::entropy(&mean) - entropy).max(0.0));
                all.probabilities.extend(mean);
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// The power of the predictive model that scored better on validation rows; of `otherwise` where none did.
    fn power(&self, otherwise: PredictiveModel) -> f64 {
        self.model.predictive_model.unwrap_or(otherwise).power(self.model.inverse_temperature)
    }

    /// The likelihood's values of every draw, for so many rows at a time.
    fn for_blocks(
        &self,
        engine: &dyn Engine,
        inputs: &Inputs,
        mut each: impl FnMut(&[Vec<f32>], usize) -> Result<()>,
    ) -> Result<()> {
        let (network, likelihood) = (&self.model.network, self.model.likelihood);
        let num_draws = self.draws.iter().map(Draws::len).sum();
        for block in RowBlocks::new(network, likelihood, inputs, num_draws) {
            let outputs = outputs_of_draws(engine, (network, likelihood), &block, &self.draws)?;
            each(&outputs, block.len())?;
        }
        Ok(())
    }
}

/// The mean distribution over draws, and the mean of their entropies.
fn class_row(outputs: &[Vec<f32>], num_classes: usize, power: f64, row: usize) -> (Vec<f64>, f64) {
    let (mut mean, mut entropies) = (vec![0.0; num_classes], 0.0);
    for output in outputs {
        let logits = &output[row * num_classes..][..num_classes];
        let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let mut weights: Vec<f64> = logits.iter().map(|&z| (power * f64::from(z - largest)).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (mean, weight) in mean.iter_mut().zip(&mut weights) {
            *weight /= total;
            *mean += *weight / outputs.len() as f64;
        }
        entropies += entropy(&weights);
    }
    (mean, entropies / outputs.len() as f64)
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

/// Refuses a model whose parts do not fit each other: it may come from someone else.
fn check_parts(model: &SavedModel) -> Result<()> {
    let beta = model.inverse_temperature;
    let (names, inputs) = (model.feature_names.len(), model.network.num_inputs());
    let scales = model.standardiser.as_ref().map_or(names, |standardiser| standardiser.features.len());
    let is_table = model.standardiser.is_some();
    let classes = match model.likelihood.kind() {
        TargetKind::Numbers => 0,
        TargetKind::Classes { num_classes } => num_classes,
    };
    for (fits, what) in [
        (beta.is_finite() && beta > 0.0, "its inverse temperature is no finite number > 0"),
        (model.likelihood.num_outputs() == model.network.num_outputs(), "likelihood and network differ in outputs"),
        (!is_table || names == scales && names == inputs, "columns, scales and inputs differ in number"),
        (classes == model.class_names.len(), "classes and their names differ in number"),
    ] {
        if !fits {
            return Err(refused(what));
        }
    }
    model.likelihood.check_settings().context("its likelihood cannot be used")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertainty_of_classes_is_split() {
        // Two draws that are each certain of another class: all of it is about the draws.
        let certain = [vec![50.0f32, -50.0], vec![-50.0, 50.0]];
        let (mean, within) = class_row(&certain, 2, 1.0, 0);
        assert!((mean[0] - 0.5).abs() < 1e-12 && within < 1e-12);
        // Two draws that both do not know: all of it is noise.
        let unsure = [vec![0.0f32, 0.0], vec![0.0, 0.0]];
        let (mean, within) = class_row(&unsure, 2, 1.0, 0);
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

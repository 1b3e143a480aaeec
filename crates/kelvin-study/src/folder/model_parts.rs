//! Reads a model.json and checks that its parts fit each other: it may come from someone else.

use std::path::Path;

use kelvin::data::Standardiser;
use kelvin::likelihood::TargetKind;
use kelvin::network::Network;

use crate::error::{Context, Result, refused};
use crate::folder::model::{SavedForm, SavedModel, SavedPredictor};

impl SavedModel {
    /// The model of a model.json, whose parts fit each other; `path` stands for it in errors.
    ///
    /// # Errors
    /// If it is damaged, of another format, or would read files outside its folder.
    pub fn from_json(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = || format!("{} is damaged; run the experiment again", path.display());
        let model: Self = serde_json::from_slice(bytes).with_context(damaged)?;
        if let Some(reason) = model.unknown_format() {
            return Err(refused(format!("{}: {reason}", path.display())));
        }
        check_parts(&model).with_context(damaged)?;
        Ok(model)
    }
}

/// Refuses a model whose parts do not fit each other, or that names files outside its folder of draws.
fn check_parts(model: &SavedModel) -> Result<()> {
    let network = &model.network;
    let beta = model.inverse_temperature;
    ensure(beta.is_finite() && beta > 0.0, || format!("inverse_temperature must be a finite number > 0, got {beta}"))?;
    let num_targets = match &model.standardiser {
        Some(standardiser) => {
            let ranges = model.feature_ranges.as_ref().map(Vec::len);
            check_columns(&model.feature_names, network, standardiser, ranges)?
        }
        None => {
            let names = model.feature_names.len();
            ensure(names == 0, || {
                format!("there are {names} feature_names, and no standardiser that says how to scale them")
            })?;
            0
        }
    };
    let (needed, outputs) = (model.likelihood.num_outputs(), network.num_outputs());
    ensure(needed == outputs, || format!("the likelihood needs {needed} outputs and the network has {outputs}"))?;
    model.likelihood.check_settings().context("its likelihood cannot be used")?;
    match model.likelihood.kind() {
        TargetKind::Numbers => {
            let needed = model.likelihood.num_targets();
            ensure(num_targets > 0, || "a regression needs the scale of its target, and there is none".into())?;
            ensure(num_targets == needed && model.target_names.len() == needed, || {
                let names = model.target_names.len();
                format!(
                    "the likelihood is of {needed} targets, and there are {num_targets} scales and {names} names of them"
                )
            })?;
        }
        TargetKind::Classes { num_classes } => {
            let names = model.class_names.len();
            ensure(names == num_classes, || format!("there are {num_classes} classes and {names} class_names"))?;
        }
    }
    model.draws.iter().try_for_each(|name| check_name("the model", name))?;
    check_predictors(model)
}

/// Refuses predictors that do not fit the network of the rows that they read.
fn check_predictors(model: &SavedModel) -> Result<()> {
    if let Some(rows) = &model.all_rows {
        let ranges = Some(rows.feature_ranges.len());
        let num_targets = check_columns(&model.feature_names, &rows.network, &rows.standardiser, ranges)?;
        let is_number = model.likelihood.kind() == TargetKind::Numbers;
        let needed = if is_number { model.likelihood.num_targets() } else { 0 };
        ensure(num_targets == needed, || "all_rows has another kind of target than the model".into())?;
        let (needed, outputs) = (model.likelihood.num_outputs(), rows.network.num_outputs());
        ensure(needed == outputs, || {
            format!("the likelihood needs {needed} outputs and the network of all_rows has {outputs}")
        })?;
    }
    for SavedPredictor { what, on_all_rows, form, .. } in &model.predictors {
        let label = &what.label;
        ensure(!on_all_rows || model.all_rows.is_some(), || format!("`{label}` reads all_rows, which is missing"))?;
        match form {
            SavedForm::Draws(files) => {
                for file in files {
                    let power = file.power;
                    ensure(power.is_finite() && power > 0.0, || {
                        format!("the power of `{label}` must be > 0, got {power}")
                    })?;
                    check_name(&format!("`{label}`"), &file.file)?;
                }
            }
            SavedForm::Linear { weights, noise_variances } => {
                let outputs = match model.likelihood.kind() {
                    TargetKind::Numbers => model.likelihood.num_targets(),
                    TargetKind::Classes { num_classes } => num_classes,
                };
                let rows = model.all_rows.as_ref().filter(|_| *on_all_rows);
                let needed = (rows.map_or(&model.network, |rows| &rows.network).num_inputs() + 1) * outputs;
                let found = weights.len();
                ensure(needed == found, || format!("`{label}` has {found} weights and needs {needed}"))?;
                ensure(weights.iter().all(|weight| weight.is_finite()), || {
                    format!("a weight of `{label}` is no number")
                })?;
                let (needed, found) = (model.likelihood.num_targets(), noise_variances.len());
                ensure(needed == found, || format!("`{label}` has {found} noise variances and needs {needed}"))?;
                for noise_variance in noise_variances {
                    ensure(noise_variance.is_finite() && *noise_variance > 0.0, || {
                        format!("the noise variance of `{label}` must be > 0, got {noise_variance}")
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Refuses columns and scales that do not fit the network; how many targets have a scale.
fn check_columns(
    names: &[String],
    network: &Network,
    standardiser: &Standardiser,
    ranges: Option<usize>,
) -> Result<usize> {
    let (names, scales) = (names.len(), standardiser.features.len());
    let inputs = network.num_inputs();
    let (columns, encoded) = match &standardiser.encoder {
        Some(encoder) => (encoder.columns.len(), encoder.num_inputs()),
        None => (names, names),
    };
    ensure(names == columns && scales == encoded && scales == inputs, || {
        format!("{names} feature_names and {scales} scales cannot feed a network of {inputs} inputs")
    })?;
    let ranges = ranges.unwrap_or(names);
    ensure(ranges == names, || format!("there are {names} feature_names and {ranges} feature_ranges"))?;
    for scale in standardiser.features.iter().chain(&standardiser.targets) {
        let usable = scale.mean.is_finite() && scale.std.is_finite() && scale.std > 0.0;
        ensure(usable, || {
            format!("a scale must have a finite mean and a std > 0, got {} and {}", scale.mean, scale.std)
        })?;
    }
    Ok(standardiser.targets.len())
}

/// Refuses a name of draws that would lead out of their folder.
fn check_name(whose: &str, name: &str) -> Result<()> {
    let is_name = !name.contains(['/', '\\']) && !name.starts_with('.');
    ensure(is_name, || format!("{whose} names the draws `{name}`, which is no name of a file"))
}

fn ensure(fits: bool, reason: impl FnOnce() -> String) -> Result<()> {
    if fits { Ok(()) } else { Err(refused(reason())) }
}

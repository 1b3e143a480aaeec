//! `kelvin predict`: the predictive distribution of a run for new rows of a table or new images.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use kelvin::data::{
    Examples, Inputs, Standardiser, Table, Targets, prediction_inputs, read_cifar_batch, read_idx_images,
};
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::Shape;
use kelvin::predictive::{GaussianMixture, PredictiveModel, for_each_output};
use kelvin::sampler::Engine;
use kelvin::write_file::write_atomically;
use serde_json::{Map, Value};

use super::run::SavedModel;
use crate::arguments::{ModelArgument, PredictArguments};
use crate::device;
use crate::interrupt::resume_command;
use crate::output::{print_result, say};
use crate::run_folder::stored_run;
use crate::run_record::RunCommand;

const QUANTILES: [(f64, &str); 3] = [(0.05, "q05"), (0.5, "q50"), (0.95, "q95")];

pub fn predict(arguments: &PredictArguments) -> anyhow::Result<()> {
    let model = saved_model(&arguments.run)?;
    let engine = device::for_predictions(arguments.device, &model.network)?;
    let inputs = match &model.standardiser {
        Some(standardiser) => {
            let table = Table::read(&arguments.input)?;
            let features = prediction_inputs(&table, &model.feature_names)?;
            standardiser.inputs(table.name(), &features, &model.feature_names)?.into()
        }
        None => images(&arguments.input, model.network.input())?,
    };
    let outputs = outputs_of_draws(&*engine, &arguments.run, &model, inputs)?;

    let (names, rows) = match model.likelihood {
        Likelihood::Gaussian { noise_variance } => {
            let which = arguments.model.unwrap_or(ModelArgument::Tempered);
            let variance = noise_variance / predictive_model(which).power(model.inverse_temperature);
            let standardiser = model.standardiser.as_ref().context("a regression needs the scale of its target")?;
            numbers(standardiser, &outputs, variance)?
        }
        Likelihood::Categorical { num_classes } => {
            let which = arguments.model.unwrap_or(ModelArgument::Standard);
            let power = predictive_model(which).power(model.inverse_temperature);
            classes(&model, &outputs, num_classes, power)
        }
    };
    let text = if arguments.json { as_json_lines(&names, &rows)? } else { as_csv(&names, &rows) };
    match &arguments.output {
        None => print_result(&text),
        Some(path) => {
            // A pipe or a device is written to; only a file may be replaced.
            let is_special = path.exists() && !path.is_file();
            let written =
                if is_special { std::fs::write(path, &text) } else { write_atomically(path, text.as_bytes()) };
            written.with_context(|| format!("cannot write {}", path.display()))?;
            say(&format!("{} rows written to {}\n", rows.len(), path.display()));
            Ok(())
        }
    }
}

/// Images of the shape that a run was trained on: a batch of CIFAR-10 by its ending, else an idx file.
fn images(path: &Path, needed: Shape) -> anyhow::Result<Inputs> {
    let name = path.to_string_lossy();
    let (found, pixels) = if name.ends_with(".bin") || name.ends_with(".delta.zst") {
        let batch = read_cifar_batch(path)?;
        (batch.shape, batch.pixels)
    } else {
        let images = read_idx_images(path)?;
        (images.shape, images.pixels)
    };
    ensure!(
        found == needed,
        "{name} holds images of {found}, and the run was trained on images of {needed}\n  give images of that shape"
    );
    Ok(Inputs::Bytes(pixels.into()))
}

fn predictive_model(argument: ModelArgument) -> PredictiveModel {
    match argument {
        ModelArgument::Standard => PredictiveModel::Standard,
        ModelArgument::Tempered => PredictiveModel::Tempered,
    }
}

fn saved_model(run: &Path) -> anyhow::Result<SavedModel> {
    let path = run.join("model.json");
    if !path.exists() {
        let is_sweep = |command| command == RunCommand::Sweep;
        if stored_run(run).is_ok_and(|(record, _)| !is_sweep(record.command)) {
            bail!("{} was stopped before the end\n  go on with `{}`", run.display(), resume_command(run));
        }
        if run.join("experiment.toml").exists() {
            bail!(
                "{0} has no model.json: it is a sweep, or its run was stopped before the end\n  \
                 make one with `kelvin run {0}/experiment.toml`",
                run.display()
            );
        }
        bail!("{} is not a run folder of kelvin; name one that `kelvin run` wrote", run.display());
    }
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    model_from(&path, &bytes)
}

/// The model of a model.json; `path` stands for it in errors.
pub fn model_from(path: &Path, bytes: &[u8]) -> anyhow::Result<SavedModel> {
    let damaged = || format!("{} is damaged; run the experiment again", path.display());
    let model: SavedModel = serde_json::from_slice(bytes).with_context(damaged)?;
    check_parts(&model).with_context(damaged)?;
    Ok(model)
}

/// Refuses a model whose parts do not fit each other.
fn check_parts(model: &SavedModel) -> anyhow::Result<()> {
    let network = &model.network;
    let beta = model.inverse_temperature;
    ensure!(beta.is_finite() && beta > 0.0, "inverse_temperature must be a finite number > 0, got {beta}");
    let target = match &model.standardiser {
        Some(standardiser) => check_columns(model, standardiser)?,
        None => {
            let names = model.feature_names.len();
            ensure!(names == 0, "there are {names} feature_names, and no standardiser that says how to scale them");
            false
        }
    };
    let (needed, outputs) = (model.likelihood.num_outputs(), network.num_outputs());
    ensure!(needed == outputs, "the likelihood needs {needed} outputs and the network has {outputs}");
    match model.likelihood {
        Likelihood::Gaussian { noise_variance } => {
            let positive = noise_variance.is_finite() && noise_variance > 0.0;
            ensure!(positive, "noise_variance must be a finite number > 0, got {noise_variance}");
            ensure!(target, "a regression needs the scale of its target, and there is none");
        }
        Likelihood::Categorical { num_classes } => {
            let names = model.class_names.len();
            ensure!(names == num_classes, "there are {num_classes} classes and {names} class_names");
        }
    }
    Ok(())
}

/// Refuses columns and scales that do not fit the network; whether the target has a scale.
fn check_columns(model: &SavedModel, standardiser: &Standardiser) -> anyhow::Result<bool> {
    let (names, scales) = (model.feature_names.len(), standardiser.features.len());
    let inputs = model.network.num_inputs();
    ensure!(
        names == scales && scales == inputs,
        "{names} feature_names and {scales} scales cannot feed a network of {inputs} inputs"
    );
    for scale in standardiser.features.iter().chain(&standardiser.target) {
        let usable = scale.mean.is_finite() && scale.std.is_finite() && scale.std > 0.0;
        ensure!(usable, "a scale must have a finite mean and a std > 0, got {} and {}", scale.mean, scale.std);
    }
    Ok(standardiser.target.is_some())
}

/// Outputs of every draw at the new rows: one vector a draw.
fn outputs_of_draws(
    engine: &dyn Engine,
    run: &Path,
    model: &SavedModel,
    inputs: Inputs,
) -> anyhow::Result<Vec<Vec<f32>>> {
    let num_features = model.network.num_inputs();
    let num_rows = inputs.len() / num_features;
    // New rows have no answers yet.
    let targets = match model.likelihood {
        Likelihood::Gaussian { .. } => Targets::Real(vec![0.0; num_rows]),
        Likelihood::Categorical { .. } => Targets::Classes(vec![0; num_rows]),
    };
    let examples = Examples { inputs, num_features, targets };
    let held_out = HeldOut::new(&model.network, &examples);
    let mut outputs = Vec::new();
    for name in &model.draws {
        let draws = Draws::open(&run.join("draws").join(format!("{name}.safetensors")), &model.network)?;
        for_each_output(engine, &held_out, &draws, |output| {
            outputs.push(output);
            anyhow::Ok(())
        })?;
    }
    if outputs.is_empty() {
        bail!("{} holds no draws; run the experiment again", run.join("draws").display());
    }
    Ok(outputs)
}

type Lines = (Vec<String>, Vec<Vec<Value>>);

/// Mean, standard deviation and quantiles in the target's own units.
fn numbers(standardiser: &Standardiser, outputs: &[Vec<f32>], variance: f64) -> anyhow::Result<Lines> {
    let mut names = vec!["mean".to_owned(), "std".into()];
    names.extend(QUANTILES.iter().map(|(_, name)| (*name).to_owned()));
    let num_rows = outputs[0].len();
    let mut rows = Vec::with_capacity(num_rows);
    for row in 0..num_rows {
        let means: Vec<f32> = outputs.iter().map(|output| output[row]).collect();
        let mixture = GaussianMixture::new(&means, variance)?;
        let mut cells =
            vec![standardiser.target_value(mixture.mean()), standardiser.target_std(mixture.variance().sqrt())];
        for (probability, _) in QUANTILES {
            cells.push(standardiser.target_value(mixture.quantile(probability)?));
        }
        rows.push(cells.into_iter().map(Value::from).collect());
    }
    Ok((names, rows))
}

/// The most probable class and the probability of each.
fn classes(model: &SavedModel, outputs: &[Vec<f32>], num_classes: usize, power: f64) -> Lines {
    let mut names = vec!["class".to_owned()];
    names.extend(model.class_names.iter().map(|name| format!("p({name})")));
    let num_rows = outputs[0].len() / num_classes;
    let rows = (0..num_rows).map(|row| {
        let mut mean = vec![0.0; num_classes];
        for output in outputs {
            let logits = &output[row * num_classes..][..num_classes];
            let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            let weights: Vec<f64> = logits.iter().map(|&z| (power * f64::from(z - largest)).exp()).collect();
            let total: f64 = weights.iter().sum();
            mean.iter_mut().zip(&weights).for_each(|(mean, weight)| *mean += weight / total / outputs.len() as f64);
        }
        let best = (0..num_classes).max_by(|&a, &b| mean[a].total_cmp(&mean[b])).unwrap_or(0);
        let mut cells = vec![Value::from(model.class_names[best].as_str())];
        cells.extend(mean.into_iter().map(Value::from));
        cells
    });
    (names, rows.collect())
}

fn as_csv(names: &[String], rows: &[Vec<Value>]) -> String {
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let mut text = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
    text.push('\n');
    for row in rows {
        let cells = row.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), quoted));
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn as_json_lines(names: &[String], rows: &[Vec<Value>]) -> anyhow::Result<String> {
    let mut text = String::new();
    for row in rows {
        let object: Map<String, Value> = names.iter().cloned().zip(row.iter().cloned()).collect();
        text.push_str(&serde_json::to_string(&object)?);
        text.push('\n');
    }
    Ok(text)
}

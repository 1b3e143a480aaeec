//! `kelvin predict`: the predictive distribution of a run for new rows of a table or new images.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use kelvin::data::{Inputs, NewRows, Standardiser, read_cifar_batch, read_idx_images};
use kelvin::draws::Draws;
use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::network::Shape;
use kelvin::predictive::{NumberMixture, PredictiveModel};
use kelvin::write_file::{remove_leftovers, replace_with};
use serde_json::{Map, Value};

use crate::arguments::{ModelArgument, PredictArguments};
use crate::device;
use crate::input::{outside_training, read_table};
use crate::output::say;
use kelvin_study::csv_text::csv_text;
use kelvin_study::error::resume_command;
use kelvin_study::findings::{RowBlocks, RunCommand, outputs_of_draws};
use kelvin_study::folder::{SavedModel, check_keeps_to_itself, stored_run};

const QUANTILES: [(f64, &str); 3] = [(0.05, "q05"), (0.5, "q50"), (0.95, "q95")];

pub fn predict(arguments: &PredictArguments) -> anyhow::Result<()> {
    check_keeps_to_itself(&arguments.run)?;
    if let Some(output) = &arguments.output {
        remove_leftovers(output);
    }
    let model = saved_model(&arguments.run)?;
    let engine = device::for_predictions(arguments.device, &model.network)?;
    let inputs = match &model.standardiser {
        Some(standardiser) => {
            let table = read_table(&arguments.input)?;
            let rows = NewRows::read(&table, &model.feature_names, standardiser)?;
            say(&outside_training(&model, standardiser, &rows));
            rows.inputs(standardiser)?.into()
        }
        None => images(&arguments.input, model.network.input())?,
    };
    let draws = open_draws(&arguments.run, &model)?;
    let predictor = Predictor::new(&model, arguments.model)?;
    let blocks = RowBlocks::new(&model.network, model.likelihood, &inputs, draws.iter().map(Draws::len).sum());
    let num_rows = blocks.num_rows();
    let predict = |out: &mut dyn Write| -> anyhow::Result<()> {
        if !arguments.json {
            write_line(out, predictor.names.iter().cloned().map(Value::from))?;
        }
        for block in blocks {
            let rows =
                predictor.rows(&outputs_of_draws(&*engine, (&model.network, model.likelihood), &block, &draws)?)?;
            for row in rows {
                if arguments.json {
                    let object: Map<String, Value> = predictor.names.iter().cloned().zip(row).collect();
                    writeln!(out, "{}", serde_json::to_string(&object)?)?;
                } else {
                    write_line(out, row.into_iter())?;
                }
            }
        }
        Ok(())
    };
    match &arguments.output {
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let written = predict(&mut out).and_then(|()| Ok(out.flush()?));
            // A reader that went away (`| head`) is no failure.
            let is_closed = |error: &anyhow::Error| {
                error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
            };
            written.or_else(|error| if is_closed(&error) { Ok(()) } else { Err(error) })
        }
        Some(path) => {
            // A pipe or a device is written to; only a file may be replaced.
            let fill = |file: &mut std::fs::File| -> anyhow::Result<()> {
                let mut out = BufWriter::new(file);
                predict(&mut out)?;
                Ok(out.flush()?)
            };
            let is_special = path.exists() && !path.is_file();
            let written = if is_special {
                std::fs::File::options().write(true).open(path).map_err(Into::into).and_then(|mut file| fill(&mut file))
            } else {
                replace_with(path, fill)
            };
            written.with_context(|| format!("cannot write {}", path.display()))?;
            say(&format!(
                "{num_rows} rows written to {}
",
                path.display()
            ));
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
    model.likelihood.check_settings()?;
    match model.likelihood.kind() {
        TargetKind::Numbers => ensure!(target, "a regression needs the scale of its target, and there is none"),
        TargetKind::Classes { num_classes } => {
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
    let (columns, encoded) = match &standardiser.encoder {
        Some(encoder) => (encoder.columns.len(), encoder.num_inputs()),
        None => (names, names),
    };
    ensure!(
        names == columns && scales == encoded && scales == inputs,
        "{names} feature_names and {scales} scales cannot feed a network of {inputs} inputs"
    );
    let ranges = model.feature_ranges.as_ref().map_or(names, Vec::len);
    ensure!(ranges == names, "there are {names} feature_names and {ranges} feature_ranges");
    for scale in standardiser.features.iter().chain(&standardiser.target) {
        let usable = scale.mean.is_finite() && scale.std.is_finite() && scale.std > 0.0;
        ensure!(usable, "a scale must have a finite mean and a std > 0, got {} and {}", scale.mean, scale.std);
    }
    Ok(standardiser.target.is_some())
}

/// The draws of β̂*, whose weights stay in their files.
fn open_draws(run: &Path, model: &SavedModel) -> anyhow::Result<Vec<Draws>> {
    let folder = run.join("draws");
    let mut all = Vec::new();
    for name in &model.draws {
        all.push(Draws::open(&folder.join(format!("{name}.safetensors")), (&model.network, model.likelihood))?);
    }
    if all.iter().all(Draws::is_empty) {
        bail!(
            "{} holds no draws to predict with\n  run the experiment again, with sampler.draws = \"stored\"",
            folder.display()
        );
    }
    Ok(all)
}

/// From outputs to the columns that are printed.
struct Predictor<'m> {
    model: &'m SavedModel,
    names: Vec<String>,
    kind: Kind<'m>,
}

enum Kind<'m> {
    /// Mean, standard deviation and quantiles in the target's own units.
    Numbers { standardiser: &'m Standardiser, likelihood: Likelihood, power: f64 },
    /// The most probable class and the probability of each.
    Classes { num_classes: usize, power: f64 },
}

impl<'m> Predictor<'m> {
    fn new(model: &'m SavedModel, asked: Option<ModelArgument>) -> anyhow::Result<Self> {
        let asked = asked.map(PredictiveModel::from).or(model.predictive_model);
        let power = |default: PredictiveModel| asked.unwrap_or(default).power(model.inverse_temperature);
        let likelihood = model.likelihood;
        let (names, kind) = match likelihood.kind() {
            TargetKind::Numbers => {
                let standardiser = model.standardiser.as_ref().context("a regression needs the scale of its target")?;
                let quantiles = QUANTILES.iter().map(|(_, name)| (*name).to_owned());
                let power = power(PredictiveModel::Tempered);
                (
                    ["mean".into(), "std".into()].into_iter().chain(quantiles).collect(),
                    Kind::Numbers { standardiser, likelihood, power },
                )
            }
            TargetKind::Classes { num_classes } => {
                let classes = model.class_names.iter().map(|name| format!("p({name})"));
                let power = power(PredictiveModel::Standard);
                (std::iter::once("class".into()).chain(classes).collect(), Kind::Classes { num_classes, power })
            }
        };
        Ok(Self { model, names, kind })
    }

    /// The cells of each row.
    fn rows(&self, outputs: &[Vec<f32>]) -> anyhow::Result<Vec<Vec<Value>>> {
        let num_rows = outputs[0].len() / self.model.likelihood.num_values();
        (0..num_rows)
            .map(|row| match self.kind {
                Kind::Numbers { standardiser, likelihood, power } => {
                    let width = likelihood.num_values();
                    let of_row = outputs.iter().map(|output| &output[row * width..][..width]);
                    number_cells(standardiser, &NumberMixture::of(likelihood, of_row, power)?)
                }
                Kind::Classes { num_classes, power } => Ok(class_cells(self.model, outputs, num_classes, power, row)),
            })
            .collect()
    }
}

fn number_cells(standardiser: &Standardiser, mixture: &NumberMixture) -> anyhow::Result<Vec<Value>> {
    let mut cells = vec![standardiser.target_value(mixture.mean()), standardiser.target_std(mixture.variance().sqrt())];
    for (probability, _) in QUANTILES {
        cells.push(standardiser.target_value(mixture.quantile(probability)?));
    }
    Ok(cells.into_iter().map(Value::from).collect())
}

fn class_cells(model: &SavedModel, outputs: &[Vec<f32>], num_classes: usize, power: f64, row: usize) -> Vec<Value> {
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
}

/// A line of CSV.
fn write_line(out: &mut dyn Write, cells: impl Iterator<Item = Value>) -> std::io::Result<()> {
    let cells = cells.map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned));
    out.write_all(csv_text([cells]).as_bytes())
}

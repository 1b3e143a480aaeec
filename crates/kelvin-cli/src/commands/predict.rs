//! `kelvin predict`: the predictive distribution of a run for new rows of a table or new images.

use std::borrow::Cow;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use kelvin::data::{Inputs, NewRows, Standardiser, read_cifar_batch, read_idx_images};
use kelvin::draws::Draws;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Network, Shape, Weights};
use kelvin::write_file::{remove_leftovers, replace_with};
use serde_json::{Map, Value};

use super::predicted::{Columns, RowAnswers, are_outside};
use crate::arguments::{ModelArgument, PredictArguments};
use crate::device;
use crate::input::{outside_training, read_table};
use crate::output::{WrongFlags, say};
use kelvin_report::text::wrapped;
use kelvin_study::csv_text::csv_text;
use kelvin_study::error::resume_command;
use kelvin_study::findings::{RowBlocks, RunCommand, outputs_of_draws};
use kelvin_study::folder::{SavedForm, SavedModel, SavedPredictor, check_keeps_to_itself, linear_form, stored_run};

pub fn predict(arguments: &PredictArguments) -> anyhow::Result<()> {
    check_keeps_to_itself(&arguments.run)?;
    // As `--input -` is standard input.
    let output = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    if let Some(output) = output {
        remove_leftovers(output);
    }
    if let Some(wrong) = arguments.quantiles.iter().find(|&&p| !(p > 0.0 && p < 1.0)) {
        return Err(WrongFlags(format!("--quantiles must lie between 0 and 1, got {wrong}")).into());
    }
    let model = saved_model(&arguments.run)?;
    let predictor = asked_predictor(&model, arguments.model)?;
    let fit = Fit::of(&model, &predictor)?;
    let engine = device::for_predictions(arguments.device, &fit.network)?;
    let draws = fit.draws(&arguments.run, &predictor)?;
    say(&wrapped(&format!("predicting with {}", described(&model, &predictor)), "  "));
    let (inputs, outside, answers): (Inputs, Vec<bool>, Option<RowAnswers>) = match fit.standardiser {
        Some(standardiser) => {
            let table = read_table(&arguments.input)?;
            let rows = NewRows::read(&table, &model.feature_names, standardiser)?;
            say(&outside_training(fit.ranges, standardiser, &rows));
            let answers = RowAnswers::of(&table, &model);
            (rows.inputs(standardiser)?.into(), are_outside(fit.ranges, standardiser, &rows), answers)
        }
        None => (images(&arguments.input, fit.network.input())?, Vec::new(), None),
    };
    let mut columns = Columns::new(&model, fit.likelihood, fit.standardiser, &arguments.quantiles, answers);
    let num_draws = draws.iter().map(|(draws, _)| draws.len()).sum();
    let blocks = RowBlocks::new(&fit.network, fit.likelihood, &inputs, num_draws);
    let num_rows = blocks.num_rows();
    let predict = |out: &mut dyn Write| -> anyhow::Result<()> {
        if !arguments.json {
            write_line(out, columns.names.iter().cloned().map(Value::from))?;
        }
        let mut first = 0;
        for block in blocks {
            let mut outputs = Vec::new();
            for (draws, power) in &draws {
                let of_draws = outputs_of_draws(&*engine, (&*fit.network, fit.likelihood), &block, [draws])?;
                outputs.extend(of_draws.into_iter().map(|values| (values, *power)));
            }
            let rows = columns.rows(first, &outputs, &outside)?;
            first += rows.len();
            for row in rows {
                if arguments.json {
                    let object: Map<String, Value> = columns.names.iter().cloned().zip(row).collect();
                    writeln!(out, "{}", serde_json::to_string(&object)?)?;
                } else {
                    write_line(out, row.into_iter())?;
                }
            }
        }
        Ok(())
    };
    match output {
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let written = predict(&mut out).and_then(|()| Ok(out.flush()?));
            // A reader that went away (`| head`) is no failure.
            let is_closed = |error: &anyhow::Error| {
                error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
            };
            written.or_else(|error| if is_closed(&error) { Ok(()) } else { Err(error) })?;
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
            say(&format!("{num_rows} rows written to {}\n", path.display()));
        }
    }
    if let Some(summary) = columns.summary(&model.target_names) {
        say(&wrapped(&summary, "  "));
    }
    Ok(())
}

/// The model that was asked for, or the one that the run chose.
fn asked_predictor(model: &SavedModel, asked: Option<ModelArgument>) -> anyhow::Result<SavedPredictor> {
    let all = model.all_predictors();
    let found = match asked {
        None => all.first(),
        Some(asked) => all.iter().find(|predictor| asked.means(&predictor.what)),
    };
    let labels = || all.iter().map(|predictor| predictor.what.label.as_str()).collect::<Vec<_>>().join(", ");
    found.cloned().ok_or_else(|| {
        let asked = asked.map_or("model".into(), |asked| format!("{asked:?} model").to_lowercase());
        WrongFlags(format!("this run has no {asked} to predict with\n  it has: {}", labels())).into()
    })
}

/// A model in words, with what it learned from.
fn described(model: &SavedModel, predictor: &SavedPredictor) -> String {
    let learned = match (predictor.num_rows, predictor.on_all_rows) {
        (0, _) => String::new(),
        (rows, true) => format!(", learned from all {rows} rows of the table"),
        (rows, false) => format!(", learned from {rows} training rows"),
    };
    let chose = if model.predictors.first().is_some_and(|first| first.what == predictor.what) {
        "; it scored best on held-out rows, or as well as the best and is simpler"
    } else {
        ""
    };
    format!("{}{learned}{chose}", predictor.what.label)
}

/// The network of a predictor, and how it reads rows.
struct Fit<'m> {
    network: Cow<'m, Network>,
    likelihood: Likelihood,
    standardiser: Option<&'m Standardiser>,
    ranges: &'m [(f64, f64)],
}

impl<'m> Fit<'m> {
    fn of(model: &'m SavedModel, predictor: &SavedPredictor) -> anyhow::Result<Self> {
        let (network, standardiser, ranges) = match model.all_rows.as_ref().filter(|_| predictor.on_all_rows) {
            Some(rows) => (&rows.network, Some(&rows.standardiser), &rows.feature_ranges[..]),
            None => (&model.network, model.standardiser.as_ref(), model.feature_ranges.as_deref().unwrap_or_default()),
        };
        let (network, likelihood) = match &predictor.form {
            SavedForm::Draws(_) => (Cow::Borrowed(network), model.likelihood),
            SavedForm::Linear { weights, noise_variances } => {
                let (likelihood, _) = linear_form(model.likelihood.kind(), weights, noise_variances);
                (Cow::Owned(Network::dense(network.num_inputs(), &[], likelihood.num_outputs())?), likelihood)
            }
        };
        Ok(Self { network, likelihood, standardiser, ranges })
    }

    /// The draws of a predictor with the power of each file; their weights stay in their files.
    fn draws(&self, run: &Path, predictor: &SavedPredictor) -> anyhow::Result<Vec<(Draws, f64)>> {
        let files = match &predictor.form {
            SavedForm::Draws(files) => files,
            SavedForm::Linear { weights, noise_variances } => {
                let (_, parameters) = linear_form(self.likelihood.kind(), weights, noise_variances);
                return Ok(vec![(Draws::of_point(Weights { parameters: &parameters, statistics: &[] }), 1.0)]);
            }
        };
        let folder = run.join("draws");
        let mut all = Vec::new();
        for file in files {
            let path = folder.join(format!("{}.safetensors", file.file));
            all.push((Draws::open(&path, (&*self.network, self.likelihood))?, file.power));
        }
        if all.iter().all(|(draws, _)| draws.is_empty()) {
            bail!(
                "{} holds no draws to predict with\n  run the experiment again, with sampler.draws = \"stored\"",
                folder.display()
            );
        }
        Ok(all)
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
    Ok(SavedModel::from_json(&path, &bytes)?)
}

/// A line of CSV.
fn write_line(out: &mut dyn Write, cells: impl Iterator<Item = Value>) -> std::io::Result<()> {
    let cells = cells.map(|cell| match cell {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    });
    out.write_all(csv_text([cells]).as_bytes())
}

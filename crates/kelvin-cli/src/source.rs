//! From arguments to settings and rows: a preset, an experiment.toml, or the user's own table.

use std::path::Path;
use std::time::Duration;

use kelvin::data::{Dataset, Split, Table, Task};
use kelvin_study::experiment::{
    after_a_trial, choosing_hidden, learning_scales, provisional_settings, suitable_likelihoods,
};
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::settings::{DataSettings, LikelihoodName, RunSettings, Settings, TaskSetting, preset, with_override};
use kelvin_study::study::{Cost, Worker, Workload};

use crate::arguments::{
    Budget, CommonArguments, DeviceArgument, Hidden, LikelihoodArgument, SamplerArgument, SourceArguments, TaskArgument,
};
use crate::device;
use crate::output::{WrongFlags, say};
use crate::setting_names::with_names_in_order;
use kelvin_report::text::{few_names, wrapped};

/// Costs below so many seconds are not told.
const WORTH_TELLING: f64 = 60.0;

/// What an experiment starts from.
pub struct Source {
    pub settings: Settings,
    pub data: SourceData,
    /// Whether step sizes were derived from the table and want a pilot.
    pub automatic: bool,
    /// The time that sampling may take, to be turned into gradients.
    pub time: Option<Duration>,
}

/// How a run is to be sampled and judged.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    pub sampler: Option<SamplerArgument>,
    pub likelihood: Option<LikelihoodArgument>,
    pub hidden: Option<Hidden>,
    pub folds: Option<u32>,
    pub splits: Option<u32>,
    pub budget: Option<Budget>,
    pub exact: bool,
}

/// Reads settings and rows of a sweep or a selection, which sample as the settings say.
pub fn read(source: &SourceArguments, common: &CommonArguments, work: &Workload) -> anyhow::Result<Source> {
    read_for(source, common, &Sampling { sampler: Some(SamplerArgument::Paper), ..Sampling::default() }, work)
}

/// Reads settings and rows, and tells or refuses what the work would cost before anything long is begun. `--seed`, then `--sampler`, `--quick`,
/// `--folds` and `--budget`, then `--set` have the last word; what `--set` says of the data is heard before they are read.
pub fn read_for(
    source: &SourceArguments,
    common: &CommonArguments,
    sampling: &Sampling,
    work: &Workload,
) -> anyhow::Result<Source> {
    let seed = common.seed.unwrap_or(RunSettings::default().seed);
    let adjusted = |settings: Settings, data: &SourceData| adjusted(settings, data, source, common, sampling);
    let (settings, time, data, automatic) = match (&source.experiment, &source.data) {
        (Some(name), _) => {
            let mut settings = named(name)?;
            if common.seed.is_some() {
                settings.run.seed = seed;
            }
            settings = with_hidden(settings, sampling)?;
            // A friction is for the chains that `adjusted` lets adapt.
            let is_friction = |text: &&String| text.trim_start().starts_with("sampler.friction");
            let others: Vec<String> = common.overrides.iter().filter(|text| !is_friction(text)).cloned().collect();
            settings = with_overrides(settings, &others)?;
            settings.model.likelihood = match sampling.likelihood {
                Some(LikelihoodArgument::Auto) => {
                    let reason =
                        "`--likelihood auto` is for your own table (--data); name a likelihood, or leave it out";
                    return Err(WrongFlags(reason.into()).into());
                }
                asked => asked.and_then(LikelihoodArgument::name).or(settings.model.likelihood),
            };
            settings.check()?;
            let data = Problem::read_dataset(&settings, common.conduct.data_dir.as_deref())?;
            let (settings, time) = adjusted(settings, &data)?;
            price(work, &settings, &data, common, false)?;
            (settings, time, data, false)
        }
        (None, Some(file)) => {
            refuse_overrides_of_the_table(&common.overrides)?;
            let (provisional, dataset) = own_table(file, source, seed)?;
            let learned = learned_likelihoods(source, common, &provisional, &dataset, sampling)?;
            let has_trial = dataset.task() == Task::Regression && learned.is_none();
            let provisional = match &learned {
                Some(likelihoods) => learning_scales(provisional, likelihoods),
                None => provisional,
            };
            let provisional = with_hidden(provisional, sampling)?;
            let data = SourceData::Table(dataset);
            price(work, &adjusted(provisional.clone(), &data)?.0, &data, common, has_trial)?;
            let settings = match &data {
                SourceData::Table(dataset) if has_trial => with_hidden(after_a_trial(provisional, dataset), sampling)?,
                _ => provisional,
            };
            let (settings, time) = adjusted(settings, &data)?;
            // A rate that was asked for is not tuned.
            let rate_is_given = common.overrides.iter().any(|text| text.trim().starts_with("sampler.learning_rate"));
            (settings, time, data, !rate_is_given)
        }
        (None, None) => anyhow::bail!("name a preset (see `kelvin presets`) or give --data FILE.csv --target COLUMN"),
    };
    let automatic = automatic && !settings.sampler.adapt;
    if let SourceData::Table(dataset) = &data {
        for note in table_notes(dataset) {
            say(&wrapped(&format!("note: {note}"), "  "));
        }
    }
    Ok(Source { settings, data, automatic, time })
}

/// What a person should know of how a table was read: what was left out, and what was decided that may be wrong.
pub fn table_notes(dataset: &Dataset) -> Vec<String> {
    let mut notes = Vec::new();
    if !dataset.dropped_constant.is_empty() {
        notes.push(format!("left out, since the same in every row: {}", few_names(&dataset.dropped_constant)));
    }
    if !dataset.left_out.is_empty() {
        let told: Vec<String> =
            dataset.left_out.iter().map(|left| format!("`{}` {}", left.column, left.reason)).collect();
        notes.push(format!("left out: {} (`--column NAME=KIND` keeps one)", few_names(&told)));
    }
    notes.extend(dataset.notes.iter().cloned());
    notes
}

/// Likelihoods for a run on one's own table to choose among, none of classes, where scales and noise are to be learned. Not where the noise is to be given:
/// by `--likelihood gaussian` or a setting of the model, or with chains of the paper's sampler and no likelihood named.
fn learned_likelihoods(
    source: &SourceArguments,
    common: &CommonArguments,
    provisional: &Settings,
    dataset: &Dataset,
    sampling: &Sampling,
) -> anyhow::Result<Option<Vec<LikelihoodName>>> {
    let suitable = suitable_likelihoods(dataset, provisional.data.task);
    if let (Some(_), true) = (sampling.likelihood, suitable.is_empty()) {
        let reason =
            "`--likelihood` is for numbers, and the target holds classes; leave it out, or give `--task regression`";
        return Err(WrongFlags(reason.into()).into());
    }
    let is_adaptive = is_adaptive(source, common, true, sampling.sampler);
    let keys = || common.overrides.iter().map(|text| text.split('=').next().unwrap_or_default().trim());
    let is_given = keys().any(|key| ["model.likelihood", "model.noise_variance", "model.prior"].contains(&key));
    match (sampling.likelihood, sampling.likelihood.and_then(LikelihoodArgument::name)) {
        (_, Some(LikelihoodName::Gaussian)) => Ok(None),
        (_, Some(name)) => Ok(Some(vec![name])),
        (Some(_), None) if !is_adaptive => {
            let reason = "`--likelihood auto` goes with adaptive chains; name a likelihood, or leave out --sampler and settings of the sampler";
            Err(WrongFlags(reason.into()).into())
        }
        (None, None) if !is_adaptive || is_given => Ok(None),
        _ => Ok(Some(suitable)),
    }
}

/// The hidden layers that are asked for.
fn with_hidden(mut settings: Settings, sampling: &Sampling) -> anyhow::Result<Settings> {
    match &sampling.hidden {
        None => {}
        Some(Hidden::Auto) => settings = choosing_hidden(settings),
        Some(Hidden::Widths(widths)) => settings.model.hidden = Some(widths.clone()),
    }
    settings.check()?;
    Ok(settings)
}

/// The settings as flags and `--set` change them, and the time that sampling may take.
fn adjusted(
    mut settings: Settings,
    data: &SourceData,
    source: &SourceArguments,
    common: &CommonArguments,
    sampling: &Sampling,
) -> anyhow::Result<(Settings, Option<Duration>)> {
    let is_adaptive = is_adaptive(source, common, matches!(data, SourceData::Table(_)), sampling.sampler);
    if sampling.hidden == Some(Hidden::Auto) && !is_adaptive {
        let reason = "`--hidden auto` goes with adaptive chains on a table; give widths, or leave out --sampler and settings of the sampler";
        return Err(WrongFlags(reason.into()).into());
    }
    if is_adaptive && let SourceData::Table(dataset) = data {
        let num_parameters = data.network(&settings)?.layout().len();
        settings = settings.adaptive(dataset.num_rows(), num_parameters);
    }
    if source.quick {
        let num_train = num_train(&settings, data);
        settings = match data {
            SourceData::Table(_) if is_adaptive => settings.quick_adaptive(num_train),
            SourceData::Table(_) => {
                let steps = settings.sampler.batch_size.rows().map_or(1, |rows| (num_train / rows.max(1)).max(1));
                settings.quick(steps as u64)
            }
            SourceData::Images { images, .. } => {
                settings.quick_images([images.train.len(), images.validation.len(), images.test.len()])
            }
        };
    }
    if is_adaptive && let SourceData::Images { .. } = data {
        settings = settings.adaptive_images();
    }
    let time = judge(&mut settings, data, sampling)?;
    settings = with_overrides(settings, &common.overrides)?;
    settings.check()?;
    if let (SourceData::Table(dataset), Some(folds)) = (data, settings.run.folds) {
        // Refused before anything is written where there are too few rows.
        Split::folds(dataset.num_rows(), settings.run.seed, folds as usize)?;
    }
    Ok((settings, time))
}

/// Says what all of it would cost where that is long, and refuses what is beyond `run.most_hours`.
fn price(
    work: &Workload,
    settings: &Settings,
    data: &SourceData,
    common: &CommonArguments,
    has_trial: bool,
) -> anyhow::Result<()> {
    let (cost, most_hours) = (Cost::of(work, settings, data, has_trial)?, settings.run.most_hours);
    let conduct = &common.conduct;
    let mut worker = Worker::Cores(rayon::current_num_threads());
    // A GPU is looked for only where it makes a difference.
    let is_long = cost.seconds(worker) > WORTH_TELLING || cost.check(worker, most_hours).is_err();
    if is_long && conduct.device.device == DeviceArgument::Cuda {
        // Asked for by name it is there, or the study fails where it runs: a machine without one may prepare it.
        worker = Worker::Gpu;
    } else if is_long && device::open(conduct.device, true).is_ok_and(|engine| engine.moves_chains_together()) {
        worker = Worker::Gpu;
    }
    cost.check(worker, most_hours)?;
    if cost.seconds(worker) > WORTH_TELLING && !conduct.quiet && !conduct.json {
        say(&wrapped(&format!("note: {}", cost.told(worker)), "  "));
    }
    Ok(())
}

/// Whether chains are to adapt: those of images where it is asked for, those of presets and own tables unless something else is asked for, or a setting of the sampler is given,
/// which then means the sampler that it is a setting of.
fn is_adaptive(
    source: &SourceArguments,
    common: &CommonArguments,
    is_table: bool,
    asked: Option<SamplerArgument>,
) -> bool {
    match asked {
        Some(SamplerArgument::Paper) => false,
        Some(SamplerArgument::Adaptive) => true,
        None => {
            let of_sampler = |text: &&String| {
                let key = text.split('=').next().unwrap_or_default().trim();
                key.starts_with("sampler.") && !["sampler.draws", "sampler.friction"].contains(&key)
            };
            let is_file = source.experiment.as_ref().is_some_and(|name| name.ends_with(".toml"));
            is_table && !is_file && !common.overrides.iter().any(|text| of_sampler(&text))
        }
    }
}

/// Sets folds and budget as asked; the time that sampling may take, where it was asked for as such.
fn judge(settings: &mut Settings, data: &SourceData, asked: &Sampling) -> anyhow::Result<Option<Duration>> {
    let flags = [
        ("--folds", asked.folds.is_some_and(|folds| folds > 0)),
        ("--splits", asked.splits.is_some()),
        ("--exact", asked.exact),
    ];
    if let (SourceData::Images { .. }, Some((flag, _))) = (data, flags.iter().find(|(_, given)| *given)) {
        return Err(WrongFlags(format!("`{flag}` is for tables: images have their own test set; leave it out")).into());
    }
    match (asked.folds, asked.splits) {
        (Some(1), _) => {
            return Err(
                WrongFlags("`--folds 1` leaves nothing to learn from; give 2 or more, or 0 for none".into()).into()
            );
        }
        (Some(folds), _) => (settings.run.folds, settings.run.splits) = (Some(folds).filter(|&folds| folds > 0), None),
        (None, Some(splits)) => (settings.run.folds, settings.run.splits) = (None, Some(splits)),
        (None, None) => {}
    }
    settings.run.exact |= asked.exact;
    let Some(budget) = asked.budget else { return Ok(None) };
    if settings.stopping.is_none() || matches!(data, SourceData::Images { .. }) {
        let reason = match data {
            SourceData::Table(_) => {
                "chains have a fixed length here (sampler.epochs); give it with `--set`, or sample with `--sampler adaptive`"
            }
            SourceData::Images { .. } => {
                "chains of images are at most as long as sampler.epochs says; give that with `--set`"
            }
        };
        return Err(WrongFlags(format!("--budget does not apply: {reason}")).into());
    }
    match budget {
        Budget::Gradients(gradients) => {
            *settings = settings.clone().with_budget(gradients, num_train(settings, data));
            Ok(None)
        }
        Budget::Time(time) => Ok(Some(time)),
    }
}

/// How many rows chains learn from.
fn num_train(settings: &Settings, data: &SourceData) -> usize {
    match data {
        SourceData::Table(dataset) => dataset.num_rows() * 4 / 5,
        SourceData::Images { images, .. } => {
            let there = images.train.len();
            settings.data.train_images.map_or(there, |asked| asked.min(there))
        }
    }
}

/// What names a network comes first, whatever the order: the settings of the one it takes the place of go with that.
fn with_overrides(mut settings: Settings, overrides: &[String]) -> anyhow::Result<Settings> {
    let mut in_order: Vec<&String> = overrides.iter().collect();
    in_order.sort_by_key(|text| match text.split('=').next().unwrap_or_default().trim() {
        "model.network" | "model.layers" => 0,
        "model.normalisation" => 1,
        _ => 2,
    });
    for text in in_order {
        settings = with_override(&settings, text).map_err(with_names_in_order)?;
    }
    Ok(settings)
}

/// With `--data` the table and the seed have flags of their own, and settings are derived from them.
fn refuse_overrides_of_the_table(overrides: &[String]) -> anyhow::Result<()> {
    for text in overrides {
        if text.trim().starts_with("data.") {
            let use_flags = "use --target, --drop, --column and --task";
            return Err(WrongFlags(format!("`--set {text}` does not go with --data; {use_flags}")).into());
        }
        if text.trim().starts_with("run.seed") {
            return Err(WrongFlags(format!("`--set {text}` does not go with --data; use --seed")).into());
        }
    }
    Ok(())
}

/// Settings of a preset or of an experiment.toml.
pub fn named(name: &str) -> anyhow::Result<Settings> {
    if !name.ends_with(".toml") {
        return Ok(preset(name)?.settings());
    }
    let bytes = std::fs::read(name).map_err(|error| {
        WrongFlags(format!(
            "cannot read the experiment {name}: {error}\n  name a file of settings, or a preset; `kelvin presets` lists them and \
             `kelvin presets NAME` prints one to begin with"
        ))
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let (line, at) =
            (1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count(), error.valid_up_to());
        WrongFlags(format!("{name}, line {line}, byte {at}: this is not UTF-8 text\n  save it as UTF-8"))
    })?;
    Ok(Settings::from_toml(text, name)?)
}

fn own_table(file: &Path, source: &SourceArguments, seed: u64) -> anyhow::Result<(Settings, Dataset)> {
    let data = DataSettings {
        source: file.display().to_string(),
        target: source.target.clone().into(),
        drop: source.drop.clone(),
        task: match source.task {
            None => TaskSetting::Auto,
            Some(TaskArgument::Regression) => TaskSetting::Regression,
            Some(TaskArgument::Classification) => TaskSetting::Classification,
            Some(TaskArgument::Counts) => TaskSetting::Counts,
        },
        columns: source.column.iter().cloned().collect(),
        ..DataSettings::default()
    };
    let table = Table::read(file)?;
    let dataset = Dataset::with_roles(&table, &data.roles())?;
    let name = file.file_stem().map_or("table".into(), |stem| stem.to_string_lossy().into_owned());
    let run = RunSettings { seed, all_rows: true, ..RunSettings::default() };
    Ok((provisional_settings(&name, data, &dataset, run), dataset))
}

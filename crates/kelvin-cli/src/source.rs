//! From arguments to settings and rows: a preset, an experiment.toml, or the user's own table.

use std::path::Path;

use kelvin::data::{Dataset, Table, Task};
use kelvin_study::experiment::{after_a_trial, provisional_settings};
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::settings::{DataSettings, RunSettings, Settings, TaskSetting, preset, with_override};
use kelvin_study::study::{Asked, Cost, Worker};

use crate::arguments::{CommonArguments, SourceArguments, TaskArgument};
use crate::device;
use crate::output::{WrongFlags, say};
use crate::setting_names::with_names_in_order;
use kelvin_report::text::{few_names, wrapped};

/// What an experiment starts from.
pub struct Source {
    pub settings: Settings,
    pub data: SourceData,
    /// Whether step sizes were derived from the table and want a pilot.
    pub automatic: bool,
}

/// Costs below so many seconds are not told.
const WORTH_TELLING: f64 = 60.0;

/// Reads settings and rows, and tells or refuses what they would cost before anything long is begun. `--seed`, then `--quick`, then
/// `--set` have the last word; what `--set` says of the data is heard before they are read.
pub fn read(source: &SourceArguments, common: &CommonArguments, asked: &Asked) -> anyhow::Result<Source> {
    let seed = common.seed.unwrap_or(RunSettings::default().seed);
    let (settings, data, automatic) = match (&source.experiment, &source.data) {
        (Some(name), _) => {
            let mut settings = named(name)?;
            if common.seed.is_some() {
                settings.run.seed = seed;
            }
            settings = with_overrides(settings, &common.overrides)?;
            settings.check()?;
            let data = Problem::read_dataset(&settings, common.conduct.data_dir.as_deref())?;
            let settings = adjusted(settings, &data, source, common)?;
            price(asked, &settings, &data, common, false)?;
            (settings, data, false)
        }
        (None, Some(file)) => {
            refuse_overrides_of_the_table(&common.overrides)?;
            let (provisional, dataset) = own_table(file, source, seed)?;
            let has_trial = dataset.task() == Task::Regression;
            let data = SourceData::Table(dataset);
            price(asked, &adjusted(provisional.clone(), &data, source, common)?, &data, common, has_trial)?;
            let settings = match &data {
                SourceData::Table(dataset) => after_a_trial(provisional, dataset),
                SourceData::Images { .. } => provisional,
            };
            let settings = adjusted(settings, &data, source, common)?;
            // A rate that was asked for is not tuned.
            let rate_is_given = common.overrides.iter().any(|text| text.trim().starts_with("sampler.learning_rate"));
            (settings, data, !rate_is_given)
        }
        (None, None) => anyhow::bail!("name a preset (see `kelvin presets`) or give --data FILE.csv --target COLUMN"),
    };
    if let SourceData::Table(dataset) = &data
        && !dataset.dropped_constant.is_empty()
    {
        let columns = few_names(&dataset.dropped_constant);
        say(&wrapped(&format!("note: left out, since the same in every row: {columns}"), "  "));
    }
    Ok(Source { settings, data, automatic })
}

/// The settings as `--quick` and `--set` change them.
fn adjusted(
    mut settings: Settings,
    data: &SourceData,
    source: &SourceArguments,
    common: &CommonArguments,
) -> anyhow::Result<Settings> {
    if source.quick {
        settings = match data {
            SourceData::Table(dataset) => {
                let num_train = dataset.num_rows() * 4 / 5;
                let steps = settings.sampler.batch_size.rows().map_or(1, |rows| (num_train / rows.max(1)).max(1));
                settings.quick(steps as u64)
            }
            SourceData::Images { images, .. } => {
                settings.quick_images([images.train.len(), images.validation.len(), images.test.len()])
            }
        };
    }
    settings = with_overrides(settings, &common.overrides)?;
    settings.check()?;
    Ok(settings)
}

/// Says what all of it would cost where that is long, and refuses what is beyond `run.most_hours`.
fn price(
    asked: &Asked,
    settings: &Settings,
    data: &SourceData,
    common: &CommonArguments,
    has_trial: bool,
) -> anyhow::Result<()> {
    let (cost, most_hours) = (Cost::of(asked, settings, data, has_trial)?, settings.run.most_hours);
    let conduct = &common.conduct;
    let mut worker = Worker::Cores(rayon::current_num_threads());
    // A GPU is looked for only where it makes a difference.
    let is_long = cost.seconds(worker) > WORTH_TELLING || cost.check(worker, most_hours).is_err();
    if is_long && device::open(conduct.device, true).is_ok_and(|engine| engine.moves_chains_together()) {
        worker = Worker::Gpu;
    }
    cost.check(worker, most_hours)?;
    if cost.seconds(worker) > WORTH_TELLING && !conduct.quiet && !conduct.json {
        say(&wrapped(&format!("note: {}", cost.told(worker)), "  "));
    }
    Ok(())
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
            let use_flags = "use --target, --drop and --task";
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
        target: source.target.clone().unwrap_or_default(),
        drop: source.drop.clone(),
        task: match source.task {
            None => TaskSetting::Auto,
            Some(TaskArgument::Regression) => TaskSetting::Regression,
            Some(TaskArgument::Classification) => TaskSetting::Classification,
        },
        ..DataSettings::default()
    };
    let table = Table::read(file)?;
    let dataset = Dataset::from_table(&table, &data.target, &data.drop, data.task.task())?;
    let name = file.file_stem().map_or("table".into(), |stem| stem.to_string_lossy().into_owned());
    let run = RunSettings { seed, ..RunSettings::default() };
    Ok((provisional_settings(&name, data, &dataset, run), dataset))
}

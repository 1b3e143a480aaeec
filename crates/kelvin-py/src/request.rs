//! From what is asked for in Python to settings, as `kelvin run` derives them from its flags.

use std::path::Path;
use std::time::Duration;

use kelvin::data::{Dataset, Split, Task};
use kelvin_study::experiment::{
    after_a_trial, choosing_hidden, learning_scales, provisional_settings, suitable_likelihoods,
};
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::settings::{DataSettings, LikelihoodName, RunSettings, Settings, TaskSetting, preset, with_override};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::table::NAME;

/// How rows are to be learned from.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Request {
    /// Names all random numbers; the settings' own if not given.
    seed: Option<u64>,
    /// `"adaptive"` or `"paper"`; by the size of the table if not given.
    sampler: Option<String>,
    /// How numbers scatter: a likelihood's name, or `"auto"`; by the sampler and the settings if not given.
    likelihood: Option<String>,
    /// Whether hidden layers are to be chosen by short chains.
    choose_hidden: bool,
    /// A rough answer in seconds.
    quick: bool,
    /// Cross-validation, 0 for none; the settings' own if not given.
    folds: Option<u32>,
    /// The most gradients at each temperature.
    gradients: Option<u64>,
    /// The time that sampling may take.
    seconds: Option<f64>,
    /// Settings by name: `model.hidden=[64]`.
    overrides: Vec<String>,
}

/// Settings, and what else a run on one's own table needs to know.
pub struct Prepared {
    /// The settings.
    pub settings: Settings,
    /// Whether step sizes were derived from the table and want a pilot.
    pub automatic: bool,
    /// The time that sampling may take, to be turned into gradients.
    pub time: Option<Duration>,
}

impl Request {
    /// The settings for a data set.
    pub fn prepare(&self, dataset: &Dataset) -> Result<Prepared, Failure> {
        if let Some(text) =
            self.overrides.iter().find(|text| text.trim().starts_with("data.") || text.trim().starts_with("run.seed"))
        {
            return Err(Failure::question(format!(
                "`{text}` cannot be set here: rows are arguments of fit, and the seed is random_state"
            )));
        }
        let task = match dataset.task() {
            Task::Regression => TaskSetting::Regression,
            Task::Classification => TaskSetting::Classification,
        };
        let target = dataset.target_names.clone();
        let data = DataSettings { source: NAME.into(), target, task, ..DataSettings::default() };
        let run = RunSettings { seed: self.seed.unwrap_or_default(), all_rows: true, ..RunSettings::default() };
        let provisional = provisional_settings("table", data, dataset, run);
        let data = SourceData::Table(dataset.clone());
        let learned = self.learned_likelihoods(&provisional, &data, dataset)?;
        let has_trial = dataset.task() == Task::Regression && learned.is_none();
        let provisional = match &learned {
            Some(likelihoods) => learning_scales(provisional, likelihoods),
            None => provisional,
        };
        let with_hidden = |settings| if self.choose_hidden { choosing_hidden(settings) } else { settings };
        let provisional = with_hidden(provisional);
        // Refused before the trial, which takes a moment.
        self.adjusted(provisional.clone(), &data, false)?;
        let settings = if has_trial { with_hidden(after_a_trial(provisional, dataset)) } else { provisional };
        let settings = self.adjusted(settings, &data, false)?;
        // A rate that was asked for is not tuned.
        let rate_is_given = self.overrides.iter().any(|text| text.trim().starts_with("sampler.learning_rate"));
        let automatic = !rate_is_given && !settings.sampler.adapt;
        Ok(Prepared { settings, automatic, time: self.time() })
    }

    /// The settings of a preset, or of a file of settings, and the data that they name.
    pub fn prepare_named(&self, name: &str, data_folder: Option<&Path>) -> Result<(Prepared, SourceData), Failure> {
        let is_file = name.ends_with(".toml");
        let mut settings = if is_file { read(name)? } else { preset(name)?.settings() };
        settings.run.seed = self.seed.unwrap_or(settings.run.seed);
        settings = with_overrides(settings, &self.overrides)?;
        settings.check()?;
        let data = Problem::read_dataset(&settings, data_folder)?;
        let settings = self.adjusted(settings, &data, is_file)?;
        Ok((Prepared { settings, automatic: false, time: self.time() }, data))
    }

    /// Likelihoods for the run to choose among, none of classes, where scales and noise are to be learned; as `kelvin run --data` has it.
    fn learned_likelihoods(
        &self,
        provisional: &Settings,
        data: &SourceData,
        dataset: &Dataset,
    ) -> Result<Option<Vec<LikelihoodName>>, Failure> {
        let suitable = suitable_likelihoods(dataset, provisional.data.task);
        if self.likelihood.is_some() && suitable.is_empty() {
            return Err(Failure::question("likelihood is for numbers, and the target holds classes; leave it out"));
        }
        let is_adaptive = self.is_adaptive(data, false)?;
        let mut keys = self.overrides.iter().map(|text| text.split('=').next().unwrap_or_default().trim());
        let is_given = keys.any(|key| ["model.likelihood", "model.noise_variance", "model.prior"].contains(&key));
        match self.likelihood.as_deref() {
            None if !is_adaptive || is_given => Ok(None),
            Some("auto") if !is_adaptive => Err(Failure::question(
                "likelihood=\"auto\" goes with adaptive chains; name a likelihood, or leave out the sampler and its settings",
            )),
            None | Some("auto") => Ok(Some(suitable)),
            Some(name) => {
                let asked = with_override(provisional, &format!("model.likelihood={name}"))?.model.likelihood;
                Ok(asked.filter(|asked| *asked != LikelihoodName::Gaussian).map(|asked| vec![asked]))
            }
        }
    }

    fn time(&self) -> Option<Duration> {
        self.seconds.map(Duration::from_secs_f64)
    }

    fn adjusted(&self, mut settings: Settings, data: &SourceData, is_file: bool) -> Result<Settings, Failure> {
        let is_adaptive = self.is_adaptive(data, is_file)?;
        if self.choose_hidden && !is_adaptive {
            return Err(Failure::question(
                "hidden=\"auto\" goes with adaptive chains; give widths, or leave out the sampler and its settings",
            ));
        }
        let num_train = match data {
            SourceData::Table(dataset) => dataset.num_rows() * 4 / 5,
            SourceData::Images { images, .. } => images.train.len(),
        };
        match data {
            SourceData::Table(dataset) => {
                if is_adaptive {
                    let num_parameters = data.network(&settings)?.layout().len();
                    settings = settings.adaptive(dataset.num_rows(), num_parameters);
                }
                if self.quick {
                    let steps = settings.sampler.batch_size.rows().map_or(1, |rows| (num_train / rows.max(1)).max(1));
                    settings =
                        if is_adaptive { settings.quick_adaptive(num_train) } else { settings.quick(steps as u64) };
                }
                if let Some(folds) = self.folds {
                    (settings.run.folds, settings.run.splits) = (Some(folds).filter(|&folds| folds > 0), None);
                }
            }
            SourceData::Images { images, .. } => {
                if self.folds.is_some_and(|folds| folds > 0) {
                    return Err(Failure::question(
                        "folds are for tables: images have their own test set; leave them out",
                    ));
                }
                if self.quick {
                    let lengths = [images.train.len(), images.validation.len(), images.test.len()];
                    settings = settings.quick_images(lengths);
                }
            }
        }
        if self.gradients.is_some() || self.seconds.is_some() {
            if settings.stopping.is_none() {
                return Err(Failure::question(
                    "budget does not apply: chains have a fixed length here; set sampler.epochs, or sampler=\"adaptive\"",
                ));
            }
            if let Some(gradients) = self.gradients {
                settings = settings.with_budget(gradients, num_train);
            }
        }
        settings = with_overrides(settings, &self.overrides)?;
        settings.check()?;
        if let (SourceData::Table(dataset), Some(folds)) = (data, settings.run.folds) {
            Split::folds(dataset.num_rows(), settings.run.seed, folds as usize)?;
        }
        Ok(settings)
    }

    fn is_adaptive(&self, data: &SourceData, is_file: bool) -> Result<bool, Failure> {
        let SourceData::Table(_) = data else {
            return match self.sampler.as_deref() {
                Some("adaptive") => Err(Failure::question("sampler=\"adaptive\" is for tables, and these are images")),
                _ => Ok(false),
            };
        };
        match self.sampler.as_deref() {
            Some("adaptive") => Ok(true),
            Some("paper") => Ok(false),
            Some(other) => {
                Err(Failure::question(format!("sampler must be \"auto\", \"adaptive\" or \"paper\", got {other:?}")))
            }
            None => {
                let of_sampler = |text: &String| {
                    let key = text.split('=').next().unwrap_or_default().trim();
                    key.starts_with("sampler.") && !["sampler.draws", "sampler.friction"].contains(&key)
                };
                Ok(!is_file && !self.overrides.iter().any(of_sampler))
            }
        }
    }
}

fn read(file: &str) -> Result<Settings, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::question(format!("cannot read the experiment {file}: {error}\n  name a file of settings, or a preset"))
    })?;
    Ok(Settings::from_toml(&text, file)?)
}

/// What names a network comes first, whatever the order: the settings of the one it takes the place of go with that.
pub fn with_overrides(mut settings: Settings, overrides: &[String]) -> Result<Settings, Failure> {
    let mut in_order: Vec<&String> = overrides.iter().collect();
    in_order.sort_by_key(|text| match text.split('=').next().unwrap_or_default().trim() {
        "model.network" | "model.layers" => 0,
        "model.normalisation" => 1,
        _ => 2,
    });
    for text in in_order {
        settings = with_override(&settings, text)?;
    }
    Ok(settings)
}

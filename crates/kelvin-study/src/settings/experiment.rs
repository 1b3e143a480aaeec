//! Settings of an experiment: plain data with defaults, read from TOML.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::error::ExperimentError;
use crate::settings::batch_size::BatchSize;
use crate::settings::likelihood::LikelihoodName;
use crate::settings::model::ModelSettings;
use crate::settings::sampler::SamplerSettings;
use crate::settings::stopping::StoppingSettings;
use kelvin::data::{ColumnKind, CorruptionKind, Halves, Roles, TargetNames, Task};
use kelvin::sampler::{AscentObjective, ClipScope, LogBeta, PriorShare};

/// Everything that decides an experiment's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What the experiment is called; the run folder is named after it.
    pub name: String,
    /// Where the rows come from, and which of them are used.
    pub data: DataSettings,
    /// Network, likelihood and prior.
    #[serde(default)]
    pub model: ModelSettings,
    /// The search that chooses β: joint optimisation of (θ, log β).
    pub selection: SelectionSettings,
    /// The sampler of the tempered posterior; times are in epochs.
    pub sampler: SamplerSettings,
    /// When sampling may end before its longest length; chains have a fixed length if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<StoppingSettings>,
    /// Seed, chains, repetitions, grid of β, checkpoints.
    #[serde(default)]
    pub run: RunSettings,
}

/// Where the rows come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// A known data set (a table or images), or the path of a CSV file.
    pub source: String,
    /// The column to predict, or a list of columns of numbers that one network predicts together; empty for a known data set's own.
    #[serde(default)]
    pub target: TargetNames,
    /// Columns to leave out.
    #[serde(default)]
    pub drop: Vec<String>,
    /// Whether the target is a number or a class.
    #[serde(default)]
    pub task: TaskSetting,
    /// The probability with which an image of a training batch is flipped, padded by 4 and cropped at random; 0 for never.
    #[serde(default)]
    pub augmentation: f64,
    /// Which half of the test images in the files is used for validation; the other half is for testing.
    #[serde(default, skip_serializing_if = "Halves::is_file_order")]
    pub halves: Halves,
    /// Use only the first so many training images; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_images: Option<usize>,
    /// Use only the first so many validation images; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_images: Option<usize>,
    /// Use only the first so many test images, also of the out-of-distribution set; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_images: Option<usize>,
    /// A second known set of images of the same shape. Entropy and mutual information are then reported on both sets, with AUROC, AUPR and
    /// FPR95: how well each of them separates out-of-distribution images from test images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_distribution: Option<String>,
    /// Corruptions of the test images (`noise`, `blur`, `contrast`), each in five strengths: scores are reported on all of them. `run.seed` names the noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corruptions: Vec<CorruptionKind>,
    /// What columns of a table are taken for (`number`, `boolean`, `text`, `date`, or `drop` to leave one out), by their names; guessed from their cells
    /// for the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, ColumnKind>,
}

impl DataSettings {
    /// What the columns of a table are for.
    pub fn roles(&self) -> Roles {
        Roles {
            target: self.target.clone(),
            drop: self.drop.clone(),
            task: self.task.task(),
            kinds: self.columns.clone(),
            keeps_duplicates: false,
        }
    }
}

/// Settings that a file may lack, or have as a table: `--set` knows them all the same.
pub(crate) const OPTIONAL: &[&str] = &[
    "data.halves",
    "data.train_images",
    "data.validation_images",
    "data.test_images",
    "data.out_of_distribution",
    "data.corruptions",
    "data.columns",
    "model.network",
    "model.hidden",
    "model.activation",
    "model.skip",
    "model.normalisation",
    "model.batch_norm_momentum",
    "model.batch_norm_epsilon",
    "model.likelihood",
    "model.prior_degrees",
    "model.prior_ard",
    "model.start",
    "model.layers",
    "selection.log_beta_prior",
    "selection.beta",
    "selection.schedule",
    "sampler.adapt",
    "sampler.friction",
    "sampler.energy_rows",
    "sampler.draws",
    "stopping.effective_median",
    "stopping.effective_low",
    "stopping.worst_rhat",
    "stopping.lpd_error",
    "run.folds",
    "run.splits",
    "run.exact",
    "run.all_rows",
    "run.likelihoods",
    "run.hidden_layers",
    "run.sampled_repetitions",
    "run.only_repetition",
    "run.checkpoint_seconds",
    "run.most_hours",
];

/// The task, or leave to guess it from the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSetting {
    /// Guessed from the target column.
    #[default]
    Auto,
    /// The target is a number.
    Regression,
    /// The target is a class.
    Classification,
    /// The target is a count (0, 1, 2, …), which is not standardised; negative binomial unless `model.likelihood` says otherwise.
    Counts,
}

impl TaskSetting {
    /// The task, if it is given.
    pub fn task(self) -> Option<Task> {
        match self {
            Self::Auto => None,
            Self::Regression | Self::Counts => Some(Task::Regression),
            Self::Classification => Some(Task::Classification),
        }
    }
}

/// How the optimiser's rate changes over its epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateSchedule {
    /// The same rate throughout.
    Constant,
    /// Half a cosine down to 0.
    #[default]
    Cosine,
    /// From each listed epoch on, the rate times the listed factor.
    Piecewise(Vec<(u64, f64)>),
}

/// What the joint optimisation maximises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectionObjective {
    /// Σ log p(y|x,θ,β): the paper's β̂*.
    #[default]
    Likelihood,
    /// The same plus log p(θ).
    Map,
    /// The same plus n log p(θ), as the paper prints it.
    MapPerDatum,
}

/// The joint optimisation of (θ, log β).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionSettings {
    /// What is maximised. Weight decay is added to the prior; set `weight_decay = 0` for the prior alone.
    #[serde(default)]
    pub objective: SelectionObjective,
    /// Mean and standard deviation of a normal prior on log β; no prior if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_beta_prior: Option<(f64, f64)>,
    /// The β that a `run` samples at, beside β = 1, instead of the one that its search finds; the search's, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// The learning rate at the start of the search.
    pub learning_rate: f64,
    /// How the learning rate changes over the epochs.
    #[serde(default)]
    pub schedule: RateSchedule,
    /// Heavy-ball momentum of the search.
    #[serde(default = "selection_momentum")]
    pub momentum: f64,
    /// Weight decay λ, decoupled: each step subtracts learning rate × λ × θ. It does not act on log β.
    #[serde(default = "one")]
    pub weight_decay: f64,
    /// Training rows of one step.
    pub batch_size: BatchSize,
    /// Passes over the training rows; with full batches one step each.
    pub epochs: u64,
    /// Largest norm of the gradient; a longer one is scaled down to it.
    pub clip_norm: f64,
    /// Which part of the gradient the clipping looks at.
    #[serde(default)]
    pub clip_scope: ClipScope,
    /// How many times the validation score is evaluated: every ⌊epochs/checkpoints⌋ epochs. The best of them gives β̂*.
    #[serde(default = "checkpoints")]
    pub checkpoints: u64,
}

/// Seed, numbers of chains and repetitions, and the grid of β.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Names every random number: the same seed gives the same results.
    pub seed: u64,
    /// Chains at each temperature of a `run`; also the number of starts of the search for β.
    pub chains: u32,
    /// Cross-validation of a `run` on a table: its rows are dealt into so many folds, and each is predicted by chains that have not seen it; none if
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folds: Option<u32>,
    /// Repeated random splits instead of folds: so many divisions of 80 % to learn from, 10 % to choose by and 10 % to be judged on; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splits: Option<u32>,
    /// Audit a `run` on a table by Metropolis-corrected HMC at the same temperatures, which has no bias from its step; for small tables.
    #[serde(skip_serializing_if = "is_false")]
    pub exact: bool,
    /// After a `run` on a table has chosen what predicts, learn it once more from all of its rows, those held out before included: that is what
    /// `predict` uses. On for one's own tables.
    #[serde(skip_serializing_if = "is_false")]
    pub all_rows: bool,
    /// Likelihoods that a `run` on a table tries by short chains, the simplest first: the first one within one standard error of the best held-out LPD
    /// is used in place of `model.likelihood`. None are tried if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub likelihoods: Vec<LikelihoodName>,
    /// Widths of hidden layers that a `run` on a table tries by short chains, in order of preference (`[[64], [128], [64, 64]]`): the first within one
    /// standard error of the best held-out LPD is used in place of `model.hidden`. None are tried if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_layers: Vec<Vec<usize>>,
    /// Repetitions of a `sweep`, each with its own start and random numbers on the same split.
    pub repetitions: u32,
    /// Sample chains only in the first so many repetitions of a `sweep`, for models whose chains are expensive; in all of them if not
    /// given. Every repetition still has its search for β, and the scores of the network that it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_repetitions: Option<u32>,
    /// Run only this repetition of a `sweep`, counted from 1, with the numbers it has in the whole sweep; all of them if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_repetition: Option<u32>,
    /// The inverse temperatures β of `sweep`, of `run --grid` and of the grid selectors.
    pub grid: Vec<f64>,
    /// Longest time between two checkpoints in seconds; results do not depend on it.
    #[serde(skip_serializing_if = "is_default_checkpoint_seconds")]
    pub checkpoint_seconds: f64,
    /// Refuse to begin what would take more hours than this of one core (at 10¹⁰ multiply-adds a second), or of one GPU (at 10¹³); results
    /// do not depend on it.
    #[serde(skip_serializing_if = "is_default_most_hours")]
    pub most_hours: f64,
}

impl Default for RunSettings {
    fn default() -> Self {
        let grid = vec![0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];
        Self {
            seed: 0,
            chains: 4,
            folds: None,
            splits: None,
            exact: false,
            all_rows: false,
            likelihoods: Vec::new(),
            hidden_layers: Vec::new(),
            repetitions: 5,
            sampled_repetitions: None,
            only_repetition: None,
            grid,
            checkpoint_seconds: CHECKPOINT_SECONDS,
            most_hours: MOST_HOURS,
        }
    }
}

impl RunSettings {
    /// Repetitions of a `sweep` that have chains.
    pub fn num_sampled_repetitions(&self) -> u32 {
        self.sampled_repetitions.unwrap_or(self.repetitions)
    }

    /// The repetitions of a `sweep` that are run, from 0: all of them, or the only one.
    pub fn own_repetitions(&self) -> std::ops::Range<u32> {
        self.only_repetition.map_or(0..self.repetitions, |only| only.saturating_sub(1)..only)
    }
}

const CHECKPOINT_SECONDS: f64 = 60.0;

fn is_false(value: &bool) -> bool {
    !value
}

fn is_default_checkpoint_seconds(seconds: &f64) -> bool {
    *seconds == CHECKPOINT_SECONDS
}

/// Two days of a core: more than any table of the paper takes, less than a person waits for by mistake.
const MOST_HOURS: f64 = 48.0;

fn is_default_most_hours(hours: &f64) -> bool {
    *hours == MOST_HOURS
}

fn selection_momentum() -> f64 {
    0.9
}

fn one() -> f64 {
    1.0
}

fn checkpoints() -> u64 {
    20
}

impl SelectionSettings {
    /// What joint ascent is to maximise.
    pub fn ascent_objective(&self) -> AscentObjective {
        AscentObjective {
            prior: match self.objective {
                SelectionObjective::Likelihood => PriorShare::None,
                SelectionObjective::Map => PriorShare::Once,
                SelectionObjective::MapPerDatum => PriorShare::PerDatum,
            },
            log_beta: match self.log_beta_prior {
                None => LogBeta::Free,
                Some((mean, std)) => LogBeta::Normal { mean, variance: std * std },
            },
        }
    }
}

impl Settings {
    /// The task that is given, or that follows from the likelihood that is named; none where it is left to the target column.
    pub fn task(&self) -> Option<Task> {
        let of_likelihood =
            |name: LikelihoodName| if name.is_of_numbers() { Task::Regression } else { Task::Classification };
        self.data.task.task().or(self.model.likelihood.map(of_likelihood))
    }

    /// Reads settings from TOML and checks them; `place` names the text in an error.
    ///
    /// # Errors
    /// If the text is not TOML, or a setting is unknown or out of range; the error names the line.
    pub fn from_toml(text: &str, place: &str) -> Result<Self, ExperimentError> {
        let mut settings: Self = toml::from_str(text).map_err(|error| ExperimentError::Unreadable {
            place: format!(" in {place}"),
            reason: error.to_string(),
        })?;
        settings.model = settings.model.spelled_out();
        match settings.check() {
            Ok(()) => Ok(settings),
            Err(error) => {
                let line =
                    error.key().and_then(|key| line_of(text, key)).map_or(String::new(), |n| format!(", line {n}"));
                Err(ExperimentError::InFile { place: format!("{place}{line}"), source: Box::new(error) })
            }
        }
    }

    /// Writes settings as TOML, every value spelled out.
    ///
    /// # Errors
    /// If a number is too large for TOML.
    pub fn to_toml(&self) -> Result<String, ExperimentError> {
        toml::to_string(self).map_err(|error| ExperimentError::Unwritable { reason: error.to_string() })
    }

    /// Draws kept by each chain.
    pub fn draws_per_chain(&self) -> u64 {
        (self.sampler.epochs - self.sampler.burn_in) / self.sampler.cycle
    }
}

/// The line of a TOML text that gives a setting; none where the text leaves it to its default.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let mut table = whole.get_ref();
    let mut begin = None;
    for part in key.split('.') {
        let (name, value) = table.get_key_value(part)?;
        begin = Some(name.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    Some(1 + text[..begin?].matches('\n').count())
}

#[cfg(test)]
mod tests {
    use super::super::{preset, presets};
    use super::*;

    #[test]
    fn settings_survive_toml() {
        for preset in presets() {
            let settings = preset.settings();
            assert_eq!(Settings::from_toml(&settings.to_toml().unwrap(), "text").unwrap(), settings, "{}", preset.name);
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_written() {
        let mut settings = preset("concrete").unwrap().settings();
        assert!(!settings.to_toml().unwrap().contains("sampled_repetitions"), "run folders are named after this text");
        settings.run.sampled_repetitions = Some(1);
        assert_eq!(Settings::from_toml(&settings.to_toml().unwrap(), "text").unwrap(), settings);
    }

    #[test]
    fn what_a_dense_network_needs_is_spelled_out() {
        let text = preset("concrete").unwrap().text.replace("hidden = [64]\n", "");
        let settings = Settings::from_toml(&text, "text").unwrap();
        assert!(settings.to_toml().unwrap().contains("hidden = [64]"));
    }

    #[test]
    fn a_number_that_makes_no_sense_is_told_with_file_and_line() {
        let text = preset("concrete").unwrap().settings().to_toml().unwrap();
        let line = |text: &str, begin: &str| 1 + text.lines().position(|line| line.starts_with(begin)).unwrap();
        for (of, by, key) in [
            ("burn_in = 10000", "burn_in = 99999999999", "sampler.burn_in"),
            ("clip_scope = ", "clip_scope = \"all\"\ncheckpoints = 0 # ", "selection.checkpoints"),
            ("grid = [0.1, ", "grid = [\n  0.1,\n  -7.0, ", "run.grid"),
        ] {
            let bad = text.replacen(of, by, 1).replace("\ncheckpoints = 20", "");
            let error = Settings::from_toml(&bad, "my.toml").unwrap_err().to_string();
            let line = line(&bad, key.split_once('.').unwrap().1);
            assert!(error.starts_with(&format!("my.toml, line {line}: {key} must be ")), "{error}");
        }
        let defaulted = text.replacen("epochs = 15000", "epochs = 15", 1).replace("checkpoints = 20\n", "");
        let error = Settings::from_toml(&defaulted, "my.toml").unwrap_err().to_string();
        assert!(error.starts_with("my.toml: selection.checkpoints must be at most selection.epochs"), "{error}");
    }

    #[test]
    fn objectives_by_name() {
        let mut settings = preset("concrete").unwrap().settings();
        assert_eq!(settings.selection.ascent_objective(), AscentObjective::default());
        for (text, prior) in [("map", PriorShare::Once), ("map_per_datum", PriorShare::PerDatum)] {
            settings = super::super::with_override(&settings, &format!("selection.objective={text}")).unwrap();
            assert_eq!(settings.selection.ascent_objective().prior, prior);
        }
        settings = super::super::with_override(&settings, "selection.log_beta_prior=[0.5, 2.0]").unwrap();
        let normal = LogBeta::Normal { mean: 0.5, variance: 4.0 };
        assert_eq!(settings.selection.ascent_objective().log_beta, normal);
        assert_eq!(Settings::from_toml(&settings.to_toml().unwrap(), "text").unwrap(), settings);
        assert!(super::super::with_override(&settings, "selection.objective=mop").is_err());
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let text = preset("concrete").unwrap().settings().to_toml().unwrap().replace("hidden", "hiden");
        let error = Settings::from_toml(&text, "my.toml").unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("hiden"), "{error}");
    }
}

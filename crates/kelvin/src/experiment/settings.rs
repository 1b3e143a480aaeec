//! Settings of an experiment: plain data with defaults, read from TOML, checked before anything runs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::error::ExperimentError;
use crate::data::Task;
use crate::sampler::{ClipScope, Integrator};
use crate::temperature::Tempering;

/// Everything that decides an experiment's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What the experiment is called.
    pub name: String,
    /// The rows.
    pub data: DataSettings,
    /// Network, likelihood and prior.
    #[serde(default)]
    pub model: ModelSettings,
    /// The joint optimisation that chooses β.
    pub selection: SelectionSettings,
    /// The sampler.
    pub sampler: SamplerSettings,
    /// Seeds, chains, grid.
    #[serde(default)]
    pub run: RunSettings,
}

/// Where the rows come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// A known data set, or the path of a CSV file.
    pub source: String,
    /// The column to predict; empty for a known data set's own.
    #[serde(default)]
    pub target: String,
    /// Columns to leave out.
    #[serde(default)]
    pub drop: Vec<String>,
    /// What kind of answer the target is.
    #[serde(default)]
    pub task: TaskSetting,
}

/// The task, or leave to guess it from the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSetting {
    /// Guess.
    #[default]
    Auto,
    /// A number.
    Regression,
    /// A class.
    Classification,
}

impl TaskSetting {
    /// The task, if it is given.
    pub fn task(self) -> Option<Task> {
        match self {
            Self::Auto => None,
            Self::Regression => Some(Task::Regression),
            Self::Classification => Some(Task::Classification),
        }
    }
}

/// Network, likelihood and prior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// σ² of a regression, on the scale of the standardised target.
    pub noise_variance: f64,
    /// σ_p² of every parameter.
    pub prior_variance: f64,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self { hidden: vec![64], noise_variance: 0.01, prior_variance: 0.1 }
    }
}

/// Rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchSize {
    /// So many.
    Rows(usize),
    /// All.
    Full(Full),
}

/// The word "full".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Full {
    /// All rows.
    Full,
}

impl BatchSize {
    /// All rows.
    pub const FULL: Self = Self::Full(Full::Full);

    /// The number of rows, `None` for all.
    pub fn rows(self) -> Option<usize> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Full(_) => None,
        }
    }

    /// Refuses more rows than there are, by the name of the setting.
    pub(super) fn check_rows(self, key: &'static str, num_train: usize) -> Result<(), ExperimentError> {
        let rows = self.rows().unwrap_or(num_train);
        let needs = format!("from 1 to {num_train} (the rows of the training set), or \"full\" for all of them");
        check((1..=num_train).contains(&rows), key, needs, rows)
    }
}

/// Epochs times steps of an epoch.
pub(super) fn num_steps(key: &'static str, epochs: u64, steps_per_epoch: u64) -> Result<u64, ExperimentError> {
    epochs.checked_mul(steps_per_epoch).ok_or_else(|| ExperimentError::OutOfRange {
        key,
        needs: format!("at most {}, at {steps_per_epoch} steps an epoch", u64::MAX / steps_per_epoch.max(1)).into(),
        found: epochs.to_string(),
    })
}

/// How the optimiser's rate changes over its epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateSchedule {
    /// Always the same.
    Constant,
    /// Half a cosine down to 0.
    #[default]
    Cosine,
    /// From each listed epoch on, the rate times the listed factor.
    Piecewise(Vec<(u64, f64)>),
}

/// The joint optimisation of (θ, log β).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionSettings {
    /// The rate at the start.
    pub learning_rate: f64,
    /// How it changes.
    #[serde(default)]
    pub schedule: RateSchedule,
    /// Heavy-ball momentum.
    #[serde(default = "selection_momentum")]
    pub momentum: f64,
    /// Decoupled weight decay of θ.
    #[serde(default = "one")]
    pub weight_decay: f64,
    /// Rows of a step.
    pub batch_size: BatchSize,
    /// Passes over the training rows.
    pub epochs: u64,
    /// Largest gradient norm.
    pub clip_norm: f64,
    /// Whose norm.
    #[serde(default)]
    pub clip_scope: ClipScope,
    /// How often the validation score is looked at: every ⌊epochs/checkpoints⌋ epochs.
    #[serde(default = "checkpoints")]
    pub checkpoints: u64,
}

/// The layerwise preconditioner, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preconditioner {
    /// Unit masses.
    #[default]
    None,
    /// One mass a tensor, from the size of its gradients.
    Layerwise,
}

/// Where chains start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At random weights of their own.
    #[default]
    Random,
    /// Where the search for β ended that began at the same weights: chains need less time to settle.
    Search,
}

/// The sampler; times are in epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerSettings {
    /// The discretisation.
    #[serde(default)]
    pub integrator: Integrator,
    /// What the temperature divides.
    #[serde(default)]
    pub tempering: Tempering,
    /// Where chains start.
    #[serde(default)]
    pub start: Start,
    /// ℓ: h₀ = √(ℓ/n).
    pub learning_rate: f64,
    /// μ: friction γ = (1−μ)/h₀.
    #[serde(default = "sampler_momentum")]
    pub momentum: f64,
    /// Rows of a step.
    pub batch_size: BatchSize,
    /// The noise starts here.
    pub ramp_start: u64,
    /// The noise has its full temperature from here.
    pub ramp_end: u64,
    /// The first cycle starts here.
    pub burn_in: u64,
    /// The chain ends here.
    pub epochs: u64,
    /// Length of a cycle; one draw is kept at the end of each.
    pub cycle: u64,
    /// Largest norm of the gradient.
    pub clip_norm: f64,
    /// Masses.
    #[serde(default)]
    pub preconditioner: Preconditioner,
}

/// Seeds, chains, grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Names every random number.
    pub seed: u64,
    /// Chains at each temperature of a `run`; also starts of the search for β.
    pub chains: u32,
    /// Repetitions of a `sweep`.
    pub repetitions: u32,
    /// The inverse temperatures of a grid.
    pub grid: Vec<f64>,
}

impl Default for RunSettings {
    fn default() -> Self {
        let grid = vec![0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];
        Self { seed: 0, chains: 4, repetitions: 5, grid }
    }
}

/// Far beyond any experiment: a typo must neither overflow a step count nor run for ever.
const MOST_EPOCHS: u64 = 1_000_000_000;
/// Likewise for the memory of draws.
const MOST_DRAWS: u64 = 1_000_000;
/// TOML's integers have a sign.
const MOST_SEED: u64 = i64::MAX as u64;
const LEAST_BETA: f64 = 1e-12;
const MOST_BETA: f64 = 1e12;

fn selection_momentum() -> f64 {
    0.9
}

fn sampler_momentum() -> f64 {
    0.98
}

fn one() -> f64 {
    1.0
}

fn checkpoints() -> u64 {
    20
}

impl Settings {
    /// Reads settings from TOML and checks them; `place` names the text in an error.
    pub fn from_toml(text: &str, place: &str) -> Result<Self, ExperimentError> {
        let settings: Self = toml::from_str(text).map_err(|error| ExperimentError::Unreadable {
            place: format!(" in {place}"),
            reason: error.to_string(),
        })?;
        settings.check()?;
        Ok(settings)
    }

    /// Writes settings as TOML, every value spelled out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// Draws kept by each chain.
    pub fn draws_per_chain(&self) -> u64 {
        (self.sampler.epochs - self.sampler.burn_in) / self.sampler.cycle
    }

    /// A rough answer in seconds: 40 draws of two shorter chains, two repetitions. The search keeps its length where it
    /// can: cut short it would not only be rough but wrong, since β first falls far and then climbs back.
    pub fn quick(mut self, steps_per_epoch: u64) -> Self {
        const DRAWS: u64 = 40;
        let full_batch = steps_per_epoch == 1;
        let epochs_of = |steps: u64| (steps / steps_per_epoch.max(1)).max(1);
        let (selection, sampler) = (&mut self.selection, &mut self.sampler);
        let longest_search = epochs_of(if full_batch { 15_000 } else { 200_000 }).max(selection.checkpoints);
        if selection.epochs > longest_search {
            // A shorter search moves β as far by a higher rate.
            selection.learning_rate *= (selection.epochs as f64 / longest_search as f64).min(3.0);
            selection.epochs = longest_search;
        }
        let longest_chain = epochs_of(if full_batch { 6_000 } else { 40_000 });
        if sampler.epochs > longest_chain {
            sampler.burn_in = (longest_chain / 3).max(1);
            sampler.ramp_end = longest_chain / 6;
            sampler.ramp_start = sampler.ramp_end * 24 / 25;
            sampler.cycle = ((longest_chain - sampler.burn_in) / DRAWS).max(1);
            sampler.epochs = sampler.burn_in + DRAWS * sampler.cycle;
        }
        self.run.chains = self.run.chains.min(2);
        self.run.repetitions = self.run.repetitions.min(2);
        self.name.push_str("-quick");
        self
    }

    /// Refuses numbers that make no sense, each by name.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let positive = |key: &'static str, found: f64| {
            let needs = "a finite number > 0";
            check(found.is_finite() && found > 0.0, key, needs, found)
        };
        let count = |key: &'static str, found: u64| {
            let needs = format!("from 1 to {MOST_EPOCHS}");
            check((1..=MOST_EPOCHS).contains(&found), key, needs, found)
        };
        let epoch =
            |key: &'static str, found: u64| check(found <= MOST_EPOCHS, key, format!("at most {MOST_EPOCHS}"), found);
        let batch = |key: &'static str, found: BatchSize| {
            check(found.rows() != Some(0), key, "at least 1, or \"full\" for all training rows", 0)
        };
        let share =
            |key: &'static str, found: f64| check((0.0..1.0).contains(&found), key, "at least 0 and below 1", found);
        let (model, selection, sampler, run) = (&self.model, &self.selection, &self.sampler, &self.run);
        check(!self.data.source.is_empty(), "data.source", "a known data set or a CSV file", "nothing")?;
        let wide = |width: &usize| (1..=65_536).contains(width);
        check(model.hidden.iter().all(wide), "model.hidden", "widths from 1 to 65536", format!("{:?}", model.hidden))?;
        positive("model.noise_variance", model.noise_variance)?;
        positive("model.prior_variance", model.prior_variance)?;

        positive("selection.learning_rate", selection.learning_rate)?;
        share("selection.momentum", selection.momentum)?;
        let decay = selection.weight_decay;
        check(decay.is_finite() && decay >= 0.0, "selection.weight_decay", "a finite number ≥ 0", decay)?;
        count("selection.epochs", selection.epochs)?;
        batch("selection.batch_size", selection.batch_size)?;
        if let RateSchedule::Piecewise(factors) = &selection.schedule {
            check_piecewise(factors)?;
        }
        positive("selection.clip_norm", selection.clip_norm)?;
        count("selection.checkpoints", selection.checkpoints)?;
        let checkpoints = selection.checkpoints <= selection.epochs;
        check(checkpoints, "selection.checkpoints", "at most selection.epochs", selection.checkpoints)?;

        positive("sampler.learning_rate", sampler.learning_rate)?;
        share("sampler.momentum", sampler.momentum)?;
        positive("sampler.clip_norm", sampler.clip_norm)?;
        batch("sampler.batch_size", sampler.batch_size)?;
        count("sampler.epochs", sampler.epochs)?;
        count("sampler.cycle", sampler.cycle)?;
        epoch("sampler.burn_in", sampler.burn_in)?;
        epoch("sampler.ramp_end", sampler.ramp_end)?;
        epoch("sampler.ramp_start", sampler.ramp_start)?;
        check(
            sampler.ramp_start <= sampler.ramp_end,
            "sampler.ramp_start",
            "at most sampler.ramp_end",
            sampler.ramp_start,
        )?;
        check(sampler.ramp_end <= sampler.burn_in, "sampler.ramp_end", "at most sampler.burn_in", sampler.ramp_end)?;
        let one_draw = sampler.burn_in.checked_add(sampler.cycle).is_some_and(|end| end <= sampler.epochs);
        check(one_draw, "sampler.epochs", "at least sampler.burn_in + sampler.cycle, for one draw", sampler.epochs)?;
        let draws = self.draws_per_chain();
        check(
            draws <= MOST_DRAWS,
            "sampler.cycle",
            format!("long enough for a chain to keep at most {MOST_DRAWS} draws"),
            format!("{} ({draws} draws)", sampler.cycle),
        )?;

        check(run.seed <= MOST_SEED, "run.seed", format!("at most {MOST_SEED}, the most TOML can hold"), run.seed)?;
        check((1..=1024).contains(&run.chains), "run.chains", "from 1 to 1024", run.chains)?;
        check((1..=1024).contains(&run.repetitions), "run.repetitions", "from 1 to 1024", run.repetitions)?;
        check(
            (1..=60).contains(&run.grid.len()),
            "run.grid",
            "a list of 1 to 60 inverse temperatures",
            run.grid.len(),
        )?;
        for &beta in &run.grid {
            let needs = format!("inverse temperatures from {LEAST_BETA:e} to {MOST_BETA:e}");
            check((LEAST_BETA..=MOST_BETA).contains(&beta), "run.grid", needs, format!("{beta:e}"))?;
        }
        let increasing = run.grid.windows(2).all(|pair| pair[0] < pair[1]);
        check(increasing, "run.grid", "in increasing order", format!("{:?}", run.grid))
    }
}

/// Epochs in order, each with a factor that a rate can be multiplied by.
fn check_piecewise(factors: &[(u64, f64)]) -> Result<(), ExperimentError> {
    let key = "selection.schedule";
    for &(epoch, factor) in factors {
        check(epoch <= MOST_EPOCHS, key, format!("a list of epochs of at most {MOST_EPOCHS}"), epoch)?;
        check(factor.is_finite() && factor >= 0.0, key, "a list of finite factors ≥ 0", factor)?;
    }
    let increasing = factors.windows(2).all(|pair| pair[0].0 < pair[1].0);
    check(increasing, key, "a list of epochs in increasing order", format!("{factors:?}"))
}

fn check(
    holds: bool,
    key: &'static str,
    needs: impl Into<Cow<'static, str>>,
    found: impl std::fmt::Display,
) -> Result<(), ExperimentError> {
    if holds { Ok(()) } else { Err(ExperimentError::OutOfRange { key, needs: needs.into(), found: found.to_string() }) }
}

#[cfg(test)]
mod tests {
    use super::super::preset;
    use super::*;

    #[test]
    fn settings_survive_toml() {
        for name in ["concrete", "energy", "naval"] {
            let settings = preset(name).unwrap().settings();
            assert_eq!(Settings::from_toml(&settings.to_toml(), "text").unwrap(), settings);
        }
    }

    #[test]
    fn nonsense_is_named() {
        let good = preset("concrete").unwrap().settings();
        let bad = |change: fn(&mut Settings)| {
            let mut settings = good.clone();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(
            bad(|s| s.sampler.learning_rate = -1.0),
            "sampler.learning_rate must be a finite number > 0, got -1"
        );
        assert!(bad(|s| s.sampler.epochs = 10_100).contains("sampler.epochs must be at least"));
        assert!(bad(|s| s.run.grid = vec![1.0, 0.5]).contains("increasing"));
        assert!(bad(|s| s.model.hidden = vec![0]).contains("model.hidden"));
        assert!(bad(|s| s.selection.momentum = 1.0).contains("below 1"));
    }

    #[test]
    fn typos_that_would_overflow_or_run_for_ever_are_named() {
        let good = preset("concrete").unwrap().settings();
        let bad = |change: fn(&mut Settings), phrases: [&str; 2]| {
            let mut settings = good.clone();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
        };
        bad(|s| s.selection.epochs = u64::MAX, ["selection.epochs must be from 1 to 1000000000", "got 184"]);
        bad(|s| s.selection.epochs = 0, ["selection.epochs", "got 0"]);
        bad(|s| s.sampler.epochs = 1_000_000_001, ["sampler.epochs", "1000000000, got 1000000001"]);
        bad(|s| s.sampler.cycle = u64::MAX, ["sampler.cycle must be", "from 1 to"]);
        bad(|s| s.sampler.burn_in = u64::MAX, ["sampler.burn_in must be", "at most 1000000000"]);
        bad(|s| s.sampler.ramp_end = u64::MAX, ["sampler.ramp_end must be", "at most 1000000000"]);
        bad(|s| s.sampler.ramp_start = u64::MAX, ["sampler.ramp_start must be", "at most 1000000000"]);
        let many_draws = |s: &mut Settings| (s.sampler.epochs, s.sampler.cycle) = (1_010_001, 1);
        bad(many_draws, ["sampler.cycle must be long enough", "at most 1000000 draws, got 1 (1000001 draws)"]);
        bad(|s| s.selection.batch_size = BatchSize::Rows(0), ["selection.batch_size must be at least 1", "\"full\""]);
        bad(|s| s.sampler.batch_size = BatchSize::Rows(0), ["sampler.batch_size must be at least 1", "\"full\""]);
        bad(|s| s.run.seed = u64::MAX, ["run.seed must be at most 9223372036854775807", "TOML"]);
        for beta in [0.0, -1.0, 1e-13, 1e13, f64::INFINITY, f64::NAN] {
            let run = RunSettings { grid: vec![beta], ..good.run.clone() };
            let error = Settings { run, ..good.clone() }.check().unwrap_err().to_string();
            assert!(error.starts_with("run.grid must be inverse temperatures from 1e-12 to 1e12, got"), "{error}");
        }
    }

    #[test]
    fn a_piecewise_schedule_has_epochs_in_order_and_usable_factors() {
        let checked = |factors: &[(u64, f64)]| {
            let mut settings = preset("concrete").unwrap().settings();
            settings.selection.schedule = RateSchedule::Piecewise(factors.to_vec());
            settings.check().map_err(|error| error.to_string())
        };
        assert_eq!(checked(&[(80, 0.1), (120, 0.0)]), Ok(()));
        for (factors, phrase) in [
            (vec![(80, 0.1), (80, 0.01)], "increasing order"),
            (vec![(80, -0.1)], "finite factors ≥ 0, got -0.1"),
            (vec![(80, f64::NAN)], "finite factors ≥ 0, got NaN"),
            (vec![(u64::MAX, 0.1)], "epochs of at most 1000000000"),
        ] {
            let error = checked(&factors).unwrap_err();
            assert!(error.starts_with("selection.schedule must be") && error.contains(phrase), "{error}");
        }
    }

    #[test]
    fn batches_and_steps_that_do_not_fit_name_their_setting() {
        let error = BatchSize::Rows(1000).check_rows("sampler.batch_size", 824).unwrap_err().to_string();
        assert_eq!(
            error,
            "sampler.batch_size must be from 1 to 824 (the rows of the training set), or \"full\" for all of them, \
             got 1000"
        );
        assert!(BatchSize::FULL.check_rows("sampler.batch_size", 824).is_ok());
        assert!(BatchSize::Rows(824).check_rows("sampler.batch_size", 824).is_ok());
        assert_eq!(num_steps("sampler.epochs", 15_000, 74).unwrap(), 1_110_000);
        let error = num_steps("sampler.epochs", u64::MAX, 74).unwrap_err().to_string();
        assert!(error.contains("sampler.epochs must be at most 249280325320399346, at 74 steps an epoch"), "{error}");
    }

    #[test]
    fn the_largest_seed_survives_toml() {
        let mut settings = preset("concrete").unwrap().settings();
        settings.run.seed = MOST_SEED;
        assert_eq!(Settings::from_toml(&settings.to_toml(), "text").unwrap(), settings);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let text = preset("concrete").unwrap().settings().to_toml().replace("hidden", "hiden");
        let error = Settings::from_toml(&text, "my.toml").unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("hiden"), "{error}");
    }

    #[test]
    fn quick_keeps_the_order_of_events() {
        for (name, steps) in [("concrete", 1), ("naval", 74), ("naval", 1_000_000)] {
            let quick = preset(name).unwrap().settings().quick(steps);
            quick.check().unwrap();
            assert_eq!(quick.draws_per_chain(), 40);
        }
        let concrete = preset("concrete").unwrap().settings();
        assert_eq!(concrete.clone().quick(1).selection, concrete.selection);
    }
}

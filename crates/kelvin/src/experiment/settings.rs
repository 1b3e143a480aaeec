//! Settings of an experiment: plain data with defaults, read from TOML.

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

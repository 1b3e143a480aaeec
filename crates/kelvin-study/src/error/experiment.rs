//! Why an experiment cannot run.

use std::borrow::Cow;
use std::path::PathBuf;

use thiserror::Error;

use crate::checkpoint::CheckpointError;
use kelvin::data::DataError;
use kelvin::draws::DrawsError;
use kelvin::network::{NetworkError, Shape};
use kelvin::potential::PosteriorError;
use kelvin::predictive::PredictiveError;
use kelvin::prior::PriorError;
use kelvin::sampler::{BatchSizeError, EngineError};
use kelvin::temperature::{ScheduleError, TemperatureError};

/// Why an experiment cannot run.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The data cannot be read or do not fit what was asked.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network that the settings describe cannot be built.
    #[error("{key}: {source}")]
    Network {
        /// The setting that describes it.
        key: &'static str,
        /// Why it cannot be built.
        source: NetworkError,
    },
    /// The posterior cannot be built from these rows and this network.
    #[error(transparent)]
    Posterior(#[from] PosteriorError),
    /// The prior has parameters that make no sense.
    #[error(transparent)]
    Prior(#[from] PriorError),
    /// The batch size does not fit the number of training rows.
    #[error(transparent)]
    BatchSize(#[from] BatchSizeError),
    /// A temperature is negative or not finite.
    #[error(transparent)]
    Temperature(#[from] TemperatureError),
    /// A schedule has values that make no sense.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The device failed, or cannot run this experiment.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Scores cannot be computed from these predictions.
    #[error(transparent)]
    Predictive(#[from] PredictiveError),
    /// Finite weights, but outputs at held-out rows that are no numbers: as good as diverged.
    #[error(
        "{label}: the network's outputs at held-out rows are no finite numbers at step {step}; lower sampler.learning_rate"
    )]
    OutputsNotFinite {
        /// The label of the chain.
        label: String,
        /// The step at which the draw was kept.
        step: u64,
    },
    /// Draws on disk cannot be read or written.
    #[error(transparent)]
    Draws(#[from] DrawsError),
    /// The stored state of a running population cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Stopped from outside; all that was done is in the last checkpoint.
    #[error("stopped before the end; what was done is kept")]
    Interrupted,
    /// Another process took this one for dead, and goes on with its folder.
    #[error(
        "{} is written by another process now, which took this one for dead; nothing more was stored here, and nothing is lost: the other goes on",
        folder.display()
    )]
    TakenOver {
        /// The folder of checkpoints that is written by the other.
        folder: PathBuf,
    },
    /// There is no preset of this name.
    #[error("there is no preset `{asked}`\n  presets: {known}{suggestion}")]
    UnknownPreset {
        /// The name that was asked for.
        asked: String,
        /// The names of all presets.
        known: String,
        /// "did you mean …?" on a line of its own; empty if no name is near.
        suggestion: String,
    },
    /// A setting that does not exist.
    #[error("there is no setting `{asked}`\n  settings: {known}{suggestion}")]
    UnknownSetting {
        /// The name that was asked for.
        asked: String,
        /// The names of all settings in the same place.
        known: String,
        /// "did you mean …?" on a line of its own; empty if no name is near.
        suggestion: String,
    },
    /// An override that is not `key=value`.
    #[error("`{asked}` is not a setting; write it as key=value, for example sampler.learning_rate=1e-3")]
    NotAnOverride {
        /// The text that was given.
        asked: String,
    },
    /// A settings text that cannot be read.
    #[error("cannot read the settings{place}: {reason}")]
    Unreadable {
        /// Which file or override, led by a space.
        place: String,
        /// The TOML parser's message.
        reason: String,
    },
    /// A setting of a file that cannot be used.
    #[error("{place}: {source}")]
    InFile {
        /// The file, and the line where it is known.
        place: String,
        /// What is wrong with the setting.
        source: Box<ExperimentError>,
    },
    /// An override without a value.
    #[error(
        "`{asked}` gives no value\n  write it as key=value; an empty text is \"\" in quotes for the shell, as '{key}=\"\"'\n  \
         a setting cannot be taken away here: write the experiment to a file (`kelvin presets NAME > mine.toml`), remove its \
         line and run that"
    )]
    NoValue {
        /// The text that was given.
        asked: String,
        /// The setting that it names.
        key: String,
    },
    /// Settings that TOML cannot hold.
    #[error("cannot write the settings as TOML: {reason}")]
    Unwritable {
        /// The TOML writer's message.
        reason: String,
    },
    /// A setting out of range.
    #[error("{key} must be {needs}, got {found}")]
    OutOfRange {
        /// The name of the setting.
        key: &'static str,
        /// What it must be.
        needs: Cow<'static, str>,
        /// The value that was given.
        found: String,
    },
    /// A setting that something else leaves no use for.
    #[error("{key} does not apply here: {reason}")]
    DoesNotApply {
        /// The name of the setting.
        key: &'static str,
        /// Why, and what to do.
        reason: Cow<'static, str>,
    },
    /// Another set whose images the network cannot read.
    #[error(
        "data.out_of_distribution `{asked}` has images of {found}, and those of `{source_name}` are {needed}; \
         name a set whose images have the same shape"
    )]
    OtherShape {
        /// The set asked for.
        asked: String,
        /// The shape of its images.
        found: Shape,
        /// The set learnt from.
        source_name: String,
        /// The shape of its images.
        needed: Shape,
    },
    /// All chains of a group diverged before their first draw.
    #[error(
        "no chain at β = {beta} reached its first draw: {chains} of {chains} left the finite numbers; \
         lower sampler.learning_rate (now {learning_rate})"
    )]
    SamplingDiverged {
        /// The inverse temperature of the group.
        beta: f64,
        /// The number of chains in the group, all of which failed.
        chains: usize,
        /// The learning rate ℓ of the sampler.
        learning_rate: f64,
    },
}

impl ExperimentError {
    /// The one setting that it is about.
    pub(crate) fn key(&self) -> Option<&'static str> {
        match self {
            Self::OutOfRange { key, .. } | Self::DoesNotApply { key, .. } | Self::Network { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Whether what was asked for is wrong, rather than something having failed.
    pub fn is_wrong_question(&self) -> bool {
        match self {
            Self::InFile { source, .. } => source.is_wrong_question(),
            Self::UnknownPreset { .. }
            | Self::UnknownSetting { .. }
            | Self::NotAnOverride { .. }
            | Self::NoValue { .. }
            | Self::OutOfRange { .. }
            | Self::Unreadable { .. }
            | Self::BatchSize(_)
            | Self::Data(DataError::UnknownDataset { .. } | DataError::NotImages { .. })
            | Self::DoesNotApply { .. }
            | Self::OtherShape { .. }
            | Self::Network { .. } => true,
            _ => false,
        }
    }
}

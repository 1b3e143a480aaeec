//! Why an experiment cannot run.

use std::borrow::Cow;

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
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network.
    #[error("{key}: {source}")]
    Network {
        /// The setting that describes it.
        key: &'static str,
        /// Why it cannot be built.
        source: NetworkError,
    },
    /// The posterior.
    #[error(transparent)]
    Posterior(#[from] PosteriorError),
    /// The prior.
    #[error(transparent)]
    Prior(#[from] PriorError),
    /// The batch size.
    #[error(transparent)]
    BatchSize(#[from] BatchSizeError),
    /// A temperature.
    #[error(transparent)]
    Temperature(#[from] TemperatureError),
    /// A schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Where it runs.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A score.
    #[error(transparent)]
    Predictive(#[from] PredictiveError),
    /// Finite weights, but outputs at held-out rows that are no numbers: as good as diverged.
    #[error(
        "{label}: the network's outputs at held-out rows are no finite numbers at step {step}; lower sampler.learning_rate"
    )]
    OutputsNotFinite {
        /// The chain's label.
        label: String,
        /// Its step.
        step: u64,
    },
    /// Draws on disk.
    #[error(transparent)]
    Draws(#[from] DrawsError),
    /// What is stored of a population on its way.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Stopped from outside; all that was done is in the last checkpoint.
    #[error("stopped before the end; what was done is kept")]
    Interrupted,
    /// No such preset.
    #[error("there is no preset `{asked}`\n  presets: {known}{suggestion}")]
    UnknownPreset {
        /// What was asked.
        asked: String,
        /// What there is.
        known: String,
        /// "did you mean".
        suggestion: String,
    },
    /// A setting that does not exist.
    #[error("there is no setting `{asked}`\n  settings: {known}{suggestion}")]
    UnknownSetting {
        /// What was asked.
        asked: String,
        /// What there is.
        known: String,
        /// "did you mean".
        suggestion: String,
    },
    /// An override that is not `key=value`.
    #[error("`{asked}` is not a setting; write it as key=value, for example sampler.learning_rate=1e-3")]
    NotAnOverride {
        /// What was given.
        asked: String,
    },
    /// A settings text that cannot be read.
    #[error("cannot read the settings{place}: {reason}")]
    Unreadable {
        /// Which file or override, led by a space.
        place: String,
        /// The parser's words.
        reason: String,
    },
    /// A setting of a file that cannot be used.
    #[error("{place}: {source}")]
    InFile {
        /// The file, and the line where it is known.
        place: String,
        /// Why.
        source: Box<ExperimentError>,
    },
    /// An override without a value.
    #[error(
        "`{asked}` gives no value\n  write it as key=value; an empty text is \"\" in quotes for the shell, as '{key}=\"\"'\n  \
         a setting cannot be taken away here: write the experiment to a file (`kelvin presets NAME > mine.toml`), remove its \
         line and run that"
    )]
    NoValue {
        /// What was given.
        asked: String,
        /// The setting.
        key: String,
    },
    /// Settings that TOML cannot hold.
    #[error("cannot write the settings as TOML: {reason}")]
    Unwritable {
        /// The writer's words.
        reason: String,
    },
    /// A setting out of range.
    #[error("{key} must be {needs}, got {found}")]
    OutOfRange {
        /// The setting.
        key: &'static str,
        /// What it must be.
        needs: Cow<'static, str>,
        /// What it is.
        found: String,
    },
    /// A setting that something else leaves no use for.
    #[error("{key} does not apply here: {reason}")]
    DoesNotApply {
        /// The setting.
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
        /// Its images.
        found: Shape,
        /// The set learnt from.
        source_name: String,
        /// Its images.
        needed: Shape,
    },
    /// All chains of a group diverged before their first draw.
    #[error(
        "no chain at β = {beta} reached its first draw: {chains} of {chains} left the finite numbers; \
         lower sampler.learning_rate (now {learning_rate})"
    )]
    SamplingDiverged {
        /// β.
        beta: f64,
        /// Chains tried.
        chains: usize,
        /// ℓ.
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

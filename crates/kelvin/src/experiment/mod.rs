//! An experiment: settings in; chosen temperature, draws, scores and warnings out.

mod automatic;
mod check;
mod error;
mod outcome;
mod override_key;
mod pilot;
mod presets;
mod problem;
mod run;
mod settings;

pub use automatic::automatic_settings;
pub use error::ExperimentError;
pub use outcome::{ChainGroup, Measured, Predictive, Scores};
pub use override_key::with_override;
pub use presets::{Preset, preset, presets};
pub use problem::Problem;
pub use run::{ChainSpec, Experiment, SampledChain, Slot};
pub use settings::{
    BatchSize, DataSettings, ModelSettings, Preconditioner, RateSchedule, RunSettings, SamplerSettings,
    SelectionSettings, Settings, Start, TaskSetting,
};

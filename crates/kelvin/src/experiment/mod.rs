//! An experiment: settings in; chosen temperature, draws, scores and warnings out.

mod automatic;
mod check;
mod checkpoint;
mod durable;
mod error;
mod kept_draws;
mod laboratory;
mod layer_list;
mod model_settings;
mod out_of_distribution;
mod outcome;
mod override_key;
mod pilot;
mod population;
mod presets;
mod problem;
mod quick;
mod run;
mod running_scores;
mod sampler_settings;
mod settings;
mod watch;

pub use automatic::automatic_settings;
pub use checkpoint::CheckpointError;
#[doc(hidden)]
pub use checkpoint::num_chains_of_checkpoint;
pub use durable::{DrawFiles, Durable, Recovery};
pub use error::ExperimentError;
pub use laboratory::{ExperimentLaboratory, Searched};
pub use model_settings::{ModelSettings, NetworkName, NormalisationSetting, PriorName};
pub use out_of_distribution::OutOfDistributionScores;
pub use outcome::{ChainGroup, Measured};
pub use override_key::with_override;
pub use presets::{Preset, preset, presets};
pub use problem::{ImageSource, Problem, ProblemSource, SourceData, TableSource};
pub use run::{ChainSpec, Experiment, SampledChain, Slot, StartingPoint};
pub use running_scores::{HeldOutPredictives, RunningScores, training_densities};
pub use sampler_settings::{
    DrawStatistics, DrawsSetting, Preconditioner, PreconditionerStatistics, SamplerSettings, Start,
};
pub use settings::{
    BatchSize, DataSettings, RateSchedule, RunSettings, SelectionObjective, SelectionSettings, Settings, TaskSetting,
};

//! Settings: plain data with defaults, presets, and what is checked before anything runs.

mod adaptive;
mod batch_size;
pub(crate) mod build_likelihood;
pub(crate) mod check;
mod experiment;
mod layer_list;
mod likelihood;
mod model;
mod overrides;
mod presets;
mod quick;
mod sampler;
mod stopping;

pub use batch_size::BatchSize;
pub use experiment::{
    DataSettings, RateSchedule, RunSettings, SelectionObjective, SelectionSettings, Settings, TaskSetting,
};
pub use likelihood::LikelihoodName;
pub use model::{ModelSettings, NetworkName, NormalisationSetting, PriorName};
pub use overrides::with_override;
pub use presets::{Preset, preset, presets};
pub use sampler::{DrawStatistics, DrawsSetting, Preconditioner, PreconditionerStatistics, SamplerSettings, Start};
pub use stopping::StoppingSettings;

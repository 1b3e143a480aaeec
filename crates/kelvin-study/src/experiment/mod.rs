//! An experiment: settings in; chosen temperature, draws, scores and warnings out.

mod automatic;
mod kept_draws;
mod laboratory;
mod out_of_distribution;
mod outcome;
mod pilot;
pub(crate) mod population;
pub(crate) mod prepared;
pub(crate) mod running_scores;

pub use automatic::automatic_settings;
pub use laboratory::{ExperimentLaboratory, Searched};
pub use out_of_distribution::OutOfDistributionScores;
pub use outcome::{ChainGroup, Measured};
pub use prepared::{ChainSpec, Experiment, SampledChain, Slot, StartingPoint};
pub use running_scores::{HeldOutPredictives, RunningScores, training_densities};

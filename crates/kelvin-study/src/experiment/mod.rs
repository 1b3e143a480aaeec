//! An experiment: settings in; chosen temperature, draws, scores and warnings out.

mod automatic;
mod chain_spec;
mod kept_draws;
mod laboratory;
mod out_of_distribution;
mod outcome;
mod pilot;
pub(crate) mod population;
pub(crate) mod prepared;
pub(crate) mod running_scores;
pub(crate) mod sampling;

pub use automatic::{after_a_trial, automatic_settings, provisional_settings};
pub use chain_spec::{ChainSpec, Slot, StartingPoint};
pub use laboratory::{ExperimentLaboratory, Searched};
pub use out_of_distribution::OutOfDistributionScores;
pub use outcome::{ChainGroup, Measured};
pub use prepared::Experiment;
pub use running_scores::{HeldOutPredictives, RunningScores, training_densities};
pub use sampling::SampledChain;

//! An experiment: settings in; chosen temperature, draws, scores and warnings out.

mod audit;
mod automatic;
mod baselines;
mod budget;
mod chain_spec;
mod convergence;
mod estimates;
mod kept_draws;
mod laboratory;
mod last_layer;
mod linear_baseline;
mod out_of_distribution;
mod outcome;
mod pilot;
pub(crate) mod population;
pub(crate) mod prepared;
pub(crate) mod reach;
pub(crate) mod running_scores;
pub(crate) mod sampling;
mod step_ratio;
mod swag;
mod watched_rows;

pub use audit::{AuditCost, AuditPlan, AuditRow, HmcSummary};
pub use automatic::{
    after_a_trial, automatic_settings, choosing_hidden, learning_scales, provisional_settings, suitable_likelihoods,
};
pub(crate) use baselines::{Baselines, network_draw};
pub use chain_spec::{ChainSpec, Slot, StartingPoint};
pub use convergence::Convergence;
pub(crate) use convergence::lpd_error;
pub use estimates::{Agreement, Compared, Estimate, PredictionMixing, SamplerComparison, SamplerEstimates};
pub use laboratory::{ExperimentLaboratory, Searched};
pub(crate) use linear_baseline::Weighed;
pub use out_of_distribution::OutOfDistributionScores;
pub use outcome::{ChainGroup, Measured};
pub use prepared::Experiment;
pub use running_scores::{HeldOutPredictives, RunningScores, training_densities};
pub use sampling::SampledChain;

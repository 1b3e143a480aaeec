//! Tells whether the chains can be believed: measured temperatures, R̂, effective draws, and the warnings they raise.

mod chains;
mod configurational;
mod ess;
mod kinetic;
mod learning_theory;
mod limits;
mod mcse;
mod rhat;
mod trend;
mod warning;

pub use chains::ChainsError;
pub use configurational::{ConfigurationalError, configurational_temperature, configurational_temperatures};
pub use ess::{
    autocorrelation_time, basic_ess, bulk_ess, mean_ess, median_ess, quantile_ess, standard_deviation_ess, tail_ess,
};
pub use kinetic::{
    Discretisation, KineticError, KineticTemperature, discretised_kinetic_target, independent_readings,
    mean_temperature_band, temperature_band, weighted_square,
};
pub use learning_theory::{LearningTheory, TrainingDensities, UNSTEADY_VARIANCE, predicted_lpd};
pub use limits::Limits;
pub use mcse::{mean_mcse, median_mcse, quantile_mcse, standard_deviation_mcse};
pub use rhat::{basic_rhat, bulk_rhat, rhat, split_rhat, tail_rhat};
pub use trend::Trend;
pub use warning::{Reading, Stated, Warning};
pub use warning::{number_or_nan, numbers_or_nan};

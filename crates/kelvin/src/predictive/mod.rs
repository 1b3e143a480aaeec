//! From the outputs of kept draws to predictive densities, their scores and their calibration.
//!
//! A caller holds one accumulator per chain and held-out set and feeds it the network's outputs once per kept
//! draw; nothing here grows with the number of draws. A point estimate is the case of one draw.
//!
//! ```
//! use kelvin::predictive::RegressionPredictive;
//!
//! let (targets, noise_variance, inverse_temperature) = ([0.0, 1.0], 0.01, 4.0);
//! let mut predictive = RegressionPredictive::new(&targets, noise_variance, inverse_temperature)?;
//! for means in [[0.02, 0.97], [-0.03, 1.0]] {
//!     predictive.add_draw(&means)?; // the network's outputs at this draw's parameters
//! }
//! let scores = predictive.both_scores()?;
//! assert!(scores.tempered.lpd > scores.standard.lpd);
//! # Ok::<(), kelvin::predictive::PredictiveError>(())
//! ```

mod agreement;
mod base_rate;
mod brier;
mod calibration;
mod classification;
mod distribution;
mod error;
mod log_mean_exp;
mod mixture;
mod model;
mod outputs;
mod regression;
mod scores;
mod separation;

pub use agreement::{PredictionAgreement, predictions_by_row};
pub use base_rate::BaseRate;
pub use brier::BrierScore;
pub use calibration::{COVERAGE_LEVELS, PitValues, ReliabilityBin, ReliabilityDiagram};
pub use classification::ClassificationPredictive;
pub use distribution::{Predictive, Scores};
pub use error::PredictiveError;
pub use log_mean_exp::LogMeanExp;
pub use mixture::NumberMixture;
pub use model::{ByModel, PredictiveModel};
pub use outputs::for_each_output;
pub use regression::RegressionPredictive;
pub use scores::{ClassificationScores, RegressionScores};
pub use separation::Separation;

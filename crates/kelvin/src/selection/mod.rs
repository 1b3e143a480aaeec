//! Ways to choose a temperature from data: each a [`Selector`] in a file of its own, with its equation, cost and goal.
//!
//! A selector asks a [`Laboratory`] for searches and chains and answers with a [`Selection`]: β, how well it is known, what it
//! took, and what to know before believing it.

mod beta_posterior;
mod bootstrap_spread;
mod catalogue;
mod cost;
mod credible_coverage;
mod curve;
mod error;
mod evidence;
mod flatness;
mod grid;
mod guo;
mod held_out_draws;
mod information_gain;
mod joint;
mod joint_selector;
mod judged;
mod laboratory;
mod lpd_slope;
mod online_fit;
mod over_beta;
mod prediction_coverage;
mod refine;
mod row_loss;
mod safe_bayes;
mod selector;
mod small_fit;
mod small_model;
mod tangent;

pub use beta_posterior::{BetaPosterior, LogBetaPrior};
pub use bootstrap_spread::BootstrapSpreadSelector;
pub use catalogue::{UnknownSelector, all_selectors, generalized_selectors, grid_selectors, selector};
pub use cost::{Cost, Prices};
pub use credible_coverage::CredibleCoverageSelector;
pub use curve::Curve;
pub use error::SelectionError;
pub use evidence::EvidenceSelector;
pub use flatness::flat_interval;
pub use grid::{GridSelector, MeasuredGrid};
pub use guo::{GuoSelector, Scaling, best_scaling};
pub use held_out_draws::{ChainDensities, HeldOutDraws};
pub use information_gain::InformationGainSelector;
pub use joint::{Checkpoint, JointChoice, Search, choose_jointly};
pub use joint_selector::JointSelector;
pub use judged::{Criterion, Judged};
pub use laboratory::{Laboratory, SampledStart, SearchedStart};
pub use lpd_slope::{Direction, LpdSlope, reweighting_ess};
pub use prediction_coverage::PredictionCoverageSelector;
pub use refine::{RefineSelector, Refined};
pub use safe_bayes::{SafeBayesSelector, SafeLoss};
pub use selector::{BetaInterval, Goal, IntervalMeaning, Selection, Selector};

//! Chooses the temperature of a Bayesian neural network from the data, samples the tempered posterior there, and predicts with it.
//!
//! ```text
//! data ─▶ network ─▶ potential ─▶ curvature ─▶ sampler (population, engine) ─▶ draws ─▶ predictive ─▶ selection
//! ```
//! A module imports only from its left (the architecture test of the workspace keeps it so); `random`, `exact` and
//! `diagnostics` import nothing but each other and serve all.

pub mod curvature;
pub mod data;
pub mod diagnostics;
pub mod draws;
pub mod exact;
pub mod held_out;
pub mod likelihood;
pub mod mutex;
pub mod network;
pub mod potential;
pub mod predictive;
pub mod prior;
pub mod quantile;
pub mod random;
pub mod sampler;
pub mod selection;
pub mod temperature;
pub mod vector;
pub mod write_file;

//! When sampling ends before its longest length: how well predictions must be known.

use serde::{Deserialize, Serialize};

/// What the chains of a temperature must reach before they end; `sampler.epochs` is then the longest they go on. Looked at after every half
/// as many draws again, at up to 64 validation rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoppingSettings {
    /// Bulk effective sample size of predictions at the median row, over all chains of a temperature.
    pub effective_median: f64,
    /// The same at the row that is worse than all but 5 % of them.
    pub effective_low: f64,
    /// Largest rank-normalised split-R̂ of predictions, at the row where chains disagree most.
    pub worst_rhat: f64,
    /// Largest Monte-Carlo standard error of the validation LPD, between chains, in nats.
    pub lpd_error: f64,
}

impl Default for StoppingSettings {
    fn default() -> Self {
        Self { effective_median: 400.0, effective_low: 100.0, worst_rhat: 1.05, lpd_error: 0.02 }
    }
}

//! The sampler as settings.

use serde::{Deserialize, Serialize};

use crate::settings::batch_size::BatchSize;
use kelvin::sampler::Integrator;
use kelvin::temperature::Tempering;

/// The layerwise preconditioner, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preconditioner {
    /// Every parameter has mass 1.
    #[default]
    None,
    /// One mass a tensor, from the size of its gradients.
    Layerwise,
}

/// Whose means and variances the batch norms use while masses are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreconditionerStatistics {
    /// The chain's running ones (inference mode).
    #[default]
    Running,
    /// Each batch's own (training mode): biases before a batch norm then have no gradient and dictate the scale.
    Batch,
}

/// Which means and variances of batch norms a draw carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrawStatistics {
    /// The chain's running ones.
    #[default]
    Running,
    /// Averages over training batches at the draw's own weights: dearer, and free of what the chain was before. Draws
    /// alone: the search for β, its SGD row and chains that start where it ended (`start = "search"`) have running ones.
    Reestimated,
}

/// The weights that chains start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At random weights of their own.
    #[default]
    Random,
    /// Where the search for β ended that began at the same weights: chains need less time to settle.
    Search,
}

/// The sampler; times are in epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerSettings {
    /// The discretisation of the Langevin dynamics.
    #[serde(default)]
    pub integrator: Integrator,
    /// What the temperature divides.
    #[serde(default)]
    pub tempering: Tempering,
    /// The weights that chains start from.
    #[serde(default)]
    pub start: Start,
    /// ℓ: h₀ = √(ℓ/n).
    pub learning_rate: f64,
    /// μ: friction γ = (1−μ)/h₀.
    #[serde(default = "sampler_momentum")]
    pub momentum: f64,
    /// Training rows of each step.
    pub batch_size: BatchSize,
    /// The epoch from which there is noise.
    pub ramp_start: u64,
    /// The epoch from which the noise has its full temperature.
    pub ramp_end: u64,
    /// The epoch at which the first cycle starts.
    pub burn_in: u64,
    /// The epoch at which the chain ends.
    pub epochs: u64,
    /// Epochs of a cycle; one draw is kept at the end of each.
    pub cycle: u64,
    /// Gradients with a larger norm are scaled down to this one.
    pub clip_norm: f64,
    /// How the masses of parameters are chosen.
    #[serde(default)]
    pub preconditioner: Preconditioner,
    /// Fresh batches from which masses are estimated, at the start of every epoch.
    #[serde(default = "preconditioner_batches")]
    pub preconditioner_batches: u64,
    /// Whose statistics batch norms use while masses are estimated.
    #[serde(default)]
    pub preconditioner_statistics: PreconditionerStatistics,
    /// Which statistics of batch norms a draw carries.
    #[serde(default)]
    pub draw_statistics: DrawStatistics,
    /// Energies and configurational temperatures of draws from the first so many training rows alone, scaled up to all;
    /// from all where it is not given. A pass over 60,000 images for every draw is worth saving. With batch norm rows are
    /// taken in batches of `batch_size` and a remainder is dropped, so it must be at least that. Images are not augmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_rows: Option<usize>,
    /// What becomes of draws once they are scored.
    #[serde(default, skip_serializing_if = "DrawsSetting::is_stored")]
    pub draws: DrawsSetting,
}

/// What becomes of draws once they are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrawsSetting {
    /// They are stored: new rows can be predicted, and scores checked.
    #[default]
    Stored,
    /// They are gone: scores, predictions at the held-out rows and diagnostics are all that is left, in a few megabytes a chain.
    Scored,
}

impl DrawsSetting {
    fn is_stored(&self) -> bool {
        *self == Self::Stored
    }
}

fn sampler_momentum() -> f64 {
    0.98
}

fn preconditioner_batches() -> u64 {
    32
}

//! The sampler as settings.

use serde::{Deserialize, Serialize};

use crate::settings::batch_size::BatchSize;
use kelvin::sampler::Integrator;
use kelvin::temperature::Tempering;

/// The layerwise preconditioner, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preconditioner {
    /// Mass 1 for every parameter.
    #[default]
    None,
    /// One mass for each tensor, estimated from the size of its gradients at the start of every epoch.
    Layerwise,
}

/// Whose means and variances the batch norms use while masses are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreconditionerStatistics {
    /// The chain's running means and variances (inference mode).
    #[default]
    Running,
    /// Those of each batch (training mode): biases before a batch norm then have no gradient and set the scale of all masses.
    Batch,
}

/// Which means and variances of batch norms a draw carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrawStatistics {
    /// The chain's running means and variances.
    #[default]
    Running,
    /// Averages over training batches at the draw's own weights: more expensive, and independent of the chain's past. Only for
    /// draws: the search for β, its SGD row and chains that start where it ended (`start = "search"`) use running ones.
    Reestimated,
}

/// The weights that chains start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At random initial weights, each chain at its own.
    #[default]
    Random,
    /// At the network found by the search for β that began at the same weights: chains need less burn-in.
    Search,
}

/// The sampler; times are in epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerSettings {
    /// How the dynamics are discretised.
    #[serde(default)]
    pub integrator: Integrator,
    /// Find masses, step size and friction of each chain while it burns in, from the curvature at states that it visits; they stay from then
    /// on, and step size and temperature are constant. Needs `integrator = "baoab"` or `"mclmc"`. `learning_rate`, `momentum`, the ramp and the
    /// shape of cycles then have no meaning; one draw is kept every `cycle` epochs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adapt: bool,
    /// Friction γ of chains that adapt; 4 if not given, and more where the noise of minibatches would heat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friction: Option<f64>,
    /// What the temperature divides.
    #[serde(default)]
    pub tempering: Tempering,
    /// The weights that chains start from.
    #[serde(default)]
    pub start: Start,
    /// Learning rate ℓ; the step size is h₀ = √(ℓ/n) for n training rows.
    pub learning_rate: f64,
    /// Momentum μ that a step keeps; the friction is γ = (1−μ)/h₀.
    #[serde(default = "sampler_momentum")]
    pub momentum: f64,
    /// Training rows of one step.
    pub batch_size: BatchSize,
    /// Epoch at which the temperature starts to rise from 0.
    pub ramp_start: u64,
    /// Epoch from which the chain has its full temperature.
    pub ramp_end: u64,
    /// Epoch at which burn-in ends and the first cycle starts.
    pub burn_in: u64,
    /// Epoch at which the chain ends.
    pub epochs: u64,
    /// Epochs of one cosine cycle of the step size; one draw is kept at the end of each cycle.
    pub cycle: u64,
    /// Largest norm of the gradient; a longer one is scaled down to it.
    pub clip_norm: f64,
    /// How the masses M of the parameters are chosen.
    #[serde(default)]
    pub preconditioner: Preconditioner,
    /// How many fresh batches the layerwise preconditioner estimates masses from, at the start of every epoch.
    #[serde(default = "preconditioner_batches")]
    pub preconditioner_batches: u64,
    /// Which means and variances batch norms use while masses are estimated.
    #[serde(default)]
    pub preconditioner_statistics: PreconditionerStatistics,
    /// Which means and variances of batch norms are stored with a draw.
    #[serde(default)]
    pub draw_statistics: DrawStatistics,
    /// Compute the energy and configurational temperature of a draw from the first so many training rows, scaled up to all of them;
    /// from all rows if not given. It saves a pass over all images for every draw. With batch norm, rows are taken in batches of
    /// `batch_size` and a remainder is dropped, so it must be at least that. Images are not augmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_rows: Option<usize>,
    /// What happens to draws once they are scored.
    #[serde(default, skip_serializing_if = "DrawsSetting::is_stored")]
    pub draws: DrawsSetting,
}

/// What happens to draws once they are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrawsSetting {
    /// Draws are stored, so that new rows can be predicted and scores verified.
    #[default]
    Stored,
    /// Draws are dropped; scores, predictions at the held-out rows and diagnostics are kept, in a few megabytes for each chain.
    Scored,
}

impl DrawsSetting {
    fn is_stored(&self) -> bool {
        *self == Self::Stored
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn sampler_momentum() -> f64 {
    0.98
}

fn preconditioner_batches() -> u64 {
    32
}

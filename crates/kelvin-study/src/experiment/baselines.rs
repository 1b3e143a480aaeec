//! Models of the same rows for the price of a search: linear regression, and Gaussians over weights around the network that the search found.

use kelvin::draws::{Draws, Measurements};
use kelvin::likelihood::TargetKind;
use kelvin::network::Weights;
use kelvin::selection::JointChoice;

use crate::error::ExperimentError;
use crate::experiment::linear_baseline::{LinearBaseline, Weighed};
use crate::experiment::prepared::Experiment;

/// Draws of a Gaussian over weights: means and scales of predictions are then known to some percent.
pub(super) const NUM_DRAWS: usize = 200;

/// Simpler models of an experiment's rows; each is missing where it does not suit the likelihood or the network.
pub(crate) struct Baselines {
    /// Ridge or logistic regression.
    pub linear: Option<LinearBaseline>,
    /// Weights with a Gaussian over those of the last layer.
    pub last_layer: Option<Draws>,
    /// Weights from the Gaussian of SWAG.
    pub swag: Option<Draws>,
}

impl Baselines {
    /// Fits all of them; `choice` is the network that the search found.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn fit(experiment: &Experiment, choice: &JointChoice) -> Result<Self, ExperimentError> {
        let problem = &experiment.problem;
        let num_classes = match problem.likelihood.kind() {
            TargetKind::Numbers => 0,
            TargetKind::Classes { num_classes } => num_classes,
        };
        Ok(Self {
            linear: LinearBaseline::fit(Weighed::of(problem), &problem.validation, num_classes),
            last_layer: experiment.last_layer_draws(choice)?,
            swag: experiment.swag_draws(choice)?,
        })
    }
}

/// Positions as draws at which nothing was measured.
pub(super) fn unmeasured(
    positions: impl IntoIterator<Item = Vec<f32>>,
    choice: &JointChoice,
) -> Result<Draws, ExperimentError> {
    let mut draws = Draws::in_memory(choice.position.len());
    let nothing =
        Measurements { potential_energy: f64::NAN, configurational_temperature: f64::NAN, kinetic_temperature: None };
    for parameters in positions {
        draws.push(Weights { parameters: &parameters, statistics: &choice.statistics }, nothing)?;
    }
    Ok(draws)
}

/// The network that a search found, as a draw that can be stored.
pub(crate) fn network_draw(choice: &JointChoice) -> Result<Draws, ExperimentError> {
    unmeasured([choice.position.clone()], choice)
}

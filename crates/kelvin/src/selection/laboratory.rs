//! What a selector may ask for: searches, chains, and rows to judge them by.

use super::error::SelectionError;
use super::joint::JointChoice;
use super::selector::Prices;
use crate::draws::Draws;
use crate::held_out::HeldOut;
use crate::potential::Posterior;
use crate::sampler::{AscentObjective, Engine};
use crate::temperature::Tempering;

/// Runs what selectors need, with the settings of an experiment; test rows are out of their reach.
pub trait Laboratory {
    /// Where chains move and draws are evaluated.
    fn engine(&self) -> &dyn Engine;

    /// The posterior of the training rows.
    fn posterior(&self) -> &Posterior;

    /// The rows to choose by.
    fn validation(&self) -> &HeldOut;

    /// What the temperature divides.
    fn tempering(&self) -> Tempering;

    /// What its runs cost.
    fn prices(&self) -> Prices;

    /// Ascends from each start; what those found that did not diverge at once.
    ///
    /// # Errors
    /// Where all diverge, or the engine fails.
    fn search(&self, objective: AscentObjective) -> Result<Vec<JointChoice>, SelectionError>;

    /// Samples chains at each β, as one population; for each β the draws of every chain that kept any.
    ///
    /// # Errors
    /// Where the engine fails.
    fn sample(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<Draws>>, SelectionError>;

    /// Goes on from the last draw of each chain at another β, for less than a full chain.
    ///
    /// # Errors
    /// Where the engine fails.
    fn continue_at(&self, inverse_temperature: f64, from: &[Draws]) -> Result<Vec<Draws>, SelectionError>;
}

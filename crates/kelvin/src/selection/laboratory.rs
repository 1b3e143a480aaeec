//! What a selector may ask for: searches, chains, and rows to judge them by.

use super::cost::Prices;
use super::error::SelectionError;
use super::joint::JointChoice;
use crate::draws::Draws;
use crate::held_out::HeldOut;
use crate::potential::Posterior;
use crate::sampler::{AscentObjective, Engine};
use crate::temperature::Tempering;

/// What a search from one start found; it keeps the number of its start, whatever became of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchedStart {
    /// The start, counted from 0.
    pub start: u32,
    /// What its search found.
    pub choice: JointChoice,
}

/// Draws of a chain from one start; it keeps the number of its start, whatever became of the others.
#[derive(Debug)]
pub struct SampledStart {
    /// The start, counted from 0.
    pub start: u32,
    /// How often the chain has gone on at another β; with the start it names the chain's random numbers.
    pub times_continued: u32,
    /// What the chain kept.
    pub draws: Draws,
}

impl SampledStart {
    /// The draws of each chain.
    pub fn draws_of(chains: &[Self]) -> impl Iterator<Item = &Draws> {
        chains.iter().map(|chain| &chain.draws)
    }
}

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

    /// Ascends from each start; what each found.
    ///
    /// # Errors
    /// Where the engine fails.
    fn search(&self, objective: AscentObjective) -> Result<Vec<SearchedStart>, SelectionError>;

    /// Samples chains at each β, as one population; for each β the draws of every chain that kept any.
    ///
    /// # Errors
    /// Where the engine fails.
    fn sample(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<SampledStart>>, SelectionError>;

    /// Goes on from the last draw of each chain at another β, for less than a full chain.
    ///
    /// # Errors
    /// Where the engine fails.
    fn continue_at(&self, inverse_temperature: f64, from: &[SampledStart])
    -> Result<Vec<SampledStart>, SelectionError>;
}

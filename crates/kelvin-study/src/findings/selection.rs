//! What ways to choose β found: one choice a method, those that could not choose, and the choice of each start alone.

use kelvin::predictive::{ByModel, Scores};
use kelvin::selection::Selection;
use serde::{Deserialize, Serialize};

use crate::findings::which_way::WhichWay;

/// A method that chose.
#[derive(Debug, Serialize)]
pub struct Choice {
    #[serde(flatten)]
    pub selection: Selection,
    /// The goal in words.
    pub serves: &'static str,
    /// Whether β is meant to raise the held-out log predictive density.
    pub serves_lpd: bool,
    /// Validation scores of chains at β: what methods that sample choose by; none where none kept a draw.
    pub validation: Option<Scores>,
    /// Their test scores.
    pub test: Option<Scores>,
    /// Which way β should move from here for a larger LPD; none where it cannot be told.
    pub which_way: Option<ByModel<WhichWay>>,
}

/// A method that did not.
#[derive(Debug, Serialize)]
pub struct Refusal {
    pub method: &'static str,
    pub reason: String,
}

/// The methods that choose by searches alone, in the paper's order, with its names for them.
pub const SEARCHING: [(&str, &str); 3] = [("guo", "Guo et al."), ("map", "MAP"), ("joint", "MLE")];

/// What one start chose by one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartChoice {
    pub method: String,
    /// The number of the start, counted from 1.
    pub start: u32,
    pub inverse_temperature: f64,
    /// Test scores of its chain; none where that kept no draw.
    pub test: Option<Scores>,
}

//! What ways to choose β found: one choice a method, those that could not choose, and the choice of each start alone.

use kelvin::predictive::{ByModel, Scores};
use kelvin::selection::Selection;
use serde::{Deserialize, Serialize};

use crate::findings::which_way::WhichWay;

/// What one method chose, judged by chains at its β.
#[derive(Debug, Serialize)]
pub struct Choice {
    /// β with its intervals, cost and warnings.
    #[serde(flatten)]
    pub selection: Selection,
    /// What β is chosen for, in words.
    pub serves: &'static str,
    /// Whether β is meant to raise the held-out log predictive density.
    pub serves_lpd: bool,
    /// Validation scores of chains at β, by which methods that sample choose; none if no chain kept a draw.
    pub validation: Option<Scores>,
    /// Test scores of the same chains.
    pub test: Option<Scores>,
    /// Which way β should move from here for a larger LPD; none where it cannot be told.
    pub which_way: Option<ByModel<WhichWay>>,
}

/// A method that could not choose β here.
#[derive(Debug, Serialize)]
pub struct Refusal {
    /// The name of the method.
    pub method: &'static str,
    /// Why it could not, as a sentence.
    pub reason: String,
}

/// The methods that choose by searches alone, in the paper's order, with its names for them.
pub const SEARCHING: [(&str, &str); 3] = [("guo", "Guo et al."), ("map", "MAP"), ("joint", "MLE")];

/// What one start chose by one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartChoice {
    /// The name of the method.
    pub method: String,
    /// The number of the start, counted from 1.
    pub start: u32,
    /// The β that it chose from this start alone.
    pub inverse_temperature: f64,
    /// Test scores of the chain from this start; none if it kept no draw.
    pub test: Option<Scores>,
}

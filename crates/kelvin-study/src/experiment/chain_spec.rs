//! A chain to be sampled: what it is for, its temperature, its start; together they name its random numbers.

use std::sync::Arc;

/// What a chain of a repetition is for; it names the chain's random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The i-th temperature of the grid.
    Grid(u32),
    /// β = 1 outside a grid.
    Bayes,
    /// β̂*, the β that the search chose.
    Chosen,
    /// The search for β̂*.
    Selector,
    /// Trials of a step size.
    Pilot,
    /// A chain that goes on at another temperature; how often it has, counted from 1.
    Continued(u32),
}

impl Slot {
    const PER_REPETITION: u32 = 64;
    /// Chains that go on have ids above those of 16384 repetitions.
    const PER_CONTINUATION: u32 = 1 << 20;

    pub(crate) fn id(self, repetition: u32) -> u32 {
        let slot = match self {
            Self::Grid(index) => index,
            Self::Pilot => 60,
            Self::Bayes => 61,
            Self::Chosen => 62,
            Self::Selector => 63,
            Self::Continued(times) => times * Self::PER_CONTINUATION,
        };
        repetition * Self::PER_REPETITION + slot
    }
}

/// A chain to be sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainSpec {
    /// What people see in tables, figures and warnings.
    pub label: String,
    /// Names the starting point and, with the slot, the random numbers.
    pub repetition: u32,
    /// What it is for.
    pub slot: Slot,
    /// The inverse temperature of the target.
    pub inverse_temperature: f64,
    /// Where it starts, shared by the chains of a repetition; at the repetition's random weights where none is given.
    pub start: Option<Arc<StartingPoint>>,
}

/// Weights that a chain starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct StartingPoint {
    /// The weights θ of the network.
    pub position: Vec<f32>,
    /// Running statistics of batch norms.
    pub statistics: Vec<f32>,
}

impl ChainSpec {
    /// What the chains of its temperature are called in names of files.
    pub fn group_name(&self) -> String {
        match self.slot {
            Slot::Grid(_) => format!("beta-{}", self.inverse_temperature),
            Slot::Bayes => "bayes".into(),
            Slot::Chosen => "chosen".into(),
            Slot::Selector | Slot::Pilot | Slot::Continued(_) => "pilot".into(),
        }
    }

    /// The name of its file of draws, without the ending.
    pub fn draws_name(&self) -> String {
        format!("{}-{}", self.group_name(), self.repetition + 1)
    }
}

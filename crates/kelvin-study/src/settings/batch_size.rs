//! How many rows a step looks at: a number, or all.

use serde::{Deserialize, Serialize};

/// The number of training rows that each step looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchSize {
    /// A minibatch of this many rows.
    Rows(usize),
    /// The whole training set.
    Full(Full),
}

/// Stands for the word "full" in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Full {
    /// The whole training set.
    Full,
}

impl BatchSize {
    /// All training rows in every step.
    pub const FULL: Self = Self::Full(Full::Full);

    /// The number of rows, `None` for all.
    pub fn rows(self) -> Option<usize> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Full(_) => None,
        }
    }
}

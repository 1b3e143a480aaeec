//! How many training rows one step uses: a number, or all of them.

use serde::{Deserialize, Serialize};

/// Training rows of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchSize {
    /// This many rows.
    Rows(usize),
    /// All rows.
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

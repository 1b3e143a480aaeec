//! How many rows a step looks at: a number, or all.

use serde::{Deserialize, Serialize};

/// Rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchSize {
    /// So many.
    Rows(usize),
    /// All.
    Full(Full),
}

/// The word "full".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Full {
    /// All rows.
    Full,
}

impl BatchSize {
    /// All rows.
    pub const FULL: Self = Self::Full(Full::Full);

    /// The number of rows, `None` for all.
    pub fn rows(self) -> Option<usize> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Full(_) => None,
        }
    }
}

//! What was asked for: a run, a run with its grid, or a sweep.

use serde::{Deserialize, Serialize};

/// What fills a run folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    /// Searches for β from every start, then samples chains at β = 1 and at β̂*.
    Run,
    /// As `Run`, and also samples chains at every β of the grid.
    RunGrid,
    /// The paper's experiment: every repetition has its own search, and chains at each β of the grid and at its own β̂*.
    Sweep,
}

impl RunCommand {
    /// The command as it is typed: "run", "run --grid" or "sweep".
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::RunGrid => "run --grid",
            Self::Sweep => "sweep",
        }
    }
}

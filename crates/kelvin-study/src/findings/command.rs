//! What was asked for: a run, a run with its grid, or a sweep.

use serde::{Deserialize, Serialize};

/// What fills a run folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    Run,
    RunGrid,
    Sweep,
}

impl RunCommand {
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::RunGrid => "run --grid",
            Self::Sweep => "sweep",
        }
    }
}

//! Durable runs: a run that is killed at any moment is resumed from its last checkpoint.

mod pieces;
mod runs;
mod stored;

pub use runs::{DrawFiles, Durable, Recovery, TimedChoices};
pub use stored::StoredChains;

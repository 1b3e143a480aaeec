//! How far the chains of a population are to go, where that is decided on the way (`experiment/reach.rs`).

use serde::{Deserialize, Serialize};

/// Where chains are to stop and look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// Steps of the burn-in.
    pub burn_in: u64,
    /// Steps in all: as many as the burn-in while its end is not decided.
    pub num_steps: u64,
}

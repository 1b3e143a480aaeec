//! Why no temperature was chosen.

use std::borrow::Cow;
use std::error::Error as StdError;

use thiserror::Error;

use crate::draws::DrawsError;
use crate::predictive::PredictiveError;
use crate::sampler::EngineError;

/// Why no temperature was chosen.
#[derive(Debug, Error)]
pub enum SelectionError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Draws could not be read.
    #[error(transparent)]
    Draws(#[from] DrawsError),
    /// A predictive density has no scores.
    #[error(transparent)]
    Predictive(#[from] PredictiveError),
    /// What the method needs is not there.
    #[error("{method} cannot choose a temperature here: {reason}")]
    DoesNotSuit {
        /// The method.
        method: &'static str,
        /// Why, and what to do.
        reason: Cow<'static, str>,
    },
    /// Runs that the method asked for found nothing.
    #[error("{method} found nothing to choose from: {reason}")]
    NothingFound {
        /// The method.
        method: &'static str,
        /// What was missing, and what to do.
        reason: Cow<'static, str>,
    },
    /// A run could not be made.
    #[error("{0}")]
    Laboratory(Box<dyn StdError + Send + Sync>),
}

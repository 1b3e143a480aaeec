//! Why a study, or what is made of its folder, fails: messages that name the file or step, with their cause.

use std::error::Error;

use thiserror::Error;

use crate::error::experiment::ExperimentError;
use kelvin::data::DataError;
use kelvin::diagnostics::KineticError;
use kelvin::draws::DrawsError;
use kelvin::exact::LinearRegressionError;
use kelvin::network::NetworkError;
use kelvin::predictive::PredictiveError;
use kelvin::sampler::EngineError;
use kelvin::selection::SelectionError;

/// Why a study, or what is made of its folder, fails.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The experiment itself cannot run.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A way to choose β.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// A file of data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file of draws.
    #[error(transparent)]
    Draws(#[from] DrawsError),
    /// A predictive distribution or its scores.
    #[error(transparent)]
    Predictive(#[from] PredictiveError),
    /// The device that chains run on.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A network that cannot be built.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A band of temperatures that cannot be had.
    #[error(transparent)]
    Kinetic(#[from] KineticError),
    /// A model in closed form that cannot be solved.
    #[error(transparent)]
    ClosedForm(#[from] LinearRegressionError),
    /// A value that cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A line of CSV that cannot be written.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The request itself makes no sense.
    #[error("{0}")]
    WrongQuestion(String),
    /// A file or a folder is not what was asked for; nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// Nothing failed: the stage or the shard that was asked for is done, and with it all that was asked for.
    #[error("the part of the study that was asked for is done")]
    PieceDone,
    /// A step failed for a cause of its own.
    #[error("{step}")]
    Step {
        /// Which step, with the file it was about.
        step: String,
        /// The error that caused it.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
}

/// What a study, or something made of its folder, gives back.
pub type Result<T, E = StudyError> = std::result::Result<T, E>;

impl StudyError {
    /// Whether the request is wrong, rather than something having failed.
    pub fn is_wrong_question(&self) -> bool {
        match self {
            Self::WrongQuestion(_) => true,
            Self::Experiment(error) => error.is_wrong_question(),
            _ => false,
        }
    }
}

/// A [`StudyError::Refused`] with this message.
pub fn refused(message: impl Into<String>) -> StudyError {
    StudyError::Refused(message.into())
}

/// Says which step failed, above the cause.
pub trait Context<T> {
    /// Names the step in these words.
    fn context(self, step: impl Into<String>) -> Result<T>
    where
        Self: Sized;

    /// Names the step in words that are only made if it failed.
    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T>
    where
        Self: Sized;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, step: impl Into<String>) -> Result<T> {
        self.with_context(|| step)
    }

    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|cause| StudyError::Step { step: step().into(), cause: cause.into() })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, step: impl Into<String>) -> Result<T> {
        self.with_context(|| step)
    }

    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T> {
        self.ok_or_else(|| refused(step()))
    }
}

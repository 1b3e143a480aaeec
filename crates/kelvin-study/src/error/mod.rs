//! Why something that was asked for cannot be had: what was asked, what was found, what to do.

mod experiment;
mod study;

pub use experiment::ExperimentError;
pub use study::{Context, Result, StudyError, refused, resume_command};

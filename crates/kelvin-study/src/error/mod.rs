//! Why something that was asked for cannot be had: what was asked, what was found, what to do.

mod command_line;
mod experiment;
mod study;

pub use command_line::{path_word, resume_command, shell_word};
pub use experiment::ExperimentError;
pub use study::{Context, Result, StudyError, refused};

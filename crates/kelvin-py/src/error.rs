//! Errors of the libraries as Python exceptions, with their messages.

use std::error::Error;

use kelvin_study::error::{ExperimentError, StudyError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::wording::in_python;

/// The exceptions of `kelvin/errors.py`.
const MODULE: &str = "kelvin.errors";

/// Why something could not be done, before it is an exception: workers have no interpreter at hand.
#[derive(Debug)]
pub struct Failure {
    message: String,
    is_wrong_question: bool,
}

impl Failure {
    /// Something that was asked for makes no sense.
    pub fn question(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_wrong_question: true }
    }

    /// Something failed.
    pub fn other(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_wrong_question: false }
    }

    fn of(error: &(dyn Error + 'static), is_wrong_question: bool) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors already quote their cause.
            if !message.contains(&text) {
                message = format!("{message}\n  {text}");
            }
            cause = error.source();
        }
        Self { message, is_wrong_question }
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        let is_about_data = matches!(&error, StudyError::Data(_) | StudyError::Experiment(ExperimentError::Data(_)));
        let is_wrong_question = error.is_wrong_question() || is_about_data;
        Self::of(&error, is_wrong_question)
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        StudyError::from(error).into()
    }
}

impl From<kelvin::data::DataError> for Failure {
    fn from(error: kelvin::data::DataError) -> Self {
        StudyError::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::of(&error, false)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let name = if failure.is_wrong_question { "InputError" } else { "KelvinError" };
        Python::attach(|py| {
            let message = in_python(&failure.message).into_owned();
            let class = py.import(MODULE).and_then(|module| module.getattr(name));
            match class.and_then(|class| class.call1((message.clone(),))) {
                Ok(exception) => Self::from_value(exception),
                Err(_) => PyRuntimeError::new_err(message),
            }
        })
    }
}

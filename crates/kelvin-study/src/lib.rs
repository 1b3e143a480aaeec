//! What a person asks for: an experiment described by settings, run so that it survives being killed, and what it found.

pub mod checkpoint;
pub mod csv_text;
pub mod durable;
pub mod error;
pub mod experiment;
pub mod problem;
pub mod settings;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

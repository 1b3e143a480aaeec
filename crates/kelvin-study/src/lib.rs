//! What a person asks for: an experiment described by settings, run so that it survives being killed, and what it found.
//!
//! ```text
//! settings ─▶ problem ─▶ experiment ─▶ durable ─▶ findings ─▶ folder ─▶ study (run, sweep, select)
//! ```
//! A room imports only from its left; the architecture test of the workspace keeps it so.

pub mod checkpoint;
pub mod csv_text;
pub mod durable;
pub mod error;
pub mod experiment;
pub mod findings;
pub mod folder;
pub mod number;
pub mod problem;
pub mod settings;
pub mod study;
pub mod version;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/guide/library.md")]
struct BookExamples;

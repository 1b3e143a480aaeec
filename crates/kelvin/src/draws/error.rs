//! Why draws could not be written or read.

use std::path::PathBuf;

use thiserror::Error;

/// Why draws could not be written or read.
#[derive(Debug, Error)]
pub enum DrawsError {
    /// The file system said no.
    #[error("cannot {action} the draws {path}: {source}")]
    File {
        /// "write" or "read".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// Draws that were scored and not stored.
    #[error("the draws were scored and not stored; run with sampler.draws = \"stored\" to keep them")]
    NotStored,
    /// Not a whole file of draws.
    #[error("{path} is not a readable draws file ({reason}); it may be cut off or damaged: run the experiment again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Draws of another network.
    #[error("{path} holds no draws of this network: {reason}; was experiment.toml changed after the run?")]
    OtherNetwork {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Written by another kelvin, in a format that this one does not know.
    #[error("{path} has format {found}, and this kelvin knows {known}; use the kelvin that wrote it")]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format known here.
        known: u32,
    },
}

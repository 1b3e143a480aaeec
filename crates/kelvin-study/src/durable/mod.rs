//! Runs that may be cut anywhere: what is done is stored in pieces, and the next start goes on from there.

mod pieces;
mod runs;

pub use runs::{DrawFiles, Durable, Recovery};

//! From a file to rows a network can read.

mod examples;

pub use examples::{Examples, Targets};

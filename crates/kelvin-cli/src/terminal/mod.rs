//! How a study goes, on standard error: lines that are drawn over again, or a sentence now and then.

pub mod lines;
mod progress;
pub mod screen;

pub use progress::Terminal;

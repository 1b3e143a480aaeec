//! Runs side by side, and what a temperature gains.

mod comparison;
mod difference;
mod gain;
mod headline;
mod predicting;
mod sweep_comparison;
mod verdict;

pub use comparison::{Compared, Kind, Pair, Run, Score, compare_pair};
pub use difference::Difference;
pub use gain::{Gain, gain};
pub use headline::headline;
pub use predicting::{predicting_text, trials_text};
pub use sweep_comparison::SweepComparison;
pub use verdict::{best_of, verdict};

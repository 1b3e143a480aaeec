//! The figures of a run and of a sweep, from what was found: each a chart, its views, its caption and the numbers behind it.

mod across;
mod calibration;
mod chains;
mod figure;
mod grid;
mod of_run;
mod predicted;
mod search;
mod theory;
mod toy;

pub(crate) use across::{across, overlaid_lpd};
pub(crate) use figure::{Drawing, Figure, Plot};
pub(crate) use of_run::RunFigures;
pub use toy::{bound, gaussian_toy, value_at};

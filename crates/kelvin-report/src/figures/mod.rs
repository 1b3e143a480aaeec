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

pub use across::{across, overlaid_lpd};
pub use figure::{Drawing, Figure, Models, Plot};
pub use of_run::RunFigures;
pub use toy::{bound, gaussian_toy, value_at};

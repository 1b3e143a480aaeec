//! What a person asks for, from beginning to end: a run, a sweep, ways to choose β side by side.
//!
//! A study prints nothing: a [`StudyObserver`] is told how it goes, a [`Cancel`] stops it, and its [`Outcome`] says which of both
//! ended it.

mod cancel;
mod conduct;
mod cost;
mod cross_validate;
mod each_start;
mod gather;
mod held_out_models;
mod observer;
mod piece;
mod predictors;
mod progress;
mod run;
mod select;
mod stages;
mod sweep;
mod sweep_chains;
mod timeline;
mod trials;
mod watched_laboratory;

pub use cancel::Cancel;
pub use conduct::{FinishedStudy, OpenStudy, Outcome, Study};
pub use cost::{Cost, Worker, Workload};
pub use observer::{Note, StageEnd, StudyObserver, Unobserved};
pub use piece::Piece;
pub use select::{Methods, SelectStudy, Selected};

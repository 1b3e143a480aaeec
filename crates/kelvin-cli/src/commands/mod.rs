//! One file for each command.

pub mod bench;
pub mod compare;
mod conduct;
pub mod data;
pub mod diagnose;
pub mod export;
pub mod merge;
pub mod predict;
mod predicted;
pub mod presets;
pub mod report;
pub mod resume;
pub mod run;
pub mod select;
pub mod status;
pub mod submit;
pub mod sweep;
pub mod toy;
pub mod verify;
pub mod watch;

//! Watching a run: its status on the way as a value and a file, as lines of a terminal, and as a local page.

pub mod lines;
pub mod screen;
pub mod server;
pub mod status;

//! Watching a run from its folder, as a local page.

pub mod server;

//! One file for each command.

pub mod bench;
pub mod data;
pub mod predict;
pub mod presets;
pub mod run;
pub mod sweep;

/// Sizes the pool of threads that all populations share.
fn threads(asked: Option<u16>) -> anyhow::Result<()> {
    let threads = asked.map_or(0, usize::from);
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?)
}

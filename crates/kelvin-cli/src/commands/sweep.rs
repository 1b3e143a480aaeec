//! x
use crate::arguments::*;
pub fn sweep(_: &SweepArguments) -> anyhow::Result<()> {
    Ok(())
}

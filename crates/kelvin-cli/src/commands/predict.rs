//! x
use crate::arguments::*;
pub fn predict(_: &PredictArguments) -> anyhow::Result<()> {
    Ok(())
}

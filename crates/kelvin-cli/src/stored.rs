//! Doors to what reads the files of a run folder, for tests of bad input: bytes in, nothing or an error out.

use std::path::Path;

use kelvin_study::folder::{RunRecord, SavedModel};

/// Reads a run.json with all that going on from it asks of it.
pub fn read_run_record(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let record = RunRecord::from_bytes(path, bytes)?;
    let settings = record.settings(path)?;
    record.check_same(&record.clone(), path)?;
    settings.to_toml()?;
    Ok(())
}

/// Reads a model.json and checks that its parts fit each other.
pub fn read_model(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    SavedModel::from_json(path, bytes)?;
    Ok(())
}

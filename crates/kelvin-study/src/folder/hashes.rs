//! hashes.json: SHA-256 of every file that a finished run's results rest on, for `kelvin verify`.

use crate::error::{Context, Result, refused};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the file of hashes in a run folder.
pub const HASHES: &str = "hashes.json";
const FORMAT: u32 = 1;
/// Files of the folder itself. Tables, figures and the report are left out, since they can be made again from these.
const FILES: [&str; 9] = [
    "checkpoints/run.json",
    "experiment.toml",
    "metrics.csv",
    "model.json",
    "provenance.json",
    "results.json",
    "scores.csv",
    "split.json",
    "warnings.json",
];
/// All files of these folders with this ending.
const FOLDERS: [(&str, &str); 3] = [("checkpoints", "checkpoint"), ("draws", "safetensors"), ("predictions", "csv")];

/// SHA-256 of the files of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hashes {
    format: u32,
    /// Lower-case hexadecimal hash of each file, by its path relative to the run folder, in order of names.
    pub files: BTreeMap<String, String>,
}

impl Hashes {
    /// Hashes the files of a run folder as they are now.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn of(folder: &Path) -> Result<Self> {
        let mut names: Vec<String> = FILES.iter().map(|name| (*name).to_owned()).collect();
        names.extend(names_in_folders(folder)?);
        names.retain(|name| folder.join(name).is_file());
        let hashed = |name: String| file_hash(&folder.join(&name)).map(|hash| (name, hash));
        Ok(Self { format: FORMAT, files: names.into_iter().map(hashed).collect::<Result<_>>()? })
    }

    /// A checkpoint, draws or predictions that lie in the folder without a hash here; none where all have one.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn unlisted(&self, folder: &Path) -> Result<Option<String>> {
        Ok(names_in_folders(folder)?.into_iter().find(|name| !self.files.contains_key(name)))
    }

    /// Reads hashes.json; `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged or of another format.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(HASHES);
        let Ok(bytes) = std::fs::read(&path) else { return Ok(None) };
        let hashes: Self = serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
        if hashes.format != FORMAT {
            return Err(refused(format!(
                "{} has format {}, and this kelvin knows {FORMAT}",
                path.display(),
                hashes.format
            )));
        }
        Ok(Some(hashes))
    }
}

/// Files of the folders that are hashed, by their paths relative to the run folder.
fn names_in_folders(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (inner, ending) in FOLDERS {
        let inner_path = folder.join(inner);
        let Ok(entries) = inner_path.read_dir() else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {}", inner_path.display()))?.path();
            if path.extension().is_some_and(|found| found == ending)
                && let Some(name) = path.file_name().and_then(|name| name.to_str())
            {
                names.push(format!("{inner}/{name}"));
            }
        }
    }
    Ok(names)
}

/// SHA-256 of a file in lower-case hexadecimal, read piece by piece.
///
/// # Errors
/// If the file cannot be read.
pub fn file_hash(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut hash = Sha256::new();
    std::io::copy(&mut File::open(path).with_context(cannot)?, &mut hash).with_context(cannot)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

//! hashes.json: SHA-256 of every file that a finished run's results rest on, for `kelvin verify`.

use crate::error::{Context, Result, refused};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Its name in a run folder.
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

/// Hashes by the names of files, in order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hashes {
    format: u32,
    pub files: BTreeMap<String, String>,
}

impl Hashes {
    /// Of a run folder as it is.
    pub fn of(folder: &Path) -> Result<Self> {
        let mut names: Vec<String> = FILES.iter().map(|name| (*name).to_owned()).collect();
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
        names.retain(|name| folder.join(name).is_file());
        let hashed = |name: String| file_hash(&folder.join(&name)).map(|hash| (name, hash));
        Ok(Self { format: FORMAT, files: names.into_iter().map(hashed).collect::<Result<_>>()? })
    }

    /// Reads hashes.json; `None` where there is none.
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

/// SHA-256 of a file, read piece by piece.
pub fn file_hash(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut hash = Sha256::new();
    std::io::copy(&mut File::open(path).with_context(cannot)?, &mut hash).with_context(cannot)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

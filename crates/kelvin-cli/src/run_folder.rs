//! The folder of a run: made once, refused when it holds something else, every file written whole.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelvin::experiment::{Experiment, Settings};
use kelvin::write_file::write_atomically;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::chart;
use crate::provenance::Provenance;

/// Pixels across a PNG figure.
const PNG_WIDTH: u32 = 1280;
const PROVENANCE: &str = "provenance.json";

/// A run folder that may be written to.
pub struct RunFolder {
    path: PathBuf,
    /// SHA-256 of the command and the settings as they were asked for.
    identity: String,
}

impl RunFolder {
    /// Opens `asked`, or `runs/<name>-<short hash of command and settings>`; a folder that holds anything but the same
    /// experiment is left alone.
    pub fn open(asked: Option<&Path>, command: &str, settings: &Settings) -> anyhow::Result<Self> {
        let hash = Sha256::digest(format!("{command}\n{}", settings.to_toml()?));
        let identity: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = asked.map_or_else(
            || PathBuf::from("runs").join(format!("{}-{}", as_file_name(&settings.name), &identity[..8])),
            Path::to_path_buf,
        );
        if path.is_file() {
            bail!("{} is a file; name a folder with --out", path.display());
        }
        let occupied = path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            let found = std::fs::read(path.join(PROVENANCE)).ok();
            let found: Option<serde_json::Value> = found.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            match found.as_ref().and_then(|found| found["asked_sha256"].as_str()) {
                Some(found) if found == identity => {}
                Some(_) => bail!(
                    "{} holds a run with other settings; nothing was changed. Name another folder with --out",
                    path.display()
                ),
                None => bail!(
                    "{} holds files that are no run of kelvin; nothing was changed. Name another folder with --out",
                    path.display()
                ),
            }
        }
        for inner in ["draws", "figures"] {
            let inner = path.join(inner);
            std::fs::create_dir_all(&inner).with_context(|| format!("cannot create the folder {}", inner.display()))?;
        }
        Ok(Self { path, identity })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn draws(&self, name: &str) -> PathBuf {
        self.path.join("draws").join(format!("{name}.safetensors"))
    }

    /// Writes one file whole.
    pub fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(name);
        write_atomically(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    pub fn write_json(&self, name: &str, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(value).with_context(|| format!("cannot write {name} as JSON"))?;
        text.push('\n');
        self.write(name, text.as_bytes())
    }

    /// Writes what is known before the first step.
    pub fn write_start(&self, experiment: &Experiment<'_>) -> anyhow::Result<()> {
        self.write_json(PROVENANCE, &Provenance::new(self.identity.clone(), experiment))?;
        // Images come divided.
        if let Some(table) = experiment.problem.table() {
            self.write_json("split.json", &table.split)?;
        }
        self.write_settings(&experiment.settings)
    }

    /// Writes the resolved settings; `kelvin run experiment.toml` repeats the run.
    pub fn write_settings(&self, settings: &Settings) -> anyhow::Result<()> {
        self.write("experiment.toml", settings.to_toml()?.as_bytes())
    }

    /// Writes a figure as SVG and PNG.
    pub fn write_figure(&self, name: &str, svg: &str) -> anyhow::Result<()> {
        self.write(&format!("figures/{name}.svg"), svg.as_bytes())?;
        self.write(&format!("figures/{name}.png"), &chart::rasterise(svg, PNG_WIDTH)?)
    }
}

/// The name with everything but letters, digits, `-`, `_` and inner dots replaced, so that it stays one folder.
fn as_file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.trim_matches('.').chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_folder() {
        assert_eq!(as_file_name("concrete-quick"), "concrete-quick");
        assert_eq!(as_file_name("../my data/v1.2"), "-my-data-v1.2");
    }
}

//! A finished run as its folder holds it: everything that tables, figures and reports are made from.

use kelvin_study::error::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kelvin_study::settings::Settings;

use crate::cases::{Cases, read_pictures};
use crate::compare::{Gain, gain};
use kelvin_study::findings::{Findings, Predictions};
use kelvin_study::folder::{PROVENANCE, Provenance, SETTINGS, check_keeps_to_itself};

/// A finished run: what it found, how, and the predictions that the report shows one by one.
pub struct RunFiles {
    /// The path of the run folder.
    pub folder: PathBuf,
    /// Everything that it found.
    pub findings: Findings,
    /// The settings that it ran with.
    pub settings: Settings,
    /// experiment.toml as it is written.
    pub(crate) settings_text: String,
    /// Where the numbers come from; none if provenance.json is missing or damaged: no number depends on it.
    pub(crate) provenance: Option<Provenance>,
    /// Predictions at β̂*, of a sweep those of its first repetition.
    pub(crate) chosen: Option<Predictions>,
    /// What β̂* gains over β = 1.
    pub gain: Gain,
    /// PNG files of the cases that the report shows, by the number of the test image.
    pub(crate) pictures: BTreeMap<usize, Vec<u8>>,
}

impl RunFiles {
    /// Reads a finished run.
    ///
    /// # Errors
    /// If the run is not finished, a file is missing or damaged, or the folder holds links.
    pub fn read(folder: &Path) -> Result<Self> {
        check_keeps_to_itself(folder)?;
        Self::of(folder, Findings::read(folder)?)
    }

    /// Reads the other files of a run with these findings.
    pub(crate) fn of(folder: &Path, findings: Findings) -> Result<Self> {
        let path = folder.join(SETTINGS);
        let settings_text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let settings = Settings::from_toml(&settings_text, &path.display().to_string())?;
        let row = findings.shown_row();
        let chosen = row.map(|row| Predictions::read(&folder.join(format!("predictions/{}.csv", row.file_name()))));
        let chosen = chosen.transpose()?;
        let pictures = chosen.as_ref().map_or(BTreeMap::new(), |chosen| read_pictures(folder, &Cases::of(chosen)));
        let provenance = Provenance::read(&folder.join(PROVENANCE));
        let gain = gain(folder, &findings);
        Ok(Self { folder: folder.to_path_buf(), findings, settings, settings_text, provenance, chosen, gain, pictures })
    }
}

//! A finished run, read back from its folder: what it found, its network, its draws, and the rows it was judged on.

use crate::error::{Context, Result, refused};
use std::path::{Path, PathBuf};

use crate::problem::Problem;
use crate::settings::{DrawsSetting, Settings};
use kelvin::draws::{DrawLayout, Draws};
use kelvin::network::{Network, Shape};

use crate::findings::Findings;
use crate::folder::links::check_keeps_to_itself;
use crate::folder::provenance::{Provenance, data_hashes};
use crate::folder::record::{DataHashes, RunRecord};
use crate::folder::run_folder::{PROVENANCE, SETTINGS, record_and_settings};

/// A finished run with everything that is needed to predict or to check it again.
pub struct FinishedRun {
    /// The path of the run folder.
    pub folder: PathBuf,
    /// Everything that it found.
    pub findings: Findings,
    /// What it is a run of; none if checkpoints/run.json is lost.
    pub record: Option<RunRecord>,
    /// The settings, with the step size that a pilot found.
    pub settings: Settings,
    /// The network, without weights: those are in the draws.
    pub network: Network,
}

impl FinishedRun {
    /// Reads results.json, the record and the settings, and builds the network.
    ///
    /// # Errors
    /// If the run is not finished, a file is damaged, or experiment.toml was changed since.
    pub fn read(folder: &Path) -> Result<Self> {
        check_keeps_to_itself(folder)?;
        let findings = Findings::read(folder)?;
        let (record, settings) = match record_and_settings(folder)? {
            Some((record, mut settings)) => {
                record.put_found(&mut settings);
                (Some(record), settings)
            }
            None => (None, written_settings(folder)?),
        };
        let facts = &findings.problem;
        let input = match facts.image {
            Some([height, width, channels]) => Shape::image(height, width, channels),
            None => Shape::flat(facts.inputs.unwrap_or(facts.features.len())),
        };
        let network = settings.model.build(input, facts.likelihood.num_outputs())?;
        Ok(Self { folder: folder.into(), findings, record, settings, network })
    }

    /// Reads the data again, from where the run read them unless `data_dir` is given.
    ///
    /// # Errors
    /// If they are not there any more, or cannot be read.
    pub fn read_problem(&self, data_dir: Option<&Path>) -> Result<Problem> {
        let data = match &self.record {
            Some(record) => record.read_data(&self.settings, data_dir)?,
            None => Problem::read_dataset(&self.settings, data_dir)?,
        };
        Ok(Problem::new(data, &self.settings)?)
    }

    /// Checks that these are the data of the run, by their hashes.
    ///
    /// # Errors
    /// If the data have changed, or no file says what they were.
    pub fn check_data(&self, problem: &Problem) -> Result<()> {
        let then = self.data_hashes().with_context(|| {
            format!(
                "it is not known which data {} was made of: its {PROVENANCE} is missing or damaged",
                self.folder.display()
            )
        })?;
        let now = data_hashes(problem);
        if then != now {
            return Err(refused(format!(
                "the data have changed since {} was made\n  SHA-256 of the numbers then: {}, now: {}\n  \
                 put the old data back, or run the experiment again",
                self.folder.display(),
                then.described(),
                now.described(),
            )));
        }
        Ok(())
    }

    /// SHA-256 of the data that the run read; none if no file of the run holds it any more.
    pub fn data_hashes(&self) -> Option<DataHashes> {
        let written = || Provenance::read(&self.folder.join(PROVENANCE)).map(|provenance| provenance.data_hashes());
        self.record.as_ref().map(RunRecord::data_hashes).or_else(written)
    }

    /// Whether its draws were stored, and not only scored.
    pub fn has_draws(&self) -> bool {
        self.settings.sampler.draws == DrawsSetting::Stored
    }

    /// The file of a chain's draws, whether or not it exists.
    pub fn draws_path(&self, chain: &str) -> PathBuf {
        self.folder.join("draws").join(format!("{chain}.safetensors"))
    }

    /// The tensors of its draws.
    pub fn draw_layout(&self) -> DrawLayout {
        (&self.network, self.findings.problem.likelihood).into()
    }

    /// Opens the draws of a chain, checked against their own hash.
    ///
    /// # Errors
    /// If the file is missing, damaged, or of another network.
    pub fn draws(&self, chain: &str) -> Result<Draws> {
        let path = self.draws_path(chain);
        Draws::open(&path, self.draw_layout()).with_context(|| format!("cannot use {}", path.display()))
    }
}

/// The settings of experiment.toml, which has what a pilot found.
fn written_settings(folder: &Path) -> Result<Settings> {
    let path = folder.join(SETTINGS);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Settings::from_toml(&text, &path.display().to_string())?)
}

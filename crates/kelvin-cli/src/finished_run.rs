//! A finished run, read back from its folder: what it found, its network, its draws, and the rows it was judged on.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelvin::draws::{DrawLayout, Draws};
use kelvin::experiment::{DrawsSetting, Problem, Settings};
use kelvin::network::{Network, Shape};

use crate::findings::Findings;
use crate::provenance::{Provenance, data_hashes};
use crate::run_folder::{PROVENANCE, SETTINGS, record_and_settings};
use crate::run_record::{DataHashes, RunRecord};
use crate::source;

pub struct FinishedRun {
    pub folder: PathBuf,
    pub findings: Findings,
    /// None where checkpoints/run.json is lost.
    pub record: Option<RunRecord>,
    /// With the step size that a pilot found.
    pub settings: Settings,
    pub network: Network,
}

impl FinishedRun {
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let findings = Findings::read(folder)?;
        let (record, settings) = match record_and_settings(folder)? {
            Some((record, mut settings)) => {
                settings.sampler.learning_rate = record.tuned_learning_rate.unwrap_or(settings.sampler.learning_rate);
                (Some(record), settings)
            }
            None => (None, written_settings(folder)?),
        };
        let facts = &findings.problem;
        let input = match facts.image {
            Some([height, width, channels]) => Shape::image(height, width, channels),
            None => Shape::flat(facts.features.len()),
        };
        let network = settings.model.build(input, facts.likelihood.num_outputs())?;
        Ok(Self { folder: folder.into(), findings, record, settings, network })
    }

    /// The rows, read again from where they were.
    ///
    /// # Errors
    /// Where they are not there any more, or cannot be read.
    pub fn read_problem(&self, data_dir: Option<&Path>) -> anyhow::Result<Problem> {
        let data = match &self.record {
            Some(record) => source::stored(record, self.settings.clone(), data_dir)?.data,
            None => Problem::read_dataset(&self.settings, data_dir)?,
        };
        Ok(Problem::new(data, &self.settings)?)
    }

    /// Refuses rows that are not those of the run.
    pub fn check_data(&self, problem: &Problem) -> anyhow::Result<()> {
        let then = self.data_hashes().with_context(|| {
            format!(
                "it is not known which data {} was made of: its {PROVENANCE} is missing or damaged",
                self.folder.display()
            )
        })?;
        let now = data_hashes(problem);
        if then != now {
            bail!(
                "the data have changed since {} was made\n  SHA-256 of the numbers then: {}, now: {}\n  \
                 put the old data back, or run the experiment again",
                self.folder.display(),
                then.described(),
                now.described(),
            );
        }
        Ok(())
    }

    /// SHA-256 of the numbers that were read, as far as a file still tells it.
    pub fn data_hashes(&self) -> Option<DataHashes> {
        let written = || Provenance::read(&self.folder.join(PROVENANCE)).map(|provenance| provenance.data_hashes());
        self.record.as_ref().map(RunRecord::data_hashes).or_else(written)
    }

    /// Whether its draws were stored, and not only scored.
    pub fn has_draws(&self) -> bool {
        self.settings.sampler.draws == DrawsSetting::Stored
    }

    /// Where the draws of a chain are.
    pub fn draws_path(&self, chain: &str) -> PathBuf {
        self.folder.join("draws").join(format!("{chain}.safetensors"))
    }

    /// The tensors of its draws.
    pub fn draw_layout(&self) -> DrawLayout {
        (&self.network, self.findings.problem.likelihood).into()
    }

    /// Opens the draws of a chain, checked against their own hash.
    pub fn draws(&self, chain: &str) -> anyhow::Result<Draws> {
        let path = self.draws_path(chain);
        Draws::open(&path, self.draw_layout()).with_context(|| format!("cannot use {}", path.display()))
    }
}

/// The settings of experiment.toml, which has what a pilot found.
fn written_settings(folder: &Path) -> anyhow::Result<Settings> {
    let path = folder.join(SETTINGS);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Settings::from_toml(&text, &path.display().to_string())?)
}

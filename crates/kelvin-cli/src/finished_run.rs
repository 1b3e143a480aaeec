//! A finished run, read back from its folder: what it found, its network, its draws, and the rows it was judged on.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelvin::draws::Draws;
use kelvin::experiment::{DrawsSetting, Problem, Settings};
use kelvin::network::{Network, Shape};

use crate::findings::Findings;
use crate::provenance::data_hashes;
use crate::run_folder::stored_run;
use crate::run_record::RunRecord;
use crate::source;

pub struct FinishedRun {
    pub folder: PathBuf,
    pub findings: Findings,
    pub record: RunRecord,
    /// With the step size that a pilot found.
    pub settings: Settings,
    pub network: Network,
}

impl FinishedRun {
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let findings = Findings::read(folder)?;
        let (record, mut settings) = stored_run(folder)?;
        settings.sampler.learning_rate = record.tuned_learning_rate.unwrap_or(settings.sampler.learning_rate);
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
        let source = source::stored(&self.record, self.settings.clone(), data_dir)?;
        Ok(Problem::new(source.data, &self.settings)?)
    }

    /// Refuses rows that are not those of the run.
    pub fn check_data(&self, problem: &Problem) -> anyhow::Result<()> {
        let (then, now) = (self.record.data_hashes(), data_hashes(problem));
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

    /// Whether its draws were stored, and not only scored.
    pub fn has_draws(&self) -> bool {
        self.settings.sampler.draws == DrawsSetting::Stored
    }

    /// Where the draws of a chain are.
    pub fn draws_path(&self, chain: &str) -> PathBuf {
        self.folder.join("draws").join(format!("{chain}.safetensors"))
    }

    /// Opens the draws of a chain, checked against their own hash.
    pub fn draws(&self, chain: &str) -> anyhow::Result<Draws> {
        let path = self.draws_path(chain);
        Draws::open(&path, &self.network).with_context(|| format!("cannot use {}", path.display()))
    }
}

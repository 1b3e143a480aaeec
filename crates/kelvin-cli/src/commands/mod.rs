//! One file for each command.

pub mod bench;
pub mod compare;
pub mod data;
pub mod diagnose;
pub mod export;
pub mod predict;
pub mod presets;
pub mod report;
pub mod resume;
pub mod run;
pub mod select;
pub mod sweep;
pub mod toy;
pub mod verify;
pub mod watch;

use std::path::Path;

use kelvin_study::experiment::Experiment;
use kelvin_study::problem::Problem;

use crate::arguments::ConductArguments;
use crate::device;
use crate::provenance::data_hashes;
use crate::run_folder::RunFolder;
use crate::run_record::{RunCommand, RunRecord};
use crate::source::Source;

/// Sizes the pool of threads that all populations share.
fn threads(asked: Option<u16>) -> anyhow::Result<()> {
    let threads = asked.map_or(0, usize::from);
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?)
}

/// A run or a sweep that is asked for, by its own command or by going on with its folder.
pub struct Request<'a> {
    pub command: RunCommand,
    pub source: Source,
    /// The run folder.
    pub out: Option<&'a Path>,
    /// Whether to forget what the folder holds.
    pub fresh: bool,
    pub conduct: &'a ConductArguments,
}

impl Request<'_> {
    /// The experiment on its device, and the folder it is stored in; settings that a pilot has found are the found ones.
    fn open(self) -> anyhow::Result<(Experiment, RunFolder)> {
        let Self { command, source: Source { settings, data, automatic }, out, fresh, conduct } = self;
        let problem = Problem::new(data, &settings)?;
        let mut experiment = device::experiment(conduct.device, conduct.quiet, problem, settings)?;
        // The folder is named after the settings as they were asked for, before any pilot.
        let (settings, hashes) = (&mut experiment.settings, data_hashes(&experiment.problem));
        let record = RunRecord::new(command, automatic, settings, hashes, conduct.data_dir.as_deref())?;
        let folder = RunFolder::open(out, &settings.name, record, fresh)?;
        if let Some(rate) = folder.record().tuned_learning_rate {
            settings.sampler.learning_rate = rate;
        }
        folder.write_start(&experiment)?;
        Ok((experiment, folder))
    }
}

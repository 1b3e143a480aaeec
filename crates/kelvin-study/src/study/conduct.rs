//! A run or a sweep as it was asked for, carried out in its folder.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{ExperimentError, Result, StudyError};
use crate::experiment::Experiment;
use crate::findings::{Findings, RunCommand};
use crate::folder::{RunFolder, RunRecord, Stage, data_hashes};
use crate::problem::Problem;
use crate::study::cancel::Cancel;
use crate::study::observer::{Note, StudyObserver, Unobserved};
use crate::study::stages::Stages;
use crate::study::{run, sweep};

/// A run or a sweep that is asked for; begun anew, or gone on with where its folder holds it.
pub struct Study {
    /// What is asked for.
    pub command: RunCommand,
    /// The problem, its settings, and the engine they run on.
    pub experiment: Experiment,
    /// Whether step sizes were derived from the table ([`crate::experiment::automatic_settings`]) and want a pilot.
    pub automatic: bool,
    /// Where it is stored; `runs/NAME-HASH` where none is given.
    pub folder: Option<PathBuf>,
    /// Whether to forget what the folder holds of it.
    pub fresh: bool,
    /// Where files of known data sets were, to find them again.
    pub data_folder: Option<PathBuf>,
    /// Who is told how it goes.
    pub observer: Arc<dyn StudyObserver>,
    /// Stops it.
    pub cancel: Cancel,
}

/// How a study ended.
#[derive(Debug)]
#[must_use]
pub enum Outcome<T> {
    /// All of it was done.
    Finished(T),
    /// It was cancelled; a study with a folder goes on from there when it is asked for again.
    Stopped,
}

/// A study that was carried out; its folder is its own for as long as this lives.
pub struct FinishedStudy {
    /// Everything it found.
    pub findings: Findings,
    /// Where that was written.
    pub folder: RunFolder,
    /// The rows.
    pub problem: Arc<Problem>,
}

impl Study {
    /// A study of an experiment that nobody watches, in the folder named after it.
    pub fn new(command: RunCommand, experiment: Experiment) -> Self {
        Self {
            command,
            experiment,
            automatic: false,
            folder: None,
            fresh: false,
            data_folder: None,
            observer: Arc::new(Unobserved),
            cancel: Cancel::default(),
        }
    }

    /// The folder it is stored in, opened for it alone.
    ///
    /// # Errors
    /// Where the folder holds anything but this study, or cannot be written.
    pub fn open(self) -> Result<OpenStudy> {
        let Self { command, mut experiment, automatic, folder, fresh, data_folder, observer, cancel } = self;
        // The folder is named after the settings as they were asked for, before any pilot.
        let (settings, hashes) = (&mut experiment.settings, data_hashes(&experiment.problem));
        let record = RunRecord::new(command, automatic, settings, hashes, data_folder.as_deref())?;
        let folder = RunFolder::open(folder.as_deref(), &settings.name, record, fresh)?;
        if let Some(rate) = folder.record().tuned_learning_rate {
            settings.sampler.learning_rate = rate;
        }
        for note in folder.write_start(&experiment)? {
            observer.note(&Note::GoesOn(&note));
        }
        Ok(OpenStudy { command, experiment, folder, observer, cancel })
    }

    /// Does all of it, or goes on with what its folder holds.
    ///
    /// # Errors
    /// As [`Study::open`]; where chains cannot be moved, or files cannot be written.
    pub fn carry_out(self) -> Result<Outcome<FinishedStudy>> {
        self.open()?.carry_out()
    }
}

/// A study with its folder.
pub struct OpenStudy {
    command: RunCommand,
    experiment: Experiment,
    folder: RunFolder,
    observer: Arc<dyn StudyObserver>,
    cancel: Cancel,
}

impl OpenStudy {
    /// Where it is stored.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Does all of it, or goes on with what its folder holds.
    ///
    /// # Errors
    /// Where chains cannot be moved, or files cannot be written.
    pub fn carry_out(self) -> Result<Outcome<FinishedStudy>> {
        let Self { command, experiment, folder, observer, cancel } = self;
        let problem = Arc::clone(&experiment.problem);
        let mut stages = Stages { experiment, folder, observer, cancel };
        let found = match command {
            RunCommand::Run | RunCommand::RunGrid => run::run(&mut stages, command),
            RunCommand::Sweep => sweep::sweep(&mut stages),
        };
        let findings = match found {
            Ok(findings) => findings,
            Err(StudyError::Experiment(ExperimentError::Interrupted)) => return Ok(Outcome::Stopped),
            Err(error) => return Err(error),
        };
        let folder = stages.folder;
        folder.write_findings(&findings)?;
        folder.write_hashes()?;
        folder.status().write_stage(Stage::Done);
        Ok(Outcome::Finished(FinishedStudy { findings, folder, problem }))
    }
}

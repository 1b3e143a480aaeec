//! A run or a sweep as it was asked for, carried out in its folder.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{ExperimentError, Result, StudyError, refused, resume_command};
use crate::experiment::Experiment;
use crate::findings::{Findings, RunCommand};
use crate::folder::{RunFolder, RunRecord, Stage, data_hashes};
use crate::problem::Problem;
use crate::study::cancel::Cancel;
use crate::study::observer::{Note, StudyObserver, Unobserved};
use crate::study::stages::Stages;
use crate::study::{run, sweep};

/// A run or a sweep to be carried out in its folder; resumed if the folder holds a part of it.
pub struct Study {
    /// Whether it is a run, a run with its grid, or a sweep.
    pub command: RunCommand,
    /// The problem, its settings, and the engine they run on.
    pub experiment: Experiment,
    /// Whether step sizes were derived from the table ([`crate::experiment::automatic_settings`]) and want a pilot.
    pub automatic: bool,
    /// Where it is stored; `runs/NAME-HASH` where none is given.
    pub folder: Option<PathBuf>,
    /// Whether to delete what the folder already holds of it and begin anew.
    pub fresh: bool,
    /// Where files of known data sets were, to find them again.
    pub data_folder: Option<PathBuf>,
    /// Who is told about progress.
    pub observer: Arc<dyn StudyObserver>,
    /// Stops the study from another thread.
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
    /// Everything it found, as in results.json.
    pub findings: Findings,
    /// The folder that the results were written to.
    pub folder: RunFolder,
    /// The rows, the network and the likelihood.
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

    /// Carries the study out from the start, or resumes what its folder holds.
    ///
    /// # Errors
    /// As [`Study::open`]; where chains cannot be moved, or files cannot be written.
    pub fn carry_out(self) -> Result<Outcome<FinishedStudy>> {
        self.open()?.carry_out()
    }
}

/// A study whose folder is locked for it.
pub struct OpenStudy {
    command: RunCommand,
    experiment: Experiment,
    folder: RunFolder,
    observer: Arc<dyn StudyObserver>,
    cancel: Cancel,
}

impl OpenStudy {
    /// The path of its folder.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Carries the study out from the start, or resumes what its folder holds.
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
        let folder = stages.folder;
        let stored = found.and_then(|findings| {
            folder.write_findings(&findings)?;
            folder.write_hashes()?;
            Ok(findings)
        });
        match stored {
            Err(_) if folder.is_gone() => Err(refused(format!(
                "the run folder {} is gone: it was removed or renamed while the run was going on\n  \
                 if it was renamed, put it back and go on with `{}`; if it was removed, nothing of the run is left",
                folder.path().display(),
                resume_command(folder.path()),
            ))),
            Err(StudyError::Experiment(ExperimentError::Interrupted)) => Ok(Outcome::Stopped),
            Err(error) => Err(error),
            Ok(findings) => {
                folder.status().write_stage(Stage::Done);
                Ok(Outcome::Finished(FinishedStudy { findings, folder, problem }))
            }
        }
    }
}

//! A run or a sweep as it was asked for, carried out in its folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{ExperimentError, Result, StudyError, path_word, refused};
use crate::experiment::Experiment;
use crate::findings::{FINDINGS, Findings, RunCommand};
use crate::folder::{
    RunFolder, RunRecord, SHARDS, Shard, Stage, check_keeps_to_itself, data_hashes, record_of, run_path,
};
use crate::problem::Problem;
use crate::study::cancel::Cancel;
use crate::study::observer::{Note, StudyObserver, Unobserved};
use crate::study::piece::Piece;
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
    /// Which part of it is carried out.
    pub piece: Piece,
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
    /// The part that was asked for is done, and not the whole study ([`Piece`]).
    PieceDone,
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
            piece: Piece::Whole,
            observer: Arc::new(Unobserved),
            cancel: Cancel::default(),
        }
    }

    /// The folder it is stored in, opened for it alone.
    ///
    /// # Errors
    /// Where the folder holds anything but this study, or cannot be written.
    pub fn open(self) -> Result<OpenStudy> {
        let Self { command, mut experiment, automatic, folder, fresh, data_folder, piece, observer, cancel } = self;
        // The folder is named after the settings as they were asked for, before any pilot.
        let (settings, hashes) = (&mut experiment.settings, data_hashes(&experiment.problem));
        let record = RunRecord::new(command, automatic, settings, hashes, data_folder.as_deref())?;
        let run = run_path(folder.as_deref(), &settings.name, &record);
        let (place, record) = match piece {
            Piece::Shard(shard) => (shard.folder(&run), searched(&run, &record)?.of_shard(shard)),
            _ => (run.clone(), record),
        };
        let folder = RunFolder::open(&place, &settings.name, record, fresh, &|text| observer.note(&Note::Waits(text)))?;
        match &piece {
            Piece::Whole => refuse_where_shards_wait(&folder)?,
            Piece::Merge(repetitions) if repetitions.is_empty() => folder.record().check_is_searched(&run)?,
            Piece::Search | Piece::Shard(_) | Piece::Merge(_) => {}
        }
        if let Some(rate) = folder.record().tuned_learning_rate {
            settings.sampler.learning_rate = rate;
        }
        for note in folder.write_start(&experiment)? {
            observer.note(&Note::GoesOn(&note));
        }
        Ok(OpenStudy { command, experiment, run, folder, piece, observer, cancel })
    }

    /// Begins its folder, so that every part of it can be carried out elsewhere, and does nothing else; its path.
    ///
    /// # Errors
    /// As [`Study::open`].
    pub fn prepare(self) -> Result<PathBuf> {
        let settings = &self.experiment.settings;
        let hashes = data_hashes(&self.experiment.problem);
        let record = RunRecord::new(self.command, self.automatic, settings, hashes, self.data_folder.as_deref())?;
        let run = run_path(self.folder.as_deref(), &settings.name, &record);
        let tell = |text: &str| self.observer.note(&Note::Waits(text));
        let folder = RunFolder::open(&run, &settings.name, record, self.fresh, &tell)?;
        folder.write_questions(&self.experiment)?;
        Ok(run)
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
    /// The folder of the study; that of a shard lies in it.
    run: PathBuf,
    folder: RunFolder,
    piece: Piece,
    observer: Arc<dyn StudyObserver>,
    cancel: Cancel,
}

impl OpenStudy {
    /// The path of its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command line that goes on with it.
    pub fn resume_command(&self) -> String {
        self.folder.resume_command()
    }

    /// Carries the study out from the start, or resumes what its folder holds.
    ///
    /// # Errors
    /// Where chains cannot be moved, or files cannot be written.
    pub fn carry_out(self) -> Result<Outcome<FinishedStudy>> {
        let Self { command, experiment, run, folder, piece, observer, cancel } = self;
        let problem = Arc::clone(&experiment.problem);
        let searched_in = piece.is_searched_elsewhere().then_some(run);
        let mut stages = Stages { experiment, folder, piece, searched_in, observer, cancel };
        let found = match command {
            RunCommand::Run | RunCommand::RunGrid => run::run(&mut stages, command),
            RunCommand::Sweep => sweep::sweep(&mut stages),
        };
        let folder = &stages.folder;
        let stored = found.and_then(|mut findings| {
            if matches!(stages.piece, Piece::Merge(_)) {
                findings.device = folder.devices_of_chains().unwrap_or(findings.device);
            }
            folder.write_findings(&findings)?;
            folder.write_hashes()?;
            Ok(findings)
        });
        match stored {
            Err(_) if folder.is_gone() => Err(refused(format!(
                "the run folder {} is gone: it was removed or renamed while the run was going on\n  \
                 if it was renamed, put it back and go on with `{}`; if it was removed, nothing of the run is left",
                folder.path().display(),
                folder.resume_command(),
            ))),
            Err(StudyError::PieceDone) => {
                match stages.piece {
                    Piece::Shard(_) => {
                        folder.write_hashes()?;
                        folder.status().write_stage(Stage::Done);
                    }
                    _ => folder.status().write_stage(Stage::Searched),
                }
                Ok(Outcome::PieceDone)
            }
            Err(StudyError::Experiment(ExperimentError::Interrupted)) => Ok(Outcome::Stopped),
            Err(error) => {
                // A merge that has not come as far as the chains says nothing of the searches that it waits for.
                if !matches!(stages.piece, Piece::Merge(_)) || folder.status().has_told() {
                    folder.status().write_failure(&error.to_string());
                }
                Err(error)
            }
            Ok(findings) => {
                folder.status().write_stage(Stage::Done);
                Ok(Outcome::Finished(FinishedStudy { findings, folder: stages.folder, problem }))
            }
        }
    }
}

/// The record of a study whose searches are done, to sample a shard of it.
fn searched(run: &Path, asked: &RunRecord) -> Result<RunRecord> {
    // The folder of the shard lies in it, and would be reached through a link to it.
    check_keeps_to_itself(run)?;
    let record = record_of(run)?.ok_or_else(|| {
        refused(format!(
            "{} holds no study that a shard could be of; begin it with the same command and `--stage search` in place of `--shard`",
            run.display()
        ))
    })?;
    record.check_same(asked, run)?;
    record.check_is_searched(run)?;
    Ok(record)
}

/// A study that is made in shards is merged, and not begun a second time by itself.
fn refuse_where_shards_wait(folder: &RunFolder) -> Result<()> {
    let run = folder.path();
    if Shard::found_in(run).is_empty() || run.join(FINDINGS).exists() {
        return Ok(());
    }
    Err(refused(format!(
        "{} is made in shards; nothing was changed\n  put them together with `kelvin merge {1}`, which says what is missing, or remove {2} to \
         sample all of it here",
        run.display(),
        path_word(run),
        run.join(SHARDS).display(),
    )))
}

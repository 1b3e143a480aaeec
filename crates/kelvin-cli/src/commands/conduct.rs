//! Carries out a study that was asked for on the command line, makes its report, and prints what it found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelvin_report::{cases, present};
use kelvin_study::experiment::Experiment;
use kelvin_study::findings::{Findings, RunCommand};
use kelvin_study::problem::Problem;
use kelvin_study::study::{FinishedStudy, Outcome, Piece, Study};

use crate::arguments::{ConductArguments, PartArguments, StageArgument};
use crate::interrupt::Interrupt;
use crate::output::{WrongFlags, print_result, say};
use crate::source::Source;
use crate::terminal::Terminal;
use crate::{device, doubts};

/// Sizes the pool of threads that all populations share.
pub fn threads(asked: Option<u16>) -> anyhow::Result<()> {
    let threads = asked.map_or(0, usize::from);
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?)
}

/// What is to be carried out, and where.
pub struct Asked<'a> {
    pub command: RunCommand,
    /// None where the folder is only begun.
    pub piece: Option<Piece>,
    pub out: Option<&'a Path>,
    pub fresh: bool,
}

impl<'a> Asked<'a> {
    pub fn new(command: RunCommand, part: PartArguments, out: Option<&'a Path>, fresh: bool) -> Self {
        let piece = match (part.stage, part.shard) {
            (Some(StageArgument::Prepare), _) => None,
            (Some(StageArgument::Search), _) => Some(Piece::Search),
            (None, Some(shard)) => Some(Piece::Shard(shard)),
            (None, None) => Some(Piece::Whole),
        };
        Self { command, piece, out, fresh }
    }
}

/// Carries out a run or a sweep or a part of it, begun by its own command or gone on with in its folder, makes its report, and prints what it
/// found as `result` tells it.
pub fn carry_out(
    asked: Asked<'_>,
    source: Source,
    conduct: &ConductArguments,
    result: fn(&Path, &Findings, bool) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let Asked { command, piece, out, fresh } = asked;
    let Some(piece) = piece else {
        return print_piece(&prepare(command, source, out, fresh, conduct)?, conduct.json);
    };
    let interrupt = Interrupt::listen()?;
    let Source { settings, data, automatic, time } = source;
    let problem = Problem::new(data, &settings)?;
    let mut experiment = device::experiment(conduct.device, conduct.quiet, problem, settings)?;
    if let Some(time) = time {
        let grid = if command == RunCommand::RunGrid { experiment.settings.run.grid.len() } else { 0 };
        experiment.spend(2 + grid, time)?;
    }
    let study = Study {
        automatic,
        folder: out.map(Path::to_path_buf),
        fresh,
        data_folder: conduct.data_dir.clone(),
        piece,
        observer: Arc::new(Terminal::new(conduct.quiet || conduct.json)),
        cancel: interrupt.cancel().clone(),
        ..Study::new(command, experiment)
    };
    let study = study.open()?;
    let (path, resume) = (study.folder().to_path_buf(), study.resume_command());
    let finished = match study.carry_out()? {
        Outcome::Finished(finished) => finished,
        Outcome::PieceDone => return print_piece(&path, conduct.json),
        Outcome::Stopped => return Err(interrupt.stopped(resume).into()),
    };
    // The folder is this process's own until all is written.
    let FinishedStudy { findings, problem, folder: _folder } = finished;
    cases::keep_pictures(&path, &findings, &problem)?;
    let (told, doubts) = (result(&path, &findings, conduct.json)?, doubts::in_short(&findings.warnings));
    present::write_all(&path, findings)?;
    print_result(&told)?;
    if !conduct.json {
        say(&doubts);
        print_result(&format!("run folder: {0} (open {0}/report.html)\n", path.display()))?;
    }
    Ok(())
}

/// Begins a folder, and nothing in it: no device is opened, so that a machine without one can do it.
pub fn prepare(
    command: RunCommand,
    source: Source,
    out: Option<&Path>,
    fresh: bool,
    conduct: &ConductArguments,
) -> anyhow::Result<PathBuf> {
    let Source { settings, data, automatic, time } = source;
    if time.is_some() {
        let reason = "how many gradients a time is worth is measured on the device, and none is opened here";
        return Err(WrongFlags(format!("--stage prepare: give --budget in gradients; {reason}")).into());
    }
    let experiment = Experiment::new(Problem::new(data, &settings)?, settings)?;
    let study = Study {
        automatic,
        folder: out.map(Path::to_path_buf),
        fresh,
        data_folder: conduct.data_dir.clone(),
        ..Study::new(command, experiment)
    };
    Ok(study.prepare()?)
}

/// Says where a part of a study is.
fn print_piece(path: &Path, json: bool) -> anyhow::Result<()> {
    let folder = path.display();
    print_result(&match json {
        true => format!("{}\n", serde_json::json!({ "folder": folder.to_string() })),
        false => format!("run folder: {folder}\n"),
    })
}

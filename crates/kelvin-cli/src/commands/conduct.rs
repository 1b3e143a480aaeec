//! Carries out a study that was asked for on the command line, makes its report, and prints what it found.

use std::path::Path;
use std::sync::Arc;

use kelvin_report::{cases, present};
use kelvin_study::findings::{Findings, RunCommand};
use kelvin_study::problem::Problem;
use kelvin_study::study::{FinishedStudy, Outcome, Study};

use crate::arguments::ConductArguments;
use crate::interrupt::Interrupt;
use crate::output::{print_result, say};
use crate::source::Source;
use crate::terminal::Terminal;
use crate::{device, doubts};

/// Sizes the pool of threads that all populations share.
pub fn threads(asked: Option<u16>) -> anyhow::Result<()> {
    let threads = asked.map_or(0, usize::from);
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?)
}

/// Carries out a run or a sweep, begun by its own command or gone on with in its folder, makes its report, and prints what it
/// found as `result` tells it.
pub fn carry_out(
    command: RunCommand,
    source: Source,
    out: Option<&Path>,
    fresh: bool,
    conduct: &ConductArguments,
    result: fn(&Path, &Findings, bool) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
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
        observer: Arc::new(Terminal::new(conduct.quiet || conduct.json)),
        cancel: interrupt.cancel().clone(),
        ..Study::new(command, experiment)
    };
    let study = study.open()?;
    let path = study.folder().to_path_buf();
    let Outcome::Finished(finished) = study.carry_out()? else { return Err(interrupt.stopped(&path).into()) };
    let FinishedStudy { findings, problem, .. } = &finished;
    cases::keep_pictures(&path, findings, problem)?;
    present::write_all(&path, findings)?;
    print_result(&result(&path, findings, conduct.json)?)?;
    if !conduct.json {
        say(&doubts::in_short(&findings.warnings));
        print_result(&format!("run folder: {0} (open {0}/report.html)\n", path.display()))?;
    }
    Ok(())
}

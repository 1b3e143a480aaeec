//! `kelvin resume`: go on with what a run folder holds, as it was asked for when it began.

use super::{Request, run, sweep, threads};
use crate::arguments::ResumeArguments;
use crate::run_folder::stored_run;
use crate::run_record::RunCommand;
use crate::source;

pub fn resume(arguments: &ResumeArguments) -> anyhow::Result<()> {
    let conduct = &arguments.conduct;
    threads(conduct.threads)?;
    let (record, settings) = stored_run(&arguments.run)?;
    let source = source::stored(&record, settings, conduct.data_dir.as_deref())?;
    let request = Request { command: record.command, source, out: Some(&arguments.run), fresh: false, conduct };
    match record.command {
        RunCommand::Run | RunCommand::RunGrid => run::carry_out(request),
        RunCommand::Sweep => sweep::carry_out(request),
    }
}

//! `kelvin resume`: go on with what a run folder holds, as it was asked for when it began.

use kelvin_study::error::refused;
use kelvin_study::findings::{Findings, RunCommand};
use kelvin_study::folder::stored_run;
use std::path::Path;

use super::conduct::{Asked, carry_out, threads};
use super::{run, sweep};
use crate::arguments::ResumeArguments;
use crate::source::Source;

pub fn resume(arguments: &ResumeArguments) -> anyhow::Result<()> {
    let ResumeArguments { run, part, fresh, conduct } = arguments;
    threads(conduct.threads)?;
    let (record, settings) = stored_run(run)?;
    if let Some(shard) = record.shard {
        let study = run.parent().and_then(Path::parent).unwrap_or(run);
        let command = shard.command(study);
        return Err(refused(format!("{} is a shard of a study; go on with it by `{command}`", run.display())).into());
    }
    let data = record.read_data(&settings, conduct.data_dir.as_deref())?;
    let source = Source { settings, data, automatic: record.automatic, time: None };
    let asked = Asked::new(record.command, *part, Some(run), *fresh);
    carry_out(asked, source, conduct, result_of(record.command))
}

/// What is printed of what a command found.
pub fn result_of(command: RunCommand) -> fn(&Path, &Findings, bool) -> anyhow::Result<String> {
    match command {
        RunCommand::Run | RunCommand::RunGrid => run::result,
        RunCommand::Sweep => sweep::result,
    }
}

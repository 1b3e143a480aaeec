//! `kelvin resume`: go on with what a run folder holds, as it was asked for when it began.

use kelvin_study::findings::RunCommand;
use kelvin_study::folder::stored_run;

use super::conduct::{carry_out, threads};
use super::{run, sweep};
use crate::arguments::ResumeArguments;
use crate::source::Source;

pub fn resume(arguments: &ResumeArguments) -> anyhow::Result<()> {
    let conduct = &arguments.conduct;
    threads(conduct.threads)?;
    let (record, settings) = stored_run(&arguments.run)?;
    let data = record.read_data(&settings, conduct.data_dir.as_deref())?;
    let source = Source { settings, data, automatic: record.automatic, time: None };
    let result = match record.command {
        RunCommand::Run | RunCommand::RunGrid => run::result,
        RunCommand::Sweep => sweep::result,
    };
    carry_out(record.command, source, Some(&arguments.run), false, conduct, result)
}

//! The command `kelvin`: an experiment in, a run folder with tables, figures and a report out.

mod arguments;
mod checks;
mod commands;
mod device;
mod doubts;
mod input;
mod interrupt;
mod output;
mod recomputed;
mod setting_names;
mod source;
#[doc(hidden)]
pub mod stored;
mod terminal;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use kelvin::vector::Instructions;
use output::WrongFlags;

/// Does what the command line says.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = Instructions::check_environment() {
        return output::report_error(&WrongFlags(error.to_string()).into());
    }
    let done = match arguments.command {
        Command::Run(run) => commands::run::run(&run),
        Command::Sweep(sweep) => commands::sweep::sweep(&sweep),
        Command::Select(select) => commands::select::select(select),
        Command::Toy(toy) => commands::toy::toy(&toy),
        Command::Resume(resume) => commands::resume::resume(&resume),
        Command::Merge(merge) => commands::merge::merge(&merge),
        Command::Submit(submit) => commands::submit::submit(&submit),
        Command::Status(status) => commands::status::status(&status),
        Command::Diagnose(diagnose) => commands::diagnose::diagnose(&diagnose),
        Command::Compare(compare) => commands::compare::compare(&compare),
        Command::Watch(watch) => commands::watch::watch(&watch),
        Command::Predict(predict) => commands::predict::predict(&predict),
        Command::Report(report) => commands::report::report(&report),
        Command::Export(export) => commands::export::export(&export),
        Command::Verify(verify) => commands::verify::verify(&verify),
        Command::Presets { name } => commands::presets::presets(name.as_deref()),
        Command::Data(data) => commands::data::data(&data),
        Command::Bench(bench) => commands::bench::bench(&bench),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_error(&error),
    }
}

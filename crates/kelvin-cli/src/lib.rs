//! The command `kelvin`: an experiment in, a run folder with tables, figures and a report out.

mod arguments;
mod case_blocks;
mod cases;
mod chart;
mod checks;
mod commands;
mod comparison;
mod cycles;
mod device;
mod diagnosis;
mod difference;
mod doubts;
mod each_start;
mod escape;
mod export;
mod figures;
mod findings;
mod finished_run;
mod gain;
mod hashes;
mod interrupt;
mod latex;
mod learning_theory;
mod lock;
mod output;
mod page;
mod page_figure;
mod paper_layout;
mod paper_numbers;
mod paper_tables;
mod population;
mod predictions;
mod present;
mod progress;
mod provenance;
mod recomputed;
mod report;
mod row;
mod row_blocks;
mod run_files;
mod run_folder;
mod run_record;
mod run_table;
mod scores_file;
mod selection_file;
mod selection_table;
mod setting_names;
mod source;
#[doc(hidden)]
pub mod stored;
mod sweep_comparison;
mod table;
mod toy_figures;
mod verdict;
mod watch;
mod watched_laboratory;
mod which_way;

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
        Command::Diagnose(diagnose) => commands::diagnose::diagnose(&diagnose),
        Command::Compare(compare) => commands::compare::compare(&compare),
        Command::Watch(watch) => commands::watch::watch(&watch),
        Command::Predict(predict) => commands::predict::predict(&predict),
        Command::Report(report) => commands::report::report(&report),
        Command::Export(export) => commands::export::export(&export),
        Command::Verify(verify) => commands::verify::verify(&verify),
        Command::Presets { name } => commands::presets::presets(name.as_deref()),
        Command::Data { data_dir } => commands::data::data(data_dir.as_deref()),
        Command::Bench(bench) => commands::bench::bench(&bench),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_error(&error),
    }
}

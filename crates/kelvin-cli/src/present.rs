//! Tables, figures and the report of a run folder, made from the files it holds.

use std::path::Path;

use anyhow::Context;

use crate::figures;
use crate::findings::Findings;
use crate::paper_tables::Sweep;
use crate::predictions::Predictions;
use crate::report;
use crate::row::Method;
use crate::run_folder::{SETTINGS, write, write_figure};
use crate::run_record::RunCommand;
use crate::run_table::{out_of_distribution_table, run_table};
use crate::table::Table;

/// The tables of what was found, each with the name of its file; the first is the one to print.
pub fn tables(findings: &Findings) -> Vec<(&'static str, Table)> {
    if findings.command == RunCommand::Sweep {
        let sweep = Sweep::new(findings);
        let mut tables = vec![
            ("results", sweep.results()),
            ("kinetic_temperature", sweep.kinetic()),
            ("agreement", sweep.agreement(&findings.agreement)),
            ("wall_clock", sweep.wall_clock()),
        ];
        let other = findings.problem.out_of_distribution.as_deref();
        tables.extend(other.map(|other| ("out_of_distribution", sweep.out_of_distribution(other))));
        return tables;
    }
    let title = format!("{} — test scores", findings.name);
    let mut tables = vec![("results", run_table(&title, &findings.rows))];
    let other = out_of_distribution_table(findings.problem.out_of_distribution.as_deref(), &findings.rows);
    tables.extend(other.map(|table| ("out_of_distribution", table)));
    tables
}

/// Writes tables, figures and report.html beside the results they show.
pub fn write_all(folder: &Path, findings: &Findings) -> anyhow::Result<()> {
    let tables = tables(findings);
    // The one table of a run is scores.csv with fewer columns.
    if findings.command == RunCommand::Sweep {
        for (file, table) in &tables {
            write(folder, &format!("{file}.csv"), table.to_csv().as_bytes())?;
        }
        write(folder, "summary.csv", Sweep::new(findings).summary_csv().as_bytes())?;
    }
    let chosen = findings.rows.iter().find(|row| row.method == Method::Chosen && row.repetition.is_none());
    let chosen = chosen.map(|row| Predictions::read(&folder.join(format!("predictions/{}.csv", row.file_name()))));
    let figures = figures::of(findings, chosen.transpose()?.as_ref())?;
    for figure in &figures {
        write_figure(folder, figure.name, &figure.svg)?;
    }
    let settings = folder.join(SETTINGS);
    let settings = std::fs::read_to_string(&settings).with_context(|| format!("cannot read {}", settings.display()))?;
    let tables: Vec<Table> = tables.into_iter().map(|(_, table)| table).collect();
    let page = report::page(findings, &settings, &tables, &figures);
    write(folder, "report.html", page.to_html().as_bytes())
}

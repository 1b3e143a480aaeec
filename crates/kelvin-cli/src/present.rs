//! Tables, figures and the report of a run folder, made from the files it holds.

use std::path::Path;

use anyhow::Context;

use crate::figures::{Figure, NamedRun, RunFigures, across};
use crate::findings::Findings;
use crate::learning_theory::{theory_lines, theory_table};
use crate::page::Page;
use crate::paper_layout::{self, Layout};
use crate::paper_tables::{Spread, Sweep};
use crate::report::{self, Story};
use crate::run_files::RunFiles;
use crate::run_folder::{write, write_figure};
use crate::run_record::RunCommand;
use crate::run_table::{out_of_distribution_table, run_table};
use crate::selection_file::StoredSelection;
use crate::table::Table;

/// The name of the page.
pub const REPORT: &str = "report.html";

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
        let theory = theory_table(&findings.name, &theory_lines(findings));
        tables.extend(theory.map(|table| ("learning_theory", table)));
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
    let run = RunFiles::of(folder, findings.clone())?;
    write_run(run, Layout { spread: Spread::StandardDeviation, compare: false })
}

/// Writes tables, figures and report.html of one run into its folder.
pub fn write_run(run: RunFiles, layout: Layout) -> anyhow::Result<()> {
    let (folder, findings) = (run.folder.clone(), &run.findings);
    let paper_tables = paper_layout::tables(&named(std::slice::from_ref(&run)), layout);
    if findings.command == RunCommand::Sweep {
        // The one table of a run is scores.csv with fewer columns.
        for (file, table) in tables(findings) {
            write(&folder, &format!("{file}.csv"), table.to_csv().as_bytes())?;
        }
        write(&folder, "summary.csv", Sweep::new(findings).summary_csv().as_bytes())?;
        write_tables(&folder, &paper_tables)?;
    }
    let figures = figures_of(&run)?;
    write_figures(&folder, figures.all())?;
    let beside = if layout.compare { paper_tables.into_iter().map(|(_, table)| table).collect() } else { Vec::new() };
    write_page(&folder, &report::page(&run, figures, beside))
}

fn figures_of(run: &RunFiles) -> anyhow::Result<RunFigures> {
    RunFigures::of(run).with_context(|| format!("cannot make the figures of {}", run.folder.display()))
}

/// The paper's tables of runs and selections, each with the name of its file.
pub fn tables_of_all(runs: &[RunFiles], selections: &[StoredSelection], layout: Layout) -> Vec<(&'static str, Table)> {
    let mut tables = paper_layout::tables(&named(runs), layout);
    let selections: Vec<&StoredSelection> = selections.iter().collect();
    tables.extend(paper_layout::selectors(&selections, layout).map(|table| ("selectors", table)));
    tables
}

/// Writes one page about several runs and selections, with its tables and figures, into a folder of its own.
pub fn write_several(
    folder: &Path,
    runs: Vec<RunFiles>,
    selections: &[StoredSelection],
    layout: Layout,
) -> anyhow::Result<()> {
    let all = named(&runs);
    let labels: Vec<String> = all.iter().map(|run| run.label.clone()).collect();
    let tables = tables_of_all(&runs, selections, layout);
    write_tables(folder, &tables)?;
    let figures = across(&all)?;
    write_figures(folder, figures.iter())?;
    let mut stories = Vec::new();
    for (run, label) in runs.into_iter().zip(labels) {
        let figures = figures_of(&run)?;
        stories.push(Story { label, run, figures });
    }
    let beside = tables.into_iter().map(|(_, table)| table).collect();
    let page = report::page_of_several(stories, selections, beside, figures);
    write_page(folder, &page)
}

/// Runs with labels that tell them apart: their names, or the names of their folders.
pub fn named(runs: &[RunFiles]) -> Vec<NamedRun<'_>> {
    let label = |run: &RunFiles| {
        let name = &run.findings.name;
        let is_shared = runs.iter().filter(|other| other.findings.name == *name).count() > 1;
        match run.folder.file_name() {
            Some(folder) if is_shared => folder.to_string_lossy().into_owned(),
            _ => name.clone(),
        }
    };
    runs.iter()
        .map(|run| NamedRun {
            label: label(run),
            findings: &run.findings,
            augmentation: run.settings.data.augmentation,
        })
        .collect()
}

/// Tables as files for papers and programs.
fn write_tables(folder: &Path, tables: &[(&'static str, Table)]) -> anyhow::Result<()> {
    create_folder(&folder.join("tables"))?;
    for (file, table) in tables {
        let renderings = [
            ("md", table.to_markdown()),
            ("tex", table.to_latex()),
            ("csv", table.to_csv()),
            ("html", table.to_html()),
        ];
        for (ending, text) in renderings {
            write(folder, &format!("tables/{file}.{ending}"), text.as_bytes())?;
        }
    }
    Ok(())
}

/// Figures as SVG, PNG and PDF, with the numbers behind each.
fn write_figures<'a>(folder: &Path, figures: impl Iterator<Item = &'a Figure>) -> anyhow::Result<()> {
    create_folder(&folder.join("figures"))?;
    for drawing in figures.flat_map(|figure| &figure.drawings) {
        let Some(name) = &drawing.file else { continue };
        write_figure(folder, name, &drawing.plot.to_svg())?;
        write(folder, &format!("figures/{name}.csv"), drawing.plot.to_csv().as_bytes())?;
    }
    Ok(())
}

fn write_page(folder: &Path, page: &Page) -> anyhow::Result<()> {
    write(folder, REPORT, page.to_html().as_bytes())
}

pub fn create_folder(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

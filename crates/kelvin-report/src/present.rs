//! Writes tables, figures and the report of a run folder, made from the files it holds.

use kelvin_study::error::{Context, Result};
use std::path::Path;

use crate::chart::{resolve_variables, write_figure};
use crate::compare::SweepComparison;
use crate::figures::{Figure, RunFigures, across, overlaid_lpd};
use crate::page::{Page, Story, page, page_of_several};
use crate::run_files::RunFiles;
use crate::tables::{Layout, NamedRun, Spread, Sweep, Table, paper_tables, selectors, tables_of};
use kelvin_study::findings::{Findings, RunCommand};
use kelvin_study::folder::{StoredSelection, remove_leftovers, write};

/// The name of the report in a run folder.
pub const REPORT: &str = "report.html";

/// Writes tables, figures and report.html of a run that has just ended into its folder.
///
/// # Errors
/// If a file of the run cannot be read, or a file cannot be written.
pub fn write_all(folder: &Path, findings: Findings) -> Result<()> {
    let run = RunFiles::of(folder, findings)?;
    write_run(run, Layout { spread: Spread::StandardDeviation, compare: false })
}

/// Writes tables, figures and report.html of a run into its folder.
///
/// # Errors
/// If a file cannot be written.
pub fn write_run(run: RunFiles, layout: Layout) -> Result<()> {
    let (folder, findings) = (run.folder.clone(), &run.findings);
    remove_leftovers(&folder);
    let paper_tables = paper_tables(&named(std::slice::from_ref(&run)), layout);
    if findings.command == RunCommand::Sweep {
        // The one table of a run is scores.csv with fewer columns.
        for (file, table) in tables_of(findings) {
            write(&folder, &format!("{file}.csv"), table.to_csv().as_bytes())?;
        }
        write(&folder, "summary.csv", Sweep::new(findings).summary_csv().as_bytes())?;
        write_tables(&folder, &paper_tables)?;
    }
    let figures = figures_of(&run)?;
    write_figures(&folder, figures.all())?;
    let beside = if layout.compare { paper_tables.into_iter().map(|(_, table)| table).collect() } else { Vec::new() };
    write_page(&folder, &page(&run, figures, beside))
}

fn figures_of(run: &RunFiles) -> Result<RunFigures> {
    RunFigures::of(run).with_context(|| format!("cannot make the figures of {}", run.folder.display()))
}

/// The paper's tables of runs and selections, each with the name of its file.
pub fn tables_of_all(runs: &[RunFiles], selections: &[StoredSelection], layout: Layout) -> Vec<(&'static str, Table)> {
    let mut tables = paper_tables(&named(runs), layout);
    let selections: Vec<&StoredSelection> = selections.iter().collect();
    tables.extend(selectors(&selections, layout).map(|table| ("selectors", table)));
    tables
}

/// Writes one page about several runs and selections, with its tables and figures, into a folder of its own.
///
/// # Errors
/// If a file cannot be written.
pub fn write_several(folder: &Path, runs: Vec<RunFiles>, selections: &[StoredSelection], layout: Layout) -> Result<()> {
    remove_leftovers(folder);
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
    let page = page_of_several(stories, selections, beside, figures);
    write_page(folder, &page)
}

/// Writes sweeps.md, sweeps.csv and lpd_test.svg of sweeps side by side.
///
/// # Errors
/// Where the folder cannot be written.
pub fn write_sweeps(folder: &Path, sweeps: &SweepComparison<'_>) -> Result<()> {
    create_folder(folder)?;
    write(folder, "sweeps.md", sweeps.table().to_markdown().as_bytes())?;
    write(folder, "sweeps.csv", sweeps.csv().as_bytes())?;
    let svg = overlaid_lpd(sweeps.data(), &sweeps.rows()).to_svg();
    write(folder, "lpd_test.svg", resolve_variables(&svg).as_bytes())
}

/// Runs with labels that tell them apart: their names, or the names of their folders.
fn named(runs: &[RunFiles]) -> Vec<NamedRun<'_>> {
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
fn write_tables(folder: &Path, tables: &[(&'static str, Table)]) -> Result<()> {
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
fn write_figures<'a>(folder: &Path, figures: impl Iterator<Item = &'a Figure>) -> Result<()> {
    create_folder(&folder.join("figures"))?;
    for drawing in figures.flat_map(|figure| &figure.drawings) {
        let Some(name) = &drawing.file else { continue };
        write_figure(folder, name, &drawing.plot.to_svg())?;
        write(folder, &format!("figures/{name}.csv"), drawing.plot.to_csv().as_bytes())?;
    }
    Ok(())
}

fn write_page(folder: &Path, page: &Page) -> Result<()> {
    write(folder, REPORT, page.to_html().as_bytes())
}

/// Creates a folder with all folders above it; one that exists is left as it is.
///
/// # Errors
/// If it cannot be created; the error names it.
pub fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

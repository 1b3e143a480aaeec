//! `kelvin report`: the page of a run again, or one page about several runs, with the paper's tables and figures.

use std::path::{Path, PathBuf};

use crate::arguments::{CompareArgument, ReportArguments, SpreadArgument, TableFormatArgument};
use crate::output::{WrongFlags, print_result, say};
use kelvin_report::compare::verdict;
use kelvin_report::present::{REPORT, create_folder, tables_of_all, write_run, write_several};
use kelvin_report::run_files::RunFiles;
use kelvin_report::tables::{
    Layout, PAPER, PaperNumbers, Spread, Table, one_run, printed, stored_selection_legend, stored_selection_table,
    tables_of,
};
use kelvin_report::text::wrapped;
use kelvin_study::findings::RunCommand;
use kelvin_study::folder::{StoredSelection, is_selection};

/// Where the page of several runs goes unless it is said.
const SEVERAL: &str = "report";

pub fn report(arguments: &ReportArguments) -> anyhow::Result<()> {
    let (selections, runs): (Vec<&PathBuf>, Vec<&PathBuf>) =
        arguments.runs.iter().partition(|folder| is_selection(folder));
    let selections: Vec<StoredSelection> =
        selections.into_iter().map(|folder| StoredSelection::read(folder)).collect::<Result<_, _>>()?;
    let runs: Vec<RunFiles> = runs.into_iter().map(|folder| RunFiles::read(folder)).collect::<Result<_, _>>()?;
    let layout = Layout {
        spread: match arguments.spread {
            SpreadArgument::Sd => Spread::StandardDeviation,
            SpreadArgument::Se => Spread::StandardError,
        },
        compare: matches!(arguments.compare, Some(CompareArgument::Paper)),
    };
    let names = runs.iter().map(|run| run.findings.name.as_str());
    let names: Vec<&str> = names.chain(selections.iter().map(|selection| selection.name.as_str())).collect();
    if layout.compare && !names.iter().any(|name| PAPER.iter().any(|paper| paper.preset == *name)) {
        let presets: Vec<&str> = PAPER.iter().map(|paper| paper.preset).collect();
        say(&format!(
            "note: the paper has no numbers for {}; it has them for sweeps of {}\n",
            names.join(", "),
            presets.join(", ")
        ));
    }
    let single = runs.iter().map(|run| &run.findings).filter(|found| found.command != RunCommand::Sweep);
    for found in single.filter(|found| layout.compare && PaperNumbers::of(&found.name).is_some()) {
        say(&wrapped(
            &format!(
                "note: {0} is {1}, and the paper's numbers are of repetitions: they are left out; `kelvin sweep {0}` repeats the \
                 paper's experiment",
                found.name,
                one_run(found)
            ),
            "  ",
        ));
    }
    let output = printed_tables(&runs, &selections, layout, arguments.format);
    let page = match (&runs[..], &arguments.out) {
        ([run], None) if selections.is_empty() => {
            let folder = run.folder.clone();
            write_run(only(runs)?, layout)?;
            folder.join(REPORT)
        }
        (_, out) => {
            let folder = out.clone().unwrap_or_else(|| PathBuf::from(SEVERAL));
            if folder.is_file() {
                return Err(WrongFlags(format!("{} is a file; name a folder with --out", folder.display())).into());
            }
            create_folder(&folder)?;
            write_several(&folder, runs, &selections, layout)?;
            folder.join(REPORT)
        }
    };
    print_result(&output)?;
    say(&format!("report: {}\n", page.display()));
    if arguments.open {
        open_page(&page);
    }
    Ok(())
}

fn only(runs: Vec<RunFiles>) -> anyhow::Result<RunFiles> {
    runs.into_iter().next().ok_or_else(|| anyhow::anyhow!("no run was named"))
}

/// What stands on standard output: the answers and, of one run, its own tables; of several, or beside the paper, the paper's.
fn printed_tables(
    runs: &[RunFiles],
    selections: &[StoredSelection],
    layout: Layout,
    format: TableFormatArgument,
) -> String {
    let findings: Vec<_> = runs.iter().map(|run| &run.findings).collect();
    let tables: Vec<Table> = match &findings[..] {
        [only] if selections.is_empty() && !layout.compare && layout.spread == Spread::StandardDeviation => {
            tables_of(only).into_iter().map(|(_, table)| table).collect()
        }
        _ => tables_of_all(runs, selections, layout).into_iter().map(|(_, table)| table).collect(),
    };
    let render = |table: &Table| match format {
        TableFormatArgument::Text => table.to_text(),
        TableFormatArgument::Markdown => table.to_markdown(),
        TableFormatArgument::Latex => table.to_latex(),
        TableFormatArgument::Csv => table.to_csv(),
        TableFormatArgument::Html => table.to_html(),
    };
    let of_selection = |selection: &StoredSelection| match format {
        TableFormatArgument::Text => {
            let legend =
                stored_selection_legend(selection).iter().map(|meaning| wrapped(meaning, "  ")).collect::<String>();
            printed(stored_selection_table(selection)).to_text() + &legend
        }
        _ => render(&stored_selection_table(selection)),
    };
    let tables: Vec<String> = tables.iter().map(render).chain(selections.iter().map(of_selection)).collect();
    let lead: String = match format {
        TableFormatArgument::Text => {
            let answer = |run: &RunFiles| format!("{}: {}", run.findings.name, verdict(&run.findings, run.gain));
            runs.iter().map(|run| wrapped(&answer(run), "  ")).collect()
        }
        TableFormatArgument::Markdown => heading(runs, selections, layout),
        _ => String::new(),
    };
    let gap = if lead.is_empty() { "" } else { "\n" };
    format!("{lead}{gap}{}", tables.join("\n"))
}

/// What the tables are, and of which runs by which kelvin.
fn heading(runs: &[RunFiles], selections: &[StoredSelection], layout: Layout) -> String {
    let of_run = |run: &RunFiles| {
        (format!("{} of {}", run.findings.command.name(), run.findings.name), run.findings.kelvin.clone())
    };
    let of_selection = |one: &StoredSelection| (format!("select of {}", one.name), one.kelvin.clone());
    let all: Vec<(String, String)> = runs.iter().map(of_run).chain(selections.iter().map(of_selection)).collect();
    // Neighbours by the same kelvin share its name.
    let groups = all.chunk_by(|a, b| a.1 == b.1).map(|group| {
        let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
        format!("{} (kelvin {})", names.join(", "), group[0].1)
    });
    let title = if layout.compare { "The paper's numbers beside kelvin's" } else { "Tables of kelvin" };
    format!("# {title}\n\nOf: {}.\n", groups.collect::<Vec<_>>().join("; "))
}

/// Shows the page in the reader's browser; a machine without one is no failure.
fn open_page(page: &Path) {
    let whole = std::path::absolute(page).unwrap_or_else(|_| page.to_path_buf());
    if let Err(error) = open::that_detached(&whole) {
        say(&format!("note: no browser could be started ({error}); open {} yourself\n", whole.display()));
    }
}

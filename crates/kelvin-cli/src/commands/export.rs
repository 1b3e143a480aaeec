//! `kelvin export`: a finished run for ArviZ, NumPy, spreadsheets or TensorBoard.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelvin::draws::Draws;
use kelvin::network::Tensor;
use kelvin::write_file::{remove_leftovers, replace_folder_with, replace_with, write_atomically};
use kelvin_study::experiment::Experiment;
use kelvin_study::problem::Problem;

use crate::arguments::{ExportArguments, ExportFormatArgument, MethodArgument};
use crate::device;
use crate::output::{WrongFlags, print_result, say};
use kelvin_report::export::{
    Export, NpzFile, Selection, ZarrFolder, betas, is_own_events, tensors, write_draws, write_events,
};
use kelvin_study::findings::{Findings, Method};
use kelvin_study::folder::{FinishedRun, check_keeps_to_itself};

/// Names of the tables that `--format csv` writes.
const DRAWS: &str = "draws.csv";
const PREDICTIONS: &str = "predictions-";

pub fn export(arguments: &ExportArguments) -> anyhow::Result<()> {
    check_keeps_to_itself(&arguments.run)?;
    if arguments.format == ExportFormatArgument::Tensorboard {
        return export_events(arguments, &Findings::read(&arguments.run)?);
    }
    let run = FinishedRun::read(&arguments.run)?;
    let method = arguments.method.map(|method| match method {
        MethodArgument::Bayes => Method::Bayes,
        MethodArgument::Chosen => Method::Chosen,
        MethodArgument::Grid => Method::Grid,
    });
    let selection = Selection::new(&run.findings, method, arguments.beta)?;
    selection.notes.iter().for_each(|note| say(&format!("note: {note}\n")));
    let asked = tensors(&run.draw_layout().position, &arguments.weights)?;
    let draws = open_draws(&run, &selection, !arguments.weights.is_empty())?;
    let out = place(arguments, &selection.name());
    remove_leftovers(&out);
    match arguments.format {
        ExportFormatArgument::Csv => write_csv(&out, &run, &selection, &draws, &asked)?,
        ExportFormatArgument::Arviz | ExportFormatArgument::Npz | ExportFormatArgument::Tensorboard => {
            let problem = if draws.is_empty() { None } else { rows(&run, arguments.data_dir.as_deref()) };
            let on_device = |problem| device::experiment(arguments.device, true, problem, run.settings.clone());
            let experiment = problem.map(on_device).transpose()?;
            write_arrays(arguments.format, &out, &run, &selection, &draws, &asked, experiment.as_ref())?;
        }
    }
    let (num_chains, num_draws) = (selection.chains.len(), selection.num_draws);
    let count = |number: usize, thing: &str| format!("{number} {thing}{}", if number == 1 { "" } else { "s" });
    print_result(&format!(
        "{}: {} of {} at β = {}\n",
        out.display(),
        count(num_chains, "chain"),
        count(num_draws, "draw"),
        betas(&selection.chains)
    ))
}

/// Where to write.
fn place(arguments: &ExportArguments, name: &str) -> PathBuf {
    let folder = arguments.run.join("exports");
    arguments.out.clone().unwrap_or_else(|| match arguments.format {
        ExportFormatArgument::Arviz => folder.join(format!("{name}.zarr")),
        ExportFormatArgument::Npz => folder.join(format!("{name}.npz")),
        ExportFormatArgument::Csv => folder.join(format!("{name}-csv")),
        ExportFormatArgument::Tensorboard => folder.join("tensorboard"),
    })
}

/// The draws of the chains; none where a run kept only their scores.
fn open_draws(run: &FinishedRun, selection: &Selection<'_>, needed: bool) -> anyhow::Result<Vec<Draws>> {
    let names = || selection.chains.iter().map(|chain| chain.name.as_str());
    if names().all(|name| !run.draws_path(name).exists()) {
        let folder = run.folder.join("draws");
        if needed {
            bail!(
                "--weights asks for draws, and {} holds none of these chains; their weights were not stored",
                folder.display()
            );
        }
        say(&format!("note: {} holds no draws of these chains: no weights and no predictions\n", folder.display()));
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for name in names() {
        let draws = run.draws(name)?;
        if draws.len() != selection.num_draws {
            bail!(
                "{} holds {} draws, and results.json has {}; `kelvin verify {}` says more",
                run.draws_path(name).display(),
                draws.len(),
                selection.num_draws,
                run.folder.display()
            );
        }
        all.push(draws);
    }
    Ok(all)
}

/// The rows to predict; where they cannot be had, the rest is exported without.
fn rows(run: &FinishedRun, data_dir: Option<&Path>) -> Option<Problem> {
    match run.read_problem(data_dir).and_then(|problem| run.check_data(&problem).map(|()| problem)) {
        Ok(problem) => Some(problem),
        Err(error) => {
            say(&format!("note: no predictions, log likelihoods and observed data are exported: {error}\n"));
            None
        }
    }
}

fn export_events(arguments: &ExportArguments, findings: &Findings) -> anyhow::Result<()> {
    if arguments.method.is_some() || arguments.beta.is_some() || !arguments.weights.is_empty() {
        let reason =
            "--format tensorboard writes all chains, without weights; leave out --method, --beta and --weights";
        return Err(WrongFlags(reason.into()).into());
    }
    let out = place(arguments, "");
    remove_leftovers(&out);
    check_replaceable(&out, is_own_events)?;
    create_parent(&out)?;
    let written = write_events(&out, findings).with_context(|| format!("cannot write to {}", out.display()))?;
    print_result(&format!("{}: {} runs for `tensorboard --logdir`\n", out.display(), written.len()))
}

fn write_csv(
    out: &Path,
    run: &FinishedRun,
    selection: &Selection<'_>,
    draws: &[Draws],
    tensors: &[Tensor],
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write to {}", out.display());
    check_replaceable(out, is_own_tables)?;
    create_parent(out)?;
    let rows = run.findings.rows.iter().filter(|row| {
        run.findings.chains_of(row).any(|chain| selection.chains.iter().any(|own| own.name == chain.name))
    });
    replace_folder_with(out, |inside| -> anyhow::Result<()> {
        replace_with(&inside.join(DRAWS), |file| write_draws(file, &run.findings, selection, draws, tensors))?;
        for row in rows {
            let name = format!("{}.csv", row.file_name());
            let path = run.folder.join("predictions").join(&name);
            let predictions = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            write_atomically(&inside.join(format!("{PREDICTIONS}{name}")), &predictions)?;
        }
        Ok(())
    })
    .with_context(cannot)
}

fn write_arrays(
    format: ExportFormatArgument,
    out: &Path,
    run: &FinishedRun,
    selection: &Selection<'_>,
    draws: &[Draws],
    tensors: &[Tensor],
    experiment: Option<&Experiment>,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", out.display());
    let export = Export::new(run, selection, draws, tensors, experiment)?;
    create_parent(out)?;
    if format == ExportFormatArgument::Npz {
        return replace_with(out, |file| -> anyhow::Result<()> {
            let mut npz = NpzFile::create(file, export.contents())?;
            export.write(&mut npz)?;
            Ok(npz.finish()?)
        })
        .with_context(cannot);
    }
    check_replaceable(out, is_own_store)?;
    replace_folder_with(out, |inside| -> anyhow::Result<()> {
        let mut store = ZarrFolder::create(inside, export.contents())?;
        Ok(export.write(&mut store)?)
    })
    .with_context(cannot)
}

/// Refuses to replace a folder that kelvin did not write.
fn check_replaceable(out: &Path, is_own: impl Fn(&Path) -> bool) -> anyhow::Result<()> {
    if out.exists() && !is_own(out) {
        bail!(
            "{} is there and is no export of kelvin; nothing was changed. Name another place with --out",
            out.display()
        );
    }
    Ok(())
}

fn create_parent(out: &Path) -> anyhow::Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), |folder| {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))
    })
}

fn is_own_store(folder: &Path) -> bool {
    let attributes = std::fs::read(folder.join(".zattrs")).ok();
    let attributes: Option<serde_json::Value> = attributes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    attributes.is_some_and(|attributes| attributes["inference_library"] == "kelvin")
}

/// Whether a folder holds nothing but tables that `--format csv` writes.
fn is_own_tables(folder: &Path) -> bool {
    let is_own = |name: &str| name.starts_with(DRAWS) || name.starts_with(PREDICTIONS);
    let entries = folder.read_dir();
    entries.is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| is_own(&entry.file_name().to_string_lossy())))
    })
}

//! `kelvin export`: a finished run for ArviZ, NumPy, spreadsheets or TensorBoard.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelvin::draws::Draws;
use kelvin::network::Tensor;
use kelvin::write_file::{replace_with, write_atomically};
use kelvin_study::experiment::Experiment;
use kelvin_study::problem::Problem;

use crate::arguments::{ExportArguments, ExportFormatArgument, MethodArgument};
use crate::device;
use crate::output::{WrongFlags, print_result, say};
use kelvin_report::export::{Export, NpzFile, Selection, ZarrFolder, betas, tensors, write_draws, write_events};
use kelvin_study::findings::{Findings, Method};
use kelvin_study::folder::FinishedRun;

pub fn export(arguments: &ExportArguments) -> anyhow::Result<()> {
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

/// Where to write, in a folder that exists.
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
    std::fs::create_dir_all(out).with_context(cannot)?;
    replace_with(&out.join("draws.csv"), |file| write_draws(file, &run.findings, selection, draws, tensors))
        .with_context(cannot)?;
    let rows = run.findings.rows.iter().filter(|row| {
        run.findings.chains_of(row).any(|chain| selection.chains.iter().any(|own| own.name == chain.name))
    });
    for row in rows {
        let name = format!("{}.csv", row.file_name());
        let path = run.folder.join("predictions").join(&name);
        let predictions = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        write_atomically(&out.join(format!("predictions-{name}")), &predictions).with_context(cannot)?;
    }
    Ok(())
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
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    if format == ExportFormatArgument::Npz {
        return replace_with(out, |file| -> anyhow::Result<()> {
            let mut npz = NpzFile::create(file, export.contents())?;
            export.write(&mut npz)?;
            Ok(npz.finish()?)
        })
        .with_context(cannot);
    }
    // A store is a folder: only one that kelvin wrote is replaced.
    if out.exists() && !is_own_store(out) {
        bail!(
            "{} is there and is no export of kelvin; nothing was changed. Name another place with --out",
            out.display()
        );
    }
    let mut beside = out.as_os_str().to_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = (|| -> anyhow::Result<()> {
        std::fs::create_dir(&beside)?;
        let mut store = ZarrFolder::create(&beside, export.contents())?;
        export.write(&mut store)?;
        if out.exists() {
            std::fs::remove_dir_all(out)?;
        }
        Ok(std::fs::rename(&beside, out)?)
    })();
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&beside);
    }
    written.with_context(cannot)
}

fn is_own_store(folder: &Path) -> bool {
    let attributes = std::fs::read(folder.join(".zattrs")).ok();
    let attributes: Option<serde_json::Value> = attributes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    attributes.is_some_and(|attributes| attributes["inference_library"] == "kelvin")
}

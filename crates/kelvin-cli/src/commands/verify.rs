//! `kelvin verify`: hashes of a finished run's files and data, and its scores, computed again from its draws.

use std::collections::BTreeMap;
use std::path::Path;

use kelvin::data::DataError;
use kelvin::diagnostics;
use kelvin::draws::Draws;
use kelvin_study::error::{Context, ExperimentError, StudyError};
use kelvin_study::problem::Problem;
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::arguments::VerifyArguments;
use crate::checks::{Check, Checks, Comparison, Outcome, in_full};
use crate::device;
use crate::output::print_result;
use crate::recomputed::{check_learning_theory, check_scores, named};
use kelvin_report::text::wrapped;
use kelvin_study::findings::{Agreement, ChainFindings, Findings, Method, RunCommand, metrics_csv, scores_csv};
use kelvin_study::folder::{
    CHECKPOINTS, DataHashes, FinishedRun, HASHES, Hashes, PROVENANCE, Provenance, SETTINGS, SavedModel,
    check_keeps_to_itself, file_hash,
};

#[derive(Serialize)]
struct VerifyResult<'a> {
    command: &'static str,
    folder: String,
    passed: bool,
    checks: &'a [Check],
}

pub fn verify(arguments: &VerifyArguments) -> anyhow::Result<()> {
    let folder = &arguments.run;
    // Tells a folder that is no finished run from one with faults.
    if !folder.join(kelvin_study::findings::FINDINGS).exists() {
        Findings::read(folder)?;
    }
    check_keeps_to_itself(folder)?;
    let mut checks = Checks::default();
    if !folder.join(CHECKPOINTS).exists() {
        let found = "the folder is missing: its files, and that the settings are those asked for, cannot be checked";
        checks.push(CHECKPOINTS, Outcome::Skipped, found);
    }
    check_files(folder, &mut checks);
    match FinishedRun::read(folder) {
        Ok(run) => {
            let found = if run.record.is_some() { "the settings are those of the run" } else { "can be read" };
            checks.push(SETTINGS, Outcome::Passed, found);
            check_record(&run, &mut checks);
            check_run(arguments, &run, &mut checks)?;
        }
        Err(error) => checks.push(SETTINGS, Outcome::Failed, in_full(&error)),
    }
    let failed = checks.num_failed();
    if arguments.json {
        let folder = folder.display().to_string();
        let result = VerifyResult { command: "verify", folder, passed: failed == 0, checks: &checks.0 };
        print_result(&format!("{}\n", serde_json::to_string(&result)?))?;
    } else {
        print_result(&table(&checks))?;
    }
    if failed > 0 {
        let names: Vec<&str> =
            checks.0.iter().filter(|check| check.outcome == Outcome::Failed).map(|check| check.name.as_str()).collect();
        anyhow::bail!("{failed} of {} checks of {} failed: {}", checks.0.len(), folder.display(), names.join(", "));
    }
    Ok(())
}

/// A line for each check, what failed in full.
fn table(checks: &Checks) -> String {
    let width = checks.0.iter().map(|check| check.name.width()).max().unwrap_or(0);
    let indent = " ".repeat("skipped  ".len() + width + 1);
    let mut text = String::new();
    for check in &checks.0 {
        let outcome = match check.outcome {
            Outcome::Passed => "ok     ",
            Outcome::Failed => "FAILED ",
            Outcome::Skipped => "skipped",
        };
        let pad = " ".repeat(width - check.name.width());
        let head = format!("{outcome}  {}{pad}", check.name).replace(' ', "\u{a0}");
        let mut lines = check.found.lines();
        text.push_str(&wrapped(&format!("{head} {}", lines.next().unwrap_or_default()), &indent));
        lines.for_each(|line| text.push_str(&wrapped(&format!("{indent}{}", line.trim()), &indent)));
    }
    text
}

/// Every file against its hash of the day.
fn check_files(folder: &Path, checks: &mut Checks) {
    let hashes = match Hashes::read(folder) {
        Ok(Some(hashes)) => hashes,
        Ok(None) => {
            let found =
                format!("there is no {HASHES}: an older kelvin made the run, or it was stopped at its very end");
            return checks.push(HASHES, Outcome::Skipped, found);
        }
        Err(error) => return checks.push(HASHES, Outcome::Failed, in_full(&error)),
    };
    let mut files = hashes.files;
    if !folder.join(CHECKPOINTS).exists() {
        files.retain(|name, _| !Path::new(name).starts_with(CHECKPOINTS));
    }
    let differs = |(name, then): (&String, &String)| match file_hash(&folder.join(name)) {
        Ok(now) if now == *then => None,
        Ok(now) => Some(format!("{name} was changed: SHA-256 {} then, {} now", short(then), short(&now))),
        Err(error) => Some(in_full(&error).replace('\n', ": ")),
    };
    let differences: Vec<String> = files.iter().filter_map(differs).collect();
    let passed = format!("{} files have the SHA-256 they were written with", files.len());
    checks.push_differences(HASHES, differences, passed);
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// The record of the run, which has its own checksum unless it is of the format before.
fn check_record(run: &FinishedRun, checks: &mut Checks) {
    match &run.record {
        None => {}
        Some(record) if record.is_checked() => {
            checks.push("run.json", Outcome::Passed, "has the SHA-256 that was written with it");
        }
        Some(_) => {
            let found = "an older kelvin wrote it without a checksum: that settings and step size are those the run began with is not \
                         checked";
            checks.push("run.json", Outcome::Skipped, found);
        }
    }
}

fn check_run(arguments: &VerifyArguments, run: &FinishedRun, checks: &mut Checks) -> anyhow::Result<()> {
    let provenance = Provenance::read(&run.folder.join(PROVENANCE));
    check_provenance(run, provenance.as_ref(), checks);
    check_views(run, checks);
    check_choice(run, checks);
    check_diagnostics(run, checks);
    let draws = check_draws(run, checks);
    let problem = run.read_problem(arguments.data_dir.as_deref());
    let problem = match problem {
        Err(error) if is_missing(&error) => {
            checks.push("data", Outcome::Skipped, in_full(&error));
            None
        }
        read => {
            let checked = read.and_then(|problem| run.check_data(&problem).map(|()| problem));
            checks.push_result("data", checked, "the data have the SHA-256 that they had then")
        }
    };
    let Some(problem) = problem else {
        checks.push("scores", Outcome::Skipped, "without the data they cannot be computed again");
        return Ok(());
    };
    check_split(run, &problem, checks);
    let experiment = device::experiment(arguments.device, arguments.json, problem, run.settings.clone())?;
    check_scores(run, &experiment, provenance.as_ref(), &draws, checks);
    check_learning_theory(run, &experiment, provenance.as_ref(), &draws, checks);
    Ok(())
}

/// Whether files of data are not there, rather than others.
fn is_missing(error: &StudyError) -> bool {
    matches!(
        error,
        StudyError::Experiment(ExperimentError::Data(DataError::FileMissing { .. } | DataError::DatasetMissing { .. }))
    )
}

/// Whether the files that say what was run agree with each other.
fn check_provenance(run: &FinishedRun, provenance: Option<&Provenance>, checks: &mut Checks) {
    let Some(provenance) = provenance else {
        return checks.push(PROVENANCE, Outcome::Failed, format!("{PROVENANCE} is missing or damaged"));
    };
    let told = |asked: &str, seed: u64, data: DataHashes| {
        json!({
            "asked_sha256": asked,
            "seed": seed,
            "data_sha256": data.data,
            "out_of_distribution_sha256": data.out_of_distribution,
        })
    };
    let (stored, wanted, passed) = match &run.record {
        Some(record) => (
            told(&provenance.asked_sha256, provenance.seed, provenance.data_hashes()),
            told(&record.identity(), run.settings.run.seed, record.data_hashes()),
            "settings, seed and data are those of checkpoints/run.json",
        ),
        None => (
            json!({ "seed": provenance.seed }),
            json!({ "seed": run.settings.run.seed }),
            "its seed is that of experiment.toml",
        ),
    };
    let mut differences = Comparison::default().of_values(PROVENANCE, &stored, &wanted);
    if run.findings.sampling.seed != provenance.seed {
        differences
            .push(format!("results.json has seed {}, {PROVENANCE} {}", run.findings.sampling.seed, provenance.seed));
    }
    checks.push_differences(PROVENANCE, differences, passed);
}

/// Files for other programs, which are written from results.json.
fn check_views(run: &FinishedRun, checks: &mut Checks) {
    let warnings = serde_json::to_string_pretty(&run.findings.warnings).map(|text| text + "\n").unwrap_or_default();
    let views = [
        ("scores.csv", scores_csv(&run.findings)),
        ("metrics.csv", metrics_csv(&run.findings)),
        ("warnings.json", warnings),
    ];
    for (name, wanted) in views {
        let stored = std::fs::read_to_string(run.folder.join(name)).with_context(|| format!("cannot read {name}"));
        let differences = stored.map(|stored| {
            let mut differences = Comparison::default().of_tables(name, &stored, &wanted);
            if differences.is_empty() && stored != wanted {
                differences.push(format!("{name} is not what results.json gives"));
            }
            differences
        });
        let differences = differences.unwrap_or_else(|error| vec![in_full(&error)]);
        checks.push_differences(name, differences, "says what results.json says");
    }
}

/// β̂* against the searches it was chosen from, and model.json, which `kelvin predict` reads.
fn check_choice(run: &FinishedRun, checks: &mut Checks) {
    let findings = &run.findings;
    if findings.command == RunCommand::Sweep {
        return;
    }
    let bests = findings.searches.iter().filter_map(|search| search.path.get(search.best));
    let best = bests.filter(|visit| visit.validation_lpd.is_finite());
    let best = best.max_by(|a, b| a.validation_lpd.total_cmp(&b.validation_lpd)).map(|visit| visit.beta);
    let mut exact = Comparison::default();
    let mut differences = exact.of_values("results.json: beta_star", &json!(findings.beta_star), &json!(best));
    let path = run.folder.join("model.json");
    let model = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<SavedModel>(&bytes).ok());
    match model {
        None => differences.push("model.json is missing or damaged".into()),
        Some(model) => {
            let names = findings.chains.iter().filter(|chain| chain.method == findings.shown_method());
            let names: Vec<&String> = names
                .filter(|chain| run.has_draws() && !chain.potential_energy.is_empty())
                .map(|chain| &chain.name)
                .collect();
            let stored = json!({"inverse_temperature": model.inverse_temperature, "network": model.network, "draws": model.draws});
            let wanted = json!({"inverse_temperature": findings.beta_star, "network": run.network, "draws": names});
            differences.extend(exact.of_values("model.json", &stored, &wanted));
        }
    }
    checks.push_differences("model.json", differences, "β, network and draws are those of results.json");
}

/// R̂ and effective draws from the stored traces.
fn check_diagnostics(run: &FinishedRun, checks: &mut Checks) {
    let findings = &run.findings;
    let measured = |chains: Vec<&ChainFindings>| {
        let energies: Vec<&[f64]> = chains
            .iter()
            .filter(|chain| chain.diverged_at.is_none() && !chain.potential_energy.is_empty())
            .map(|chain| &chain.potential_energy[..])
            .collect();
        json!({
            "rhat": diagnostics::rhat(&energies).ok(),
            "bulk_ess": diagnostics::bulk_ess(&energies).ok(),
            "tail_ess": diagnostics::tail_ess(&energies).ok(),
        })
    };
    let mut comparison = Comparison::of_stored_numbers();
    let mut differences = Vec::new();
    for row in &findings.rows {
        if let Some(stored) = &row.measured {
            let stored = json!({"rhat": stored.rhat, "bulk_ess": stored.bulk_ess, "tail_ess": stored.tail_ess});
            let place = format!("results.json: {}: measured", named(row));
            differences.extend(comparison.of_values(&place, &stored, &measured(findings.chains_of(row).collect())));
        }
    }
    for Agreement { beta, rhat, bulk_ess, tail_ess } in &findings.agreement {
        let own = findings.chains.iter().filter(|chain| chain.method != Method::Chosen && chain.beta == *beta);
        let stored = json!({"rhat": rhat, "bulk_ess": bulk_ess, "tail_ess": tail_ess});
        let place = format!("results.json: agreement at β = {beta}");
        differences.extend(comparison.of_values(&place, &stored, &measured(own.collect())));
    }
    checks.push_differences("R̂ and ESS", differences, "follow from the potential energies, to 1e-9");
}

/// Draws files against their own hashes and the traces of results.json; those that can be used.
fn check_draws(run: &FinishedRun, checks: &mut Checks) -> BTreeMap<String, Draws> {
    let mut usable = BTreeMap::new();
    let (mut differences, mut missing) = (Vec::new(), Vec::new());
    for chain in run.findings.chains.iter().filter(|chain| !chain.potential_energy.is_empty()) {
        let file = format!("draws/{}.safetensors", chain.name);
        if !run.draws_path(&chain.name).exists() {
            missing.push(file);
            continue;
        }
        match run.draws(&chain.name) {
            Err(error) => differences.push(format!("{file}: {}", in_full(&error).replace('\n', "; "))),
            Ok(draws) => {
                let series = |energy: &[f64], kinetic: &[f64], configurational: &[f64]| json!({"potential_energy": energy, "kinetic_temperature": kinetic, "configurational_temperature": configurational});
                let stored =
                    series(&chain.potential_energy, &chain.kinetic_temperature, &chain.configurational_temperature);
                let wanted =
                    series(&draws.potential_energy, &draws.kinetic_temperature, &draws.configurational_temperature);
                let place = format!("results.json: chain {}", chain.name);
                let found = Comparison::default().of_values(&place, &stored, &wanted);
                if found.is_empty() && draws.len() != chain.potential_energy.len() {
                    differences.push(format!(
                        "{file} holds {} draws, results.json {}",
                        draws.len(),
                        chain.potential_energy.len()
                    ));
                }
                differences.extend(found);
                usable.insert(chain.name.clone(), draws);
            }
        }
    }
    if !run.has_draws() {
        let found = "this run stored no draws: scores cannot be computed again";
        checks.push("draws", Outcome::Skipped, found);
    } else {
        differences.extend(missing.into_iter().map(|file| format!("{file} is missing")));
        let passed = format!("{} files have their own hashes, and the measurements of results.json", usable.len());
        checks.push_differences("draws", differences, passed);
    }
    usable
}

/// split.json against the split of the data that were read.
fn check_split(run: &FinishedRun, problem: &Problem, checks: &mut Checks) {
    if let Some(table) = problem.table() {
        let path = run.folder.join("split.json");
        let stored: Option<Value> = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let wanted = serde_json::to_value(&table.split).unwrap_or_default();
        let differences = Comparison::default().of_values("split.json", &stored.unwrap_or_default(), &wanted);
        checks.push_differences("split.json", differences, "is the split of the seed");
    }
}

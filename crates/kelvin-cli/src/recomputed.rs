//! Scores of a finished run, computed again from its draws, beside those it wrote.

use std::collections::BTreeMap;

use kelvin::draws::Draws;
use kelvin::predictive::PredictiveModel;
use kelvin_study::error::{Context, Result};
use kelvin_study::experiment::{Experiment, HeldOutPredictives, training_densities};
use serde_json::{Value, json};

use crate::checks::{Checks, Comparison, Outcome, in_full};
use kelvin_study::findings::{HeldOutScores, Method, Predictions, Row};
use kelvin_study::folder::{Continued, FinishedRun, Provenance};

/// What f32 sums in another order may change in a score, and what bf16 may.
const OTHER_ORDER: f64 = 1e-3;
const OTHER_PRECISION: f64 = 0.05;

/// Every row of results.json, and its predictions, from the draws.
pub fn check_scores(
    run: &FinishedRun,
    experiment: &Experiment,
    provenance: Option<&Provenance>,
    draws: &BTreeMap<String, Draws>,
    checks: &mut Checks,
) {
    let (tolerance, why) = tolerance(provenance, &Continued::now(experiment));
    let num_points = experiment.validation.num_rows().min(experiment.test.num_rows()).max(1);
    let jump = if tolerance > 0.0 { 5.0 / num_points as f64 } else { 0.0 };
    for row in &run.findings.rows {
        let file = format!("predictions/{}.csv", row.file_name());
        let name = named(row);
        if row.method == Method::Sgd {
            let found = check_point(run, row, &file);
            let differences = found.unwrap_or_else(|error| vec![in_full(&error)]);
            checks.push_differences(
                name,
                differences,
                format!("test scores follow from {file}; its weights are not kept"),
            );
            continue;
        }
        let chains = run.findings.chains_of(row).filter(|chain| !chain.potential_energy.is_empty());
        let own: Option<Vec<&Draws>> = chains.map(|chain| draws.get(&chain.name)).collect();
        let Some(own) = own.filter(|own| !own.is_empty()) else {
            let why = if run.has_draws() { "its draws are not there, or damaged" } else { "its draws were not stored" };
            checks.push(name, Outcome::Skipped, why);
            continue;
        };
        let mut comparison = Comparison { tolerance, jump, largest: 0.0 };
        match again(experiment, row, &own) {
            Err(error) => checks.push(name, Outcome::Failed, in_full(&error)),
            Ok((now, predictions)) => {
                let place = format!("results.json: {name}");
                let differences = comparison.of_values(&place, &scores(row), &scores(&now));
                let mut differences: Vec<String> = differences;
                let stored = std::fs::read_to_string(run.folder.join(&file));
                match stored {
                    Ok(stored) => differences.extend(comparison.of_tables(&file, &stored, &predictions.to_csv())),
                    Err(error) => differences.push(format!("cannot read {file}: {error}")),
                }
                let apart = match comparison.largest {
                    0.0 => "exactly".into(),
                    largest => format!("to {largest:.0e}"),
                };
                let passed = format!("scores and {file} follow {apart} from {} draws ({why})", now.num_draws);
                checks.push_differences(name, differences, passed);
            }
        }
    }
}

/// Learning theory of every chain, from its draws.
pub fn check_learning_theory(
    run: &FinishedRun,
    experiment: &Experiment,
    provenance: Option<&Provenance>,
    draws: &BTreeMap<String, Draws>,
    checks: &mut Checks,
) {
    const NAME: &str = "learning theory";
    let (tolerance, why) = tolerance(provenance, &Continued::now(experiment));
    let told = || run.findings.chains.iter().filter(|chain| chain.learning_theory.is_some());
    if told().next().is_none() {
        return checks.push(NAME, Outcome::Skipped, "results.json has none: an older kelvin made the run");
    }
    let own: Vec<_> = told().filter_map(|chain| Some((chain, draws.get(&chain.name)?))).collect();
    if own.is_empty() {
        let why = if run.has_draws() { "draws are not there, or damaged" } else { "draws were not stored" };
        return checks.push(NAME, Outcome::Skipped, why);
    }
    let jump = if tolerance > 0.0 { 5.0 / experiment.training_sample.num_rows().max(1) as f64 } else { 0.0 };
    let mut comparison = Comparison { tolerance, jump, largest: 0.0 };
    let mut differences = Vec::new();
    for (chain, draws) in &own {
        match training_densities(experiment, chain.beta, draws) {
            Err(error) => differences.push(format!("{}: {error}", chain.name)),
            Ok(now) => {
                let place = format!("results.json: chain {}: learning_theory", chain.name);
                differences.extend(comparison.of_values(&place, &json!(chain.learning_theory), &json!(now.summary())));
            }
        }
    }
    checks.push_differences(NAME, differences, format!("{} chains: follows from their draws ({why})", own.len()));
}

/// How closely scores must agree, and why.
fn tolerance(provenance: Option<&Provenance>, now: &Continued) -> (f64, String) {
    let Some(then) = provenance.map(Provenance::last_circumstances) else {
        return (OTHER_PRECISION, format!("{OTHER_PRECISION} allowed: it is not known where the run was made"));
    };
    if then.device_kind() != now.device_kind() {
        let is_half = [&then, now].iter().any(|at| at.device.contains("bf16"));
        let allowed = if is_half { OTHER_PRECISION } else { OTHER_ORDER };
        return (
            allowed,
            format!("{allowed} allowed: made on {}, checked on {}", then.device_kind(), now.device_kind()),
        );
    }
    if !then.rounds_like(now) {
        let (then, now) = (&then.vector_instructions, &now.vector_instructions);
        return (OTHER_ORDER, format!("{OTHER_ORDER} allowed: made with {then} instructions, checked with {now}"));
    }
    if (&then.kelvin, &then.commit) != (&now.kelvin, &now.commit) {
        return (OTHER_ORDER, format!("{OTHER_ORDER} allowed: made by kelvin {} ({})", then.kelvin, then.commit));
    }
    (0.0, "the same device and kelvin: nothing may differ".into())
}

/// A row and its predictions, computed again: chain by chain, as they were accumulated.
fn again(experiment: &Experiment, row: &Row, draws: &[&Draws]) -> Result<(Row, Predictions)> {
    let mut chains = draws.iter().map(|draws| HeldOutPredictives::of_draws(experiment, row.beta, draws));
    let mut pooled = chains.next().context("there is no chain")??;
    for chain in chains {
        pooled.merge(&chain?)?;
    }
    let HeldOutScores { validation, test, test_targets, out_of_distribution, corrupted } = HeldOutScores::of(&pooled)?;
    let of_intervals = draws.iter().copied().filter(|_| row.has_intervals());
    let predictions = Predictions::of(experiment, row.beta, &pooled.test, of_intervals)?;
    let num_draws = draws.iter().map(|draws| draws.len()).sum();
    Ok((Row { num_draws, validation, test, test_targets, out_of_distribution, corrupted, ..row.clone() }, predictions))
}

/// What is compared of a row.
fn scores(row: &Row) -> Value {
    json!({
        "num_draws": row.num_draws,
        "validation": row.validation,
        "test": row.test,
        "test_targets": row.test_targets,
        "out_of_distribution": row.out_of_distribution,
        "corrupted": row.corrupted,
    })
}

/// The scores of an optimiser's point from its predictions.
fn check_point(run: &FinishedRun, row: &Row, file: &str) -> Result<Vec<String>> {
    let predictions = Predictions::read(&run.folder.join(file))?;
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let lpd = |model| mean(predictions.log_densities(model));
    let point_metric = match &predictions {
        Predictions::Numbers(targets) => {
            let squares = targets.iter().zip(&run.findings.problem.target_units).flat_map(|(own, units)| {
                own.points.iter().map(|point| ((point.truth - point.mean) / units.std).powi(2))
            });
            mean(squares.collect())
        }
        Predictions::Classes(points) => {
            mean(points.iter().map(|point| f64::from(u8::from(point.predicted.standard == point.label))).collect())
        }
    };
    let (stored_lpd, stored_metric) = (row.test.lpd(), row.test.point_metric());
    let stored = json!({"lpd": {"standard": stored_lpd.standard, "tempered": stored_lpd.tempered}, "point_metric": stored_metric});
    let now = json!({
        "lpd": {"standard": lpd(PredictiveModel::Standard), "tempered": lpd(PredictiveModel::Tempered)},
        "point_metric": point_metric,
    });
    let place = format!("results.json: {} (from {file}): test", named(row));
    Ok(Comparison::of_stored_numbers().of_values(&place, &stored, &now))
}

/// A row, for people.
pub fn named(row: &Row) -> String {
    match row.repetition {
        Some(repetition) if row.method == Method::Sgd => format!("{}, repetition {}", row.label, repetition + 1),
        _ => row.label.clone(),
    }
}

//! `kelvin verify` as a person sees it: a good run passes, and every kind of change is found and named.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{kelvin, said};

/// Chains of 20 draws in a moment.
const SHORT: [&str; 6] = [
    "--set=selection.epochs=400",
    "--set=sampler.ramp_start=100",
    "--set=sampler.ramp_end=150",
    "--set=sampler.burn_in=200",
    "--set=sampler.cycle=10",
    "--set=sampler.epochs=400",
];

fn passes(folder: &Path, run: &str) -> String {
    let output = kelvin(folder, &["verify", run]);
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    out
}

/// Asserts a failure whose table says all phrases.
fn fails(folder: &Path, run: &str, phrases: &[&str]) {
    let output = kelvin(folder, &["verify", run]);
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    assert!(err.starts_with("error: ") && err.contains("failed: "), "{err}");
    // Lines are broken between words.
    let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in phrases {
        assert!(flat.contains(phrase), "no `{phrase}` in\n{out}");
    }
}

fn table(folder: &Path, name: &str, rows: usize) {
    let mut csv = String::from("a,b,y\n");
    for i in 0..rows {
        let (a, b) = ((i * 7 % 23) as f64 / 11.0 - 1.0, (i * 5 % 17) as f64 / 8.0 - 1.0);
        csv.push_str(&format!("{a},{b},{}\n", 50.0 + 10.0 * a - 4.0 * b * b + (i * 11 % 13) as f64 / 13.0));
    }
    std::fs::write(folder.join(name), csv).unwrap();
}

fn finished(folder: &Path, arguments: &[&str]) {
    let output = kelvin(folder, &[arguments, &SHORT[..], &["--quiet"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output).1);
}

/// Makes a change, looks, and puts the file back.
fn changed(path: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>, look: impl FnOnce()) {
    let before = std::fs::read(path).unwrap();
    let after = change(before.clone());
    assert_ne!(after, before, "nothing was changed in {}", path.display());
    std::fs::write(path, after).unwrap();
    look();
    std::fs::write(path, before).unwrap();
}

/// A change of a JSON file.
fn edited(change: impl FnOnce(&mut Value)) -> impl FnOnce(Vec<u8>) -> Vec<u8> {
    |bytes| {
        let mut value: Value = serde_json::from_slice(&bytes).unwrap();
        change(&mut value);
        serde_json::to_vec_pretty(&value).unwrap()
    }
}

#[test]
fn a_run_verifies_and_every_change_is_named() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    table(here, "mine.csv", 150);
    finished(here, &["run", "--data", "mine.csv", "--target", "y", "--out", "run"]);
    let out = passes(here, "run");
    assert!(out.lines().all(|line| line.starts_with("ok ") || line.starts_with(' ')), "{out}");
    assert!(out.contains("exactly from") && out.contains("chains: follows from their draws"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 101), "{out}");

    let output = kelvin(here, &["verify", "run", "--json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["passed"], result["checks"][0]["outcome"].as_str()), (&Value::Bool(true), Some("passed")));

    let run = here.join("run");
    // One bit of a weight.
    let flipped = |mut bytes: Vec<u8>| {
        let last = bytes.len() - 5;
        bytes[last] ^= 4;
        bytes
    };
    changed(&run.join("draws/chosen-1.safetensors"), flipped, || {
        let phrases =
            ["draws/chosen-1.safetensors was changed", "do not have the hash", "its draws are not there, or damaged"];
        fails(here, "run", &phrases);
    });
    changed(
        &run.join("results.json"),
        edited(|results| results["rows"][2]["test"]["regression"]["tempered"]["lpd"] = 0.125.into()),
        || {
            let phrases = [
                "results.json was changed",
                "test.regression.tempered.lpd is 0.125, and should be",
                "FAILED scores.csv",
            ];
            fails(here, "run", &phrases);
        },
    );
    changed(&run.join("results.json"), edited(|results| results["rows"][1]["measured"]["rhat"] = 1.0.into()), || {
        fails(here, "run", &["FAILED R̂ and ESS", "β = 1: measured.rhat is 1, and should be"])
    });
    changed(
        &run.join("results.json"),
        edited(|results| results["chains"][0]["potential_energy"][3] = 7.5.into()),
        || fails(here, "run", &["potential_energy[3] is 7.5, and should be"]),
    );
    changed(
        &run.join("results.json"),
        edited(|results| results["chains"][1]["learning_theory"]["functional_variance"] = 0.5.into()),
        || fails(here, "run", &["FAILED learning theory", "learning_theory.functional_variance is 0.5, and should be"]),
    );
    let cell = |text: Vec<u8>| {
        let text = String::from_utf8(text).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut cells: Vec<&str> = lines[4].split(',').collect();
        cells[2] = "12.5";
        lines[4] = cells.join(",");
        (lines.join("\n") + "\n").into_bytes()
    };
    changed(&run.join("predictions/chosen.csv"), cell, || {
        fails(here, "run", &["predictions/chosen.csv, line 5, mean: 12.5, and should be"]);
    });
    changed(&run.join("predictions/sgd.csv"), cell, || {
        fails(here, "run", &["SGD (from predictions/sgd.csv): test.point_metric is"]);
    });
    changed(&run.join("scores.csv"), cell, || {
        fails(here, "run", &["scores.csv, line 5, repetition: 12.5, and should be"]);
    });
    let longer = |bytes: Vec<u8>| [&bytes[..], b"1"].concat();
    changed(&run.join("checkpoints/search.checkpoint"), longer, || {
        fails(here, "run", &["checkpoints/search.checkpoint was changed"]);
    });
    let other_rate =
        |text: Vec<u8>| String::from_utf8(text).unwrap().replace("burn_in = 200", "burn_in = 190").into_bytes();
    changed(&run.join("experiment.toml"), other_rate, || {
        fails(here, "run", &["experiment.toml was changed", "sampler.burn_in: 200 there, 190 now"]);
    });
    let other_data: fn(Vec<u8>) -> Vec<u8> =
        |text| String::from_utf8(text).unwrap().replacen("50", "51", 1).into_bytes();
    changed(&here.join("mine.csv"), other_data, || {
        fails(here, "run", &["FAILED data", "the data have changed", "skipped scores"]);
    });
    passes(here, "run");

    // Without the checkpoints too.
    std::fs::rename(run.join("checkpoints"), here.join("checkpoints")).unwrap();
    let out = passes(here, "run");
    let (first, rest) = out.split_once("\nok ").unwrap();
    assert!(first.starts_with("skipped  checkpoints ") && first.contains("missing"), "{out}");
    assert!(!rest.contains("skipped") && rest.contains("exactly from"), "{out}");
    changed(&here.join("mine.csv"), other_data, || fails(here, "run", &["FAILED data", "the data have changed"]));
    let output = kelvin(here, &["export", "run", "--format", "npz"]);
    let (out, err) = said(&output);
    assert!(out.starts_with("run/exports/chosen.npz: ") && err.is_empty(), "{out}\n{err}");
    let output = kelvin(here, &["resume", "run"]);
    let (out, err) = said(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    let lost = "cannot go on with run: it has lost checkpoints/run.json";
    for phrase in [lost, "kelvin report run", "`kelvin run run/experiment.toml --out run-again` runs it again"] {
        assert!(err.contains(phrase), "no `{phrase}` in\n{err}");
    }
    std::fs::rename(here.join("checkpoints"), run.join("checkpoints")).unwrap();

    // Without the data the rest is checked, and what is missing is named.
    std::fs::rename(here.join("mine.csv"), here.join("elsewhere.csv")).unwrap();
    let out = passes(here, "run");
    assert!(out.contains("skipped  data") && out.contains("mine.csv"), "{out}");

    let output = kelvin(here, &["verify", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).1.contains("there is no folder nowhere"));
}

#[test]
fn sweeps_and_runs_without_stored_draws_are_checked_as_far_as_they_go() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished(here, &["sweep", "concrete", "--repetitions", "2", "--set=run.grid=[0.1, 1.0]", "--out", "sweep"]);
    let out = passes(here, "sweep");
    assert!(out.contains("SGD, repetition 2") && out.contains("β = 0.1, repetition 1"), "{out}");
    let results = here.join("sweep/results.json");
    changed(&results, edited(|results| results["agreement"][1]["bulk_ess"] = 3.0.into()), || {
        fails(here, "sweep", &["agreement at β = 1.bulk_ess is 3, and should be"])
    });
    std::fs::remove_file(here.join("sweep/hashes.json")).unwrap();
    for entry in std::fs::read_dir(here.join("sweep/draws")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fails(here, "sweep", &["there is no hashes.json", "draws/chosen-1.safetensors is missing"]);

    finished(here, &["run", "concrete", "--set=sampler.draws=scored", "--out", "scored"]);
    let out = passes(here, "scored");
    assert!(out.contains("this run stored no draws") && out.contains("its draws were not stored"), "{out}");
    assert_eq!(std::fs::read_dir(here.join("scored/draws")).unwrap().count(), 0);
}

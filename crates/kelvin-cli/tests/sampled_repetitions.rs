//! A sweep with a search in every repetition and chains in the first of them: nothing is claimed of what was not sampled.

use std::path::Path;

use crate::support;
use serde_json::Value;
use tempfile::TempDir;

const GRID: &str = "--set=run.grid=[0.3, 1.0]";

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = support::kelvin(folder, arguments);
    let (out, err) = support::said(&output);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    out
}

fn sweep(folder: &Path, own: &[&str]) -> String {
    succeeds(folder, &[&["sweep", "concrete", "--quiet", GRID], &support::SHORT[..], own].concat())
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn found(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&read(folder.join(name).join("results.json"))).unwrap()
}

/// The repetitions, from 0, of the rows of a method.
fn repetitions(found: &Value, method: &str) -> Vec<u64> {
    let rows = found["rows"].as_array().unwrap().iter().filter(|row| row["method"] == method);
    rows.map(|row| row["repetition"].as_u64().unwrap()).collect()
}

#[test]
fn searches_are_made_in_all_repetitions_and_chains_in_the_first() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let printed = sweep(here, &["--repetitions", "3", "--set=run.sampled_repetitions=1", "--out", "one"]);
    let one = found(here, "one");
    assert_eq!(one["searches"].as_array().unwrap().len(), 3);
    assert_eq!(repetitions(&one, "sgd"), [0, 1, 2]);
    assert_eq!((repetitions(&one, "grid"), repetitions(&one, "chosen")), (vec![0, 0], vec![0]));
    assert_eq!(std::fs::read_dir(here.join("one/draws")).unwrap().count(), 3);

    for phrase in [
        "over 3 repetitions: ",
        "Chains were sampled in 1 of the 3 repetitions.",
        "**Test scores, SGD mean ± SD over 3 repetitions, chains of the first alone**",
        "**Agreement of the two halves of each chain's potential energies**",
    ] {
        assert!(printed.contains(phrase), "no `{phrase}` in\n{printed}");
    }
    let results = read(here.join("one/results.csv"));
    let lines: Vec<&str> = results.lines().collect();
    assert!(lines[1].starts_with("SGD,") && lines[1].contains('±'), "{results}");
    assert!(lines[2..].iter().all(|line| !line.contains('±')), "{results}");
    assert_eq!(read(here.join("one/kinetic_temperature.csv")).lines().next(), Some("target β,rep. 1,mean,all steps"));
    for line in read(here.join("one/summary.csv")).lines().skip(1) {
        let (is_sgd, has_no_spread) = (line.starts_with("sgd,"), line.ends_with(",,,1"));
        assert!(is_sgd != has_no_spread && !line.contains("NaN"), "{line}");
    }
    let point_predictions = read(here.join("one/tables/point_predictions.md"));
    assert!(point_predictions.contains("over repetitions; concrete-quick: chains in 1 of 3"), "{point_predictions}");
    let page = read(here.join("one/report.html"));
    assert!(page.contains("Lines: one repetition") && page.contains("those of repetitions without chains"));
    assert!(!page.contains("SD over chains") && !page.contains("SD over repetitions"));
    assert!(read(here.join("one/figures/lpd_test.svg")).contains("β\u{302}* without chains"), "no such entry");
    // One band would be a claim about several repetitions.
    let numbers = read(here.join("one/figures/lpd_test.csv"));
    assert!(!numbers.lines().next().unwrap().contains("low"), "{numbers}");
    succeeds(here, &["verify", "one"]);
}

/// The chains that are there are those of a sweep that samples in all repetitions.
#[test]
fn chains_do_not_depend_on_how_many_repetitions_have_some() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    sweep(here, &["--repetitions", "2", "--set=run.sampled_repetitions=1", "--out", "one"]);
    sweep(here, &["--repetitions", "2", "--set=run.sampled_repetitions=2", "--out", "asked"]);
    let printed = sweep(here, &["--repetitions", "2", "--out", "all"]);
    assert!(printed.contains("Test scores, mean ± SD over 2 repetitions") && !printed.contains("Chains were sampled"));
    let (one, asked, all) = (found(here, "one"), found(here, "asked"), found(here, "all"));
    let scores = |found: &Value, repetition: u64| {
        let rows = found["rows"].as_array().unwrap().iter().filter(|row| row["repetition"] == repetition);
        rows.map(|row| row["test"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(scores(&one, 0), scores(&all, 0));
    assert_eq!(scores(&one, 1), scores(&all, 1)[..1], "the search alone");
    assert_eq!(scores(&asked, 1), scores(&all, 1));

    let compared = succeeds(here, &["compare", "one", "all"]);
    assert!(compared.contains("one: chains in 1 of 2") && !compared.contains("all: chains in"), "{compared}");
    let beside = succeeds(here, &["report", "one", "all", "--out", "both"]);
    assert!(beside.contains("over repetitions; one: chains in 1 of 2"), "{beside}");
}

#[test]
fn the_number_is_checked_against_the_repetitions_that_are_asked_for() {
    let folder = TempDir::new().unwrap();
    let refused = |own: &[&str], phrase: &str| {
        let sweep = [&["sweep", "concrete", "--quiet", GRID], &support::SHORT[..], own].concat();
        let output = support::kelvin(folder.path(), &sweep);
        let (_, err) = support::said(&output);
        assert!(!output.status.success() && err.contains(phrase), "{err}");
        assert!(!folder.path().join("runs").exists(), "nothing is begun");
    };
    let key = "run.sampled_repetitions must be from 1 to";
    refused(&["--repetitions", "3", "--set=run.sampled_repetitions=4"], &format!("{key} 3 (run.repetitions)"));
    refused(&["--set=run.sampled_repetitions=3"], &format!("{key} 2 (run.repetitions)"));
    refused(&["--repetitions", "3", "--set=run.sampled_repetitions=0"], "got 0");
    // `--quick` alone would have two repetitions.
    sweep(folder.path(), &["--repetitions", "3", "--set=run.sampled_repetitions=3"]);
}

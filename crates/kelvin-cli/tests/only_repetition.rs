//! A piece of a sweep: one repetition alone has the numbers that it has in the whole sweep, and says that it is a piece.

use std::path::Path;

use crate::support;
use serde_json::Value;
use tempfile::TempDir;

const GRID: &str = "--set=run.grid=[0.3, 1.0]";

fn arguments<'a>(preset: &'a str, own: &[&'a str]) -> Vec<&'a str> {
    [&["sweep", preset, "--quiet", "--repetitions", "3", GRID], &support::SHORT[..], own].concat()
}

fn sweep(folder: &Path, own: &[&str]) -> String {
    let arguments = arguments("concrete", own);
    let output = support::kelvin(folder, &arguments);
    let (out, err) = support::said(&output);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    out
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn found(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&read(folder.join(name).join("results.json"))).unwrap()
}

/// What a repetition, from 0, has in a list, without the times it took.
fn of_repetition(found: &Value, list: &str, repetition: u64) -> Vec<Value> {
    let own = found[list].as_array().unwrap().iter().filter(|one| one["repetition"] == repetition);
    let timeless = |one: &Value| {
        let mut one = one.clone();
        one.as_object_mut().unwrap().remove("seconds");
        one
    };
    own.map(timeless).collect()
}

/// Scores, potential energies and β̂* bit by bit, and the predictive distribution at every test row.
#[test]
fn a_piece_has_the_numbers_of_the_whole_sweep() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    sweep(here, &["--set=sampler.draws=scored", "--out", "whole"]);
    let whole = found(here, "whole");
    for piece in ["1", "3"] {
        sweep(here, &["--only-repetition", piece, "--set=sampler.draws=scored", "--out", piece]);
        let alone = found(here, piece);
        let repetition = piece.parse::<u64>().unwrap() - 1;
        for list in ["searches", "rows", "chains"] {
            let expected = of_repetition(&whole, list, repetition);
            assert_eq!(of_repetition(&alone, list, repetition), expected, "{list} of {piece}");
            assert_eq!(alone[list].as_array().unwrap().len(), expected.len(), "{list} of no other repetition");
        }
        for kind in ["sgd", "chosen", "beta-0.3", "beta-1"] {
            let file = format!("predictions/{kind}-{piece}.csv");
            assert_eq!(read(here.join(piece).join(&file)), read(here.join("whole").join(&file)), "{file}");
        }
        assert_eq!(read(here.join(piece).join("split.json")), read(here.join("whole/split.json")), "one split for all");
    }
}

#[test]
fn a_piece_says_that_it_is_one() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let printed = sweep(here, &["--only-repetition", "2", "--out", "piece"]);
    for phrase in [
        "This is repetition 2 of 3 alone: a piece of a sweep, without a spread.",
        "**Test scores, repetition 2 of 3 alone**",
        "**Agreement of the two halves of each chain's potential energies**",
    ] {
        assert!(printed.contains(phrase), "no `{phrase}` in\n{printed}");
    }
    assert!(!printed.contains("± SD"), "{printed}");
    let piece = here.join("piece");
    assert!(read(piece.join("experiment.toml")).contains("repetitions = 3\nonly_repetition = 2\n"));
    assert_eq!(read(piece.join("kinetic_temperature.csv")).lines().next(), Some("target β,rep. 2,mean,all steps"));
    assert_eq!(found(here, "piece")["only_repetition"], 2);
    assert!(read(piece.join("report.html")).contains("Lines: repetition 2 of 3 alone"));
    let point_predictions = read(piece.join("tables/point_predictions.md"));
    assert!(point_predictions.contains("concrete-quick: repetition 2 of 3 alone"), "{point_predictions}");
    let output = support::kelvin(here, &["verify", "piece"]);
    assert!(output.status.success(), "{:?}", support::said(&output));
    // The folder of a piece is not that of another, and goes on as what it is.
    let output = support::kelvin(here, &arguments("concrete", &["--only-repetition", "3", "--out", "piece"]));
    let (_, err) = support::said(&output);
    assert!(!output.status.success() && err.contains("run.only_repetition: 2 there, 3 now"), "{err}");
    let output = support::kelvin(here, &["resume", "piece", "--quiet", "--json"]);
    let result: Value = serde_json::from_str(&support::said(&output).0).unwrap();
    assert_eq!((&result["only_repetition"], &result["repetitions"]), (&2.into(), &3.into()));
    assert_eq!(result["beta_star"].as_array().unwrap().len(), 1);
}

#[test]
fn a_repetition_that_there_is_not_is_refused() {
    let folder = TempDir::new().unwrap();
    let refused = |arguments: &[&str], phrase: &str| {
        let output = support::kelvin(folder.path(), arguments);
        let (_, err) = support::said(&output);
        assert!(!output.status.success() && err.contains(phrase), "{err}");
        assert!(!folder.path().join("runs").exists(), "nothing is begun");
    };
    let key = "run.only_repetition must be from 1 to";
    for wrong in ["0", "4"] {
        let phrase = format!("{key} 3 (run.repetitions), or left out for all of them, got {wrong}");
        refused(&arguments("concrete", &["--only-repetition", wrong]), &phrase);
    }
    let phrase = format!("{key} 1 (run.sampled_repetitions)");
    refused(&arguments("concrete", &["--only-repetition", "2", "--set=run.sampled_repetitions=1"]), &phrase);
    let table: String = (0..30).map(|row| format!("{row},{}\n", row % 7)).collect();
    std::fs::write(folder.path().join("own.csv"), format!("x,y\n{table}")).unwrap();
    let own = ["sweep", "--data", "own.csv", "--target", "y", "--quick", "--quiet", "--only-repetition", "2"];
    refused(&own, "has no step size yet");
}

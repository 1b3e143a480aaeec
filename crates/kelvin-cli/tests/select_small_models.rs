//! `kelvin select --all` on tables of classes and of numbers with a small network: every method answers or gives its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{kelvin, said};

const GENERALIZED: [&str; 8] = [
    "safe-bayes",
    "safe-bayes-in-model",
    "holmes-walker",
    "lyddon-holmes-walker",
    "syring-martin",
    "wu-martin-sm",
    "wu-martin-tm",
    "evidence",
];

/// Numbers between −½ and ½ that fill the interval evenly.
fn even(row: i32, factor: f64) -> f64 {
    (f64::from(row) * factor).fract() - 0.5
}

/// Three kinds that overlap: which one depends on where a and b lie, and on noise.
fn classes_table() -> String {
    let mut csv = String::from("a,b,kind\n");
    for row in 0..160 {
        let (a, b, noise) = (even(row, 0.618_033_988_75), even(row, 0.754_877_666_25), even(row, 0.569_840_290_99));
        let kind = match a + 0.5 * noise {
            low if low < -0.2 => "ash",
            _ if b - 0.4 * noise > 0.1 => "birch",
            _ => "cedar",
        };
        writeln!(csv, "{a:.4},{b:.4},{kind}").unwrap();
    }
    csv
}

/// y = |a| − b/2 and noise.
fn numbers_table() -> String {
    let mut csv = String::from("a,b,y\n");
    for row in 0..120 {
        let (a, b, noise) = (even(row, 0.618_033_988_75), even(row, 0.754_877_666_25), even(row, 0.569_840_290_99));
        writeln!(csv, "{a:.4},{b:.4},{:.4}", a.abs() - 0.5 * b + 0.2 * noise).unwrap();
    }
    csv
}

/// What `kelvin select --all` chose and refused: β and scores by method, reasons by method.
fn all_methods(folder: &Path, target: &str, hidden: &str) -> (BTreeMap<String, Value>, BTreeMap<String, String>) {
    let own = ["select", "--data", "table.csv", "--target", target, "--all", "--quick", "--starts", "1", "--json"];
    let settings = ["--set", hidden, "--set", "selection.epochs=500", "--set", "run.grid=[0.3,1.0,3.0]"];
    let output = kelvin(folder, &[&own[..], &settings[..]].concat());
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let list = |name: &str| result[name].as_array().unwrap().clone();
    let method = |one: &Value| one["method"].as_str().unwrap().to_owned();
    let chosen: BTreeMap<String, Value> = list("methods").into_iter().map(|one| (method(&one), one)).collect();
    let reason = |one: Value| (method(&one), one["reason"].as_str().unwrap().to_owned());
    let refused: BTreeMap<String, String> = list("refused").into_iter().map(reason).collect();
    assert_eq!(chosen.keys().chain(refused.keys()).collect::<BTreeSet<_>>().len(), 24);
    for (name, one) in &chosen {
        let beta = one["inverse_temperature"].as_f64().unwrap();
        assert!(beta.is_finite() && beta > 0.0, "{name}: {one}");
        let kind = if target == "kind" { "classification" } else { "regression" };
        assert!(one["test"][kind]["tempered"]["lpd"].is_f64(), "{name}: {one}");
        assert_eq!(
            GENERALIZED.contains(&name.as_str()),
            one["serves"].as_str().unwrap().contains("(not LPD)"),
            "{name}"
        );
    }
    (chosen, refused)
}

#[test]
fn a_table_of_classes_goes_through_every_method() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("table.csv"), classes_table()).unwrap();
    for hidden in ["model.layers=[{ dense = { units = 3 } }]", "model.hidden=[4]"] {
        let (chosen, refused) = all_methods(folder.path(), "kind", hidden);
        for name in ["grid-ece-sm", "grid-ece-tm", "grid-brier-sm", "grid-brier-tm", "guo", "joint", "refine-tm"] {
            assert!(chosen.contains_key(name), "{hidden}, {name}: {refused:?}");
        }
        let can_refuse = |name: &str| name.starts_with("wu-martin") || name == "holmes-walker";
        for name in GENERALIZED.iter().filter(|name| !can_refuse(name)) {
            assert!(chosen.contains_key(*name), "{hidden}, {name}: {refused:?}");
        }
        assert!(refused.contains_key("holmes-walker"), "{hidden}: {refused:?}");
        for (name, reason) in &refused {
            match name.as_str() {
                "holmes-walker" => assert!(reason.contains("it would say β = 1 whatever the data"), "{reason}"),
                "grid-coverage-sm" | "grid-coverage-tm" => {
                    assert!(reason.contains("choose by ECE or Brier"), "{reason}")
                }
                // Sets of few classes may hold too much whatever β is.
                "wu-martin-sm" | "wu-martin-tm" => assert!(reason.contains("no β gives its sets"), "{reason}"),
                other => panic!("{other}: {reason}"),
            }
        }
    }
}

#[test]
fn a_small_network_of_numbers_goes_through_every_method() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("table.csv"), numbers_table()).unwrap();
    let (chosen, refused) = all_methods(folder.path(), "y", "model.hidden=[4]");
    for (name, reason) in &refused {
        match name.as_str() {
            "grid-ece-sm" | "grid-ece-tm" | "grid-brier-sm" | "grid-brier-tm" => {
                assert!(reason.contains("the targets are numbers"), "{reason}");
            }
            "wu-martin-sm" => assert!(reason.contains("model.noise_variance"), "{reason}"),
            other => panic!("{other}: {reason}"),
        }
    }
    // A search comes before the fits, and is part of the price.
    for name in GENERALIZED.iter().filter(|name| chosen.contains_key(**name)) {
        assert!(chosen[*name]["cost"]["row_gradients"].as_f64().unwrap() > 1000.0, "{name}");
    }
}

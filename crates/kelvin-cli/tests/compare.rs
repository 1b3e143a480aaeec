//! `kelvin compare`: differences against numbers worked by hand, and what cannot be compared.

use std::path::Path;

use serde_json::Value;

use crate::support::{SHORT, kelvin};

fn run(folder: &Path, arguments: &[&str]) {
    let output = kelvin(folder, &[arguments, &SHORT[..], &["--quiet"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("predictions")).unwrap();
    for name in ["results.json", "experiment.toml"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
    for entry in std::fs::read_dir(from.join("predictions")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join("predictions").join(entry.file_name())).unwrap();
    }
}

/// Changes the cells of a column of predictions by the number of their row.
fn change(path: &Path, column: &str, changed: impl Fn(usize, f64) -> f64) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    let place = text.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
    let mut lines = vec![text.lines().next().unwrap().to_owned()];
    for (row, line) in text.lines().skip(1).enumerate() {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        cells[place] = changed(row, cells[place].parse().unwrap()).to_string();
        lines.push(cells.join(","));
    }
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
    lines.len() - 1
}

fn compared(folder: &Path, runs: &[&str]) -> (Value, String) {
    let json = kelvin(folder, &[&["compare", "--json"], runs].concat());
    assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
    let text = kelvin(folder, &[&["compare"], runs].concat());
    // Where sentences are broken does not matter here.
    let text = String::from_utf8(text.stdout).unwrap().replace("\n  ", " ");
    (serde_json::from_slice(&json.stdout).unwrap(), text)
}

fn difference<'a>(json: &'a Value, of: &str, score: &str) -> &'a Value {
    let lines = json["differences"].as_array().unwrap();
    let line = lines.iter().find(|line| line["of"] == of && line["score"] == score);
    &line.unwrap_or_else(|| panic!("no {of}, {score} in {json}"))["difference"]
}

fn assert_near(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn numbers_are_those_worked_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    run(here, &["run", "concrete", "--out", "a"]);
    let (a, b) = (here.join("a"), here.join("b"));
    copy(&a, &b);
    let (json, text) = compared(here, &["a", "b"]);
    assert_eq!(json["settings"], serde_json::json!([]));
    assert!(
        text.contains("Settings: the same.") && text.contains("No difference can be seen between A and B"),
        "{text}"
    );

    // Worse by 0.1 and by 0.3 in turn: 0.2 on average, and sd² = 0.01 n/(n − 1) or nearly so where n is odd.
    let chosen = b.join("predictions/chosen.csv");
    let n = change(&chosen, "log_density_tm", |row, density| density - if row % 2 == 0 { 0.1 } else { 0.3 }) as f64;
    let worse = (0..n as usize).map(|row| if row % 2 == 0 { 0.1 } else { 0.3 });
    let mean = worse.clone().sum::<f64>() / n;
    let error = (worse.map(|worse| (worse - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    let (json, text) = compared(here, &["a", "b"]);
    let found = difference(&json, "β\u{302}* TM", "log density");
    assert_near(&found["mean"], mean);
    assert_near(&found["standard_error"], error);
    assert_eq!(found["standard_error_over_repetitions"], Value::Null);
    assert_near(&difference(&json, "β\u{302}* SM", "log density")["mean"], 0.0);
    assert!(text.contains(&format!("A predicts better than B by {mean:.3} ± {error:.3} nats a point")), "{text}");
    // The other way round.
    let (_, text) = compared(here, &["b", "a"]);
    assert!(text.contains(&format!("B predicts better than A by {mean:.3} ± {error:.3} nats a point")), "{text}");

    // A point without density has no error.
    change(&chosen, "log_density_tm", |row, density| if row == 0 { f64::NEG_INFINITY } else { density });
    let (json, text) = compared(here, &["a", "b"]);
    assert_eq!(*difference(&json, "β\u{302}* TM", "log density"), Value::Null);
    assert!(text.contains("a test point has no density there"), "{text}");
}

#[test]
fn other_points_are_unpaired_and_other_questions_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    run(here, &["run", "concrete", "--out", "a"]);
    run(here, &["run", "concrete", "--out", "b", "--seed", "7"]);
    run(here, &["run", "concrete", "--out", "c", "--set", "sampler.learning_rate=2e-3"]);
    let (json, text) = compared(here, &["a", "b", "c"]);
    let pairs = json["pairs"].as_array().unwrap();
    assert_eq!(pairs.iter().map(|pair| pair["paired"].as_bool().unwrap()).collect::<Vec<_>>(), [false, true, false]);
    assert!(text.contains("(other test points: unpaired)"), "{text}");
    assert!(text.contains("run.seed") && text.contains("sampler.learning_rate"), "{text}");

    // The mean of each column is what the run's own scores say.
    let results: Value = serde_json::from_slice(&std::fs::read(here.join("c/results.json")).unwrap()).unwrap();
    let row = results["rows"].as_array().unwrap().iter().find(|row| row["method"] == "bayes").unwrap();
    let lpd = row["test"]["standard"]["lpd"]
        .as_f64()
        .unwrap_or_else(|| row["test"]["regression"]["standard"]["lpd"].as_f64().unwrap());
    assert!(text.contains(&format!("{lpd:.3}").replace('-', "−")), "{lpd}\n{text}");

    // Another target of the same table.
    let output = kelvin(here, &["compare", "a"]);
    assert_eq!(output.status.code(), Some(2), "one run is not two");
    std::fs::create_dir(here.join("empty")).unwrap();
    let output = kelvin(here, &["compare", "a", "empty"]);
    assert_eq!(output.status.code(), Some(1));
    let path = here.join("b/results.json");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    value["problem"]["target"] = "price".into();
    std::fs::write(path, value.to_string()).unwrap();
    let output = kelvin(here, &["compare", "a", "b"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("different test points") && message.contains("`price`"), "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn repetitions_of_sweeps_have_an_error_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let sweep = ["sweep", "concrete", "--repetitions", "2", "--set", "run.grid=[0.3,1.0]"];
    run(here, &[&sweep[..], &["--out", "a"]].concat());
    copy(&here.join("a"), &here.join("b"));
    // The second repetition is better by 1 at every point: ½ ± ½ over repetitions, and no doubt over points.
    change(&here.join("b/predictions/chosen-2.csv"), "log_density_tm", |_, density| density + 1.0);
    let (json, text) = compared(here, &["a", "b"]);
    let found = difference(&json, "β\u{302}* TM", "log density");
    assert_near(&found["mean"], -0.5);
    assert_near(&found["standard_error_over_repetitions"], 0.5);
    assert_near(&found["standard_error_over_points"], 0.0);
    assert!(text.contains("over test points and repetitions") && text.contains("No difference can be seen"), "{text}");
}

#[test]
fn sweeps_are_put_side_by_side_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let sweep = |out: &str, own: &[&str]| {
        run(here, &[&["sweep", "concrete", "--repetitions", "2", "--out", out], own].concat());
    };
    sweep("gaussian", &["--set", "run.grid=[0.3, 1.0]"]);
    sweep("laplace", &["--set", "run.grid=[0.3, 1.0]", "--set", "model.prior=\"laplace\""]);
    sweep("one", &["--set", "run.grid=[1.0]"]);
    let output = kelvin(here, &["compare", "gaussian", "laplace", "one", "--out", "beside"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(here.join("beside").join(name)).unwrap();
    let table = read("sweeps.md");
    let line = |run: &str| table.lines().find(|line| line.starts_with(&format!("| {run}"))).unwrap().to_owned();
    assert_eq!(line("one").split('|').filter(|cell| cell.trim() == "–").count(), 5, "{table}");
    assert!(!line("laplace").contains(" – "), "{table}");
    // The means are those of the runs' own summaries.
    let summary = std::fs::read_to_string(here.join("laplace/summary.csv")).unwrap();
    let own = summary.lines().find(|line| line.starts_with("grid,lpd_tm,")).unwrap().split(',').nth(2).unwrap();
    let beside = read("sweeps.csv");
    let beside = beside.lines().find(|line| line.contains(",laplace,lpd_tm_grid,")).unwrap().to_owned();
    assert_eq!(beside.split(',').nth(3).unwrap(), own);
    let figure = read("lpd_test.svg");
    assert!(["gaussian", "laplace", "SM-PD", "TM-PD"].iter().all(|name| figure.contains(name)));

    run(here, &["run", "concrete", "--out", "a"]);
    let output = kelvin(here, &["compare", "a", "gaussian", "--out", "beside"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("at least two runs of `kelvin sweep`"), "{message}");
}

//! Several columns of numbers predicted by one network, from the file to predictions.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{SHORT, kelvin, said};

/// Rows with two targets in units of their own, one of which a few rows lack.
fn table(folder: &Path) {
    let mut csv = String::from("a,b,colour,strength,slump\n");
    for row in 0..80_u32 {
        let (a, b) = ((f64::from(row) * 0.37).sin(), (f64::from(row) * 0.91).cos());
        let noise = (f64::from(row) * 7.7).sin();
        let strength = if row == 7 { "NA".to_owned() } else { format!("{:.4}", 10.0 + 2.0 * a - b + 0.2 * noise) };
        let slump = if row == 19 { String::new() } else { format!("{:.2}", 1000.0 * a * b + 50.0 * noise) };
        writeln!(csv, "{a:.5},{b:.5},{},{strength},{slump}", ["red", "blue"][row as usize % 2]).unwrap();
    }
    std::fs::write(folder.join("mix.csv"), csv).unwrap();
}

fn succeeds(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = kelvin(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{:?}", said(&output));
    said(&output)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const TARGETS: [&str; 6] = ["--data", "mix.csv", "--target", "strength", "--target", "slump"];

#[test]
fn one_network_predicts_two_columns() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    table(here);
    let shown = succeeds(here, &["data", "mix.csv", "--target", "strength", "--target", "slump"]).0;
    assert_eq!(shown.matches("target, a number").count(), 2, "{shown}");

    let asked = ["--likelihood", "learned-gaussian", "--folds", "2", "--set=selection.beta=1.0", "--out", "run"];
    let (out, notes) = succeeds(here, &[&["run"], &TARGETS[..], &asked, &SHORT].concat());
    assert!(words(&notes).contains("2 of 80 rows lack one of `strength` and `slump` and are left out"), "{notes}");
    assert!(words(&out).contains("Predicting `strength` and `slump` of new rows"), "{out}");
    for column in ["RMSE strength", "in 90 % strength", "RMSE slump", "in 90 % slump"] {
        assert!(out.contains(column), "no `{column}` in {out}");
    }
    let read = |name: &str| std::fs::read_to_string(here.join("run").join(name)).unwrap();
    let model: Value = serde_json::from_str(&read("model.json")).unwrap();
    assert_eq!(model["target_name"], serde_json::json!(["strength", "slump"]));
    assert_eq!(model["likelihood"]["independent"]["num_targets"], 2);
    assert_eq!(model["standardiser"]["target"].as_array().unwrap().len(), 2);
    assert!(read("experiment.toml").contains("target = [\"strength\", \"slump\"]"));
    assert!(read("predictions/bayes.csv").starts_with("row,truth(strength),mean(strength),"));
    let scores = read("scores.csv");
    let header = scores.lines().next().unwrap();
    assert!(header.contains(",mse(strength),") && header.contains(",mse_original_units(slump)"), "{header}");
    for figure in ["predictions_1.svg", "predictions_2.svg", "calibration_2.svg"] {
        assert!(here.join("run/figures").join(figure).exists(), "no {figure}");
    }
    assert!(succeeds(here, &["verify", "run"]).0.contains("ok"));
    for (format, to) in [("npz", "e.npz"), ("csv", "e-csv"), ("arviz", "e.zarr")] {
        succeeds(here, &["export", "run", "--format", format, "--out", to]);
    }
    let array = std::fs::read_to_string(here.join("e.zarr/posterior_predictive/y/.zattrs")).unwrap();
    assert!(words(&array).contains("\"row\", \"target\""), "{array}");

    // The experiment's own file asks for both again.
    let again = ["run", "run/experiment.toml", "--set=run.seed=3", "--out", "again"];
    let (out, _) = succeeds(here, &again);
    assert!(out.contains("RMSE slump"), "{out}");
}

#[test]
fn predictions_have_columns_for_each_and_one_density() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    table(here);
    let asked = ["--likelihood", "varying-gaussian", "--set=selection.beta=1.0", "--out", "run"];
    succeeds(here, &[&["run"], &TARGETS[..], &asked, &SHORT].concat());
    for model in ["bayes", "linear"] {
        let (out, notes) = succeeds(here, &["predict", "run", "--input", "mix.csv", "--model", model]);
        let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split(',').collect()).collect();
        let expected = "mean(strength),std(strength),q05(strength),q50(strength),q95(strength),aleatoric(strength),epistemic(strength),\
                        mean(slump),std(slump),q05(slump),q50(slump),q95(slump),aleatoric(slump),epistemic(slump),\
                        outside,log_density,pit(strength),pit(slump)";
        assert_eq!(lines[0].join(","), expected);
        assert_eq!(lines.len(), 81);
        // A row without one of its answers is predicted, and not scored.
        assert_eq!(lines[8][15..], ["", "", ""]);
        let number = |row: usize, column: usize| lines[row][column].parse::<f64>().unwrap();
        assert!((1..81).all(|row| (0.0..30.0).contains(&number(row, 0)) && number(row, 8) > 1.0), "{model}");
        assert!(words(&notes).contains("`strength` and `slump` are there in 78 rows: LPD"), "{notes}");
        if model == "linear" {
            // Two normals: the density of a row is their product.
            let normal = |row: usize, mean: usize, truth: f64| {
                let (mean, std) = (number(row, mean), number(row, mean + 1));
                -0.5 * ((truth - mean) / std).powi(2) - std.ln() - 0.5 * std::f64::consts::TAU.ln()
            };
            let truths = std::fs::read_to_string(here.join("mix.csv")).unwrap();
            let truths: Vec<f64> =
                truths.lines().nth(3).unwrap().split(',').skip(3).map(|x| x.parse().unwrap()).collect();
            let expected = normal(3, 0, truths[0]) + normal(3, 7, truths[1]);
            assert!((number(3, 15) - expected).abs() < 1e-4, "{} {expected}", number(3, 15));
        }
    }
    std::fs::write(here.join("new.csv"), "b,colour,a\n0.1,red,0.4\n").unwrap();
    let (out, _) = succeeds(here, &["predict", "run", "--input", "new.csv", "--json"]);
    let row: Value = serde_json::from_str(&out).unwrap();
    assert!(row["mean(slump)"].is_number() && row.get("log_density").is_none(), "{row}");
}

#[test]
fn what_cannot_be_predicted_together_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    table(here);
    let refused = |more: &[&str], phrases: &[&str]| {
        let output = kelvin(here, &[&["run"], &TARGETS[..], more, &SHORT].concat());
        let (_, error) = said(&output);
        let error = words(&error);
        assert!(!output.status.success(), "{more:?}");
        assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{more:?}: {error}");
    };
    refused(&["--target", "slump"], &["the target `slump` is named twice"]);
    refused(&["--target", "slum"], &["column `slum` is not in mix.csv", "did you mean `slump`?"]);
    refused(&["--target", "colour"], &["`colour` was taken for classes", "in a run of its own"]);
    refused(&["--task", "classification"], &["several targets are numbers", "in a run of its own"]);
    refused(&["--drop", "slump"], &["`slump` is the target and is also to be dropped"]);
    refused(&["--column", "slump=number"], &["`slump` is the target, and its kind"]);
    refused(&["--task", "counts"], &["is for one target, and 2 are to be predicted", "in a run of its own"]);
    refused(&["--likelihood", "poisson"], &["\"poisson\" is for one target", "\"varying_student_t\""]);
}

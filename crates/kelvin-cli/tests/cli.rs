//! What a person sees: commands in, exit codes, tables, messages and run folders out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::kelvin;

fn succeeds(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = kelvin(folder, arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    (out, err)
}

/// Asserts the exit code, an empty standard output, and that every phrase is in the message.
fn refuses(folder: &Path, code: i32, arguments: &[&str], phrases: &[&str]) {
    let output = kelvin(folder, arguments);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "kelvin {arguments:?}\n{err}");
    assert!(output.stdout.is_empty(), "kelvin {arguments:?} printed a result");
    for phrase in phrases {
        assert!(err.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{err}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every file under a folder, by its relative path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

/// A CSV text as one map from column to cell a row; cells here hold no separators.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    lines.map(|cells| header.iter().cloned().zip(cells).collect()).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} = `{}` is no number", row[column]))
}

/// Numbers between −1 and 1 that look random and are always the same.
fn scattered(index: usize, column: usize) -> f64 {
    ((index * 7 + column * 13 + 1) as f64 * 0.618_033_988_75 * (column + 1) as f64).fract() * 2.0 - 1.0
}

/// A table with two features and a number to predict.
fn regression_table(folder: &Path, name: &str, num_rows: usize) -> PathBuf {
    let mut csv = String::from("a,b,y\n");
    for i in 0..num_rows {
        let (a, b) = (scattered(i, 0), scattered(i, 1));
        writeln!(csv, "{a},{b},{}", 50.0 + 10.0 * a - 4.0 * b * b + scattered(i, 4)).unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, csv).unwrap();
    path
}

/// A table with two features and one of three words to predict.
fn class_table(folder: &Path) {
    let mut csv = String::from("a,b,kind\n");
    for i in 0..150 {
        let (a, b) = (scattered(i, 0), scattered(i, 1));
        let kind = if a > 0.3 {
            "cat"
        } else if b > 0.1 {
            "dog"
        } else {
            "wide bird"
        };
        writeln!(csv, "{a},{b},{kind}").unwrap();
    }
    std::fs::write(folder.join("kinds.csv"), csv).unwrap();
}

/// Settings that make chains of 30 draws in a moment.
const SHORT: [&str; 12] = [
    "--set",
    "selection.epochs=400",
    "--set",
    "sampler.ramp_start=100",
    "--set",
    "sampler.ramp_end=150",
    "--set",
    "sampler.burn_in=200",
    "--set",
    "sampler.cycle=10",
    "--set",
    "sampler.epochs=500",
];

const RUN_FILES: [&str; 11] = [
    "experiment.toml",
    "split.json",
    "provenance.json",
    "results.json",
    "scores.csv",
    "metrics.csv",
    "predictions/chosen.csv",
    "model.json",
    "warnings.json",
    "report.html",
    "draws/chosen-1.safetensors",
];

#[test]
fn a_quick_run_prints_a_table_and_fills_a_folder() {
    let folder = TempDir::new().unwrap();
    let (out, err) = succeeds(folder.path(), &["run", "concrete", "--quick", "--out", "run"]);
    for column in ["method", "LPD SM", "LPD TM", "MSE", "cover", "measured", "R̂"] {
        assert!(out.contains(column), "{column}\n{out}");
    }
    for row in [" SGD ", " β = 1 ", " β\u{302}* "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row}\n{out}");
    }
    assert!(out.contains("run folder: run"));
    assert!(out.lines().chain(err.lines()).all(|line| line.chars().count() <= 104), "{out}\n{err}");
    assert!(err.lines().all(|line| line.starts_with("warning: ") || line.starts_with("  ")), "{err}");

    let files = files(&folder.path().join("run"));
    for name in RUN_FILES {
        assert!(files.contains_key(name), "{name}");
    }
    for figure in ["selection_path", "predictions", "calibration", "coverage", "tensor_temperatures", "energy_traces"] {
        let svg = std::str::from_utf8(&files[&format!("figures/{figure}.svg")]).unwrap();
        // Many readers of SVG know no variables, and draw black on black.
        assert!(svg.starts_with("<svg") && svg.contains("fill:#fff") && !svg.contains("var("), "{figure}");
        assert!(files[&format!("figures/{figure}.png")].starts_with(b"\x89PNG"), "{figure}");
        assert!(files[&format!("figures/{figure}.pdf")].starts_with(b"%PDF"), "{figure}");
        assert!(files[&format!("figures/{figure}.csv")].starts_with(b"series,"), "{figure}");
    }
    assert!(!files.keys().any(|name| name.ends_with(".part")));
    let split: Value = serde_json::from_slice(&files["split.json"]).unwrap();
    assert_eq!(["train", "val", "test"].map(|part| split[part].as_array().unwrap().len()), [824, 103, 103]);
    let report = text(&files["report.html"]).replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "");
    assert!(report.contains("</html>") && !report.contains("http"), "the page must not reach out");
    assert!(report.contains("default-src 'none'"), "and may not");

    let metrics = rows(&text(&files["scores.csv"]));
    let methods: Vec<&str> = metrics.iter().map(|row| row["method"].as_str()).collect();
    assert_eq!(methods, ["sgd", "sgd", "bayes", "bayes", "chosen", "chosen"]);
    for row in &metrics {
        for column in ["beta", "lpd_sm", "lpd_tm", "mse", "coverage_90_sm", "seconds"] {
            assert!(number(row, column).is_finite(), "{column}");
        }
    }
}

#[test]
fn numbers_depend_neither_on_threads_nor_on_the_hour() {
    let folder = TempDir::new().unwrap();
    let run = |name: &str, threads: &str| {
        let mut arguments = vec!["run", "concrete", "--quick", "--quiet", "--threads", threads, "--out", name];
        arguments.extend(SHORT);
        succeeds(folder.path(), &arguments);
        let mut files = files(&folder.path().join(name));
        let mut metrics = rows(&text(&files["scores.csv"]));
        metrics.iter_mut().for_each(|row| {
            row.remove("seconds");
        });
        files.retain(|name, _| name.starts_with("draws/") || name == "model.json" || name == "split.json");
        (metrics, files)
    };
    let first = run("first", "1");
    // Two chains at two temperatures, two networks, two Gaussians around one, and the two files.
    assert_eq!(first.1.len(), 10);
    assert_eq!(first, run("second", "1"));
    assert_eq!(first, run("third", "2"));
    assert_eq!(first, run("first", "2"), "a run may be repeated into its own folder");
}

#[test]
fn json_is_one_object_with_the_documented_keys() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["run", "concrete", "--quick", "--grid", "--json", "--out", "run"];
    arguments.extend(SHORT);
    let (out, _) = succeeds(folder.path(), &arguments);
    assert_eq!(out.lines().count(), 1);
    let result: Value = serde_json::from_str(&out).unwrap();
    for key in ["command", "name", "folder", "beta_star", "verdict", "rows", "warnings"] {
        assert!(!result[key].is_null(), "{key}");
    }
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 + 9);
    for key in ["method", "label", "beta", "num_draws", "validation", "test", "seconds"] {
        assert!(!rows[1][key].is_null(), "{key}");
    }
    assert!(folder.path().join("run/figures/lpd_test.svg").exists());
}

#[test]
fn predictions_of_a_run_are_in_the_target_s_units() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    regression_table(here, "table.csv", 120);
    let mut arguments = vec!["run", "--data", "table.csv", "--target", "y", "--out", "run"];
    arguments.extend(SHORT);
    succeeds(here, &arguments);
    // The target and further columns may be there, in any order.
    std::fs::write(here.join("new.csv"), "note,b,a\nx,0.1,0.5\ny,-0.4,-0.9\n").unwrap();
    let (out, said) = succeeds(here, &["predict", "run", "--input", "new.csv"]);
    assert!(out.starts_with("mean,std,q05,q50,q95,aleatoric,epistemic,outside\n"), "{out}");
    assert!(said.starts_with("predicting with ") && said.lines().count() < 4, "{said}");
    far_rows_are_warned_of(here);
    let predictions = rows(&out);
    assert_eq!(predictions.len(), 2);
    for row in &predictions {
        assert!(number(row, "q05") < number(row, "q50") && number(row, "q50") < number(row, "q95"));
        let parts = number(row, "aleatoric").hypot(number(row, "epistemic"));
        assert!(number(row, "std") > 0.0 && (parts / number(row, "std") - 1.0).abs() < 1e-9);
        assert!((35.0..65.0).contains(&number(row, "mean")), "{row:?}");
    }
    assert!(number(&predictions[0], "mean") > number(&predictions[1], "mean"));

    succeeds(here, &["predict", "run", "--input", "new.csv", "--output", "out.csv"]);
    assert_eq!(std::fs::read_to_string(here.join("out.csv")).unwrap(), out);
    let (same, _) = succeeds(here, &["predict", "run", "--input", "new.csv", "--output", "-"]);
    assert!(same == out && !here.join("-").exists(), "{same}");
    let (json, _) = succeeds(here, &["predict", "run", "--input", "new.csv", "--json"]);
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["mean"].as_f64().unwrap(), number(&predictions[0], "mean"));

    // The resolved settings repeat the run.
    succeeds(here, &["run", "run/experiment.toml", "--out", "again"]);
    let (again, _) = succeeds(here, &["predict", "again", "--input", "new.csv"]);
    assert_eq!(again, out);

    refuses(here, 1, &["predict", "run", "--input", "none.csv"], &["there is no file none.csv"]);
    std::fs::write(here.join("few.csv"), "a\n1\n").unwrap();
    refuses(here, 1, &["predict", "run", "--input", "few.csv"], &["lacks a column", ": b"]);
    refuses(here, 1, &["predict", ".", "--input", "new.csv"], &["is not a run folder"]);
    damaged_models_are_refused(here);
    every_model_predicts(here);
    let draws = here.join("run/draws/network-1.safetensors");
    let whole = std::fs::read(&draws).unwrap();
    std::fs::write(&draws, &whole[..whole.len() / 2]).unwrap();
    let ensemble = ["predict", "run", "--input", "new.csv", "--model", "ensemble"];
    refuses(here, 1, &ensemble, &["network-1.safetensors", "damaged"]);
    std::fs::write(here.join("run/model.json"), "{").unwrap();
    refuses(here, 1, &["predict", "run", "--input", "new.csv"], &["model.json is damaged"]);
}

/// One value of 1e9 among features between −1 and 1; a model.json without ranges is one of an older kelvin.
fn far_rows_are_warned_of(here: &Path) {
    std::fs::write(here.join("far.csv"), "a,b\n0.5,0.1\n1e9,0.1\n").unwrap();
    let predict = || succeeds(here, &["predict", "run", "--input", "far.csv"]);
    let (out, said) = predict();
    assert_eq!(rows(&out).len(), 2);
    assert_eq!(rows(&out).iter().map(|row| row["outside"].as_str()).collect::<Vec<_>>(), ["false", "true"]);
    let in_one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("warning: rows outside training: 1 of 2 rows"), "{said}");
    assert!(in_one_line.contains("`a` = 1.00e9"), "{said}");
    let path = here.join("run/model.json");
    let whole = std::fs::read(&path).unwrap();
    let mut older: Value = serde_json::from_slice(&whole).unwrap();
    let fields = older.as_object_mut().unwrap();
    assert_eq!(fields.remove("feature_ranges").unwrap().as_array().unwrap().len(), 2);
    ["format", "all_rows", "predictors"].iter().for_each(|field| drop(fields.remove(*field).unwrap()));
    std::fs::write(&path, older.to_string()).unwrap();
    let (out, said) = predict();
    assert_eq!(rows(&out).len(), 2);
    assert!(said.starts_with("predicting with β\u{302}* ") && said.lines().count() == 1, "{said}");
    std::fs::write(&path, whole).unwrap();
}

/// Each model of a run predicts the rows it is asked for, and with answers in the input says how well.
fn every_model_predicts(here: &Path) {
    let model: Value = serde_json::from_slice(&std::fs::read(here.join("run/model.json")).unwrap()).unwrap();
    let all = model["predictors"].as_array().unwrap();
    assert_eq!((all.len(), model["format"].as_u64()), (8, Some(2)), "{all:?}");
    let results: Value = serde_json::from_slice(&std::fs::read(here.join("run/results.json")).unwrap()).unwrap();
    assert_eq!(results["predicting"]["what"], all[0]["what"]);
    assert_eq!(results["predicting"]["num_rows"], all[0]["num_rows"]);
    let mut seen = std::collections::BTreeSet::new();
    let (default, _) = succeeds(here, &["predict", "run", "--input", "table.csv"]);
    for name in ["bayes", "standard", "tempered", "network", "ensemble", "laplace", "swag", "linear"] {
        let (out, said) = succeeds(here, &["predict", "run", "--input", "table.csv", "--model", name]);
        let predictions = rows(&out);
        assert!(out.lines().next().unwrap().ends_with(",outside,log_density,pit"), "{name}");
        let lpd = predictions.iter().map(|row| number(row, "log_density")).sum::<f64>() / predictions.len() as f64;
        assert!(predictions.iter().all(|row| (0.0..=1.0).contains(&number(row, "pit"))), "{name}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("`y` is there in 120 rows: LPD") && said.contains("90 % intervals"), "{name}: {said}");
        assert!(lpd > -5.0, "{name}: {lpd}");
        seen.insert(out);
    }
    assert!(seen.contains(&default) && seen.len() > 6);
    refuses(here, 2, &["predict", "run", "--input", "new.csv", "--model", "best"], &["invalid value 'best'"]);
}

/// A model.json that can be read but whose parts do not fit is named, and nothing panics.
fn damaged_models_are_refused(here: &Path) {
    type Damage = (fn(&mut Value), &'static str);
    let path = here.join("run/model.json");
    let whole = std::fs::read(&path).unwrap();
    let damage: [Damage; 14] = [
        (|model| model["draws"] = serde_json::json!(["../../elsewhere/x"]), "no name of a file"),
        (|model| model["network"]["layers"] = serde_json::json!([]), "at least one input and one layer"),
        (|model| model["network"]["input"]["channels"] = 7.into(), "a network of 7 inputs"),
        (|model| model["feature_names"] = serde_json::json!(["a"]), "1 feature_names"),
        (|model| model["standardiser"]["features"] = serde_json::json!([]), "0 scales"),
        (|model| model["feature_ranges"] = serde_json::json!([[0, 1]]), "1 feature_ranges"),
        (|model| model["standardiser"] = Value::Null, "2 feature_names, and no standardiser"),
        (|model| model["standardiser"]["target"] = Value::Null, "needs the scale of its target"),
        (|model| model["likelihood"] = serde_json::json!({"categorical": {"num_classes": 3}}), "needs 3 outputs"),
        (|model| model["likelihood"]["gaussian"]["noise_variance"] = 0.into(), "noise variance"),
        (|model| model["inverse_temperature"] = (-1).into(), "inverse_temperature"),
        (
            |model| model["predictors"][0]["form"] = serde_json::json!({"draws": [{"file": "../x", "power": 1}]}),
            "no name of a file",
        ),
        (
            |model| model["predictors"][0]["form"] = serde_json::json!({"draws": [{"file": "x", "power": 0}]}),
            "must be > 0",
        ),
        (
            |model| {
                model["predictors"][0]["form"] = serde_json::json!({"linear": {"weights": [1], "noise_variance": 1}})
            },
            "has 1 weights",
        ),
    ];
    for (change, phrase) in damage {
        let mut model: Value = serde_json::from_slice(&whole).unwrap();
        change(&mut model);
        std::fs::write(&path, model.to_string()).unwrap();
        refuses(here, 1, &["predict", "run", "--input", "new.csv"], &["model.json is damaged", phrase]);
    }
    std::fs::write(&path, whole).unwrap();
}

#[test]
fn classes_are_guessed_sampled_and_predicted() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    class_table(here);
    let mut arguments = vec!["run", "--data", "kinds.csv", "--target", "kind", "--out", "run"];
    arguments.extend(SHORT);
    let (out, _) = succeeds(here, &arguments);
    assert!(out.contains("accuracy %") && out.contains("ECE SM"), "{out}");
    let (out, _) = succeeds(here, &["predict", "run", "--input", "kinds.csv"]);
    assert!(out.starts_with("class,p(cat),p(dog),p(wide bird),aleatoric,epistemic,outside,log_density\n"), "{out}");
    let predictions = rows(&out);
    let truth = rows(&std::fs::read_to_string(here.join("kinds.csv")).unwrap());
    let right = predictions.iter().zip(&truth).filter(|(predicted, truth)| predicted["class"] == truth["kind"]).count();
    assert!(right > 120, "{right} of 150");
    for row in &predictions {
        let sum: f64 = ["p(cat)", "p(dog)", "p(wide bird)"].iter().map(|column| number(row, column)).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }

    // Entropy of the mean is expected entropy and mutual information.
    for row in &predictions {
        let p = ["p(cat)", "p(dog)", "p(wide bird)"].map(|column| number(row, column));
        let entropy = -p.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        assert!((entropy - number(row, "aleatoric") - number(row, "epistemic")).abs() < 1e-9);
    }
    let with = |model: &str| succeeds(here, &["predict", "run", "--input", "kinds.csv", "--model", model]).0;
    assert_ne!(with("tempered"), with("standard"));
    let (linear, said) = succeeds(here, &["predict", "run", "--input", "kinds.csv", "--model", "linear"]);
    assert!(said.contains("right answers") && rows(&linear).len() == 150, "{said}");
}

#[test]
fn a_sweep_gives_the_paper_s_tables_and_figures() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["sweep", "concrete", "--quick", "--repetitions", "2", "--out", "sweep"];
    arguments.extend(SHORT);
    let (out, err) = succeeds(folder.path(), &arguments);
    for title in ["Test scores, mean ± SD over 2 repetitions", "Kinetic inverse temperature", "split-R̂", "seconds"] {
        assert!(out.contains(title), "{title}");
    }
    assert!(err.matches("why: ").count() <= 8, "each kind of warning is explained once\n{err}");
    let files = files(&folder.path().join("sweep"));
    for name in ["results", "kinetic_temperature", "agreement", "wall_clock", "metrics"] {
        assert!(files.contains_key(&format!("{name}.csv")), "{name}");
    }
    for name in ["lpd_test", "lpd_test_sm", "lpd_test_tm", "lpd_validation", "point_metric", "selection_path"] {
        assert!(files.contains_key(&format!("figures/{name}.svg")), "{name}: {:?}", files.keys());
    }
    assert_eq!(files.keys().filter(|name| name.starts_with("draws/")).count(), 2 * (9 + 1));
    let message = ["has no model.json", "kelvin run sweep/experiment.toml"];
    refuses(folder.path(), 1, &["predict", "sweep", "--input", "sweep/metrics.csv"], &message);
}

#[test]
fn wrong_questions_get_the_nearest_right_name_and_exit_code_2() {
    let folder = TempDir::new().unwrap();
    let wrong = |arguments: &[&str], phrases: &[&str]| refuses(folder.path(), 2, arguments, phrases);
    wrong(&["run", "concreet"], &["no preset `concreet`", "did you mean `concrete`?"]);
    wrong(&["run", "mine.toml"], &["cannot read the experiment mine.toml: ", "`kelvin presets` lists them"]);
    wrong(&["run", "concrete", "--quik"], &["--quik", "--quick"]);
    wrong(&["rum"], &["run"]);
    wrong(&["run"], &["--data <FILE.csv> --target <COLUMN>"]);
    wrong(&["run", "--data", "t.csv"], &["--target"]);
    wrong(&["run", "concrete", "--threads", "0"], &["1..=1024"]);
    let set = |value: &str, phrases: &[&str]| wrong(&["run", "concrete", "--set", value], phrases);
    let near = "did you mean `sampler.learning_rate` or `selection.learning_rate`?\n  data.";
    set("sampler.lerning_rate=1", &["no setting", near]);
    set("sampler.learning_rate=-1", &["sampler.learning_rate must be a finite number > 0, got -1"]);
    set("sampler.learning_rate", &["key=value"]);
    set("run.seed=abc", &["run.seed=abc"]);
    set("sampler.batch_size=5000", &["sampler.batch_size must be from 1 to 824", "\"full\"", "got 5000"]);
    set("selection.batch_size=0", &["selection.batch_size must be at least 1", "\"full\""]);
    set("sampler.epochs=1000000000000", &["sampler.epochs must be from 1 to 1000000000"]);
    set("model.hidden=[65536, 65536]", &["more than 100000000 parameters", "model.hidden"]);
    wrong(&["run", "concrete", "--seed", "9223372036854775808"], &["9223372036854775807"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn settings_that_only_make_sense_together_may_come_in_any_order() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["run", "concrete", "--quick", "--quiet", "--json", "--out", "run"];
    let pairs: Vec<&[&str]> = SHORT.chunks(2).rev().collect();
    arguments.extend(pairs.concat());
    succeeds(folder.path(), &arguments);
}

#[test]
fn unusable_tables_are_refused_by_place_and_remedy() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    regression_table(here, "good.csv", 30);
    let good = std::fs::read_to_string(here.join("good.csv")).unwrap();
    let body: Vec<&str> = good.lines().skip(1).collect();
    let refused = |csv: &[u8], target: &str, phrases: &[&str]| {
        std::fs::write(here.join("bad.csv"), csv).unwrap();
        refuses(here, 1, &["run", "--data", "bad.csv", "--target", target, "--out", "run"], phrases);
        assert!(!here.join("run").exists());
    };
    let with_first_row = |row: &str| format!("a,b,y\n{row}\n{}\n", body.join("\n"));
    refused(good.as_bytes(), "Y", &["column `Y` is not in bad.csv", "did you mean `y`?"]);
    refused(good.as_bytes(), "price", &["column `price` is not in bad.csv", "columns: a, b, y"]);
    refused(with_first_row("1,inf,2").as_bytes(), "y", &["`inf` is not a finite number"]);
    refused(
        with_first_row("1,red,2").as_bytes(),
        "y",
        &["line 2, column `b`: `red` is not a number", "`--column b=text`"],
    );
    refused(with_first_row("1,2").as_bytes(), "y", &["line 2", "the header has 3 cells and this row 2"]);
    refused(b"a,b,y\n", "y", &["has a header (3 columns) and no rows"]);
    refused(b"", "y", &["bad.csv is empty"]);
    refused(&[0, 159, 146, 150, 255], "y", &["this is not text"]);
    refused(good.replacen("a,b", "a,a", 1).as_bytes(), "y", &["columns 1 and 2 are both named `a`"]);
    refused(format!("a,b,y\n{}\n", body[..5].join("\n")).as_bytes(), "y", &["5 rows are too few"]);
    let constant: String = body.iter().map(|row| format!("{},7\n", &row[..row.rfind(',').unwrap()])).collect();
    refused(format!("a,b,y\n{constant}").as_bytes(), "y", &["`y` is 7 in every row"]);
    refuses(here, 1, &["run", "--data", "goood.csv", "--target", "y"], &["there is no file goood.csv", "good.csv"]);
}

#[test]
fn a_constant_column_is_left_out_and_named() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    regression_table(here, "table.csv", 60);
    let csv = std::fs::read_to_string(here.join("table.csv")).unwrap();
    let with_constant: String =
        csv.lines().enumerate().map(|(i, line)| format!("{line},{}\n", if i == 0 { "k" } else { "7" })).collect();
    std::fs::write(here.join("table.csv"), with_constant).unwrap();
    let mut arguments = vec!["run", "--data", "table.csv", "--target", "y", "--out", "run"];
    arguments.extend(SHORT);
    let (_, err) = succeeds(here, &arguments);
    assert!(err.starts_with("note: left out, since the same in every row: k\n"), "{err}");
    let report = std::fs::read_to_string(here.join("run/report.html")).unwrap();
    assert!(report.contains("<dt>left out, since the same in every row</dt><dd>k</dd>"));
    let provenance: Value = serde_json::from_slice(&std::fs::read(here.join("run/provenance.json")).unwrap()).unwrap();
    assert_eq!(provenance["dropped_constant_columns"], serde_json::json!(["k"]));
    assert_eq!(provenance["features"], serde_json::json!(["a", "b"]));
}

#[test]
fn a_data_set_that_is_not_here_says_where_it_comes_from() {
    let folder = TempDir::new().unwrap();
    let phrases = ["energy.csv", "source: ", "--data-dir DIR", "KELVIN_DATA"];
    refuses(folder.path(), 1, &["run", "energy"], &phrases);
    refuses(folder.path(), 1, &["run", "energy", "--data-dir", "none"], &["energy.csv", "not in none"]);
    let (out, _) = succeeds(folder.path(), &["data"]);
    assert!(out.contains("embedded in kelvin") && out.contains("missing: put energy.csv"));
}

#[test]
fn folders_of_others_are_left_alone() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("mine")).unwrap();
    std::fs::write(here.join("mine/diary.txt"), "x").unwrap();
    std::fs::write(here.join("file"), "x").unwrap();
    let out = |out: &str, phrase: &str| refuses(here, 1, &["run", "concrete", "--quick", "--out", out], &[phrase]);
    out("mine", "holds files that are no run of kelvin");
    out("file", "file is a file");
    out("file/run", "cannot create the folder");
    assert_eq!(std::fs::read_dir(here.join("mine")).unwrap().count(), 1);

    let run = |seed: &'static str| {
        let mut arguments = vec!["run", "concrete", "--quick", "--out", "run", "--seed", seed];
        arguments.extend(SHORT);
        arguments
    };
    succeeds(here, &run("1"));
    refuses(here, 1, &run("2"), &["holds a run with other settings"]);
}

#[test]
fn presets_can_be_listed_printed_changed_and_run() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeds(folder.path(), &["presets"]);
    assert!(
        ["concrete", "energy", "naval", "mnist-small", "cifar10-da", "stripes"].iter().all(|name| out.contains(name))
    );
    let (toml, _) = succeeds(folder.path(), &["presets", "concrete"]);
    std::fs::write(folder.path().join("mine.toml"), toml).unwrap();
    let mut arguments = vec!["run", "mine.toml", "--quick"];
    arguments.extend(SHORT);
    let (out, _) = succeeds(folder.path(), &arguments);
    assert!(out.contains("run folder: runs/concrete-quick-"), "{out}");
    std::fs::write(folder.path().join("wrong.toml"), "name = 'x'\ncolour = 1\n").unwrap();
    refuses(folder.path(), 2, &["run", "wrong.toml"], &["wrong.toml"]);
}

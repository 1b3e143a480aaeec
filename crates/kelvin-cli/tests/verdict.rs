//! What a person who runs an own table is told: the error to expect on rows that were not seen, whether a temperature is better, what was not
//! reached; and the flags that change how it is found out.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{command, kelvin, said};
use serde_json::Value;

/// 150 rows of a bent line in two features, with noise that nothing explains, and a class beside it.
fn table(folder: &Path) {
    let mut text = String::from("a,b,y,kind\n");
    for i in 0..150 {
        let (a, b) = ((f64::from(i) * 0.37).sin(), (f64::from(i) * 0.91).cos());
        let y = 20.0 + 5.0 * (a.abs() - b) + 0.7 * (f64::from(i) * 7.7).sin();
        text.push_str(&format!("{a},{b},{y},{}\n", if a > b { "up" } else { "down" }));
    }
    std::fs::write(folder.join("t.csv"), text).unwrap();
}

/// Noise that a trial finds, so that β is for the joint search to choose.
const OWN: [&str; 12] = [
    "run",
    "--data",
    "t.csv",
    "--target",
    "y",
    "--drop",
    "kind",
    "--likelihood",
    "gaussian",
    "--quiet",
    "--set=model.hidden=[4]",
    "--set=selection.epochs=300",
];

fn run(folder: &Path, own: &[&str]) -> (String, String) {
    let arguments = [&OWN[..], own].concat();
    let output = kelvin(folder, &arguments);
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    (out, err)
}

fn results(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(name).join("results.json")).unwrap()).unwrap()
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_row_is_predicted_by_chains_that_have_not_seen_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    table(here);
    let (out, _) = run(here, &["--folds", "3", "--budget", "20k", "--out", "r"]);
    let found = results(here, "r");
    let folds = &found["cross_validation"];
    assert_eq!((folds["divisions"].as_u64(), folds["num_rows"].as_u64()), (Some(3), Some(150)));
    let models = folds["models"].as_array().unwrap();
    let of = |kind: &str| models.iter().find(|model| model["what"]["kind"] == kind).unwrap();
    let (ridge, chosen) = (&of("linear")["rmse"], &of("chosen")["rmse"]);
    // Noise has a standard deviation of 0.5; |a| is no line.
    assert!(chosen.as_f64().unwrap() < ridge.as_f64().unwrap(), "{models:?}");
    assert!((0.4..2.0).contains(&chosen.as_f64().unwrap()), "{chosen}");
    for difference in folds["differences"].as_array().unwrap() {
        let [mean, rows, draws] =
            ["mean", "row_error", "monte_carlo_error"].map(|key| difference[key].as_f64().unwrap());
        let told = match mean / rows.hypot(draws) {
            z if z >= 2.0 => "better",
            z if z <= -2.0 => "worse",
            _ => "cannot_tell",
        };
        assert_eq!(difference["told"], told, "{difference}");
    }
    let text = in_one_line(&out);
    for phrase in [
        "Predicting `y` of new rows (cross-validation over all 150 rows, 3 folds): expect an error of ",
        "90 % intervals held ",
        "ridge regression ",
        "deep ensemble of 4 ",
        "minus β = 1: ",
        "larger is better",
    ] {
        assert!(text.contains(phrase), "no `{phrase}` in\n{out}");
    }
    let page = std::fs::read_to_string(here.join("r/report.html")).unwrap();
    assert!(page.contains("cross-validation over all 150 rows") && page.contains("deep ensemble of 4"));
    // Draws of folds are scored, and not stored.
    let names = std::fs::read_dir(here.join("r/draws")).unwrap().map(|file| file.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let of = |beginning: &str| names.iter().filter(|name| name.starts_with(beginning)).count();
    assert_eq!((of("bayes-"), of("chosen-")), (4, 4), "{names:?}");
    assert!(names.iter().all(|name| !name.contains("fold")), "{names:?}");

    let (out, _) = run(here, &["--splits", "2", "--budget", "8k", "--out", "s"]);
    assert!(in_one_line(&out).contains("(2 random splits, "), "{out}");
}

#[test]
fn classes_have_accuracy_and_log_loss() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let arguments =
        ["run", "--data", "t.csv", "--target", "kind", "--drop", "y", "--quiet", "--folds", "2", "--budget", "8k"];
    let output =
        kelvin(folder.path(), &[&arguments[..], &["--set=model.hidden=[4]", "--set=selection.epochs=300"]].concat());
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    let text = in_one_line(&out);
    assert!(text.contains("% right answers and a log loss of ") && text.contains("logistic regression "), "{out}");
}

/// What the budget did not reach is said with what it would take; more of it reaches more.
#[test]
fn a_budget_ends_sampling_and_what_was_missed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    table(here);
    let (_, err) = run(here, &["--folds", "0", "--budget", "2k", "--out", "few"]);
    assert!(err.contains("warning: targets missed: "), "{err}");
    let steps = |name: &str| results(here, name)["chains"][0]["steps"].as_u64().unwrap();
    assert!(steps("few") <= 500, "{}", steps("few"));
    run(here, &["--folds", "0", "--budget", "40k", "--out", "many"]);
    assert!(steps("many") > steps("few"));
    let begun = Instant::now();
    run(here, &["--folds", "0", "--budget", "1s", "--out", "time"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "a second of sampling");
}

#[test]
fn an_audit_puts_exact_chains_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let (out, err) = run(folder.path(), &["--folds", "0", "--budget", "40k", "--exact", "--out", "r"]);
    assert!(err.contains("the exact audit takes 4") && err.contains("gradients"), "{err}");
    let rows = results(folder.path(), "r")["audit"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert!((0.6..0.97).contains(&row["hmc"]["acceptance"].as_f64().unwrap()), "{row}");
    }
    assert!(out.contains("exact: β = 1: the sampler ") && out.contains(" HMC "), "{out}");
}

/// The paper's sampler where it is asked for, by name or by one of its settings.
#[test]
fn settings_of_the_sampler_mean_the_sampler_they_belong_to() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let settings = |own: &[&str], name: &str| {
        let arguments =
            [&["run", "concrete", "--quick", "--quiet", "--out", name, "--set=selection.epochs=40"], own].concat();
        let output = kelvin(here, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output).1);
        std::fs::read_to_string(here.join(name).join("experiment.toml")).unwrap()
    };
    let short =
        ["--set=sampler.burn_in=20", "--set=sampler.ramp_start=0", "--set=sampler.ramp_end=0", "--set=sampler.cycle=5"];
    let paper = settings(&[&short[..], &["--set=sampler.epochs=60"]].concat(), "by-setting");
    assert!(paper.contains("integrator = \"sghmc\"") && !paper.contains("[stopping]"), "{paper}");
    let adaptive = settings(&["--budget", "2k"], "adaptive");
    assert!(adaptive.contains("integrator = \"baoab\"") && adaptive.contains("[stopping]"), "{adaptive}");
    let slow = settings(&["--budget", "2k", "--set=sampler.friction=9"], "friction");
    assert!(slow.contains("adapt = true") && slow.contains("friction = 9"), "{slow}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    for (arguments, phrases) in [
        (&["run", "concrete", "--folds", "1"][..], &["--folds 1", "2 or more"][..]),
        (&["run", "concrete", "--folds", "2", "--splits", "2"], &["--splits"]),
        (&["run", "stripes", "--folds", "3"], &["--folds", "images"]),
        (
            &["run", "stripes", "--sampler", "adaptive", "--budget", "2k"],
            &["--budget does not apply", "sampler.epochs"],
        ),
        (&["run", "stripes", "--exact"], &["--exact", "images"]),
        (
            &["run", "concrete", "--sampler", "paper", "--budget", "2k"],
            &["--budget does not apply", "--sampler adaptive"],
        ),
        (&["run", "concrete", "--budget", "soon"], &["soon", "90s"]),
        (&["run", "concrete", "--budget", "0"], &["more than 0"]),
        (&["run", "concrete", "--set", "run.folds=1"], &["run.folds", "2 to 100"]),
        (&["run", "concrete", "--set", "stopping.lpd_error=0"], &["stopping.lpd_error", "> 0"]),
        (&["run", "--data", "t.csv", "--target", "y", "--drop", "kind", "--folds", "60"], &["rows", "240"]),
    ] {
        let output = kelvin(folder.path(), arguments);
        let (_, err) = said(&output);
        assert_eq!(output.status.code(), Some(2).filter(|_| !err.contains("240")).or(Some(1)), "{arguments:?}: {err}");
        assert!(phrases.iter().all(|phrase| err.contains(phrase)), "{arguments:?}: {err}");
        assert!(!folder.path().join("runs").exists(), "{arguments:?} wrote something");
    }
}

/// Killed while folds are sampled, it goes on and ends with the same numbers.
#[test]
fn a_run_with_folds_that_is_killed_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    table(here);
    let own = ["--folds", "2", "--budget", "200k", "--set=run.checkpoint_seconds=0.01"];
    run(here, &[&own[..], &["--out", "alone"]].concat());
    let arguments = [&OWN[..], &own, &["--out", "killed"]].concat();
    for milliseconds in [300, 500, 700] {
        let mut child = command(here, &arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    run(here, &[&own[..], &["--out", "killed"]].concat());
    let timeless = |name: &str| {
        let mut found = results(here, name);
        for list in ["rows", "chains", "searches"] {
            for one in found[list].as_array_mut().unwrap() {
                one.as_object_mut().unwrap().remove("seconds");
            }
        }
        found
    };
    assert_eq!(timeless("killed"), timeless("alone"));
    let bytes = |name: &str| std::fs::read(here.join(name).join("draws/chosen-1.safetensors")).unwrap();
    assert_eq!(bytes("killed"), bytes("alone"));
}

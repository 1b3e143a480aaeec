//! `kelvin select` and `kelvin toy` as a person sees them: tables, refusals, files, exit codes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::kelvin;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The one JSON object that a command printed.
fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = kelvin(folder, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(result: &Value, list: &str) -> Vec<String> {
    result[list].as_array().unwrap().iter().map(|one| one["method"].as_str().unwrap().to_owned()).collect()
}

const SHORT: [&str; 13] = [
    "--quick",
    "--set",
    "selection.epochs=400",
    "--set",
    "sampler.ramp_start=5",
    "--set",
    "sampler.ramp_end=10",
    "--set",
    "sampler.burn_in=20",
    "--set",
    "sampler.cycle=5",
    "--set",
    "sampler.epochs=60",
];

#[test]
fn the_usual_methods_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let output = kelvin(folder.path(), &["select", "concrete", "--quick"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let methods = ["joint ", "map ", "guo ", "refine-sm ", "refine-tm ", "grid-lpd-sm ", "grid-lpd-tm "];
    for method in methods {
        assert_eq!(out.lines().filter(|line| line.starts_with(&format!(" {method}"))).count(), 1, "{method}\n{out}");
    }
    for phrase in
        ["LPD SM", "LPD TM", "MSE", "cover", "cost", " starts ", " flat ", " 90 %", "\nbest for: ", "\nflat: ", "\n%: "]
    {
        assert!(out.contains(phrase), "no `{phrase}` in\n{out}");
    }
    assert!(!out.contains("warning: ") && !out.contains("\n*: "), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    assert!(err.contains("note: --all adds 17 methods"), "{err}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "select writes no files");
    let help = kelvin(folder.path(), &["select", "--help"]);
    assert!(text(&help.stdout).contains("with --out into a folder"), "{}", text(&help.stdout));
}

#[test]
fn a_method_is_scored_by_the_chains_of_a_run_whatever_else_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let run = json(here, &[&["run", "concrete", "--out", "r"], &SHORT[..]].concat());
    let chosen = run["rows"].as_array().unwrap().iter().find(|row| row["method"] == "chosen").unwrap();
    let alone = json(here, &[&["select", "concrete", "--method", "joint"], &SHORT[..]].concat());
    let among = json(here, &[&["select", "concrete"], &SHORT[..]].concat());
    for result in [&alone, &among] {
        let joint = &result["methods"][0];
        assert_eq!(joint["method"], "joint");
        assert_eq!(joint["inverse_temperature"], run["beta_star"]);
        for model in ["standard", "tempered"] {
            let [found, expected] =
                [joint, chosen].map(|row| row["test"]["regression"][model]["lpd"].as_f64().unwrap());
            // A run adds up the densities of each chain on its own.
            assert!((found - expected).abs() < 1e-12, "{model}: {found} {expected}");
        }
        assert_eq!(joint["test"], alone["methods"][0]["test"]);
        assert_eq!(joint["serves_lpd"], true);
        assert_eq!(joint["which_way"], run["which_way"]);
        assert!(joint["which_way"]["standard"]["slope"].is_f64(), "{joint}");
    }
    assert_eq!((names(&alone, "methods").len(), names(&among, "methods").len()), (1, 7));
    let grid =
        among["methods"].as_array().unwrap().iter().filter(|one| one["method"].as_str().unwrap().starts_with("grid"));
    for method in grid {
        // Nine temperatures from two starts.
        assert_eq!(method["cost"]["chains"], 18.0);
    }
}

#[test]
fn wrong_methods_are_refused_with_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, phrases) in [
        (&["--method", "grid-lpd-sn"][..], &["there is no selector `grid-lpd-sn`", "did you mean `grid-lpd-sm`?"][..]),
        (
            &["--method", "joint", "--method", "safe-bayes", "--set", "model.hidden=[400]"],
            &["--method safe-bayes: ", "8-400-1 has 4001 of them", "it stops at 2000", "take fewer hidden units"],
        ),
        (&["--method", "grid-ece-sm"], &["the targets are numbers", "choose by LPD"]),
        (&["--method", "joint", "--all"], &["cannot be used with"]),
    ] {
        let output = kelvin(folder.path(), &[&["select", "concrete", "--quick"], arguments].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{err}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
        for phrase in phrases {
            assert!(err.contains(phrase), "no `{phrase}` in\n{err}");
        }
    }
}

/// y = a − b/2 and noise, from two sequences that fill the unit interval evenly.
fn linear_table() -> String {
    let mut csv = String::from("a,b,y\n");
    for row in 0..120 {
        let even = |factor: f64| (f64::from(row) * factor).fract() - 0.5;
        let (a, b, noise) = (even(0.618_033_988_75), even(0.754_877_666_25), even(0.569_840_290_99));
        writeln!(csv, "{a:.4},{b:.4},{:.4}", a - 0.5 * b + 0.4 * noise).unwrap();
    }
    csv
}

#[test]
fn every_method_has_an_answer_or_a_reason_on_a_linear_model() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("line.csv"), linear_table()).unwrap();
    let linear = "model.layers=[{ dense = { units = 1 } }]";
    let own = ["select", "--data", "line.csv", "--target", "y", "--all", "--quick", "--starts", "1"];
    let settings = ["--set", linear, "--set", "selection.epochs=2000", "--set", "run.grid=[0.1,0.3,1.0,3.0]"];
    let arguments = [&own[..], &settings[..]].concat();
    let result = json(here, &arguments);
    let (chosen, refused) = (names(&result, "methods"), names(&result, "refused"));
    assert_eq!(refused, ["grid-ece-sm", "grid-ece-tm", "grid-brier-sm", "grid-brier-tm"]);
    assert_eq!(chosen.iter().chain(&refused).collect::<BTreeSet<_>>().len(), 24);
    for method in result["methods"].as_array().unwrap() {
        assert!(method["inverse_temperature"].as_f64().unwrap() > 0.0, "{method}");
        assert!(method["test"]["regression"]["tempered"]["lpd"].is_f64(), "{method}");
    }

    let output = kelvin(here, &arguments);
    let out = text(&output.stdout);
    assert!(out.contains("\n*: another goal than held-out predictions"), "{out}");
    assert!(out.contains("\nNot here:\n  grid-ece-sm, grid-ece-tm, grid-brier-sm, grid-brier-tm: "), "{out}");
    assert!(!text(&output.stderr).contains("note: --all"), "{}", text(&output.stderr));
}

#[test]
fn the_toy_writes_its_tables_and_figures() {
    let folder = tempfile::tempdir().unwrap();
    let output = kelvin(folder.path(), &["toy", "--out", "theory"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // T* = (mean² + τ² − σ²) λ with n = 10, x̄ = 0.3: 9/11, and below zero where the truth has less noise.
    for phrase in ["0.818", "→ 0 (−4.68)", "→ 0 (−5.5)", "log TM-PD", "bound on log TM-PD", "figures: theory"] {
        assert!(out.contains(phrase), "no `{phrase}` in\n{out}");
    }
    let file = |name: &str| std::fs::read(folder.path().join("theory").join(name)).unwrap();
    for name in ["gaussian_toy", "bound"] {
        assert!(text(&file(&format!("figures/{name}.svg"))).starts_with("<svg"), "{name}");
        assert!(file(&format!("figures/{name}.png")).starts_with(b"\x89PNG"), "{name}");
        assert!(file(&format!("figures/{name}.pdf")).starts_with(b"%PDF"), "{name}");
        assert!(text(&file(&format!("figures/{name}.csv"))).lines().count() > 100, "{name}");
        assert_eq!(text(&file(&format!("{name}.csv"))).lines().count(), 4, "{name}");
    }
}

//! `kelvin diagnose` as a person sees it: tables, warnings, a last line, exit codes.

use std::path::Path;

use serde_json::Value;

use crate::support::{SHORT, kelvin};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn results(folder: &Path, change: impl Fn(&mut Value)) {
    let path = folder.join("r/results.json");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

#[test]
fn warnings_fail_a_strict_diagnosis_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let run = kelvin(here, &[&["run", "concrete", "--out", "r"], &SHORT[..], &["--quiet"]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));

    let output = kelvin(here, &["diagnose", "r"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for phrase in [
        "inverse temperature, asked and measured",
        "bulk ESS",
        "τ in draws",
        "Kinetic temperature of each tensor",
        "dense1.kernel",
        "The band holds 99 % of the means over 16 draws",
        "start 2",
        "over 2 starts",
        "Which way ",
        "No chain of 4 diverged.",
        "  try: ",
    ] {
        assert!(out.contains(phrase), "no `{phrase}` in\n{out}");
    }
    let warnings = out.lines().last().unwrap().split(' ').next().unwrap().parse::<usize>().unwrap();
    assert!(warnings > 1 && out.ends_with(" warnings\n"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 104), "{out}");

    let strict = kelvin(here, &["diagnose", "r", "--strict"]);
    assert_eq!((strict.status.code(), text(&strict.stdout)), (Some(1), out));
    assert!(strict.stderr.is_empty(), "{}", text(&strict.stderr));

    let json: Value = serde_json::from_slice(&kelvin(here, &["diagnose", "r", "--json"]).stdout).unwrap();
    assert_eq!(json["warnings"].as_array().unwrap().len(), warnings);
    assert_eq!(json["temperatures"].as_array().unwrap().len(), 2);
    assert_eq!(json["tensors"]["num_readings"], 16);
    for model in ["standard", "tempered"] {
        let way = &json["which_way"][model];
        assert_eq!(way["num_draws"], 16);
        let [slope, error] = ["slope", "standard_error"].map(|key| way[key].as_f64().unwrap());
        let expected = if slope > 2.0 * error {
            "colder"
        } else if slope < -2.0 * error {
            "warmer"
        } else {
            "flat"
        };
        assert_eq!(way["direction"], expected, "{way}");
        let ess = way["weights_ess"].as_f64().unwrap();
        assert!((1.0..=16.0).contains(&ess), "{way}");
    }
    assert!(!text(&run.stdout).contains("Which way"), "sixteen draws cannot tell: {}", text(&run.stdout));

    // The same numbers as the run's own table.
    let scores: Value = serde_json::from_slice(&std::fs::read(here.join("r/results.json")).unwrap()).unwrap();
    let row = scores["rows"].as_array().unwrap().iter().find(|row| row["method"] == "bayes").unwrap();
    for (own, of_row) in [("rhat", "rhat"), ("bulk_ess", "bulk_ess"), ("beta_at_cycle_ends", "beta_at_cycle_ends")] {
        let (found, expected) = (&json["temperatures"][0][own], &row["measured"][of_row]);
        assert!(
            (found.as_f64().unwrap() / expected.as_f64().unwrap() - 1.0).abs() < 1e-12,
            "{own}: {found} {expected}"
        );
    }

    results(here, |found| found["warnings"] = serde_json::json!([]));
    let strict = kelvin(here, &["diagnose", "r", "--strict"]);
    assert_eq!(strict.status.code(), Some(0));
    assert!(text(&strict.stdout).ends_with("\nno warning\n"));

    // A tensor that is twice as hot as asked for is marked; one chain that diverged is named.
    results(here, |found| {
        for chain in found["chains"].as_array_mut().unwrap().iter_mut().filter(|chain| chain["method"] == "chosen") {
            chain["tensor_temperatures"][0] = (2.0 * chain["sampler_temperature"].as_f64().unwrap()).into();
        }
        found["chains"][0]["diverged_at"] = 17.into();
    });
    let out = kelvin(here, &["diagnose", "r"]).stdout;
    let line = text(&out).lines().find(|line| line.contains("dense1.kernel")).unwrap();
    assert!(line.contains("2.0000") && line.ends_with("▲ hotter"), "{line}");
    assert!(text(&out).contains("Diverged: β = 1, chain 1 at step 17."), "{}", text(&out));

    std::fs::write(here.join("r/results.json"), "{").unwrap();
    let damaged = kelvin(here, &["diagnose", "r", "--strict"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(
        text(&damaged.stderr).contains("is damaged; `kelvin resume r` writes it again"),
        "{}",
        text(&damaged.stderr)
    );
    assert!(text(&kelvin(here, &["diagnose", "none"]).stderr).contains("there is no folder none"));
    assert!(text(&kelvin(here, &["diagnose", "."]).stderr).contains("is no run folder of kelvin"));
}

#[test]
fn a_sweep_is_pooled_over_its_repetitions() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["sweep", "concrete", "--repetitions", "2", "--out", "r", "--set", "run.grid=[0.3,1.0]"];
    let run = kelvin(folder.path(), &[&arguments[..], &SHORT[..], &["--quiet"]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let json: Value = serde_json::from_slice(&kelvin(folder.path(), &["diagnose", "r", "--json"]).stdout).unwrap();
    let lines = json["temperatures"].as_array().unwrap();
    let chains: Vec<u64> = lines.iter().map(|line| line["num_chains"].as_u64().unwrap()).collect();
    assert_eq!(chains, [2, 2, 1, 1], "two temperatures of two chains, and a β̂* of each repetition");
    let found: Value = serde_json::from_slice(&std::fs::read(folder.path().join("r/results.json")).unwrap()).unwrap();
    assert_eq!(lines[1]["rhat"], found["agreement"][1]["rhat"]);
}

/// d/2 of Concrete's network is 320.5.
#[test]
fn learning_theory_is_told_where_it_was_gathered() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let grid = ["sweep", "concrete", "--repetitions", "2", "--set", "run.grid=[0.3,1.0,3.0]", "--quiet"];
    // Sums over draws are kept on the way, so that draws need not be.
    for (out, kept) in [("r", "stored"), ("scored", "scored")] {
        let draws = format!("--set=sampler.draws={kept}");
        let run = kelvin(here, &[&grid[..], &SHORT[..], &["--out", out, &draws]].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
    }
    let theory = |run: &str| {
        let found: Value = serde_json::from_slice(&kelvin(here, &["diagnose", run, "--json"]).stdout).unwrap();
        found["learning_theory"].clone()
    };
    let lines = theory("r");
    assert_eq!(lines, theory("scored"));
    let lines = lines.as_array().unwrap();
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert!(!line["warnings"].as_array().unwrap().is_empty(), "eight draws are few: {line}");
        let chains = line["chains"].as_array().unwrap();
        assert_eq!(chains.len(), 2);
        for chain in chains {
            let number = |key: &str| chain[key].as_f64().unwrap();
            let (beta, variance) = (number("inverse_temperature"), number("functional_variance"));
            assert_eq!((chain["num_rows"].as_u64(), chain["num_rows_seen"].as_u64()), (Some(824), Some(824)));
            assert!(variance > 0.0 && (number("singular_fluctuation") / (0.5 * beta * variance) - 1.0).abs() < 1e-12);
            assert!((number("waic") - number("training_loss") - beta * variance / 824.0).abs() < 1e-9);
            assert!(number("gibbs_loss") > number("training_loss"), "Jensen: {chain}");
            assert_eq!(chain["learning_coefficient"].is_f64(), beta < 3.0, "the largest β has no next one");
        }
    }
    let out = kelvin(here, &["diagnose", "r"]).stdout;
    for phrase in ["learning theory of 824 training rows, mean ± SD over chains", "−WAIC", "320.5 (d/2)", "rows "] {
        assert!(text(&out).contains(phrase), "no `{phrase}` in\n{}", text(&out));
    }

    // Runs of older kelvins have no such numbers.
    results(here, |found| {
        for chain in found["chains"].as_array_mut().unwrap() {
            chain.as_object_mut().unwrap().remove("learning_theory");
        }
    });
    assert_eq!(theory("r"), serde_json::json!([]));
    assert!(text(&kelvin(here, &["diagnose", "r"]).stdout).contains("Learning theory: Not available: an older kelvin"));
    let report = kelvin(here, &["report", "r"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(here.join("r/report.html")).unwrap();
    assert!(page.contains("<h2>Learning theory</h2>") && page.contains("Not available: an older kelvin"));
}

/// y = a − b/2 + c/4 with normal noise of variance ¼, from a small generator of its own.
fn linear_table(rows: usize) -> String {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    let mut csv = String::from("a,b,c,y\n");
    for _ in 0..rows {
        let [a, b, c, noise] = std::array::from_fn(|_| normal());
        csv += &format!("{a:.5},{b:.5},{c:.5},{:.5}\n", a - 0.5 * b + 0.25 * c + 0.5 * noise);
    }
    csv
}

/// λ = ν = d/2 = 2, by the program's own chains; their means over draws are good to a tenth or two.
#[test]
fn a_linear_regression_has_half_its_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("line.csv"), linear_table(700)).unwrap();
    // The answers are standardised: their variance is 1 + ¼ + 1/16 + ¼.
    let noise = format!("--set=model.noise_variance={}", 0.25 / 1.5625);
    let own = ["run", "--data", "line.csv", "--target", "y", "--grid", "--quick", "--quiet", "--out", "r", &noise];
    let linear = ["--set=model.layers=[{ dense = { units = 1 } }]", "--set=model.prior_variance=10"];
    let run = kelvin(here, &[&own[..], &linear[..], &["--set=run.grid=[0.3, 1.0]"]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let found: Value = serde_json::from_slice(&kelvin(here, &["diagnose", "r", "--json"]).stdout).unwrap();
    let mean = |line: usize, key: &str| {
        let chains = found["learning_theory"][line]["chains"].as_array().unwrap();
        chains.iter().map(|chain| chain[key].as_f64().unwrap()).sum::<f64>() / chains.len() as f64
    };
    let estimates = [mean(0, "singular_fluctuation"), mean(1, "singular_fluctuation"), mean(0, "learning_coefficient")];
    assert!(estimates.iter().all(|estimate| (1.2..2.8).contains(estimate)), "{estimates:?} instead of 2");
    assert!(mean(0, "unsteady_share") < 0.01 && mean(1, "unsteady_share") < 0.01, "{found}");
}

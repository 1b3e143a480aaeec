//! `kelvin report`: what it makes of finished runs, and what it says of folders that are none.

use std::path::Path;

use crate::support::{self, Need, skipped};
use tempfile::TempDir;

/// Little sampling: these tests are about what is made of it.
const SHORT: [&str; 15] = [
    "--quick",
    "--quiet",
    "--set",
    "selection.epochs=40",
    "--set",
    "sampler.epochs=60",
    "--set",
    "sampler.burn_in=20",
    "--set",
    "sampler.cycle=5",
    "--set",
    "sampler.ramp_start=5",
    "--set",
    "sampler.ramp_end=10",
    "--json",
];

fn kelvin(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = support::kelvin(folder, arguments);
    let (out, err) = support::said(&output);
    (output.status.code(), out, err)
}

fn succeeds(folder: &Path, arguments: &[&str]) -> (String, String) {
    let (code, out, err) = kelvin(folder, arguments);
    assert_eq!(code, Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    (out, err)
}

fn refuses(folder: &Path, code: i32, arguments: &[&str], phrases: &[&str]) {
    let (found, out, err) = kelvin(folder, arguments);
    assert_eq!((found, out.as_str()), (Some(code), ""), "kelvin {arguments:?}\n{err}");
    for phrase in phrases {
        assert!(err.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{err}");
    }
}

fn short(folder: &Path, arguments: &[&str]) {
    let mut all = arguments.to_vec();
    all.extend(SHORT);
    succeeds(folder, &all);
}

fn sweep(folder: &Path, preset: &str, out: &str) {
    short(folder, &["sweep", preset, "--repetitions", "2", "--set", "run.grid=[0.3, 1.0, 3.0]", "--out", out]);
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

#[test]
fn a_report_is_made_again_from_the_files_alone() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    short(here, &["run", "concrete", "--out", "run"]);
    let page = read(here.join("run/report.html"));
    for name in ["report.html", "figures/predictions.pdf", "figures/predictions.csv"] {
        std::fs::remove_file(here.join("run").join(name)).unwrap();
    }
    std::fs::remove_dir_all(here.join("run/draws")).unwrap();
    let (out, err) = succeeds(here, &["report", "run"]);
    assert!(out.contains("concrete-quick: β\u{302}* = ") && out.contains("LPD SM"), "{out}");
    assert!(err.contains("report: run/report.html"), "{err}");
    assert_eq!(read(here.join("run/report.html")), page);
    assert!(here.join("run/figures/predictions.pdf").exists());
    let unbroken = |out: &str| out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unbroken(&out).contains("± the standard error over the test points of this one run."), "{out}");
    std::fs::remove_file(here.join("run/predictions/bayes.csv")).unwrap();
    let (out, _) = succeeds(here, &["report", "run"]);
    assert!(unbroken(&out).contains("The standard error of the difference, of one run, is not known."), "{out}");
    // The story, in order.
    let headings =
        ["Warnings", "Scores", "The search for β", "Calibration", "Predictions", "Cases to look at", "Temperatures"];
    let headings = headings.into_iter().chain(["Chains", "Settings and provenance"]);
    let places: Vec<usize> = headings.map(|name| page.find(&format!("<h2>{name}</h2>")).expect(name)).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn several_runs_share_one_page_with_the_paper_s_arrangement() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    sweep(here, "concrete", "first");
    sweep(here, "concrete", "second");
    short(here, &["run", "stripes", "--out", "images"]);
    let (out, _) = succeeds(here, &["report", "first", "second", "images", "--format", "latex", "--spread", "se"]);
    assert!(out.contains(r"\toprule") && out.contains(r"\bottomrule") && out.contains("first & second"), "{out}");
    assert!(out.contains("SE over repetitions") && !out.contains("SD over"), "{out}");
    let page = read(here.join("report/report.html"));
    for phrase in
        ["<h2>first</h2>", "<h2>second</h2>", "<h2>stripes-quick</h2>", "MSE ×10³ ↓", "accuracy % ↑", "split-R\u{302}"]
    {
        assert!(page.contains(phrase), "{phrase}");
    }
    for table in
        ["point_predictions", "lpd_regression", "lpd_classification", "kinetic_temperature", "split_rhat", "wall_clock"]
    {
        for ending in ["md", "tex", "csv", "html"] {
            assert!(here.join(format!("report/tables/{table}.{ending}")).exists(), "{table}.{ending}");
        }
    }
    for figure in ["lpd_test", "lpd_test_sm", "lpd_test_tm", "lpd_validation", "point_metric"] {
        assert!(read(here.join(format!("report/figures/{figure}.csv"))).starts_with("panel,series,"), "{figure}");
    }
}

#[test]
fn strengths_of_augmentation_share_a_figure() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    for (strength, out) in [("0", "none"), ("0.5", "half")] {
        let strength = format!("data.augmentation={strength}");
        let arguments = [
            "sweep",
            "stripes",
            "--repetitions",
            "2",
            "--set",
            "run.grid=[1.0, 10.0]",
            "--set",
            &strength,
            "--out",
            out,
        ];
        short(here, &arguments);
    }
    // Whatever else stands before them.
    sweep(here, "concrete", "table");
    succeeds(here, &["report", "table", "half", "none", "--out", "both"]);
    let numbers = read(here.join("both/figures/augmentation.csv"));
    assert!(numbers.contains("test LPD (SM)") && numbers.contains("test accuracy"), "{numbers}");
    let (none, half) = (numbers.find("strength 0,"), numbers.find("strength 0.5,"));
    assert!(none.is_some() && none < half, "weakest first: {numbers}");
}

/// A name is all that says which experiment of the paper a sweep repeats.
#[test]
fn the_paper_s_numbers_stand_beside_ours() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    sweep(here, "concrete", "sweep");
    let (_, err) = succeeds(here, &["report", "sweep", "--compare", "paper"]);
    assert!(err.contains("the paper has no numbers for concrete-quick") && err.contains("cifar10-da"), "{err}");
    let results = here.join("sweep/results.json");
    let renamed = read(&results).replace("\"name\": \"concrete-quick\"", "\"name\": \"concrete\"");
    std::fs::write(&results, renamed).unwrap();
    let (out, err) = succeeds(here, &["report", "sweep", "--compare", "paper", "--format", "csv"]);
    assert!(!err.contains("no numbers"), "{err}");
    for number in ["106 ± 20", "−0.186 ± 0.049", "0.019 ± 0.035", "1.54", "0.37"] {
        assert!(out.contains(number), "{number}\n{out}");
    }
    assert!(read(here.join("sweep/report.html")).contains("Concrete (paper)"));
    let (out, _) = succeeds(here, &["report", "sweep", "--compare", "paper", "--format", "markdown"]);
    let lead = format!(
        "# The paper's numbers beside kelvin's\n\nOf: sweep of concrete (kelvin {} (",
        env!("CARGO_PKG_VERSION")
    );
    assert!(out.starts_with(&lead) && out.contains("\n\n**Point predictions on test rows, mean ± SD over"), "{out}");
    let chosen = read(here.join("sweep/results.csv"));
    let line = chosen.lines().find(|line| line.starts_with("β = β\u{302}*,")).unwrap();
    let betas: Vec<&str> = line.split('"').nth(1).unwrap().split(", ").collect();
    assert!(betas.len() == 2 && betas.iter().all(|beta| beta.parse::<f64>().is_ok()), "{line}");
}

/// A run pools its chains, and the paper repeats an experiment.
#[test]
fn a_single_run_is_not_shown_as_the_paper_s_repetitions() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    short(here, &["run", "concrete", "--out", "run"]);
    let results = here.join("run/results.json");
    let renamed = read(&results).replace("\"name\": \"concrete-quick\"", "\"name\": \"concrete\"");
    std::fs::write(&results, renamed).unwrap();
    let (out, err) = succeeds(here, &["report", "run", "--compare", "paper"]);
    assert!(err.contains("one run, its 2 chains together") && err.contains("`kelvin sweep concrete`"), "{err}");
    assert!(!out.contains("(paper)") && !out.contains("repetition"), "{out}");
    assert_eq!(out.matches("; Concrete: one run, its 2 chains together").count(), 4, "{out}");
}

#[test]
fn what_theory_expects_is_drawn_beside_what_was_measured() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    sweep(here, "concrete", "sweep");
    let numbers = read(here.join("sweep/figures/learning_theory.csv"));
    for series in ["training, measured", "test, measured", "−WAIC", "asymptotic relation"] {
        assert_eq!(numbers.matches(series).count(), 3, "{series}: one for each β\n{numbers}");
    }
    // The relation is made to hold at β = 1.
    let at_one = |series: &str| {
        let line =
            numbers.lines().find(|line| line.trim_start_matches('"').starts_with(series) && line.contains(",1,"));
        line.unwrap_or_else(|| panic!("{series}\n{numbers}"))
            .rsplit(",1,")
            .next()
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(at_one("asymptotic relation"), at_one("test, measured"));
    assert_eq!(read(here.join("sweep/learning_theory.csv")).lines().count(), 4);
    assert!(read(here.join("sweep/report.html")).contains("<h2>Learning theory</h2>"));
}

/// A small stand-in for CIFAR10, whose name is all that says which numbers of the paper belong beside it.
#[test]
fn the_paper_s_table_of_selectors_has_its_place() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let methods = ["--method", "joint", "--method", "map", "--method", "guo", "--starts", "2", "--each-start"];
    short(here, &[&["select", "stripes", "--out", "chosen"], &methods[..]].concat());
    let stored = read(here.join("chosen/selection.json"));
    let found: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let each = found["each_start"].as_array().unwrap();
    assert_eq!(each.len(), 6);
    assert!(each.iter().all(|one| one["test"]["classification"]["standard"]["lpd"].is_f64()), "{each:?}");
    assert!(here.join("chosen/experiment.toml").exists() && here.join("chosen/selection.csv").exists());

    let renamed = stored.replace("\"name\": \"stripes-quick\"", "\"name\": \"cifar10\"");
    assert_ne!(renamed, stored);
    std::fs::write(here.join("chosen/selection.json"), renamed).unwrap();
    let (out, err) = succeeds(here, &["report", "chosen", "--compare", "paper", "--format", "csv"]);
    assert!(!err.contains("no numbers"), "{err}");
    let line = |method: &str| out.lines().find(|line| line.contains(&format!("CIFAR10,{method},"))).expect(method);
    for (method, paper) in [("Guo et al.", "1.75 ± 0.18"), ("MAP", "−0.321 ± 0.010"), ("MLE", "89.92 ± 0.25")] {
        assert!(line(method).contains(paper) && line(method).matches('±').count() == 6, "{out}");
    }
    assert!(here.join("report/tables/selectors.tex").exists());
    assert!(read(here.join("report/report.html")).contains("Ways to choose β"));
    assert!(out.contains(&read(here.join("chosen/selection.csv"))), "the table of methods too\n{out}");
    assert!(read(here.join("report/report.html")).contains("<h2>ways to choose β for cifar10</h2>"));
    let (out, _) = succeeds(here, &["report", "chosen"]);
    assert!(out.contains("cifar10 — ways to choose β\n") && out.contains("\nbest for: "), "{out}");

    // Beside runs, on one page.
    sweep(here, "concrete", "sweep");
    let (out, _) = succeeds(here, &["report", "sweep", "chosen", "--out", "all"]);
    assert!(out.contains("Point predictions") && out.contains("Guo et al."), "{out}");

    std::fs::write(here.join("chosen/selection.json"), "{").unwrap();
    refuses(here, 1, &["report", "chosen"], &["selection.json is damaged", "kelvin select --out"]);
    refuses(here, 1, &["select", "stripes", "--quick", "--out", "sweep"], &["sweep holds files already", "--out"]);
    let other = ["select", "stripes", "--quick", "--seed", "5", "--out", "chosen"];
    refuses(here, 1, &other, &["chosen holds a selection already", "--out"]);
    let wrong = ["select", "stripes", "--quick", "--method", "grid-lpd-sm", "--each-start"];
    refuses(here, 2, &wrong, &["--each-start", "joint, map and guo"]);
}

#[test]
fn what_is_no_finished_run_is_refused_in_plain_words() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    refuses(here, 2, &["report"], &["RUN"]);
    refuses(here, 1, &["report", "nowhere"], &["there is no folder nowhere"]);
    std::fs::create_dir(here.join("empty")).unwrap();
    refuses(here, 1, &["report", "empty"], &["empty is no run folder of kelvin"]);
    short(here, &["run", "concrete", "--out", "run"]);
    refuses(here, 1, &["report", "run", "empty"], &["empty is no run folder of kelvin"]);
    std::fs::write(here.join("taken"), "").unwrap();
    refuses(here, 2, &["report", "run", "run", "--out", "taken"], &["taken is a file"]);

    let results = here.join("run/results.json");
    let whole = read(&results);
    std::fs::write(&results, &whole[..whole.len() / 2]).unwrap();
    refuses(here, 1, &["report", "run"], &["results.json is damaged", "kelvin resume run"]);
    std::fs::remove_file(&results).unwrap();
    refuses(here, 1, &["report", "run"], &["is not finished", "kelvin resume run"]);
    std::fs::write(&results, &whole).unwrap();
    let predictions = read(here.join("run/predictions/chosen.csv"));
    let (head, first) = predictions.trim_end().rsplit_once(',').unwrap();
    assert!((0.0..=1.0).contains(&first.parse::<f64>().unwrap()), "the last column is a probability");
    std::fs::write(here.join("run/predictions/chosen.csv"), format!("{head},7\n")).unwrap();
    refuses(here, 1, &["report", "run"], &["cannot make the figures of run", "is 7, which is not a probability"]);
    std::fs::write(here.join("run/predictions/chosen.csv"), "row,truth\n").unwrap();
    refuses(here, 1, &["report", "run"], &["predictions/chosen.csv, line 1"]);
    std::fs::remove_file(here.join("run/predictions/chosen.csv")).unwrap();
    refuses(here, 1, &["report", "run"], &["cannot read run/predictions/chosen.csv"]);
}

/// The page in a real browser; says so where there is none.
#[test]
fn pages_are_looked_at_in_a_browser_where_there_is_one() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    sweep(here, "concrete", "sweep");
    short(here, &["run", "stripes", "--out", "images"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/check.py");
    let checked = std::process::Command::new("python3")
        .current_dir(here)
        .arg(script)
        .args(["--no-timing", "sweep/report.html", "images/report.html"])
        .output();
    match checked {
        Ok(output) => {
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            assert!(output.status.success(), "{said}");
            match said.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
                Some(why) => skipped(Need::Chromium, why),
                None => assert!(said.contains(" figures, "), "{said}"),
            }
        }
        Err(error) => skipped(Need::Chromium, &format!("python3 cannot be started: {error}")),
    }
}

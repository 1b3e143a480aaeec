//! What a person sees of image experiments: run, sweep, predict, and what is refused.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::support::{self, Need, skipped};
use serde_json::Value;
use tempfile::TempDir;

/// Few images and steps: these tests are about what is said and written.
const TINY: [&str; 20] = [
    "--quiet",
    "--set",
    "data.train_images=128",
    "--set",
    "data.validation_images=32",
    "--set",
    "data.test_images=32",
    "--set",
    "selection.epochs=4",
    "--set",
    "selection.checkpoints=4",
    "--set",
    "sampler.ramp_start=0",
    "--set",
    "sampler.ramp_end=1",
    "--set",
    "sampler.burn_in=2",
    "--set",
    "sampler.cycle=1",
    "--json",
];

fn kelvin(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = support::kelvin(folder, arguments);
    let (out, err) = support::said(&output);
    (output.status.code(), out, err)
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = kelvin(folder, arguments);
    assert_eq!(code, Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    out
}

fn refuses(folder: &Path, code: i32, arguments: &[&str], phrases: &[&str]) {
    let (found, out, err) = kelvin(folder, arguments);
    assert_eq!((found, out.as_str()), (Some(code), ""), "kelvin {arguments:?}\n{err}");
    for phrase in phrases {
        assert!(err.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{err}");
    }
}

/// A tiny run or sweep; its JSON.
fn tiny(folder: &Path, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(TINY);
    all.extend(["--set", "sampler.epochs=6"]);
    serde_json::from_str(&succeeds(folder, &all)).unwrap()
}

fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    lines.map(|cells| header.iter().cloned().zip(cells).collect()).collect()
}

/// Grey images as an idx file.
fn write_idx(path: &Path, count: u32, height: u32, width: u32) {
    let mut file = std::fs::File::create(path).unwrap();
    for number in [0x0803, count, height, width] {
        file.write_all(&number.to_be_bytes()).unwrap();
    }
    let pixels: Vec<u8> = (0..count * height * width).map(|i| (i * 37 % 251) as u8).collect();
    file.write_all(&pixels).unwrap();
}

#[test]
fn a_run_of_images_has_the_tables_and_figures_of_tables_and_predicts_new_images() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let result = tiny(here, &["run", "stripes", "--grid", "--out", "run"]);
    let found = result["rows"].as_array().unwrap();
    assert_eq!(found.len(), 3 + 5);
    for row in found {
        let doubt = &row["out_of_distribution"]["standard"];
        for name in ["entropy_auroc", "entropy_aupr", "entropy_fpr95"] {
            assert!((0.0..=1.0).contains(&doubt[name].as_f64().unwrap()), "{name} of {doubt}");
        }
        assert!(doubt["mean_entropy"].as_f64().unwrap() > 0.0);
        assert_eq!(doubt["mutual_information_auroc"].is_null(), row["method"] == "sgd", "one draw cannot disagree");
        assert!(row["test"]["classification"]["standard"]["mean_mutual_information"].is_number());
    }
    for name in ["experiment.toml", "provenance.json", "scores.csv", "metrics.csv", "model.json", "report.html"] {
        assert!(here.join("run").join(name).exists(), "{name}");
    }
    for figure in ["lpd_test", "point_metric", "selection_path", "calibration", "energy_traces", "temperature_traces"] {
        assert!(here.join(format!("run/figures/{figure}.svg")).exists(), "{figure}");
    }
    let provenance: Value = serde_json::from_slice(&std::fs::read(here.join("run/provenance.json")).unwrap()).unwrap();
    let hashes = ["data_sha256", "out_of_distribution_sha256"].map(|key| provenance[key].as_str().unwrap());
    assert!(hashes[0] != hashes[1] && hashes.iter().all(|hash| hash.len() == 64), "{provenance}");
    let metrics = rows(&std::fs::read_to_string(here.join("run/scores.csv")).unwrap());
    let sets: Vec<&str> = metrics.iter().take(3).map(|row| row["set"].as_str()).collect();
    assert_eq!(sets, ["validation", "test", "out_of_distribution"]);
    assert!(metrics[5]["entropy_auroc_sm"].parse::<f64>().is_ok() && metrics[5]["accuracy_sm"].is_empty());
    assert!(metrics[4]["mean_entropy_sm"].parse::<f64>().is_ok() && metrics[4]["entropy_auroc_sm"].is_empty());
    let report = std::fs::read_to_string(here.join("run/report.html")).unwrap();
    assert!(["12×12×1", "rings", "horizontal, vertical"].iter().all(|phrase| report.contains(phrase)));
    let pictures = std::fs::read_dir(here.join("run/cases")).unwrap().count();
    assert!((12..=24).contains(&pictures), "{pictures} pictures of the most uncertain and the most wrong");
    assert!(report.matches("<img alt=\"Test image ").count() >= pictures, "each is shown");

    write_idx(&here.join("new.idx"), 3, 12, 12);
    let out = succeeds(here, &["predict", "run", "--input", "new.idx"]);
    assert!(out.starts_with("class,p(horizontal),p(vertical),p(rising),p(falling),aleatoric,epistemic\n"), "{out}");
    let predictions = rows(&out);
    assert_eq!(predictions.len(), 3);
    for row in &predictions {
        let names = ["p(horizontal)", "p(vertical)", "p(rising)", "p(falling)"];
        let sum: f64 = names.iter().map(|name| row[*name].parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
    write_idx(&here.join("large.idx"), 2, 28, 28);
    let phrases = ["large.idx holds images of 28×28×1", "trained on images of 12×12×1"];
    refuses(here, 1, &["predict", "run", "--input", "large.idx"], &phrases);
    std::fs::write(here.join("batch.bin"), vec![1; 2 * 3073]).unwrap();
    refuses(here, 1, &["predict", "run", "--input", "batch.bin"], &["images of 32×32×3", "12×12×1"]);
    std::fs::write(here.join("table.csv"), "a,b\n1,2\n").unwrap();
    refuses(here, 1, &["predict", "run", "--input", "table.csv"], &["table.csv", "idx images"]);

    // The resolved settings repeat the run.
    succeeds(here, &["run", "run/experiment.toml", "--quiet", "--out", "again"]);
    assert_eq!(succeeds(here, &["predict", "again", "--input", "new.idx"]), out);
}

#[test]
fn a_run_for_people_shows_doubt_in_a_second_table() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["run", "stripes", "--out", "run", "--set", "sampler.epochs=6"];
    arguments.extend(&TINY[..TINY.len() - 1]);
    let out = succeeds(folder.path(), &arguments);
    assert!(out.contains("accuracy %") && out.contains("Uncertainty on test images and rings"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 104), "{out}");
}

/// Each kind in each strength is a set of rows, in scores.csv and in the table by strength; the other numbers do not change.
#[test]
fn corrupted_test_images_are_scored_by_strength() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let corruptions = ["--set", "data.corruptions=['noise', 'contrast']"];
    let run = |out: &str, more: &[&str]| {
        let mut arguments = vec!["run", "stripes", "--out", out, "--set", "run.chains=1"];
        arguments.extend(more);
        tiny(here, &arguments)
    };
    let (plain, corrupted) = (run("plain", &[]), run("corrupted", &corruptions));
    for (plain, row) in plain["rows"].as_array().unwrap().iter().zip(corrupted["rows"].as_array().unwrap()) {
        assert!(plain.get("corrupted").is_none() && plain["test"] == row["test"]);
        let found = row["corrupted"].as_array().unwrap();
        let names: Vec<String> = found
            .iter()
            .map(|at| format!("{}-{}", at["corruption"]["kind"].as_str().unwrap(), at["corruption"]["strength"]))
            .collect();
        assert_eq!((names.len(), names[0].as_str(), names[9].as_str()), (10, "noise-1", "contrast-5"));
        assert!(found.iter().all(|at| at["scores"]["classification"]["standard"]["ece"].is_number()));
        assert_ne!(found[0]["scores"], found[9]["scores"]);
    }
    let scores = rows(&std::fs::read_to_string(here.join("corrupted/scores.csv")).unwrap());
    let sets: Vec<&str> = scores.iter().take(13).map(|row| row["set"].as_str()).collect();
    assert_eq!((sets[3], sets[12]), ("noise-1", "contrast-5"));
    // The table of a sweep has the mean over kinds of each strength, and the test images themselves at 0.
    let mut sweep = vec!["sweep", "stripes", "--repetitions", "1", "--set", "run.grid=[1.0]", "--out", "swept"];
    sweep.extend(corruptions);
    tiny(here, &sweep);
    let scores = rows(&std::fs::read_to_string(here.join("swept/scores.csv")).unwrap());
    let table = rows(&std::fs::read_to_string(here.join("swept/corruptions.csv")).unwrap());
    let shown = |column: &str| table[0][column].parse::<f64>().unwrap();
    let accuracy = |set: &str| -> f64 {
        100.0 * scores.iter().find(|row| row["set"] == set).unwrap()["accuracy_sm"].parse::<f64>().unwrap()
    };
    assert_eq!((table[0]["method"].as_str(), table[0]["score"].as_str()), ("SGD", "accuracy %"));
    assert!((shown("0") - accuracy("test")).abs() < 0.01, "{table:?}");
    assert!((shown("5") - (accuracy("noise-5") + accuracy("contrast-5")) / 2.0).abs() < 0.01, "{table:?}");
}

/// There are fewer held-out stripes than a quick run takes of larger sets.
#[test]
fn a_quick_run_takes_no_more_images_than_there_are() {
    let folder = TempDir::new().unwrap();
    succeeds(folder.path(), &["run", "stripes", "--quick", "--quiet", "--out", "run"]);
    let settings = std::fs::read_to_string(folder.path().join("run/experiment.toml")).unwrap();
    assert!(settings.contains("validation_images = 128") && settings.contains("test_images = 128"), "{settings}");
}

#[test]
fn chains_of_images_adapt_where_it_is_asked_for() {
    let folder = TempDir::new().unwrap();
    tiny(folder.path(), &["run", "stripes", "--sampler", "adaptive", "--out", "run"]);
    let result = std::fs::read_to_string(folder.path().join("run/results.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let settings = std::fs::read_to_string(folder.path().join("run/experiment.toml")).unwrap();
    assert!(settings.contains("adapt = true") && settings.contains("batch_size = 64"), "{settings}");
    let steps: Vec<f64> =
        result["chains"].as_array().unwrap().iter().filter_map(|chain| chain["step_size"].as_f64()).collect();
    assert!(steps.len() == 4 && steps.iter().all(|&h| h > 0.0), "{steps:?}");
    assert!(steps.windows(2).all(|pair| pair[0] != pair[1]), "each chain finds its own: {steps:?}");
}

#[test]
fn a_sweep_of_images_gives_the_paper_s_tables() {
    let folder = TempDir::new().unwrap();
    let sweep = ["sweep", "stripes", "--repetitions", "2", "--set", "run.grid=[1.0, 10.0]", "--out", "sweep"];
    let result = tiny(folder.path(), &sweep);
    assert_eq!(result["beta_star"].as_array().unwrap().len(), 2);
    for name in ["results", "kinetic_temperature", "agreement", "wall_clock", "out_of_distribution", "metrics"] {
        assert!(folder.path().join(format!("sweep/{name}.csv")).exists(), "{name}");
    }
    for figure in ["lpd_test", "lpd_test_sm", "lpd_test_tm", "lpd_validation", "point_metric", "selection_path"] {
        assert!(folder.path().join(format!("sweep/figures/{figure}.svg")).exists(), "{figure}");
    }
}

#[test]
fn augmented_numbers_do_not_depend_on_threads() {
    let folder = TempDir::new().unwrap();
    let run = |out: &str, threads: &str| {
        let augmented = ["--set", "data.augmentation=0.5", "--set", "sampler.preconditioner=layerwise"];
        let mut arguments = vec!["run", "stripes", "--threads", threads, "--out", out];
        arguments.extend(augmented);
        tiny(folder.path(), &arguments);
        ["chosen-1", "bayes-2"]
            .map(|name| std::fs::read(folder.path().join(format!("{out}/draws/{name}.safetensors"))).unwrap())
    };
    assert_eq!(run("one", "1"), run("two", "2"));
}

#[test]
fn a_network_of_one_s_own_and_fresh_statistics() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let layers = "model.layers=[{ conv = { filters = 4, kernel = 3, stride = 2 } }, 'filter_response_norm', 'threshold', \
                  'batch_norm', { residual = { body = [{ conv = { filters = 4, kernel = 3 } }] } }, 'relu', { dense = { units = 4 } }]";
    tiny(here, &["run", "stripes", "--set", layers, "--set", "sampler.draw_statistics=reestimated", "--out", "own"]);
    let settings = std::fs::read_to_string(here.join("own/experiment.toml")).unwrap();
    assert!(settings.contains("residual") && settings.contains("reestimated"), "{settings}");
    // The order does not matter: what is said of a network is said of the one that is named.
    let named = ["--set", "model.batch_norm_momentum=0.9", "--set", "model.network=resnet-8"];
    let mut arguments = vec!["run", "stripes", "--out", "named", "--set", "run.chains=1"];
    arguments.extend(named);
    tiny(here, &arguments);
    let settings = std::fs::read_to_string(here.join("named/experiment.toml")).unwrap();
    for line in ["network = \"resnet-8\"", "normalisation = \"batch\"", "batch_norm_momentum = 0.9", "start = \"he\""] {
        assert!(settings.contains(line), "{settings}");
    }
    assert!(!settings.contains("layers"), "{settings}");
    let toml = succeeds(here, &["presets", "stripes"]).replace("filters = 16", "filters = 6");
    std::fs::write(here.join("mine.toml"), toml).unwrap();
    let result = tiny(here, &["run", "mine.toml", "--quick", "--out", "mine"]);
    assert_eq!(result["name"], "stripes-quick");
    succeeds(here, &["run", "stripes", "--quick", "--quiet", "--set", "run.chains=1", "--out", "quick"]);
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let set = |preset: &str, value: &str, phrases: &[&str]| {
        refuses(here, 2, &["run", preset, "--set", value], phrases);
    };
    set("concrete", "data.augmentation=0.5", &["data.augmentation does not apply", "`concrete` is a table"]);
    set("concrete", "data.train_images=5", &["data.train_images does not apply", "for images"]);
    set("concrete", "model.network=mnist-cnn", &["model.network must be \"dense\" for a table", "got mnist-cnn"]);
    set("stripes", "model.hidden=[8]", &["model.hidden does not apply", "set model.network = \"dense\""]);
    set("stripes", "model.network=resnet-6002", &["model.network must be a ResNet of at most 1202 layers"]);
    set("cifar10", "model.batch_norm_momentum=1.5", &["model.batch_norm_momentum must be at least 0 and below 1"]);
    set("stripes", "data.drop=['x']", &["data.drop does not apply", "have no columns"]);
    set("stripes", "data.out_of_distribution=stripes", &["data.out_of_distribution", "the set to learn from"]);
    set("stripes", "model.network=resnet20", &["no network `resnet20`", "did you mean `resnet-20`?"]);
    set("stripes", "data.train_images=600", &["data.train_images must be from 1 to 512", "got 600"]);
    set("stripes", "data.augmentation=2", &["data.augmentation must be a probability from 0 to 1, got 2"]);
    set("stripes", "sampler.batch_size=full", &["sampler.batch_size must be a number of images", "batch norm"]);
    set("stripes", "model.layers=['relu']", &["model.layers", "relu1 has no layer to act on"]);
    set("stripes", "model.layers=['rellu']", &["no layer `rellu`", "did you mean `relu`?"]);
    set("stripes", "model.layers=[{ dense = { units = 3 } }]", &["last dense layer has 4 units", "got 3 units"]);
    set("stripes", "data.out_of_distribution=concrete", &["`concrete` is a table"]);
    set("stripes", "data.corruptions=['noize']", &["data.corruptions", "noise", "contrast"]);
    set(
        "stripes",
        "data.corruptions=['blur', 'noise', 'blur']",
        &["data.corruptions must be", "each corruption once", "blur twice"],
    );
    set("concrete", "data.corruptions=['blur']", &["data.corruptions does not apply", "`concrete` is a table"]);
    set("stripes", "data.out_of_distribution=ringz", &["no data set is named `ringz`", "did you mean `rings`?"]);
    assert_eq!(std::fs::read_dir(here).unwrap().count(), 0, "nothing was written");
}

#[test]
fn missing_images_are_asked_for_by_file_and_source() {
    let folder = TempDir::new().unwrap();
    let phrases = ["train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "source: ", "--data-dir DIR", "KELVIN_DATA"];
    refuses(folder.path(), 1, &["run", "mnist-small"], &phrases);
    refuses(folder.path(), 1, &["run", "cifar10-small", "--data-dir", "none"], &["data_batch_1.bin", "not in none"]);
    let other = ["run", "stripes", "--set", "data.out_of_distribution=fashion-mnist"];
    refuses(folder.path(), 1, &other, &["fashion-mnist", "train-images-idx3-ubyte"]);
}

/// The data folder beside the repository, or `None`, said aloud.
fn shared_data(needed: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("KELVIN_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let folder = shared.join("data");
    if folder.join(needed).exists() {
        return Some(folder);
    }
    skipped(Need::Data, &format!("{} is missing; set KELVIN_SHARED", folder.join(needed).display()));
    None
}

#[test]
fn the_small_twins_run_on_the_real_images() {
    for (preset, needed) in [("mnist-small", "mnist"), ("cifar10-da-small", "cifar10")] {
        let Some(data) = shared_data(needed) else { continue };
        let folder = TempDir::new().unwrap();
        let data = data.display().to_string();
        let short = ["--set", "selection.epochs=1", "--set", "selection.checkpoints=1"];
        let mut arguments = vec!["run", preset, "--data-dir", &data, "--out", "run"];
        arguments.extend(TINY);
        arguments.extend(short);
        arguments.extend(["--set", "sampler.epochs=3", "--set", "run.chains=1"]);
        if preset.starts_with("cifar10") {
            arguments.extend(["--set", "selection.schedule=cosine"]);
        }
        let result: Value = serde_json::from_str(&succeeds(folder.path(), &arguments)).unwrap();
        assert_eq!(result["rows"].as_array().unwrap().len(), 3, "{preset}");
        assert!(folder.path().join("run/draws/chosen-1.safetensors").exists());
    }
}

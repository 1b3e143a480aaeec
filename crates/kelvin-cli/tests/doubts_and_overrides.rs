//! A diverging chain is said aloud and costs no other; `--set` is heard wherever it counts.

use std::path::Path;
use std::process::Command;

use crate::support;
use serde_json::Value;

fn kelvin(folder: &Path, arguments: &[&str]) -> std::process::Output {
    support::kelvin(folder, &[arguments, &support::SHORT[..], &["--quiet"]].concat())
}

#[test]
fn a_diverged_chain_is_reported_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        kelvin(folder.path(), &["run", "concrete", "--grid", "--json", "--set", "run.grid=[1e-12,1.0]", "--out", "r"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = result["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["warning"] == "chain_diverged"), "{warnings:?}");
    assert!(result["rows"].as_array().unwrap().iter().any(|row| row["method"] == "chosen"));
    assert!(folder.path().join("r/draws/chosen-1.safetensors").exists());
}

#[test]
fn a_setting_of_the_data_is_heard_before_the_data_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let preset = kelvin_presets(folder.path());
    std::fs::write(folder.path().join("mine.toml"), preset).unwrap();
    let mut rows = String::from("a,b,y\n");
    for i in 0..60 {
        rows.push_str(&format!("{},{},{}\n", i % 7, i % 5, i % 11));
    }
    std::fs::write(folder.path().join("t.csv"), rows).unwrap();
    let output = kelvin(
        folder.path(),
        &["run", "mine.toml", "--set", "data.source=t.csv", "--set", "data.target=b", "--out", "r"],
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let model: Value = serde_json::from_slice(&std::fs::read(folder.path().join("r/model.json")).unwrap()).unwrap();
    assert_eq!(model["target_name"], "b");

    let output = kelvin(folder.path(), &["run", "--data", "t.csv", "--target", "y", "--set", "data.target=b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("use --target, --drop, --column and --task"));
}

fn kelvin_presets(folder: &Path) -> Vec<u8> {
    Command::new(support::PROGRAM).current_dir(folder).args(["presets", "concrete"]).output().unwrap().stdout
}

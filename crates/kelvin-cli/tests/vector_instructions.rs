//! `KELVIN_VECTOR`: picks vector instructions, changes no file of a run, and is refused where the processor lacks them.

use std::path::Path;
use std::process::Output;

use crate::support::{self, command};
use kelvin::vector::Instructions;
use serde_json::Value;
use tempfile::TempDir;

fn kelvin(folder: &Path, instructions: &str, arguments: &[&str]) -> Output {
    command(folder, arguments).env("KELVIN_VECTOR", instructions).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A run of a few hundred steps in a folder of this name.
fn run(folder: &Path, preset: &str, instructions: &str) -> String {
    let mut arguments = vec!["run", preset, "--quick", "--quiet", "--device", "cpu", "--out", instructions];
    if preset == "concrete" {
        arguments.extend([
            "--set",
            "sampler.epochs=600",
            "--set",
            "sampler.burn_in=200",
            "--set",
            "sampler.ramp_start=50",
        ]);
        arguments.extend([
            "--set",
            "sampler.ramp_end=100",
            "--set",
            "sampler.cycle=100",
            "--set",
            "selection.epochs=400",
        ]);
    }
    let output = kelvin(folder, instructions, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    errors(&output)
}

#[test]
fn runs_are_the_same_files_whatever_the_width() {
    for preset in ["concrete", "stripes"] {
        let folder = TempDir::new().unwrap();
        let widths: Vec<&str> =
            Instructions::available().filter(|at| at.has_fused_multiply_add()).map(Instructions::name).collect();
        for width in &widths {
            run(folder.path(), preset, width);
            let provenance = std::fs::read(folder.path().join(width).join("provenance.json")).unwrap();
            let provenance: Value = serde_json::from_slice(&provenance).unwrap();
            assert_eq!(provenance["vector_instructions"], **width);
        }
        for files in ["draws", "predictions"] {
            let read = |width: &str| {
                let entries = std::fs::read_dir(folder.path().join(width).join(files)).unwrap();
                let mut found: Vec<_> = entries
                    .map(|entry| entry.unwrap().path())
                    .map(|path| (path.file_name().unwrap().to_owned(), std::fs::read(&path).unwrap()))
                    .collect();
                found.sort();
                assert!(!found.is_empty());
                found
            };
            for pair in widths.windows(2) {
                assert!(read(pair[0]) == read(pair[1]), "{preset}: {files} of {} and {} differ", pair[0], pair[1]);
            }
        }
        for pair in widths.windows(2) {
            // All columns but the times.
            let scores = |width: &str| -> Vec<Vec<String>> {
                let text = std::fs::read_to_string(folder.path().join(width).join("scores.csv")).unwrap();
                let lines: Vec<Vec<String>> =
                    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
                let is_time: Vec<bool> = lines[0].iter().map(|name| name.contains("seconds")).collect();
                let untimed = |line: &Vec<String>| {
                    line.iter().zip(&is_time).filter(|(_, is_time)| !**is_time).map(|(cell, _)| cell.clone()).collect()
                };
                lines.iter().map(untimed).collect()
            };
            assert_eq!(scores(pair[0]), scores(pair[1]), "{preset}");
        }
    }
}

#[test]
fn scalar_code_works_and_says_that_it_is_slow() {
    let folder = TempDir::new().unwrap();
    let said = {
        let arguments =
            ["bench", "8-64-1/824", "--device", "cpu", "--threads", "1", "--readings", "1", "--chains", "1"];
        let output = kelvin(folder.path(), "scalar", &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("scalar"));
        errors(&output)
    };
    assert_eq!(said.matches("ten times slower").count(), 1, "{said}");
    run(folder.path(), "concrete", "scalar");
}

#[test]
fn a_benchmark_names_its_instructions_and_warns_of_narrow_ones() {
    let folder = TempDir::new().unwrap();
    for instructions in Instructions::available() {
        let arguments = ["bench", "8-64-1/824", "--json", "--device", "cpu", "--threads", "1", "--readings", "1"];
        let output = kelvin(folder.path(), instructions.name(), &arguments);
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line["vector_instructions"], instructions.name());
        let warns = errors(&output).contains("warning: timed with");
        assert_eq!(warns, instructions != Instructions::widest(), "{}", errors(&output));
    }
}

#[test]
fn a_benchmark_takes_any_experiment() {
    let folder = TempDir::new().unwrap();
    let presets = support::kelvin(folder.path(), &["presets", "concrete"]);
    let toml = String::from_utf8(presets.stdout).unwrap().replace("hidden = [64]", "hidden = [12, 7]");
    std::fs::write(folder.path().join("mine.toml"), toml).unwrap();
    for (asked, case) in [("mine.toml", "concrete/824"), ("concrete", "concrete/824"), ("stripes", "stripes/64")] {
        let arguments = ["bench", asked, "--json", "--device=cpu", "--threads=1", "--readings=1", "--chains=1"];
        let output = kelvin(folder.path(), "", &arguments);
        let line: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
        assert_eq!(line["case"], case);
        assert!(line["us_per_chain_step"].as_f64().unwrap() > 0.0);
    }
    for asked in ["missing.toml", "no-such-case"] {
        let output = kelvin(folder.path(), "", &["bench", asked, "--device=cpu"]);
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        let message = errors(&output);
        assert!(message.contains(asked) && message.contains("30-128-128-3/128"), "{message}");
    }
}

#[test]
fn a_benchmark_of_images_needs_no_files() {
    let folder = TempDir::new().unwrap();
    let arguments = ["bench", "mnist-small", "--json", "--device=cpu", "--readings=1", "--chains=1", "--data-dir=."];
    let output = kelvin(folder.path(), "", &arguments);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
    assert_eq!(line["case"], "mnist-small/64");
    assert!(errors(&output).contains("no files of `mnist` here: timed on made-up images"), "{}", errors(&output));
    // A file that is there and is not the set's is no reason to make one up.
    std::fs::write(folder.path().join("train-images-idx3-ubyte"), [0; 16]).unwrap();
    for file in ["train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        std::fs::write(folder.path().join(file), [0; 8]).unwrap();
    }
    let output = kelvin(folder.path(), "", &arguments);
    assert!(
        !output.status.success() && errors(&output).contains("is not a file of the data set"),
        "{}",
        errors(&output)
    );
}

#[test]
fn what_the_processor_lacks_is_refused_before_anything_is_written() {
    let folder = TempDir::new().unwrap();
    let missing = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
    for (asked, says) in [(missing, "does not have"), ("avx1024", "names no vector instructions")] {
        let output = kelvin(folder.path(), asked, &["run", "concrete", "--quick", "--out", "r"]);
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        let message = errors(&output);
        assert!(message.contains(&format!("KELVIN_VECTOR={asked}")) && message.contains(says), "{message}");
        assert!(message.contains("this processor has: "), "{message}");
    }
    assert!(!folder.path().join("r").exists());
}

/// A fused multiply-add that the hardware lacks is a call of the C library: none may be linked.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn no_multiply_add_is_a_library_call() {
    let program = std::fs::read(support::PROGRAM).unwrap();
    for name in [&b"\0fmaf\0"[..], b"\0fma\0"] {
        let is_linked = program.windows(name.len()).any(|bytes| bytes == name);
        assert!(!is_linked, "{} is linked", String::from_utf8_lossy(name));
    }
    assert!(program.windows(5).any(|bytes| bytes == b"\0exp\0"), "imported functions are named in the program");
}

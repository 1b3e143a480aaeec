//! Long runs as a person sees them: killed, stopped, taken up again, watched by two, fed with other data.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kelvin::vector::Instructions;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{PROGRAM, command as kelvin};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    kelvin(folder, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{}", said(&output));
    said(&output)
}

fn refuses(folder: &Path, arguments: &[&str], phrases: &[&str]) {
    let output = run(folder, arguments);
    let message = said(&output);
    assert_eq!(output.status.code(), Some(1), "kelvin {arguments:?}\n{message}");
    for phrase in phrases {
        assert!(message.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{message}");
    }
}

/// Two short chains at each temperature; checkpoints as often as can be.
const SHORT: [&str; 9] = [
    "--quick",
    "--quiet",
    "--threads",
    "2",
    "--set",
    "selection.epochs=6000",
    "--set",
    "run.checkpoint_seconds=0.005",
    "--set=selection.learning_rate=2e-5",
];

/// The same in chains that take minutes: to be stopped.
const ENDLESS: [&str; 4] = ["--set", "sampler.epochs=4000000", "--set", "sampler.cycle=2000"];

fn with<'a>(first: &[&'a str], parts: &[&[&'a str]]) -> Vec<&'a str> {
    first.iter().chain(parts.iter().copied().flatten()).copied().collect()
}

/// The cells of a line of CSV; commas between quotes are no separators.
pub fn cells(line: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    line.split(move |character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    })
}

/// Every file of a run that a person may read, without the times and the folder's own name.
fn results(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for inner in ["", "draws", "figures", "predictions"] {
        for entry in std::fs::read_dir(folder.join(inner)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                assert!(!name.contains(".part"), "{name} was left behind");
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    // Times of chains are in a column, and in the report's table.
    if let Some(metrics) = found.get_mut("scores.csv") {
        let text = String::from_utf8(std::mem::take(metrics)).unwrap();
        let seconds = cells(text.lines().next().unwrap()).position(|name| name == "seconds").unwrap();
        let without = |line: &str| {
            let kept = cells(line).enumerate().filter(|(column, _)| *column != seconds);
            kept.map(|(_, cell)| cell.to_owned()).collect::<Vec<_>>().join(",") + "\n"
        };
        *metrics = text.lines().map(without).collect::<String>().into_bytes();
    }
    if let Some(results) = found.get_mut("results.json") {
        let mut value: Value = serde_json::from_slice(results).unwrap();
        for part in ["searches", "rows", "chains"] {
            value[part].as_array_mut().unwrap().iter_mut().for_each(|entry| entry["seconds"] = Value::Null);
        }
        *results = serde_json::to_vec(&value).unwrap();
    }
    let of_the_moment = |name: &str| name.contains("wall_clock");
    found.retain(|name, _| !["report.html", "hashes.json"].contains(&name.as_str()) && !of_the_moment(name));
    // The command line is told apart.
    if let Some(provenance) = found.get_mut("provenance.json") {
        let mut value: Value = serde_json::from_slice(provenance).unwrap();
        value["command"] = Value::Null;
        *provenance = serde_json::to_vec(&value).unwrap();
    }
    found
}

fn assert_same_results(found: &Path, expected: &Path) {
    let (found, expected) = (results(found), results(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{name} differs");
    }
}

/// Numbers that look random and are always the same.
fn scattered(index: u64, most: u64) -> u64 {
    (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) % most
}

/// Starts kelvin and kills it after so many milliseconds, as `kill -9` would; whether it had ended before.
fn killed_after(folder: &Path, arguments: &[&str], milliseconds: u64) -> bool {
    let mut child = kelvin(folder, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    killed(&mut child, milliseconds)
}

fn killed(child: &mut Child, milliseconds: u64) -> bool {
    std::thread::sleep(Duration::from_millis(milliseconds));
    let had_ended = child.try_wait().unwrap().is_some_and(|status| status.success());
    child.kill().unwrap();
    child.wait().unwrap();
    had_ended
}

/// Also where it goes on with vectors of another width each time.
#[test]
fn a_run_that_is_killed_again_and_again_ends_as_if_left_alone() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    succeeds(here, &with(&["run", "concrete", "--out", "alone"], &[&SHORT]));
    let arguments = with(&["run", "concrete", "--out", "killed"], &[&SHORT]);
    let resume = ["resume", "killed", "--quiet", "--threads", "2"];
    let mut widths: Vec<Instructions> = Instructions::available().filter(|at| at.has_fused_multiply_add()).collect();
    if widths.is_empty() {
        widths.push(Instructions::Scalar);
    }
    for attempt in 0..12 {
        let begun = here.join("killed/checkpoints/run.json").exists();
        // Both ways to go on.
        let arguments = if begun && attempt % 2 == 1 { &resume[..] } else { &arguments[..] };
        let mut command = kelvin(here, arguments);
        command.env("KELVIN_VECTOR", widths[attempt as usize % widths.len()].name());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if killed(&mut child, 20 + scattered(attempt, 350)) {
            break;
        }
    }
    succeeds(here, &resume);
    // Where it went on is part of its provenance.
    let path = here.join("killed/provenance.json");
    let mut provenance: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    provenance.as_object_mut().unwrap().remove("continued");
    std::fs::write(&path, serde_json::to_vec(&provenance).unwrap()).unwrap();
    let alone: Value = serde_json::from_slice(&std::fs::read(here.join("alone/provenance.json")).unwrap()).unwrap();
    assert_eq!(provenance["vector_instructions"], alone["vector_instructions"]);
    assert_same_results(&here.join("killed"), &here.join("alone"));
    let left: Vec<_> = std::fs::read_dir(here.join("killed/checkpoints")).unwrap().collect();
    assert!(left.len() <= 6, "{left:?}");
}

#[test]
fn a_sweep_and_a_table_of_one_s_own_go_on_as_well() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let mut csv = String::from("a,b,y\n");
    for i in 0..120_u64 {
        let (a, b) = (scattered(i, 1000) as f64 / 500.0, scattered(i + 777, 1000) as f64 / 500.0);
        csv.push_str(&format!("{a},{b},{}\n", 3.0 * a - b * b + scattered(i + 99, 100) as f64 / 200.0));
    }
    std::fs::write(here.join("mine.csv"), &csv).unwrap();
    let own = ["run", "--data", "mine.csv", "--target", "y", "--quick", "--quiet", "--set=run.checkpoint_seconds=0.01"];
    let sampled = ["--set=run.grid=[0.3, 1.0]", "--set=run.sampled_repetitions=2"];
    let sweep = with(&["sweep", "concrete", "--repetitions", "3"], &[&SHORT, &sampled]);
    for (command, name) in [(&own[..], "own"), (&sweep[..], "sweep")] {
        let alone = format!("{name}-alone");
        succeeds(here, &with(command, &[&["--out", &alone]]));
        for attempt in 0..4 {
            if killed_after(here, &with(command, &[&["--out", name]]), 150 + scattered(attempt + 50, 700)) {
                break;
            }
        }
        if here.join(name).join("checkpoints/run.json").exists() {
            succeeds(here, &["resume", name, "--quiet"]);
        } else {
            succeeds(here, &with(command, &[&["--out", name]]));
        }
        assert_same_results(&here.join(name), &here.join(&alone));
    }

    // Other data are refused, also by a folder that is finished.
    std::fs::write(here.join("mine.csv"), csv.replace("a,b,y\n", "a,b,y\n0.5,0.5,1.25\n")).unwrap();
    refuses(here, &["resume", "own"], &["the data have changed since the run in own began", "SHA-256", "--out"]);
    std::fs::remove_file(here.join("mine.csv")).unwrap();
    refuses(here, &["resume", "own"], &["mine.csv"]);
}

/// Waits until a checkpoint of the sampling stage is there.
fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "{} did not come", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process writes a run.
fn wait_for_lock(run: &Path, child: &Child) {
    let began = Instant::now();
    let owner = format!("process {} on", child.id());
    while !std::fs::read_to_string(run.join("checkpoints/lock")).is_ok_and(|text| text.contains(&owner)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{} was not taken", run.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[cfg(unix)]
#[test]
fn stopping_says_how_to_go_on_and_a_second_writer_is_refused() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let arguments = with(&["run", "concrete", "--out", "long"], &[&SHORT, &ENDLESS]);
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let child = kelvin(here, &arguments).spawn().unwrap();
        wait_for_lock(&here.join("long"), &child);
        wait_for(&here.join("long/checkpoints/sampling.checkpoint"));
        refuses(here, &arguments, &["long is being written by process", &child.id().to_string(), " on "]);
        refuses(here, &["resume", "long"], &["long is being written by process"]);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(output.stdout.is_empty());
        assert!(said(&output).contains("stopped; what was done is kept\n  go on with `kelvin resume long`"));
    }
    refuses(here, &["predict", "long", "--input", "x.csv"], &["stopped before the end", "kelvin resume long"]);

    // It goes on from there, with its own settings only.
    let other = with(&arguments, &[&["--set", "sampler.momentum=0.9", "--seed", "7"]]);
    let shown =
        ["long holds a run with other settings", "run.seed: 0 there, 7 now", "sampler.momentum: 0.98 there, 0.9 now"];
    refuses(here, &other, &[&shown[..], &["kelvin resume long"]].concat());
    refuses(here, &with(&arguments, &[&["--grid"]]), &["the command: run there, run --grid now"]);
    let settings = here.join("long/experiment.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("momentum = 0.98", "momentum = 0.9")).unwrap();
    refuses(here, &["resume", "long"], &["experiment.toml was changed", "sampler.momentum: 0.98 there, 0.9 now"]);
    std::fs::write(&settings, text).unwrap();

    // A lock that a killed process left behind is taken, and a damaged checkpoint is said and made good.
    std::fs::write(here.join("long/checkpoints/lock"), "process 1 on a-machine-that-is-gone\n").unwrap();
    let checkpoint = here.join("long/checkpoints/sampling.checkpoint");
    let mut bytes = std::fs::read(&checkpoint).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&checkpoint, bytes).unwrap();
    let child = kelvin(here, &["resume", "long", "--quiet"]).spawn().unwrap();
    wait_for_lock(&here.join("long"), &child);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(
        said(&output).contains("note: the checkpoint long/checkpoints/sampling.checkpoint is damaged"),
        "{}",
        said(&output)
    );

    // To begin anew is a word of one's own.
    let output = {
        let child = kelvin(here, &with(&other, &[&["--fresh"]])).spawn().unwrap();
        wait_for_lock(&here.join("long"), &child);
        wait_for(&checkpoint);
        signal(&child, "TERM");
        child.wait_with_output().unwrap()
    };
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
}

#[test]
fn what_is_no_run_is_not_gone_on_with() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("other")).unwrap();
    std::fs::write(here.join("other/letter.txt"), "mine").unwrap();
    refuses(here, &["resume", "other"], &["other is no run folder of kelvin"]);
    refuses(here, &["resume", "nowhere"], &["there is no folder nowhere"]);
    refuses(here, &with(&["run", "concrete", "--out", "other", "--fresh"], &[&SHORT]), &["no run of kelvin"]);
    assert_eq!(std::fs::read_dir(here.join("other")).unwrap().count(), 1);
    std::fs::create_dir_all(here.join("new/checkpoints")).unwrap();
    std::fs::write(here.join("new/checkpoints/run.json"), r#"{"format": 77}"#).unwrap();
    refuses(here, &["resume", "new"], &["format 77", "this kelvin knows 2"]);
}

#[cfg(unix)]
#[test]
fn folders_and_disks_that_take_nothing_are_named() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    refuses(
        here,
        &with(&["run", "concrete", "--out", "/proc/kelvin"], &[&SHORT]),
        &["cannot create the folder /proc/kelvin"],
    );
    // As good as a full disk: no file may grow beyond some blocks.
    let arguments = with(&["run", "concrete", "--out", "full"], &[&SHORT]).join(" ");
    let script = format!("trap '' XFSZ; ulimit -f 64; exec {PROGRAM} {arguments}");
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(here).env("KELVIN_DEVICE", "cpu").output().unwrap();
    let message = said(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("`kelvin resume full` goes on from there") && message.contains("cannot write"),
        "{message}"
    );
    succeeds(here, &["resume", "full", "--quiet"]);
    succeeds(here, &with(&["run", "concrete", "--out", "alone"], &[&SHORT]));
    assert_same_results(&here.join("full"), &here.join("alone"));
}

#[cfg(unix)]
#[test]
fn readers_that_go_away_are_no_failure() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let arguments = with(&["run", "concrete", "--out", "run"], &[&SHORT]).join(" ");
    for end in ["| head -n 1", "2>&1 | head -n 1", "2>&- | head -n 1"] {
        let script = format!("set -o pipefail; {PROGRAM} {arguments} {end}");
        let output =
            Command::new("bash").args(["-c", &script]).current_dir(here).env("KELVIN_DEVICE", "cpu").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{end}: {}", said(&output));
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
    }
    assert!(here.join("run/report.html").exists());
}

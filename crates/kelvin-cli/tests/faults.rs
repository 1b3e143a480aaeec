//! Faults from outside: disks and pipes that take nothing, files of other versions, numbers that are none, clocks, columns.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::{Need, PROGRAM, command as kelvin, skipped};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(folder: &Path, arguments: &[&str]) -> Output {
    let output = kelvin(folder, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{}", said(&output));
    output
}

fn refuses(folder: &Path, code: i32, arguments: &[&str], phrases: &[&str]) {
    let output = kelvin(folder, arguments).output().unwrap();
    is_refusal(&output, code, phrases);
}

fn is_refusal(output: &Output, code: i32, phrases: &[&str]) {
    let message = said(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    for phrase in phrases {
        assert!(message.contains(phrase), "no `{phrase}` in\n{message}");
    }
}

/// A line of the shell, with the binary as `$kelvin`.
fn shell(folder: &Path, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -o pipefail; {line}")]).current_dir(folder);
    command.env("kelvin", PROGRAM).env("KELVIN_DEVICE", "cpu").output().unwrap()
}

/// Few epochs: these tests are about what is said, not about the numbers.
const SHORT: [&str; 7] = [
    "--quick",
    "--threads=2",
    "--set=selection.epochs=40",
    "--set=sampler.ramp_start=5",
    "--set=sampler.ramp_end=10",
    "--set=sampler.burn_in=20",
    "--set=sampler.cycle=5",
];
const END: &str = "--set=sampler.epochs=60";

fn with<'a>(first: &[&'a str], parts: &[&[&'a str]]) -> Vec<&'a str> {
    first.iter().chain(parts.iter().copied().flatten()).copied().collect()
}

/// A run of a small table, and the table.
fn small_run(here: &Path) -> Vec<&'static str> {
    let mut csv = String::from("a,b,y\n");
    for i in 0..80_u32 {
        writeln!(csv, "{},{},{}", i * 7 % 13, i * i % 17, f64::from(i * 7 % 13) * 1.5 + f64::from(i % 5) * 0.1)
            .unwrap();
    }
    std::fs::write(here.join("t.csv"), csv).unwrap();
    let run = with(&["run", "--data", "t.csv", "--target", "y", "--out", "run"], &[&SHORT, &[END]]);
    succeeds(here, &run);
    run
}

/// Stops a run that would take minutes once it has stored its chains and some draws.
#[cfg(unix)]
fn stopped_run(here: &Path, name: &str) {
    let endless = ["--quiet", "--set=run.checkpoint_seconds=0.005", "--set=sampler.epochs=4000000"];
    let mut child = kelvin(here, &with(&["run", "concrete", "--out", name], &[&SHORT, &endless])).spawn().unwrap();
    let began = Instant::now();
    let has_draws = || {
        let entries = std::fs::read_dir(here.join(name).join("checkpoints")).into_iter().flatten().flatten();
        let large = |path: PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() > 4000);
        entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|end| end == "draws") && large(path))
    };
    while !has_draws() || !here.join(name).join("checkpoints/sampling.checkpoint").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint came");
        std::thread::sleep(Duration::from_millis(10));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[cfg(unix)]
#[test]
fn files_of_other_versions_are_told_from_damage() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    stopped_run(here, "run");
    let checkpoint = here.join("run/checkpoints/sampling.checkpoint");
    let whole = std::fs::read(&checkpoint).unwrap();
    let mut other = whole.clone();
    other[8] = 99;
    let end = other.len() - 32;
    let hash = Sha256::digest(&other[..end]);
    other[end..].copy_from_slice(&hash);
    std::fs::write(&checkpoint, other).unwrap();
    let phrases = ["sampling.checkpoint has format 99, and this kelvin knows ", "--fresh"];
    refuses(here, 1, &["resume", "run", "--quiet"], &phrases);
    std::fs::write(&checkpoint, whole).unwrap();

    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "draws");
    let logs: Vec<PathBuf> =
        std::fs::read_dir(here.join("run/checkpoints")).unwrap().map(|e| e.unwrap().path()).collect();
    for log in logs.iter().filter(|path| is_log(path)) {
        let mut bytes = std::fs::read(log).unwrap();
        bytes[8] = 99;
        std::fs::write(log, bytes).unwrap();
    }
    refuses(
        here,
        1,
        &["resume", "run", "--quiet"],
        &[".draws has format 99, and this kelvin knows ", "the kelvin that wrote"],
    );
}

#[test]
fn numbers_that_are_none_are_told_by_line_and_column() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    small_run(here);
    let predicted = |cell: &str, phrases: &[&str]| {
        std::fs::write(here.join("new.csv"), format!("b,a\n1,2\n3,{cell}\n")).unwrap();
        refuses(here, 1, &["predict", "run", "--input", "new.csv"], phrases);
    };
    predicted("red", &["new.csv, line 3, column `a`: `red` is not a number"]);
    predicted("inf", &["new.csv, line 3, column `a`: `inf` is not a finite number"]);
    predicted("1e999", &["new.csv, line 3, column `a`: `1e999` is not a finite number"]);
    predicted("1e300", &["new.csv, row 2 below the header, column `a`: 1e300 is too far from the training rows"]);

    let table = std::fs::read_to_string(here.join("t.csv")).unwrap();
    for cell in ["1e999", "-inf", "1.5.2"] {
        std::fs::write(here.join("bad.csv"), table.replacen("a,b,y\n", &format!("a,b,y\n1,2,{cell}\n"), 1)).unwrap();
        let run = ["run", "--data", "bad.csv", "--target", "y", "--out", "bad"];
        refuses(here, 1, &run, &["bad.csv, line 2, column `y`: ", cell]);
        assert!(!here.join("bad").exists());
    }
}

#[test]
fn a_chain_that_diverges_costs_a_sweep_no_other() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let sweep = ["sweep", "concrete", "--repetitions", "2", "--json", "--set=run.grid=[1e-12, 1.0]", "--out", "sweep"];
    let output = succeeds(here, &with(&sweep, &[&SHORT, &[END]]));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let diverged = |warning: &&Value| warning["warning"] == "chain_diverged";
    let warnings = result["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| diverged(&warning)), "{warnings:?}");
    let written: Value = serde_json::from_slice(&std::fs::read(here.join("sweep/warnings.json")).unwrap()).unwrap();
    assert_eq!(written, result["warnings"]);
    let rows = result["rows"].as_array().unwrap();
    for (method, beta, count) in [("sgd", None, 2), ("chosen", None, 2), ("grid", Some(1.0), 2)] {
        let is_one = |row: &&Value| row["method"] == method && beta.is_none_or(|beta| row["beta"] == beta);
        let found: Vec<&Value> = rows.iter().filter(is_one).collect();
        assert_eq!(found.len(), count, "{method}: {rows:?}");
        assert!(found.iter().all(|row| row["test"].is_object() && row["validation"].is_object()), "{found:?}");
    }
    assert!(here.join("sweep/report.html").exists() && here.join("sweep/summary.csv").exists());
}

#[cfg(unix)]
#[test]
fn results_that_nobody_takes_are_no_panic() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    small_run(here);
    let mut many = String::from("a,b\n");
    (0..1500).for_each(|row| writeln!(many, "{},{}", row % 13, row % 7).unwrap());
    std::fs::write(here.join("many.csv"), many).unwrap();
    for command in
        ["presets", "presets concrete", "data", "predict run --input many.csv", "predict run --input many.csv --json"]
    {
        let output = shell(here, &format!("$kelvin {command} | head -n 1"));
        assert_eq!(output.status.code(), Some(0), "{command}: {}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "{command}");
        // Which model predicts is said beside the predictions.
        assert!(
            said(&output).is_empty() || said(&output).starts_with("predicting with "),
            "{command}: {}",
            said(&output)
        );
        let output = shell(here, &format!("$kelvin {command} >&-"));
        assert!(!said(&output).contains("panicked"), "{command}: {}", said(&output));
    }
    if Path::new("/dev/full").exists() {
        for command in ["presets", "predict run --input many.csv"] {
            is_refusal(&shell(here, &format!("$kelvin {command} > /dev/full")), 1, &["No space left"]);
        }
        let output = ["predict", "run", "--input", "many.csv", "--output", "/dev/full"];
        refuses(here, 1, &output, &["cannot write /dev/full", "No space left"]);
    }
    // What is no file is written to and stays what it is.
    let output = shell(here, "$kelvin predict run --input many.csv --output >(wc -l > lines); sleep 1; cat lines");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1501", "{}", said(&output));
}

#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_at_any_moment_leaves_a_run_that_goes_on() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let run = |name: &str| with(&["run", "concrete", "--quiet", "--out"], &[&[name], &SHORT, &[END]]).join(" ");
    assert!(shell(here, &format!("$kelvin {}", run("alone"))).status.success());
    // In blocks of 1 KiB: from where not even settings can be written to where only a figure cannot.
    for blocks in [0, 1, 4, 16, 32, 128] {
        let output = shell(here, &format!("trap '' XFSZ; ulimit -f {blocks}; $kelvin {}", run("full")));
        is_refusal(&output, 1, &["cannot write", "full"]);
        let left = shell(here, "find full -name '*.part'");
        assert!(left.stdout.is_empty(), "{blocks}: {}", String::from_utf8_lossy(&left.stdout));
    }
    assert!(shell(here, &format!("$kelvin {}", run("full"))).status.success());
    for name in ["draws/chosen-1.safetensors", "model.json", "figures/predictions.png"] {
        let read = |run: &str| std::fs::read(here.join(run).join(name)).unwrap();
        assert!(read("full") == read("alone"), "{name} differs");
    }
}

/// Also where the user may write everywhere: then kelvin is run as one who may not.
#[cfg(unix)]
#[test]
fn folders_that_may_not_be_written_to_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let allow = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    small_run(here);
    let closed = here.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::copy(PROGRAM, here.join("kelvin")).unwrap();
    [here.to_owned(), here.join("kelvin")].iter().for_each(|path| allow(path, 0o755));
    for path in ["closed", "run", "run/checkpoints", "run/draws"] {
        allow(&here.join(path), 0o555);
    }
    let may_write = std::fs::write(closed.join("probe"), "").is_ok();
    let nobody = if may_write { "setpriv --reuid=65534 --regid=65534 --clear-groups " } else { "" };
    if may_write && !shell(here, &format!("{nobody} true")).status.success() {
        skipped(Need::PlainUser, "this user may write to read-only folders, and there is no setpriv to become another");
        return;
    }
    let attempt = |arguments: &str| shell(here, &format!("{nobody}./kelvin {arguments}"));
    let run = with(&["run", "concrete", "--quiet", "--out", "closed/run"], &[&SHORT, &[END]]).join(" ");
    is_refusal(&attempt(&run), 1, &["cannot create the folder closed/run", "ermission denied"]);
    is_refusal(&attempt("resume run --quiet"), 1, &["cannot write run/checkpoints/lock", "ermission denied"]);
    is_refusal(&attempt("predict run --input t.csv --output closed/p.csv"), 1, &["cannot write closed/p.csv"]);
    for path in ["closed", "run", "run/checkpoints", "run/draws"] {
        allow(&here.join(path), 0o755);
    }
}

/// Nothing asks what time it is: durations come from a clock that only goes forward.
#[test]
fn no_clock_can_go_backwards() {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut sources = Vec::new();
    ["kelvin", "kelvin-cli", "kelvin-cuda"]
        .iter()
        .for_each(|name| walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut sources));
    assert!(sources.len() > 100, "{}", sources.len());
    for path in sources.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = std::fs::read_to_string(path).unwrap();
        for word in ["SystemTime", "UNIX_EPOCH", ".modified()", "chrono::"] {
            assert!(!text.contains(word), "{} asks for the time by {word}", path.display());
        }
    }
}

#[test]
fn files_from_the_future_are_files() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let run = small_run(here);
    let times = [std::time::UNIX_EPOCH, std::time::SystemTime::now() + Duration::from_secs(1 << 32)];
    for (name, time) in ["checkpoints/run.json", "checkpoints/sampling.checkpoint"].iter().zip(times) {
        let path = here.join("run").join(name);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    succeeds(here, &["resume", "run", "--quiet"]);
    succeeds(here, &run);
}

#[test]
fn where_no_terminal_listens_lines_are_plain() {
    let folder = TempDir::new().unwrap();
    let run = with(&["run", "concrete", "--out", "run"], &[&SHORT, &[END]]);
    let output = kelvin(folder.path(), &run).env("TERM", "xterm-256color").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for bytes in [&output.stdout, &output.stderr] {
        assert!(!bytes.iter().any(|byte| [0x1B, b'\r', 0x08].contains(byte)), "{}", String::from_utf8_lossy(bytes));
    }
    let refused = kelvin(folder.path(), &["run", "concrete", "--quik"]).env("TERM", "xterm-256color").output().unwrap();
    assert!(!refused.stderr.contains(&0x1B), "{}", said(&refused));
}

#[test]
fn columns_and_task_of_a_known_table_are_heard() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let run = |set: &'static str| with(&["run", "concrete", "--quiet", "--out", "run", set], &[&SHORT, &[END]]);
    succeeds(here, &run("--set=data.drop=['age', 'water']"));
    let model: Value = serde_json::from_slice(&std::fs::read(here.join("run/model.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        model["feature_names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.len() == 6 && !names.contains(&"age") && !names.contains(&"water"), "{names:?}");
    refuses(
        here,
        1,
        &run("--set=data.drop=['agee']"),
        &["column `agee` is not in concrete.csv", "did you mean `age`?"],
    );
    refuses(here, 1, &run("--set=data.task=classification"), &["`compressive_strength` has", "classes in 1030 rows"]);
    refuses(here, 2, &run("--set=data.drop="), &["`data.drop=` gives no value", "remove its line"]);
}

#[test]
fn settings_that_make_no_sense_are_told_by_file_and_line() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let preset = String::from_utf8(succeeds(here, &["presets", "concrete"]).stdout).unwrap();
    let refused = |text: &[u8], phrases: &[&str]| {
        std::fs::write(here.join("mine.toml"), text).unwrap();
        refuses(here, 2, &["run", "mine.toml"], phrases);
    };
    let line = 1 + preset.lines().position(|line| line.starts_with("burn_in")).unwrap();
    let late = preset.replace("burn_in = ", "burn_in = 99999");
    refused(late.as_bytes(), &[&format!("mine.toml, line {line}: sampler.burn_in must be at most")]);
    let unknown = preset.replace("burn_in = ", "burnin = ");
    refused(unknown.as_bytes(), &["mine.toml", &format!("line {line}, column 1"), "burnin"]);
    refused(&[preset.as_bytes(), b"# caf\xE9\n"].concat(), &["mine.toml, line", "this is not UTF-8 text"]);
    assert_eq!(std::fs::read_dir(here).unwrap().count(), 1, "nothing else was written");
}

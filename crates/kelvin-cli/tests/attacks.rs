//! Attacks that once worked, kept so that they do not work again: links in a stranger's folder, folders that only look like runs, changed
//! digits, removed hashes, files left half written, folders that disappear.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::{PROGRAM, SHORT, command, kelvin};

/// The number of a process that is gone.
pub const GONE: &str = "4194399";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn succeeds(here: &Path, arguments: &[&str]) -> String {
    let output = kelvin(here, arguments);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn refuses(here: &Path, arguments: &[&str], phrases: &[&str]) {
    is_refusal(&kelvin(here, arguments), arguments, phrases);
}

fn is_refusal(output: &Output, arguments: &[&str], phrases: &[&str]) {
    let message = said(output);
    assert_eq!(output.status.code(), Some(1), "kelvin {arguments:?}\n{message}");
    for phrase in phrases {
        assert!(message.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{message}");
    }
}

/// A run of a table of one's own, whose step size a pilot finds.
fn run_arguments<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--data", "t.csv", "--target", "y", "--quiet", "--threads=2", "--out", out], &SHORT[..], more].concat()
}

fn table(here: &Path) {
    let mut csv = String::from("a,b,y\n");
    for i in 0..80_u32 {
        writeln!(csv, "{},{},{}", i * 7 % 13, i * i % 17, f64::from(i * 7 % 13) * 1.5 + f64::from(i % 5) * 0.1)
            .unwrap();
    }
    std::fs::write(here.join("t.csv"), csv).unwrap();
}

fn finished_run(here: &Path) {
    table(here);
    succeeds(here, &run_arguments("run", &[]));
}

/// Everything in a folder by its path: contents of files, targets of links, folders.
pub fn everything(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let kind = path.symlink_metadata().unwrap();
            if kind.is_symlink() {
                found.insert(name, path.read_link().unwrap().to_string_lossy().into_owned().into_bytes());
            } else if kind.is_dir() {
                walk(root, &path, found);
                found.insert(name + "/", Vec::new());
            } else {
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

pub fn assert_unchanged(folder: &Path, before: &BTreeMap<String, Vec<u8>>, after: &str) {
    let now = everything(folder);
    let changed: Vec<&String> =
        before.keys().chain(now.keys()).filter(|name| before.get(*name) != now.get(*name)).collect();
    assert!(changed.is_empty(), "{after} changed {changed:?} of {}", folder.display());
}

#[cfg(unix)]
#[test]
fn a_stranger_s_folder_reaches_nothing_outside_itself() {
    use std::os::unix::fs::symlink;
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    let (run, victim) = (here.join("run"), here.join("victim"));
    std::fs::create_dir(&victim).unwrap();
    for name in ["letter.txt", "chosen-1.safetensors", "run.json", "run.json.1.part"] {
        std::fs::write(victim.join(name), "mine").unwrap();
    }
    let fresh = run_arguments("run", &["--fresh"]);
    let again = run_arguments("run", &[]);
    let sweep: Vec<&str> = [&["sweep", "concrete", "--out", "run", "--fresh", "--quiet"], &SHORT[..]].concat();
    let commands: [&[&str]; 14] = [
        &fresh,
        &again,
        &sweep,
        &["resume", "run", "--quiet"],
        &["report", "run"],
        &["export", "run", "--format", "csv"],
        &["export", "run", "--format", "arviz"],
        &["export", "run", "--format", "tensorboard"],
        &["verify", "run"],
        &["predict", "run", "--input", "t.csv", "--output", "p.csv"],
        &["status", "run"],
        &["watch", "run"],
        &["diagnose", "run"],
        &["merge", "run", "--quiet"],
    ];
    for (link, target) in [
        ("draws", "victim"),
        ("checkpoints", "victim"),
        ("figures", "victim"),
        ("exports", "victim"),
        ("draws/chosen-1.safetensors", "victim/letter.txt"),
        ("figures/x.svg", "victim/letter.txt"),
        ("report.html", "victim/letter.txt"),
        ("checkpoints/lock", "victim/letter.txt"),
        ("checkpoints/x.part", "victim/letter.txt"),
        ("checkpoints/chain-1.draws", "nowhere"),
        ("provenance.json", "nowhere"),
    ] {
        let (place, aside) = (run.join(link), here.join("aside"));
        let was_there = std::fs::rename(&place, &aside).is_ok();
        symlink(here.join(target), &place).unwrap();
        let before = everything(here);
        for arguments in commands {
            let named = format!("run/{link} is a link to ");
            refuses(here, arguments, &[&named, target, "nothing was changed"]);
            assert_unchanged(here, &before, &format!("{link} → {target}: kelvin {arguments:?}"));
        }
        std::fs::remove_file(&place).unwrap();
        if was_there {
            std::fs::rename(&aside, &place).unwrap();
        }
    }
    // A second name of a file that is written in place is as good as a link.
    std::fs::remove_file(run.join("checkpoints/lock")).unwrap();
    std::fs::hard_link(victim.join("letter.txt"), run.join("checkpoints/lock")).unwrap();
    refuses(here, &["resume", "run", "--quiet"], &["run/checkpoints/lock is a file with another name elsewhere"]);
    assert_eq!(std::fs::read(victim.join("letter.txt")).unwrap(), b"mine");
    std::fs::remove_file(run.join("checkpoints/lock")).unwrap();

    // The folder itself may be reached through a link of the user's own.
    symlink("run", here.join("mine")).unwrap();
    for arguments in [&["resume", "mine", "--quiet"][..], &["report", "mine"], &["verify", "mine"]] {
        succeeds(here, arguments);
    }
    succeeds(here, &["export", "mine", "--format", "csv"]);
    succeeds(here, &run_arguments("mine", &["--fresh"]));
}

#[test]
fn a_run_is_known_by_its_record_and_nothing_else_is_written_over() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    let refused = |name: &'static str, phrases: &[&str]| {
        let before = everything(&here.join(name));
        for more in [&[][..], &["--fresh"]] {
            refuses(here, &run_arguments(name, more), &[phrases, &["nothing was changed"]].concat());
            assert_unchanged(&here.join(name), &before, "kelvin run");
        }
    };
    // Files of the same names are anybody's.
    for (name, file) in [("a", "provenance.json"), ("b", "experiment.toml"), ("c", "draws/mine.safetensors")] {
        std::fs::create_dir_all(here.join(name).join(file).parent().unwrap()).unwrap();
        std::fs::write(here.join(name).join(file), "{}").unwrap();
        refused(
            name,
            &[&format!("{name} holds files that are no run of kelvin ({file})"), "checkpoints/run.json", "--out"],
        );
    }
    std::fs::create_dir_all(here.join("d/checkpoints")).unwrap();
    std::fs::write(here.join("d/checkpoints/lock"), "").unwrap();
    std::fs::write(here.join("d/letter.txt"), "mine").unwrap();
    refused("d", &["d holds files that are no run of kelvin (letter.txt)"]);
    for (name, contents) in [("e", "{}"), ("f", "mine"), ("g", r#"{"format": 77}"#), ("h", r#"{"format": 2}"#)] {
        std::fs::create_dir_all(here.join(name).join("checkpoints")).unwrap();
        std::fs::write(here.join(name).join("checkpoints/run.json"), contents).unwrap();
        refused(name, &["checkpoints/run.json"]);
    }
    let record = here.join("run/checkpoints/run.json");
    let whole = std::fs::read(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    refused("run", &["run holds files that are no run of kelvin ("]);
    std::fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    refused("run", &["run/checkpoints/run.json is damaged"]);
    std::fs::write(&record, whole).unwrap();
    succeeds(here, &run_arguments("run", &["--fresh"]));

    // Killed in its first moments: only our own empty folders, a lock, and a part of the record.
    for inner in ["draws", "figures", "predictions", "checkpoints"] {
        std::fs::create_dir_all(here.join("begun").join(inner)).unwrap();
    }
    std::fs::write(here.join("begun/checkpoints/lock"), "process 4194399 on a-machine-that-is-gone\n").unwrap();
    std::fs::write(here.join("begun/checkpoints/run.json.4194399.part"), "{").unwrap();
    succeeds(here, &run_arguments("begun", &[]));
    assert!(!here.join("begun/checkpoints/run.json.4194399.part").exists());
}

fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "it did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Chains that take minutes, with a checkpoint of them.
fn endless_run(here: &Path, out: &str) -> Child {
    let endless = ["--set=run.checkpoint_seconds=0.005", "--set=sampler.epochs=4000000"];
    let child = command(here, &run_arguments(out, &endless)).spawn().unwrap();
    wait_until(|| here.join(out).join("checkpoints/sampling.checkpoint").exists());
    child
}

#[cfg(unix)]
fn signalled(child: Child, name: &str) -> Output {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    child.wait_with_output().unwrap()
}

/// The text of a record, after a change, with the checksum that it should then have.
fn sealed(text: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut record: Value = serde_json::from_str(text).unwrap();
    record.as_object_mut().unwrap().shift_remove("sha256");
    change(&mut record);
    let hash = Sha256::digest(serde_json::to_vec(&record).unwrap());
    record["sha256"] = hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    serde_json::to_string_pretty(&record).unwrap()
}

#[cfg(unix)]
#[test]
fn a_changed_digit_does_not_mix_two_step_sizes_in_one_chain() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    table(here);
    let mut child = endless_run(here, "run");
    child.kill().unwrap();
    child.wait().unwrap();
    let (record, settings) = (here.join("run/checkpoints/run.json"), here.join("run/experiment.toml"));
    let (whole, written) = (std::fs::read_to_string(&record).unwrap(), std::fs::read_to_string(&settings).unwrap());
    let rate = serde_json::from_str::<Value>(&whole).unwrap()["tuned_learning_rate"].as_f64().unwrap();
    let other = rate * 1.5;
    assert!(whole.contains(&rate.to_string()) && written.contains(&rate.to_string()), "{rate}");
    let resume = ["resume", "run", "--quiet"];

    // The digit alone is damage, and the settings are not blamed for it.
    std::fs::write(&record, whole.replace(&rate.to_string(), &other.to_string())).unwrap();
    let output = kelvin(here, &resume);
    is_refusal(&output, &resume, &["run/checkpoints/run.json is damaged", "nothing was changed"]);
    assert!(!said(&output).contains("experiment.toml"), "{}", said(&output));
    // With a checksum that fits, and in both files: the chains were moved by another rate.
    std::fs::write(&record, sealed(&whole, |record| record["tuned_learning_rate"] = other.into())).unwrap();
    std::fs::write(&settings, written.replace(&rate.to_string(), &other.to_string())).unwrap();
    refuses(here, &resume, &["sampling.checkpoint belongs to another run"]);

    std::fs::write(&record, sealed(&whole, |_| ())).unwrap();
    std::fs::write(&settings, written).unwrap();
    let child = command(here, &resume).spawn().unwrap();
    wait_until(|| {
        std::fs::read_to_string(here.join("run/checkpoints/lock"))
            .is_ok_and(|text| text.contains(&child.id().to_string()))
    });
    std::thread::sleep(Duration::from_millis(300));
    let output = signalled(child, "INT");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
}

#[test]
fn a_record_without_a_checksum_is_read_and_not_gone_on_from() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    let (record, hashes) = (here.join("run/checkpoints/run.json"), here.join("run/hashes.json"));
    assert!(succeeds(here, &["verify", "run"]).contains("ok       run.json "));
    let mut older: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    older.as_object_mut().unwrap().shift_remove("sha256");
    older["format"] = 1.into();
    let older = serde_json::to_string_pretty(&older).unwrap();
    let mut all: Value = serde_json::from_slice(&std::fs::read(&hashes).unwrap()).unwrap();
    all["files"]["checkpoints/run.json"] =
        Sha256::digest(&older).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    std::fs::write(&record, older).unwrap();
    std::fs::write(&hashes, serde_json::to_vec(&all).unwrap()).unwrap();

    let out = succeeds(here, &["verify", "run"]);
    assert!(out.contains("skipped  run.json ") && out.contains("without a checksum"), "{out}");
    succeeds(here, &["report", "run"]);
    succeeds(here, &["export", "run", "--format", "csv"]);
    for arguments in [&["resume", "run"][..], &run_arguments("run", &[])] {
        refuses(here, arguments, &["run.json has format 1", "no checksum", "kelvin report run", "--fresh"]);
    }
    succeeds(here, &run_arguments("run", &["--fresh"]));
    succeeds(here, &["resume", "run", "--quiet"]);
}

/// All names below a folder that have this part.
pub fn names_with(folder: &Path, part: &str) -> Vec<String> {
    everything(folder).into_keys().filter(|name| name.contains(part)).collect()
}

#[test]
fn what_was_left_half_written_is_removed_by_the_next_of_its_kind() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    let leave = |name: &str| {
        let path = here.join(format!("{name}.{GONE}.part"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "half").unwrap();
    };
    let alive = format!("run/figures/y.svg.{}.part", std::process::id());
    ["run/report.html", "run/figures/x.svg", "run/tables/t.csv", "run/cases/1.png"].iter().for_each(|name| leave(name));
    std::fs::write(here.join(&alive), "of a process that is there").unwrap();
    succeeds(here, &["report", "run"]);
    let left = names_with(here, ".part");
    assert!(if cfg!(target_os = "linux") { left == [alive.as_str()] } else { left.contains(&alive) }, "{left:?}");
    std::fs::remove_file(here.join(alive)).unwrap();

    leave("p.csv");
    succeeds(here, &["predict", "run", "--input", "t.csv", "--output", "p.csv"]);
    let half = here.join(format!("run/exports/chosen.zarr.{GONE}.part/posterior"));
    std::fs::create_dir_all(half).unwrap();
    succeeds(here, &["export", "run", "--format", "arviz"]);
    leave("run/exports/chosen.npz");
    succeeds(here, &["export", "run", "--format", "npz"]);
    std::fs::create_dir(here.join(format!("chosen.{GONE}.part"))).unwrap();
    let select: Vec<&str> =
        [&["select", "concrete", "--method", "joint", "--quiet", "--out", "chosen"], &SHORT[..]].concat();
    succeeds(here, &select);
    assert_eq!(names_with(here, ".part"), Vec::<String>::new());
    assert_eq!(names_with(&here.join("chosen"), ""), ["experiment.toml", "selection.csv", "selection.json"]);
}

/// No file may grow: the system kills kelvin at its first byte.
#[cfg(unix)]
#[test]
fn an_export_appears_whole_or_not_at_all() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    for (format, place) in
        [("tensorboard", "tensorboard"), ("csv", "chosen-csv"), ("arviz", "chosen.zarr"), ("npz", "chosen.npz")]
    {
        let line = format!("ulimit -c 0; ulimit -f 0; exec {PROGRAM} export run --format {format}");
        let killed = || {
            let output =
                Command::new("bash").args(["-c", &line]).current_dir(here).env("KELVIN_DEVICE", "cpu").output();
            let output = output.unwrap();
            assert!(!output.status.success(), "{format}");
            let parts = names_with(&here.join("run/exports"), ".part");
            assert!(output.status.code().is_some() || !parts.is_empty(), "{format}: it left nothing to be removed");
        };
        let exports = || {
            let mut found = everything(&here.join("run/exports"));
            found.retain(|name, _| !name.contains(".part"));
            found
        };
        let before = if here.join("run/exports").exists() { exports() } else { BTreeMap::new() };
        killed();
        assert_eq!(exports(), before, "{format}");
        assert!(
            !names_with(&here.join("run/exports"), ".part").iter().any(|name| name.contains("tfevents")),
            "{format}"
        );
        succeeds(here, &["export", "run", "--format", format]);
        assert_eq!(names_with(&here.join("run/exports"), ".part"), Vec::<String>::new(), "{format}");
        let whole = exports();
        assert!(here.join("run/exports").join(place).exists() && whole.len() > before.len(), "{format}");
        killed();
        assert_eq!(exports(), whole, "{format}: what was there stays");
        succeeds(here, &["export", "run", "--format", format]);
        assert_eq!(exports(), whole, "{format}");
    }
    // A folder of others is not replaced.
    std::fs::create_dir(here.join("mine")).unwrap();
    std::fs::write(here.join("mine/letter.txt"), "mine").unwrap();
    for format in ["tensorboard", "csv", "arviz"] {
        let arguments = ["export", "run", "--format", format, "--out", "mine"];
        refuses(here, &arguments, &["mine is there and is no export of kelvin", "nothing was changed"]);
    }
    assert_eq!(names_with(&here.join("mine"), ""), ["letter.txt"]);
}

#[cfg(unix)]
#[test]
fn a_run_whose_folder_is_gone_does_not_say_that_anything_is_kept() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    table(here);
    for interrupted in [false, true] {
        let child = endless_run(here, "run");
        std::fs::rename(here.join("run"), here.join("away")).unwrap();
        let output = if interrupted { signalled(child, "INT") } else { child.wait_with_output().unwrap() };
        let message = said(&output);
        assert!(message.contains("the run folder run is gone"), "{message}");
        assert!(!message.contains("what was done is kept") && !message.contains("checkpoint is kept"), "{message}");
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(!here.join("run").exists());
        std::fs::remove_dir_all(here.join("away")).unwrap();
    }
}

#[test]
fn the_same_report_is_the_same_bytes() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    succeeds(here, &["report", "run"]);
    let first = everything(&here.join("run"));
    assert!(first.keys().filter(|name| name.ends_with(".pdf")).count() >= 4);
    succeeds(here, &["report", "run"]);
    assert_unchanged(&here.join("run"), &first, "kelvin report");
}

#[test]
fn draws_without_their_hash_are_refused() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    finished_run(here);
    for name in ["chosen-1", "network-1"] {
        let path = here.join(format!("run/draws/{name}.safetensors"));
        let mut bytes = std::fs::read(&path).unwrap();
        let place = bytes.windows(12).position(|part| part == b"draws_sha256").unwrap();
        bytes[place] = b'D';
        let last = bytes.len() - 3;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let phrase = "does not hold draws_sha256";
    refuses(here, &["predict", "run", "--input", "t.csv", "--model", "ensemble"], &["network-1.safetensors", phrase]);
    refuses(here, &["export", "run", "--format", "npz"], &["chosen-1.safetensors", phrase]);
    let output = kelvin(here, &["verify", "run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("draws_sha256"));
}

#[test]
fn a_thousand_constant_columns_are_told_in_a_few_words() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    table(here);
    let csv = std::fs::read_to_string(here.join("t.csv")).unwrap();
    let more = |line: usize| -> String {
        (0..1000).map(|column| if line == 0 { format!(",same_{column}") } else { ",7".into() }).collect()
    };
    let wide: String = csv.lines().enumerate().map(|(number, line)| format!("{line}{}\n", more(number))).collect();
    std::fs::write(here.join("t.csv"), wide).unwrap();
    let output = kelvin(here, &run_arguments("run", &[]));
    let message = said(&output);
    assert!(output.status.success() && message.contains("same_7 and 992 more\n"), "{message}");
    let page = std::fs::read_to_string(here.join("run/report.html")).unwrap();
    assert!(page.contains("same_7 and 992 more</dd>") && !page.contains("same_8"), "the page names few too");
}

#[test]
fn what_would_take_weeks_is_refused_before_anything_is_begun() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    let deep = format!("--set=model.hidden=[{}]", vec!["64"; 3000].join(","));
    for command in [
        &["run", "concrete", "--out", "deep"][..],
        &["sweep", "concrete", "--out", "deep"],
        &["select", "concrete", "--all"],
    ] {
        let arguments = [command, &["--device=cpu", &deep]].concat();
        let output = kelvin(here, &arguments);
        let message = said(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        for phrase in
            ["chains of", "parameters on 824 rows", "multiply-adds", "hours of one core", "run.most_hours allows 48"]
        {
            assert!(message.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{message}");
        }
        assert!(everything(here).is_empty(), "{:?}", everything(here).keys());
    }
}

#[test]
fn what_takes_long_is_told_before_it_begins_and_a_limit_can_be_moved() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    let mut csv = String::from("a,b,kind\n");
    for i in 0..1200_u32 {
        writeln!(csv, "{},{},kind {}", i * 7 % 131, i * i % 171, i % 500).unwrap();
    }
    std::fs::write(here.join("many.csv"), csv).unwrap();
    let run = ["run", "--data", "many.csv", "--target", "kind", "--sampler=paper", "--device=cpu", "--threads=1"];
    // Told, then stopped by the first thing that goes wrong.
    std::fs::write(here.join("file"), "").unwrap();
    let output = kelvin(here, &[&run[..], &["--out", "file/run"]].concat());
    let message = said(&output);
    assert!(message.contains("note: 4 searches of") && message.contains("minutes on one core"), "{message}");
    assert_eq!(output.status.code(), Some(1), "{message}");
    let output = kelvin(here, &[&run[..], &["--set=run.most_hours=0.01"]].concat());
    assert!(
        output.status.code() == Some(2) && said(&output).contains("run.most_hours allows 0.01"),
        "{}",
        said(&output)
    );
    // The limit is no part of what a run is: the same run goes on under another.
    table(here);
    succeeds(here, &run_arguments("run", &["--set=run.most_hours=1"]));
    succeeds(here, &run_arguments("run", &["--set=run.most_hours=2"]));
}

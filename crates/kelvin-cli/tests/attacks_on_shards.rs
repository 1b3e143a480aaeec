//! Attacks on studies in parts: links where shards lie, hashes that were removed, shards that took another's place, scripts left half written.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::attacks::{GONE, assert_unchanged, everything, names_with, refuses, succeeds};
use crate::support::{SHORT, command};

const STUDY: [&str; 5] = ["concrete", "--quiet", "--threads=1", "--repetitions=1", "--set=run.grid=[0.3, 1.0]"];

/// A command about the study in the folder `run`.
fn asked<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[name], &STUDY[..], &SHORT[..], &["--out", "run"], more].concat()
}

fn searched(here: &Path) {
    succeeds(here, &asked("sweep", &["--stage", "search"]));
}

/// A study whose two shards are done.
fn sampled(here: &Path) {
    searched(here);
    for shard in ["1/2", "2/2"] {
        succeeds(here, &["resume", "run", "--quiet", "--threads=1", "--shard", shard]);
    }
}

#[cfg(unix)]
#[test]
fn the_folder_of_a_shard_leads_nowhere_else() {
    use std::os::unix::fs::symlink;
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    searched(here);
    let select = ["select", "concrete", "--quiet", "--threads=1", "--method=map", "--out", "run", "--shard", "1/2"];
    let shard = asked("sweep", &["--shard", "1/2"]);
    let shard_anew = asked("sweep", &["--shard", "1/2", "--fresh"]);
    let submit = asked("submit", &["--dry-run", "--shards", "2"]);
    let select: Vec<&str> = [&select[..], &SHORT[..]].concat();
    let commands: [&[&str]; 7] = [
        &shard,
        &shard_anew,
        &["resume", "run", "--quiet", "--shard", "1/2"],
        &["merge", "run", "--quiet"],
        &["status", "run"],
        &submit,
        &select,
    ];
    for link in ["shards", "shards/1-of-2", "cluster"] {
        let place = here.join("run").join(link);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::create_dir(here.join("victim")).unwrap();
        std::fs::write(here.join(format!("victim/1-of-2.{GONE}.part")), "mine").unwrap();
        symlink(here.join("victim"), &place).unwrap();
        let before = everything(here);
        for arguments in commands {
            refuses(here, arguments, &[&format!("run/{link} is a link to "), "nothing was changed"]);
            assert_unchanged(here, &before, &format!("{link}: kelvin {arguments:?}"));
        }
        std::fs::remove_file(place).unwrap();
        std::fs::remove_dir_all(here.join("victim")).unwrap();
    }
    // A pipe that nobody writes to would be waited for.
    let status = here.join("run/checkpoints/status.json");
    std::fs::remove_file(&status).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&status).status().unwrap().success());
    for name in ["status", "diagnose", "watch"] {
        let mut child = command(here, &[name, "run"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("kelvin {name} waits for a pipe");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("status.json is neither a file nor a folder"), "kelvin {name}: {said}");
    }
}

#[test]
fn a_stranger_s_words_do_not_command_a_terminal() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    searched(here);
    let lock = here.join("run/shards/1-of-2/checkpoints/lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(lock, format!("process {GONE} on \u{1b}[2Jnode boot 0 heartbeat 7")).unwrap();
    let said = succeeds(here, &["status", "run"]);
    assert!(said.contains("\u{fffd}[2Jnode") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn a_shard_that_was_changed_is_not_merged() {
    type Change = (&'static str, fn(&Path), &'static [&'static str]);
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    sampled(here);
    fn flip_a_bit(path: &Path) {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[400] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    fn without_hashes(shard: &Path, ending: &str) {
        let path = shard.join("hashes.json");
        let mut hashes: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        hashes["files"].as_object_mut().unwrap().retain(|name, _| !name.ends_with(ending));
        std::fs::write(path, hashes.to_string()).unwrap();
    }
    let changes: [Change; 6] = [
        (
            "a checkpoint's bit",
            |shard| flip_a_bit(&shard.join("checkpoints/sampling.checkpoint")),
            &["sampling.checkpoint is not as it was written", "nothing was merged", "--shard 1/2"],
        ),
        (
            "a checkpoint's bit, and its hash is gone",
            |shard| {
                without_hashes(shard, ".checkpoint");
                flip_a_bit(&shard.join("checkpoints/sampling.checkpoint"));
            },
            &["sampling.checkpoint has no hash in ", "nothing was merged", "--shard 1/2"],
        ),
        (
            "the hashes of draws are gone",
            |shard| without_hashes(shard, ".safetensors"),
            &[".safetensors has no hash in ", "nothing was merged"],
        ),
        (
            "draws are gone",
            |shard| {
                let draws = shard.join("draws").read_dir().unwrap().next().unwrap().unwrap().path();
                std::fs::remove_file(draws).unwrap();
            },
            &["is not as it was written: it is damaged or was taken away", "nothing was merged"],
        ),
        (
            "a digit of the record",
            |shard| {
                let path = shard.join("checkpoints/run.json");
                let text = std::fs::read_to_string(&path).unwrap();
                let place = text.find("seed").and_then(|at| Some(at + text[at..].find(|c: char| c.is_ascii_digit())?));
                let mut bytes = text.into_bytes();
                let place = place.unwrap();
                bytes[place] = if bytes[place] == b'7' { b'8' } else { b'7' };
                std::fs::write(path, bytes).unwrap();
            },
            &["run.json is damaged"],
        ),
        (
            "the other shard's folder in its place",
            |shard| {
                std::fs::remove_dir_all(shard).unwrap();
                std::fs::rename(shard.with_file_name("2-of-2"), shard).unwrap();
            },
            &["run/shards/1-of-2 is not shard 1/2"],
        ),
    ];
    for (what, change, phrases) in changes {
        let shards = here.join("run/shards");
        let kept = everything(&shards);
        change(&shards.join("1-of-2"));
        let before = everything(&here.join("run/draws"));
        refuses(here, &["merge", "run", "--quiet", "--threads=1"], phrases);
        assert!(!here.join("run/results.json").exists(), "{what}");
        assert_unchanged(&here.join("run/draws"), &before, what);
        std::fs::remove_dir_all(&shards).unwrap();
        for (name, bytes) in &kept {
            let path = shards.join(name);
            std::fs::create_dir_all(if name.ends_with('/') { &path } else { path.parent().unwrap() }).unwrap();
            if !name.ends_with('/') {
                std::fs::write(path, bytes).unwrap();
            }
        }
    }
    succeeds(here, &["merge", "run", "--quiet", "--threads=1"]);
}

#[test]
fn what_merge_and_submit_left_half_written_is_removed_by_the_next_of_its_kind() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    sampled(here);
    let run = here.join("run");
    for name in ["results.json", "draws/chosen-1.safetensors", "checkpoints/sampling.checkpoint", "tables/scores.csv"] {
        let part = run.join(format!("{name}.{GONE}.part"));
        std::fs::create_dir_all(part.parent().unwrap()).unwrap();
        std::fs::write(part, "half").unwrap();
    }
    succeeds(here, &["merge", "run", "--quiet", "--threads=1"]);
    for folder in [".", "draws", "checkpoints", "tables"] {
        assert_eq!(names_with(&run.join(folder), ".part"), Vec::<String>::new(), "{folder}");
    }
    std::fs::create_dir(run.join("cluster")).unwrap();
    std::fs::write(run.join(format!("cluster/search.sh.{GONE}.part")), "half").unwrap();
    succeeds(here, &asked("submit", &["--dry-run", "--shards", "2"]));
    assert_eq!(names_with(&run.join("cluster"), ".part"), Vec::<String>::new());
}

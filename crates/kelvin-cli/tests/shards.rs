//! A study in parts: searches, shards and single repetitions, put together to the bytes of one process.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::durable::cells;
use crate::support::{SHORT, command, kelvin, said};

const SWEEP: [&str; 6] = [
    "sweep",
    "concrete",
    "--quiet",
    "--repetitions=3",
    "--set=run.grid=[0.3, 1.0]",
    "--set=run.checkpoint_seconds=0.005",
];

fn arguments<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

fn succeeds(here: &Path, arguments: &[&str]) -> String {
    let output = kelvin(here, arguments);
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(0), "kelvin {arguments:?}\n{out}\n{err}");
    out + &err
}

fn refuses(here: &Path, arguments: &[&str], phrases: &[&str]) {
    let output = kelvin(here, arguments);
    let (_, err) = said(&output);
    assert_eq!(output.status.code(), Some(1), "kelvin {arguments:?}\n{err}");
    for phrase in phrases {
        assert!(err.contains(phrase), "kelvin {arguments:?}: no `{phrase}` in\n{err}");
    }
}

/// A value without the seconds that anything in it took.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("seconds");
            fields.values_mut().for_each(timeless);
        }
        Value::Array(values) => values.iter_mut().for_each(timeless),
        _ => {}
    }
}

/// Every file of a run folder but its shards and scripts, without times, hashes of files with times, and how it was asked for.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(&inside).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            assert!(!name.contains(".part"), "{name} was left behind");
            if path.is_dir() {
                if !["shards", "cluster"].contains(&name.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            // Checkpoints hold times; that a merged one is that of one process is a test of theirs.
            let of_the_moment = ["report.html", "hashes.json", "checkpoints/status.json", "checkpoints/lock"];
            if of_the_moment.contains(&name.as_str()) || name.contains("wall_clock") || name.ends_with(".checkpoint") {
                found.insert(name, Vec::new());
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            if name.ends_with(".json") {
                let mut value: Value = serde_json::from_slice(&bytes).unwrap();
                timeless(&mut value);
                if name == "provenance.json" {
                    let of_the_way = ["command", "continued", "chains"];
                    of_the_way.iter().for_each(|key| _ = value.as_object_mut().unwrap().remove(*key));
                }
                if name == "checkpoints/run.json" {
                    value["sha256"] = Value::Null;
                }
                bytes = serde_json::to_vec(&value).unwrap();
            } else if name == "scores.csv" {
                let text = String::from_utf8(bytes).unwrap();
                let seconds = cells(text.lines().next().unwrap()).position(|name| name == "seconds").unwrap();
                let without =
                    |line| cells(line).enumerate().filter(|(at, _)| *at != seconds).map(|(_, cell)| cell).collect();
                bytes = serde_json::to_vec(&text.lines().map(without).collect::<Vec<Vec<&str>>>()).unwrap();
            }
            found.insert(name, bytes);
        }
    }
    found
}

fn assert_same(found: &Path, expected: &Path) {
    let (found, expected) = (files(found), files(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{name} differs");
    }
}

/// Starts a part and kills it, as `kill -9` would, once it has stored something; whether that was before its end.
fn is_killed(here: &Path, arguments: &[&str], stored: &Path) -> bool {
    let mut child = command(here, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !stored.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

/// Chains of a tenth of a second, so that they can be killed on their way.
const LONGER: [&str; 2] = ["--set=sampler.epochs=4020", "--set=sampler.cycle=500"];

fn with_vectors(here: &Path, arguments: &[&str], vectors: &str) {
    let mut command: Command = command(here, arguments);
    let output = command.env("KELVIN_VECTOR", vectors).output().unwrap();
    assert!(output.status.success(), "{:?}", said(&output));
}

#[test]
fn any_number_of_shards_merges_to_the_bytes_of_one_process() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let sweep = arguments(&[&SWEEP, &SHORT, &LONGER]);
    succeeds(here, &arguments(&[&sweep, &["--out=whole"]]));
    for count in [1, 3, 50] {
        let run = format!("in-{count}");
        let out = format!("--out={run}");
        succeeds(here, &arguments(&[&sweep, &[&out, "--stage=prepare"]]));
        assert!(!here.join(&run).join("provenance.json").exists(), "no device is opened yet");
        refuses(here, &["resume", &run, &format!("--shard=1/{count}")], &["are not finished", "--stage search"]);
        let search = ["resume", &run, "--stage=search", "--quiet"];
        is_killed(here, &search, &here.join(&run).join("checkpoints/search.checkpoint"));
        succeeds(here, &search);
        let mut num_killed = 0;
        for number in 1..=count {
            let shard = format!("--shard={number}/{count}");
            let resume = ["resume", &run, &shard, "--quiet"];
            let stored = here.join(&run).join(format!("shards/{number}-of-{count}/checkpoints/sampling.checkpoint"));
            match number % 4 {
                // The command of the whole study is another way to name it.
                0 => _ = succeeds(here, &arguments(&[&sweep, &[&out, &shard]])),
                1 => {
                    num_killed += u32::from(is_killed(here, &resume, &stored));
                    in_another_width(here, &resume);
                }
                2 => in_another_width(here, &resume),
                _ => _ = succeeds(here, &resume),
            }
        }
        assert!(num_killed > 0, "no shard was killed on its way");
        succeeds(here, &["merge", &run, "--quiet"]);
        assert_same(&here.join(&run), &here.join("whole"));
        let provenance: Value =
            serde_json::from_slice(&std::fs::read(here.join(&run).join("provenance.json")).unwrap()).unwrap();
        let named: usize =
            provenance["chains"].as_array().unwrap().iter().map(|one| one["chains"].as_array().unwrap().len()).sum();
        assert_eq!(named, 9, "every chain's device is known: {}", provenance["chains"]);
        if has_vectors("avx512") {
            let chains = provenance["chains"].to_string();
            assert!(["avx512", "avx2"].iter().all(|width| chains.contains(&format!("\"{width}\""))), "{chains}");
        }
        assert!(kelvin(here, &["verify", &run]).status.success());
    }
    // It is a run like any other: merged again, gone on with, not begun a second time.
    succeeds(here, &["merge", "in-3", "--quiet"]);
    succeeds(here, &["resume", "in-3", "--quiet"]);
    assert_same(&here.join("in-3"), &here.join("whole"));
}

/// With narrower vectors than those of this processor, where it has such ones that multiply and add in one rounding.
fn in_another_width(here: &Path, arguments: &[&str]) {
    if has_vectors("avx2") {
        with_vectors(here, arguments, "avx2");
    } else {
        succeeds(here, arguments);
    }
}

/// Whether this processor has these vector instructions.
fn has_vectors(vectors: &str) -> bool {
    kelvin::vector::Instructions::available().any(|at| at.name().eq_ignore_ascii_case(vectors))
}

#[test]
fn what_is_missing_is_named_and_nothing_is_merged() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    succeeds(here, &arguments(&[&SWEEP, &SHORT, &["--out=run", "--stage=search"]]));
    refuses(here, &["merge", "run"], &["9 of 9 chains", "no shard was begun", "--shard 1/8"]);
    succeeds(here, &["resume", "run", "--shard=2/3", "--quiet"]);
    let missing = [
        "6 of 9 chains of run are missing",
        "shard 1/3 (it was not begun): `kelvin resume run --shard 1/3`",
        "shard 3/3",
    ];
    refuses(here, &["merge", "run"], &missing);
    assert!(!here.join("run/results.json").exists() && !here.join("run/checkpoints/sampling.checkpoint").exists());
    let status = succeeds(here, &["status", "run"]);
    let lines = [
        "search         done\n",
        "shard 1/3      waiting\n",
        "shard 2/3      done\n",
        "merge          failed",
        "6 of 9 chains of run are missing",
        "3 shards: 1 done, 2 waiting\n",
        "go on with a shard: `kelvin resume run --shard 1/3`",
    ];
    lines.iter().for_each(|line| assert!(status.contains(line), "no `{line}` in\n{status}"));
    assert_eq!(succeeds(here, &["status", "run/shards/2-of-3"]), "search         done\nchains         done\n");
    refuses(here, &["resume", "run"], &["is made in shards", "kelvin merge run"]);
    refuses(here, &["resume", "run/shards/2-of-3"], &["is a shard of a study", "kelvin resume run --shard 2/3"]);
    refuses(
        here,
        &arguments(&[&SWEEP, &SHORT, &["--out=run", "--shard=1/3", "--seed=5"]]),
        &["run.seed: 0 there, 5 now"],
    );
    refuses(
        here,
        &arguments(&[&SWEEP, &SHORT, &["--out=nowhere", "--shard=1/3"]]),
        &["holds no study", "--stage search"],
    );

    // A chain found twice is the same twice, or it is told.
    for shard in ["--shard=1/3", "--shard=3/3", "--shard=1/2"] {
        succeeds(here, &["resume", "run", shard, "--quiet"]);
    }
    succeeds(here, &["merge", "run", "--quiet"]);
    let draws = std::fs::read_dir(here.join("run/shards/1-of-2/draws")).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&draws).unwrap();
    let mut bytes = whole.clone();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&draws, bytes).unwrap();
    refuses(here, &["merge", "run"], &["is not as it was written", "--shard 1/2"]);
    std::fs::write(&draws, whole).unwrap();
    // Without fused multiply-adds the bits are others.
    with_vectors(here, &["resume", "run", "--shard=1/2", "--fresh", "--quiet"], "scalar");
    let twice =
        ["was made twice and its numbers are not the same", "the CPU with scalar", "different kinds of devices"];
    refuses(here, &["merge", "run"], &twice);
    for shard in ["1-of-3", "2-of-3"] {
        std::fs::remove_dir_all(here.join("run/shards").join(shard)).unwrap();
    }
    succeeds(here, &["resume", "run", "--shard=2/2", "--quiet"]);
    let told = succeeds(here, &["merge", "run", "--quiet"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("sampled on devices of different kinds"), "{told}");
    let page = std::fs::read_to_string(here.join("run/report.html")).unwrap();
    assert!(page.contains("sampled on devices of different kinds"), "the report does not say so");
    let other = "--set=sampler.momentum=0.97";
    succeeds(here, &arguments(&[&SWEEP, &SHORT, &["--out=other", other, "--stage=search"]]));
    succeeds(here, &["resume", "other", "--shard=1/3", "--quiet"]);
    std::fs::rename(here.join("other/shards/1-of-3"), here.join("run/shards/1-of-3")).unwrap();
    refuses(here, &["merge", "run"], &["shard 1/3 has other settings"]);
}

#[test]
fn repetitions_that_were_run_alone_are_a_sweep_together() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    succeeds(here, &arguments(&[&SWEEP, &SHORT, &["--out=whole"]]));
    for repetition in ["3", "1"] {
        let only = format!("--only-repetition={repetition}");
        succeeds(here, &arguments(&[&SWEEP, &SHORT, &["--out", repetition, &only]]));
    }
    refuses(
        here,
        &["merge", "all", "1", "3"],
        &["repetition 2: `kelvin sweep 1/experiment.toml --only-repetition 2 --out all-2`"],
    );
    succeeds(here, &arguments(&[&SWEEP, &SHORT, &["--out=2", "--only-repetition=2"]]));
    succeeds(here, &["merge", "all", "3", "2", "1", "--quiet"]);
    assert_same(&here.join("all"), &here.join("whole"));
}

/// A run with folds, whose chains decide together how long they are.
#[test]
fn folds_are_shards_as_well() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let run = ["run", "concrete", "--quick", "--quiet", "--folds=2", "--set=selection.epochs=200", "--budget=4000"];
    succeeds(here, &arguments(&[&run, &["--out=whole"]]));
    succeeds(here, &arguments(&[&run, &["--out=parts", "--stage=search"]]));
    for shard in ["1/4", "2/4", "3/4", "4/4"] {
        let shard = format!("--shard={shard}");
        succeeds(here, &["resume", "parts", &shard, "--quiet"]);
    }
    succeeds(here, &["merge", "parts", "--quiet"]);
    assert_same(&here.join("parts"), &here.join("whole"));
}

/// What a scheduler sends before it takes a machine away: the process stores what it has and says how it ended.
#[cfg(unix)]
#[test]
fn a_shard_that_is_told_to_stop_stores_and_says_so() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let long = ["--set=sampler.epochs=4000000", "--set=sampler.cycle=2000"];
    succeeds(here, &arguments(&[&SWEEP, &SHORT, &long, &["--out=run", "--stage=search"]]));
    for (signals, codes) in [(&["USR1"][..], &[138][..]), (&["TERM"], &[143]), (&["USR1", "TERM"], &[138, 143])] {
        let child = command(here, &["resume", "run", "--shard=1/3", "--quiet"]).stderr(Stdio::piped()).spawn().unwrap();
        let stored = here.join("run/shards/1-of-3/checkpoints/sampling.checkpoint");
        let written = || std::fs::metadata(&stored).and_then(|found| found.modified()).ok();
        let before = written();
        while written() == before {
            std::thread::sleep(Duration::from_millis(10));
        }
        let status: Value = serde_json::from_slice(&kelvin(here, &["status", "run", "--json"]).stdout).unwrap();
        assert_eq!((&status["search"]["state"], &status["shards"][0]["state"]), (&"done".into(), &"running".into()));
        // The one after the other, as schedulers do, is no impatience.
        for signal in signals {
            let killed = Command::new("kill").args(["-s", *signal, &child.id().to_string()]).status().unwrap();
            assert!(killed.success());
        }
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{:?}: {err}", output.status);
        assert!(err.contains("go on with `kelvin resume run --shard 1/3`"), "{err}");
        let (told, _) = said(&kelvin(here, &["status", "run"]));
        assert!(told.contains("shard 1/3      stopped") && told.contains("3 shards: 2 waiting, 1 stopped"), "{told}");
    }
}

/// A machine without a GPU prepares a study for machines with one, and writes what a cluster is asked.
#[test]
fn scripts_are_written_where_there_is_neither_a_gpu_nor_a_cluster() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let cluster = [
        "submit",
        "concrete",
        "--quick",
        "--shards=12",
        "--gres=gpu:1",
        "--partition=long",
        "--device=cuda",
        "--cpus=4",
    ];
    let told =
        succeeds(here, &arguments(&[&cluster, &["--sbatch=--account=physics", "--out=my run", "--dry-run", "--json"]]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["search"], told["scripts"].as_array().unwrap().len()), (&Value::Null, 3));
    let script = std::fs::read_to_string(told["scripts"][1].as_str().unwrap()).unwrap();
    let phrases = [
        "#SBATCH --array=1-12\n",
        "#SBATCH --gres=gpu:1\n",
        "#SBATCH --partition=long\n",
        "#SBATCH --account=physics\n",
        "#SBATCH --requeue\n",
        "#SBATCH --signal=B:USR1@90\n",
        "my run' --shard \"$SLURM_ARRAY_TASK_ID/12\" --quiet --device cuda --threads 4 &",
        "scontrol requeue",
    ];
    for phrase in phrases {
        assert!(script.contains(phrase), "no `{phrase}` in\n{script}");
    }
    assert!(
        Command::new("bash")
            .args(["-n", told["scripts"][1].as_str().unwrap()])
            .status()
            .is_ok_and(|code| code.success())
    );
    let (status, _) = said(&kelvin(here, &["status", "my run"]));
    assert!(status.contains("search         waiting") && status.contains("12 shards: 12 waiting"), "{status}");
    refuses(here, &["merge", "my run"], &["are not finished"]);
}

/// What a person may call a folder, and what sbatch may be asked, is no command of anybody's shell.
#[cfg(unix)]
#[test]
fn names_are_words_of_scripts_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let odd = "it's; touch owned #1 $(touch owned) `touch owned` %j";
    let long = "p".repeat(300);
    let asked =
        ["submit", "concrete", "--quick", "--shards=2", "--dry-run", "--json", "--set=name=\"a b; $(touch owned)\""];
    let partition = format!("--partition={long} & touch owned");
    let told = succeeds(here, &arguments(&[&asked, &["--gres=gpu:a100:1", &partition, "--memory=8 G", "--out", odd]]));
    let told: Value = serde_json::from_str(&told).unwrap();
    // A program in the place of kelvin writes down what it is given.
    let double = here.join("double");
    std::fs::write(&double, "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$TOLD\"\n").unwrap();
    Command::new("chmod").args(["+x", double.to_str().unwrap()]).status().unwrap();
    for (script, part) in
        told["scripts"].as_array().unwrap().iter().zip([&["--stage", "search"][..], &["--shard", "2/2"], &[]])
    {
        let text = std::fs::read_to_string(script.as_str().unwrap()).unwrap();
        assert!(text.contains(&format!("#SBATCH --partition=\"{long} & touch owned\"\n")), "{text}");
        assert!(
            text.contains("#SBATCH --gres=gpu:a100:1\n#SBATCH") && text.contains("#SBATCH --mem=\"8 G\"\n"),
            "{text}"
        );
        assert!(text.contains("it's; touch owned #1 $(touch owned) `touch owned` %%j/cluster/"), "{text}");
        let ours = here.join("ours.sh");
        std::fs::write(&ours, text.replace(crate::support::PROGRAM, double.to_str().unwrap())).unwrap();
        let ended = Command::new("bash")
            .arg(&ours)
            .current_dir(here)
            .env("TOLD", here.join("told"))
            .env("SLURM_ARRAY_TASK_ID", "2")
            .output();
        assert!(ended.unwrap().status.success());
        let given = std::fs::read_to_string(here.join("told")).unwrap();
        let run = std::path::absolute(here.join(odd)).unwrap().display().to_string();
        let what = if part.is_empty() { "merge" } else { "resume" };
        let expected: Vec<&str> =
            [what, &run].into_iter().chain(part.iter().copied()).chain(["--quiet", "--device", "cpu"]).collect();
        assert_eq!(given.lines().collect::<Vec<_>>(), expected);
    }
    assert!(!here.join("owned").exists(), "a name was carried out");

    for (wrong, phrase) in [
        ("--partition=a\ntouch owned", "--partition must be a line of text"),
        ("--sbatch=--account=x\ntouch owned", "--sbatch must be a line of text"),
        ("--gres=", "--gres must be a line of text"),
        ("--time=1h", "--time `1h` is no time of Slurm"),
        ("--time=2", "--time must be 5 minutes or more"),
    ] {
        let output = kelvin(here, &arguments(&[&asked, &["--out=other", wrong]]));
        let (_, err) = said(&output);
        assert!(output.status.code() == Some(2) && err.contains(phrase), "{wrong}: {err}");
        assert!(!here.join("other").exists());
    }
}

/// Where one job of a study is refused, those that were submitted before it are taken back.
#[cfg(unix)]
#[test]
fn a_study_is_submitted_as_a_whole_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let doubles = here.join("doubles");
    std::fs::create_dir(&doubles).unwrap();
    let double = |name: &str, text: &str| {
        std::fs::write(doubles.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        Command::new("chmod").arg("+x").arg(doubles.join(name)).status().unwrap();
    };
    let path = format!("{}:{}", doubles.display(), std::env::var("PATH").unwrap());
    let submit = || {
        let mut submit = command(here, &["submit", "concrete", "--quick", "--shards=3", "--out=my run"]);
        submit.env("PATH", &path).output().unwrap()
    };
    double("scancel", "echo \"$1\" >> cancelled");
    double(
        "sbatch",
        "case \"$*\" in *shards.sh) echo 'Invalid job array specification' >&2; exit 1;; *) echo 7;; esac",
    );
    let (_, err) = said(&submit());
    let phrases = ["nothing is submitted", "Invalid job array specification", "MaxArraySize"];
    phrases.iter().for_each(|phrase| assert!(err.contains(phrase), "{err}"));
    assert_eq!(std::fs::read_to_string(here.join("cancelled")).unwrap(), "7\n");
    double("sbatch", "echo \"$@\" >> asked; wc -l < asked");
    let (out, err) = said(&submit());
    assert!(out.contains("search: job 1\nshards: job 2\nmerge: job 3\n") && out.contains("my run'`"), "{out}{err}");
    let asked = std::fs::read_to_string(here.join("asked")).unwrap();
    let asked: Vec<&str> = asked.lines().collect();
    assert!(asked[1].contains("--dependency=afterok:1") && asked[2].contains("--dependency=afterany:2"), "{asked:?}");
}

/// Methods of choosing β, some in each shard; those on the grid share one.
#[test]
fn a_selection_in_shards_is_that_of_one_process() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let select = ["select", "concrete", "--all", "--each-start", "--starts=2", "--quiet", "--set=run.grid=[0.3, 1.0]"];
    let small = ["--set=model.hidden=[2]"];
    succeeds(here, &arguments(&[&select, &SHORT, &small, &["--out=whole"]]));
    let shard =
        |shard: &str| succeeds(here, &arguments(&[&select, &SHORT, &small, &["--out=parts", "--shard", shard]]));
    shard("1/3");
    shard("3/3");
    refuses(here, &["merge", "parts"], &["are missing: 2/3", "nothing was merged"]);
    shard("2/3");
    succeeds(here, &["merge", "parts"]);
    for name in ["selection.json", "selection.csv", "experiment.toml"] {
        let of = |run: &str| std::fs::read_to_string(here.join(run).join(name)).unwrap();
        assert_eq!(of("parts"), of("whole"), "{name}");
    }
}

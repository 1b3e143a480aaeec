//! Where a run happens: `--device`, what is said where there is no GPU, and what the run folder keeps of it.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::PROGRAM;
use serde_json::Value;
use tempfile::TempDir;

/// A machine whose GPUs, if it has any, cannot be seen.
fn kelvin(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.env_remove("KELVIN_DATA").env_remove("KELVIN_DEVICE").env("CUDA_VISIBLE_DEVICES", "-1");
    command.current_dir(folder).args(arguments).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const SHORT: [&str; 10] = [
    "run",
    "concrete",
    "--quick",
    "--set",
    "selection.epochs=40",
    "--set",
    "run.chains=1",
    "--set",
    "sampler.energy_rows=100",
    "--threads=2",
];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().copied().chain(more.iter().copied()).collect()
}

fn device_of(folder: &Path) -> String {
    let text = std::fs::read(folder.join("provenance.json")).unwrap();
    let provenance: Value = serde_json::from_slice(&text).unwrap();
    let report = std::fs::read_to_string(folder.join("report.html")).unwrap();
    let device = provenance["device"].as_str().unwrap().to_owned();
    assert!(report.contains(&device), "the report names {device}");
    device
}

#[test]
fn without_a_gpu_the_cpu_is_used_and_nothing_is_said_of_it() {
    let folder = TempDir::new().unwrap();
    let auto = kelvin(folder.path(), &short(&["--out", "auto"]));
    assert_eq!(auto.status.code(), Some(0), "{}", errors(&auto));
    assert!(!errors(&auto).contains("CPU") && !errors(&auto).contains("NVIDIA"), "{}", errors(&auto));
    assert_eq!(device_of(&folder.path().join("auto")), "CPU, 2 threads");

    for silent in [&["--out", "cpu", "--device", "cpu"][..], &["--out", "quiet", "--quiet"]] {
        let output = kelvin(folder.path(), &short(silent));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        assert!(!errors(&output).contains("CPU"), "{}", errors(&output));
    }
    let draws = |name: &str| std::fs::read(folder.path().join(name).join("draws/chosen-1.safetensors")).unwrap();
    assert_eq!(draws("auto"), draws("cpu"));
}

#[test]
fn a_gpu_that_is_asked_for_and_missing_is_an_error_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    for arguments in [short(&["--device", "cuda"]), vec!["bench", "8-64-1/824", "--device", "cuda", "--json"]] {
        let output = kelvin(folder.path(), &arguments);
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(output.stdout.is_empty());
        assert!(message.starts_with("error: --device cuda: "), "{message}");
        assert!(message.contains("--device cpu runs on the processor"), "{message}");
        if cfg!(feature = "cuda") {
            assert!(message.contains("driver (libcuda)") && message.contains("NVRTC"), "{message}");
        } else {
            assert!(message.contains("built without CUDA"), "{message}");
        }
    }
    assert!(folder.path().read_dir().unwrap().next().is_none(), "no run folder is begun");
}

#[test]
fn all_that_run_take_a_precision_and_say_where_it_matters() {
    let folder = TempDir::new().unwrap();
    for command in ["run", "sweep", "predict", "bench"] {
        let help = kelvin(folder.path(), &[command, "--help"]);
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(text.contains("--precision") && text.contains("[default: bf16]"), "{text}");
        assert!(
            text.contains("tables and the CPU have f32 in any case") && text.contains("rounding, and is slower"),
            "{text}"
        );
    }
    let bench = ["bench", "dense", "--device=cpu", "--precision=f32", "--readings=1", "--chains=1", "--json"];
    let timed = String::from_utf8(kelvin(folder.path(), &bench).stdout).unwrap();
    let lines: Vec<Value> = timed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cases: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["8-64-1/824", "14-64-1/128", "8-64-64-1/824", "30-128-128-3/128", "784-256-256-10/128"]);
    for line in lines {
        assert_eq!((line["device"].as_str(), line["chains"].as_u64()), (Some("CPU"), Some(1)));
        assert!(line["us_per_chain_step"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn predictions_of_tables_need_no_gpu_and_other_devices_are_refused() {
    let folder = TempDir::new().unwrap();
    let rows: String = (0..60).map(|i| format!("{},{}\n", i % 7, (i % 7) as f64 * 0.5 + (i % 3) as f64)).collect();
    std::fs::write(folder.path().join("t.csv"), format!("x,y\n{rows}")).unwrap();
    let run = ["run", "--data", "t.csv", "--target", "y", "--quick", "--quiet", "--device", "cpu", "--out", "r"];
    assert_eq!(kelvin(folder.path(), &run).status.code(), Some(0));
    let predict = kelvin(folder.path(), &["predict", "r", "--input", "t.csv"]);
    assert_eq!(predict.status.code(), Some(0));
    assert!(errors(&predict).starts_with("predicting with ") && !errors(&predict).contains("GPU"));
    let cpu = kelvin(folder.path(), &["predict", "r", "--input", "t.csv", "--device", "cpu"]);
    assert_eq!(predict.stdout, cpu.stdout);
    let cuda = kelvin(folder.path(), &["predict", "r", "--input", "t.csv", "--device", "cuda"]);
    assert_eq!(cuda.status.code(), Some(1), "{}", errors(&cuda));

    // Of no consequence without a GPU.
    let single = kelvin(folder.path(), &["predict", "r", "--input", "t.csv", "--precision", "f32"]);
    assert_eq!((single.status.code(), single.stdout), (Some(0), cpu.stdout));

    let other = kelvin(folder.path(), &["run", "concrete", "--precision", "f64"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(errors(&other).contains("bf16") && errors(&other).contains("f32"), "{}", errors(&other));
    let other = kelvin(folder.path(), &["run", "concrete", "--device", "tpu"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(errors(&other).contains("auto") && errors(&other).contains("cuda"), "{}", errors(&other));
}

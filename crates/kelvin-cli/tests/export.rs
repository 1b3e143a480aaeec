//! `kelvin export` as a person sees it; what ArviZ, NumPy and TensorBoard make of it is checked in arviz/check.py.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support;
use serde_json::Value;
use tempfile::TempDir;

/// Two chains of 20 draws at each temperature in a moment.
const SHORT: [&str; 8] = [
    "--quiet",
    "--set=run.chains=2",
    "--set=selection.epochs=400",
    "--set=sampler.ramp_start=100",
    "--set=sampler.ramp_end=150",
    "--set=sampler.burn_in=200",
    "--set=sampler.cycle=10",
    "--set=sampler.epochs=400",
];

fn kelvin(folder: &Path, code: i32, arguments: &[&str]) -> (String, String) {
    let output = support::kelvin(folder, arguments);
    let (out, err) = support::said(&output);
    assert_eq!(output.status.code(), Some(code), "kelvin {arguments:?}\n{out}\n{err}");
    (out, err)
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().into(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|word| f64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn a_run_is_exported_the_same_every_time() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    kelvin(
        here,
        0,
        &[&["run", "concrete", "--grid", "--set=run.grid=[0.1, 1.0]", "--out", "run"], &SHORT[..]].concat(),
    );
    let results: Value = serde_json::from_slice(&std::fs::read(here.join("run/results.json")).unwrap()).unwrap();

    let (out, _) = kelvin(here, 0, &["export", "run", "--format", "arviz"]);
    assert!(out.starts_with("run/exports/chosen.zarr: 2 chains of 20 draws at β = "), "{out}");
    let first = files(&here.join("run/exports/chosen.zarr"));
    kelvin(here, 0, &["export", "run", "--format", "arviz", "--out", "again.zarr"]);
    assert_eq!(files(&here.join("again.zarr")), first);
    // What is there already is replaced where it is an export, and else left alone.
    kelvin(here, 0, &["export", "run", "--format", "arviz", "--weights", "none", "--out", "again.zarr"]);
    assert!(!files(&here.join("again.zarr")).contains_key("posterior/dense1.bias/.zarray"));
    std::fs::create_dir(here.join("mine")).unwrap();
    let (_, err) = kelvin(here, 1, &["export", "run", "--format", "arviz", "--out", "mine"]);
    assert!(err.contains("mine is there and is no export of kelvin"), "{err}");

    let energy = |chain: usize| -> Vec<f64> {
        let chains = results["chains"].as_array().unwrap().iter().filter(|chain| chain["method"] == "chosen");
        let energies = chains.map(|chain| &chain["potential_energy"]).nth(chain).unwrap();
        energies.as_array().unwrap().iter().map(|energy| energy.as_f64().unwrap()).collect()
    };
    for chain in 0..2 {
        assert_eq!(numbers(&first[&format!("posterior/potential_energy/{chain}.0")]), energy(chain));
    }
    let metadata: Value = serde_json::from_slice(&first[".zmetadata"]).unwrap();
    let array = &metadata["metadata"]["log_likelihood/y/.zarray"];
    assert_eq!((&array["shape"][0], &array["shape"][1], &array["dtype"]), (&2.into(), &20.into(), &"<f8".into()));
    assert_eq!(array["shape"][2], results["problem"]["test_rows"]);

    kelvin(here, 0, &["export", "run", "--format", "npz", "--method", "bayes"]);
    let npz = std::fs::read(here.join("run/exports/bayes.npz")).unwrap();
    kelvin(here, 0, &["export", "run", "--format", "npz", "--method", "bayes", "--out", "b.npz"]);
    assert_eq!(std::fs::read(here.join("b.npz")).unwrap(), npz);
    assert!(npz.starts_with(b"PK\x03\x04"));

    kelvin(here, 0, &["export", "run", "--format", "csv", "--beta", "0.1", "--weights", "dense2.bias"]);
    let table = std::fs::read_to_string(here.join("run/exports/beta-0.1-csv/draws.csv")).unwrap();
    let header = table.lines().next().unwrap();
    assert!(header.starts_with("chain,name,draw,step,log_beta,") && header.ends_with(",dense2.bias[0]"), "{header}");
    assert_eq!(table.lines().count(), 1 + 2 * 20);
    assert!(here.join("run/exports/beta-0.1-csv/predictions-beta-0.1.csv").exists());

    kelvin(here, 0, &["export", "run", "--format", "tensorboard"]);
    assert!(here.join("run/exports/tensorboard/chain-chosen-1/events.out.tfevents.0.kelvin").exists());

    for (arguments, phrases) in [
        (&["--method", "grid"][..], &["several β fit", "--method grid --beta 0.1"][..]),
        (&["--beta", "7"], &["no chains are of what", "--method chosen"]),
        (&["--weights", "dense9.bias"], &["there is no tensor `dense9.bias`", "dense1.kernel"]),
    ] {
        let (_, err) = kelvin(here, 2, &[&["export", "run", "--format", "csv"], arguments].concat());
        assert!(phrases.iter().all(|phrase| err.contains(phrase)), "{err}");
    }
}

/// A run whose weights, or whose data, are gone still has its traces.
#[test]
fn what_is_missing_is_left_out_with_a_note() {
    let temporary = TempDir::new().unwrap();
    let here = temporary.path();
    let mut csv = String::from("a,kind\n");
    (0..120).for_each(|i| {
        csv.push_str(&format!("{},{}\n", (i * 7 % 23) as f64 / 11.0, if i * 7 % 23 > 11 { "x" } else { "y" }))
    });
    std::fs::write(here.join("kinds.csv"), csv).unwrap();
    kelvin(here, 0, &[&["run", "--data", "kinds.csv", "--target", "kind", "--out", "run"], &SHORT[..]].concat());

    kelvin(here, 0, &["export", "run", "--format", "arviz"]);
    let whole = files(&here.join("run/exports/chosen.zarr"));
    for name in ["posterior_predictive/probability/0.0.0.0", "posterior_predictive/class/0", "observed_data/y/0"] {
        assert!(whole.contains_key(name), "{name}");
    }
    std::fs::rename(here.join("kinds.csv"), here.join("away.csv")).unwrap();
    let (_, err) = kelvin(here, 0, &["export", "run", "--format", "arviz"]);
    assert!(err.contains("note: no predictions") && err.contains("kinds.csv"), "{err}");
    let without_data = files(&here.join("run/exports/chosen.zarr"));
    assert!(without_data.contains_key("posterior/dense1.bias/0.0.0"));
    assert!(!without_data.keys().any(|name| name.starts_with("log_likelihood")));

    // A chain that is shorter than the others is left out.
    let path = here.join("run/results.json");
    let mut results: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let second =
        results["chains"].as_array_mut().unwrap().iter_mut().find(|chain| chain["name"] == "chosen-2").unwrap();
    second["diverged_at"] = 333.into();
    second["potential_energy"].as_array_mut().unwrap().truncate(7);
    std::fs::write(&path, serde_json::to_vec(&results).unwrap()).unwrap();
    let (out, err) = kelvin(here, 0, &["export", "run", "--format", "npz"]);
    assert!(err.contains("is left out, with 7 of 20 draws: it diverged at step 333"), "{err}");
    assert!(out.contains("1 chain of 20 draws"), "{out}");

    std::fs::remove_dir_all(here.join("run/draws")).unwrap();
    let (_, err) = kelvin(here, 0, &["export", "run", "--format", "npz"]);
    assert!(err.contains("holds no draws of these chains"), "{err}");
    let (_, err) = kelvin(here, 1, &["export", "run", "--format", "npz", "--weights", "all"]);
    assert!(err.contains("their weights were not stored"), "{err}");
}

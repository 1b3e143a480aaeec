//! The three tables of the regression experiments, read from the shared folder: sizes, splits, hashes.

mod support;

use std::path::PathBuf;

use kelvin::data::{DataError, Presence, Split, Standardiser, Table, Task, known_dataset, known_datasets};

/// The folder of data files, or `None` (said aloud) where it is missing.
fn data_folder() -> Option<PathBuf> {
    let folder = support::shared().join("data");
    if folder.is_dir() {
        return Some(folder);
    }
    support::skipped(&format!("{} is missing; set KELVIN_SHARED to the folder that holds data/", folder.display()));
    None
}

/// An empty folder of this test's own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kelvin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_three_sets_have_the_sizes_of_the_paper() {
    let Some(folder) = data_folder() else { return };
    let expected = [("concrete", 8, [824, 103, 103]), ("energy", 8, [614, 77, 77]), ("naval", 14, [9547, 1194, 1193])];
    assert_eq!(known_datasets().len(), expected.len());
    for (name, num_features, sizes) in expected {
        let known = known_dataset(name).unwrap();
        let data = known.load(Some(&folder)).unwrap();
        assert_eq!((data.num_rows(), data.num_features()), (known.num_rows, known.num_features), "{name}");
        assert_eq!((data.num_features(), data.task()), (num_features, Task::Regression), "{name}");
        let split = Split::random(data.num_rows(), 1).unwrap();
        assert_eq!([split.train.len(), split.val.len(), split.test.len()], sizes, "{name}");
        let standardiser = Standardiser::fit(&data, &split.train).unwrap();
        let train = standardiser.examples(&data, &split.train).unwrap();
        let inputs = train.inputs.numbers();
        for feature in 0..num_features {
            let column = || inputs.chunks_exact(train.num_features).map(|row| f64::from(row[feature]));
            let mean = column().sum::<f64>() / train.len() as f64;
            let variance = column().map(|value| value * value).sum::<f64>() / train.len() as f64;
            assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-5, "{name} {feature}: {mean} {variance}");
        }
    }
}

#[test]
fn naval_loses_its_two_constant_columns() {
    let Some(folder) = data_folder() else { return };
    let naval = known_dataset("naval").unwrap().load(Some(&folder)).unwrap();
    let constant = ["gt_compressor_inlet_air_temperature", "gt_compressor_inlet_air_pressure"];
    assert_eq!(naval.dropped_constant, constant);
    assert!(!naval.feature_names.iter().any(|name| name == "gt_turbine_decay"));
}

#[test]
fn the_embedded_concrete_is_the_shared_one_number_for_number() {
    let Some(folder) = data_folder() else { return };
    let embedded = known_dataset("concrete").unwrap().load(None).unwrap();
    let table = Table::read(&folder.join("uci/concrete.csv")).unwrap();
    let shared = kelvin::data::Dataset::from_table(&table, "compressive_strength", &[], None).unwrap();
    assert_eq!(embedded.feature_names, shared.feature_names);
    assert_eq!(embedded.features, shared.features);
    assert_eq!(embedded.target, shared.target);
}

#[test]
fn a_flipped_byte_is_noticed_in_either_place() {
    let Some(folder) = data_folder() else { return };
    let energy = known_dataset("energy").unwrap();
    let right = std::fs::read(folder.join("uci/energy.csv")).unwrap();
    let mut wrong = right.clone();
    let last = wrong.len() - 3;
    wrong[last] ^= 1;

    let scratch = Scratch::new("flipped-byte");
    let (inner, outer) = (scratch.0.join("uci/energy.csv"), scratch.0.join("energy.csv"));
    let presence = || energy.presence(Some(&scratch.0)).unwrap();
    assert_eq!(presence(), Presence::Missing);
    std::fs::create_dir(scratch.0.join("uci")).unwrap();
    std::fs::write(&inner, &wrong).unwrap();
    assert!(matches!(presence(), Presence::Wrong { path, found_sha256 } if path == inner && found_sha256.len() == 64));
    assert!(matches!(energy.load(Some(&scratch.0)), Err(DataError::DatasetWrong { .. })));
    std::fs::write(&outer, &right).unwrap();
    assert_eq!(presence(), Presence::Found(outer));
    assert_eq!(energy.load(Some(&scratch.0)).unwrap().num_rows(), 768);
    std::fs::write(&inner, &right).unwrap();
    assert_eq!(presence(), Presence::Found(inner));
}

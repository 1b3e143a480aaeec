//! Where a run's numbers come from: version, commit, seed, data hash, machine.

use kelvin::data::Dataset;
use kelvin::experiment::Settings;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Written as provenance.json.
#[derive(Debug, Serialize)]
pub struct Provenance {
    pub kelvin: &'static str,
    pub commit: &'static str,
    pub command: Vec<String>,
    /// Names what was asked for: SHA-256 of the command and the settings before any pilot.
    pub asked_sha256: String,
    pub seed: u64,
    /// SHA-256 of the numbers that were read: features, then targets, as little-endian f64.
    pub data_sha256: String,
    pub data_rows: usize,
    pub features: Vec<String>,
    pub dropped_constant_columns: Vec<String>,
    pub operating_system: &'static str,
    pub processor: &'static str,
    pub vector_instructions: String,
    pub threads: usize,
}

impl Provenance {
    pub fn new(asked_sha256: String, settings: &Settings, dataset: &Dataset) -> Self {
        Self {
            kelvin: env!("CARGO_PKG_VERSION"),
            commit: env!("KELVIN_COMMIT"),
            command: std::env::args().skip(1).collect(),
            asked_sha256,
            seed: settings.run.seed,
            data_sha256: data_hash(dataset),
            data_rows: dataset.num_rows(),
            features: dataset.feature_names.clone(),
            dropped_constant_columns: dataset.dropped_constant.clone(),
            operating_system: std::env::consts::OS,
            processor: std::env::consts::ARCH,
            vector_instructions: kelvin::network::vector_instructions(),
            threads: rayon::current_num_threads(),
        }
    }
}

fn data_hash(dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    for value in &dataset.features {
        hash.update(value.to_le_bytes());
    }
    match &dataset.target {
        kelvin::data::Target::Real(values) => values.iter().for_each(|value| hash.update(value.to_le_bytes())),
        kelvin::data::Target::Classes { labels, .. } => {
            labels.iter().for_each(|&label| hash.update(f64::from(label).to_le_bytes()));
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

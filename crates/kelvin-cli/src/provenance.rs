//! Where a run's numbers come from: version, commit, seed, data hash, machine, device.

use kelvin::data::{Examples, Inputs, Target, Targets};
use kelvin::experiment::{Experiment, Problem, ProblemSource};
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
    /// SHA-256 of the numbers that were read. Of a table: features, then targets, as little-endian f64. Of images: the
    /// bytes of training, validation and test images, each part followed by its labels as little-endian u32.
    pub data_sha256: String,
    /// The same of the images of the other set, without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_distribution_sha256: Option<String>,
    pub data_rows: usize,
    pub features: Vec<String>,
    pub dropped_constant_columns: Vec<String>,
    pub operating_system: &'static str,
    pub processor: &'static str,
    pub vector_instructions: String,
    pub threads: usize,
    /// What moved the chains and evaluated their draws; of GPUs also in which numbers.
    pub device: String,
}

impl Provenance {
    pub fn new(asked_sha256: String, experiment: &Experiment<'_>) -> Self {
        let problem = experiment.problem;
        let table = problem.table().map(|table| &table.dataset);
        Self {
            kelvin: env!("CARGO_PKG_VERSION"),
            commit: env!("KELVIN_COMMIT"),
            command: std::env::args().skip(1).collect(),
            asked_sha256,
            seed: experiment.settings.run.seed,
            data_sha256: data_hash(problem),
            out_of_distribution_sha256: problem.out_of_distribution.as_ref().map(images_hash),
            data_rows: problem.train.len() + problem.validation.len() + problem.test.len(),
            features: table.map_or(Vec::new(), |table| table.feature_names.clone()),
            dropped_constant_columns: table.map_or(Vec::new(), |table| table.dropped_constant.clone()),
            operating_system: std::env::consts::OS,
            processor: std::env::consts::ARCH,
            vector_instructions: kelvin::network::vector_instructions(),
            threads: rayon::current_num_threads(),
            device: experiment.engine.describe_for(&experiment.posterior),
        }
    }
}

fn data_hash(problem: &Problem) -> String {
    let mut hash = Sha256::new();
    match &problem.source {
        ProblemSource::Table(table) => {
            for value in &table.dataset.features {
                hash.update(value.to_le_bytes());
            }
            match &table.dataset.target {
                Target::Real(values) => values.iter().for_each(|value| hash.update(value.to_le_bytes())),
                Target::Classes { labels, .. } => {
                    labels.iter().for_each(|&label| hash.update(f64::from(label).to_le_bytes()));
                }
            }
        }
        ProblemSource::Images(_) => {
            for part in [&problem.train, &problem.validation, &problem.test] {
                add_images(&mut hash, part);
            }
        }
    }
    as_text(hash)
}

fn images_hash(images: &Examples) -> String {
    let mut hash = Sha256::new();
    if let Inputs::Bytes(pixels) = &images.inputs {
        hash.update(pixels);
    }
    as_text(hash)
}

fn as_text(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add_images(hash: &mut Sha256, part: &Examples) {
    if let (Inputs::Bytes(pixels), Targets::Classes(labels)) = (&part.inputs, &part.targets) {
        hash.update(pixels);
        labels.iter().for_each(|label| hash.update(label.to_le_bytes()));
    }
}

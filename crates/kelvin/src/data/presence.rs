//! Which files of a known data set are there, and whether they hold what they should.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::catalog::known_datasets;
use super::cifar;
use super::error::{DataError, MissingFile};
use super::known_dataset::{KnownDataset, KnownFile, Provision};
use super::unpack::Contents;

/// Whether a data set is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The library carries it.
    Embedded,
    /// The library computes it.
    Generated,
    /// It needs files; what is there for each, in the order of [`KnownDataset::files`].
    Files(Vec<FilePresence>),
}

impl Presence {
    /// Whether nothing is missing or wrong.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Embedded | Self::Generated => true,
            Self::Files(files) => files.iter().all(|file| matches!(file, FilePresence::Found(_))),
        }
    }
}

/// Whether a file of a data set is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePresence {
    /// It is here, with the right contents.
    Found(PathBuf),
    /// A file of its name is here, with other contents.
    Wrong {
        /// The file.
        path: PathBuf,
        /// What it holds: a hash, or why it cannot be unpacked.
        found: String,
    },
    /// There is no such file, or no folder to look in.
    Missing,
}

/// A file with the right contents.
pub(super) struct ReadFile {
    pub(super) path: PathBuf,
    /// Unpacked.
    pub(super) contents: Vec<u8>,
}

/// What looking for a file came to.
enum Looked {
    Right(ReadFile),
    Wrong { path: PathBuf, found: String },
    Missing,
}

impl KnownDataset {
    /// Whether it is at hand: carried or computed by the library, or with every file in the folder (or in one of its
    /// [`folders`](KnownDataset::folders) below it) with the right contents, packed or not. All files are read. One that is
    /// there, cannot be read and is in no other place is an error.
    pub fn presence(&self, folder: Option<&Path>) -> Result<Presence, DataError> {
        match self.provision {
            Provision::Embedded(_) => Ok(Presence::Embedded),
            Provision::Generated(_) => Ok(Presence::Generated),
            _ => {
                let presence = |looked| match looked {
                    Looked::Right(file) => FilePresence::Found(file.path),
                    Looked::Wrong { path, found } => FilePresence::Wrong { path, found },
                    Looked::Missing => FilePresence::Missing,
                };
                let files = self.files.par_iter().map(|file| Ok(presence(self.look(folder, file)?)));
                Ok(Presence::Files(files.collect::<Result<_, DataError>>()?))
            }
        }
    }

    /// The contents of all files, or an error that names all that are missing, or the first that is wrong.
    pub(super) fn read_files(&self, folder: Option<&Path>) -> Result<Vec<ReadFile>, DataError> {
        let missing_error = |missing| {
            let (name, folder, origin) = (self.name, folder.map(Path::to_owned), self.origin);
            DataError::DatasetMissing { name, missing, folder, origin }
        };
        // Before anything large is read.
        let is_absent = |file: &KnownFile| !self.places(folder, file).any(|path| path.exists());
        let absent: Vec<MissingFile> =
            self.files.iter().filter(|file| is_absent(file)).map(KnownFile::missing).collect();
        if !absent.is_empty() {
            return Err(missing_error(absent));
        }
        let looked: Vec<Looked> =
            self.files.par_iter().map(|file| self.look(folder, file)).collect::<Result<_, DataError>>()?;
        let (mut right, mut missing) = (Vec::new(), Vec::new());
        for (file, looked) in self.files.iter().zip(looked) {
            match looked {
                Looked::Right(read) => right.push(read),
                Looked::Missing => missing.push(file.missing()),
                Looked::Wrong { path, found } => {
                    return Err(DataError::DatasetWrong { name: self.name, path, expected: file.sha256, found });
                }
            }
        }
        if missing.is_empty() { Ok(right) } else { Err(missing_error(missing)) }
    }

    /// Where a file may be.
    fn places<'a>(&'a self, folder: Option<&'a Path>, file: &'a KnownFile) -> impl Iterator<Item = PathBuf> + 'a {
        let folders = folder.into_iter().flat_map(|folder| self.folders.iter().map(|below| folder.join(below)));
        folders.flat_map(|folder| file.names.iter().map(move |name| folder.join(name)))
    }

    /// The first place with the right contents; where there is none, the first that cannot be read or has wrong ones.
    fn look(&self, folder: Option<&Path>, file: &KnownFile) -> Result<Looked, DataError> {
        let mut looked = Ok(Looked::Missing);
        for path in self.places(folder, file) {
            let found = match self.contents(&path, file) {
                Ok(contents) if contents.len() as u64 > file.num_bytes => format!("more than {} bytes", file.num_bytes),
                Ok(contents) => {
                    let found = sha256(&contents);
                    if found == file.sha256 {
                        return Ok(Looked::Right(ReadFile { path, contents }));
                    }
                    if belongs_to_another_set(&found) {
                        continue; // MNIST and Fashion-MNIST give their files the same names
                    }
                    format!("sha256 {found}")
                }
                Err(DataError::FileMissing { .. }) => continue,
                Err(DataError::DamagedArchive { reason, .. }) => {
                    format!("an archive that cannot be unpacked: {reason}")
                }
                Err(DataError::WrongBytes { expected, found, .. }) => format!("{found} instead of {expected}"),
                Err(error) => {
                    if matches!(looked, Ok(Looked::Missing)) {
                        looked = Err(error);
                    }
                    continue;
                }
            };
            if matches!(looked, Ok(Looked::Missing)) {
                looked = Ok(Looked::Wrong { path, found });
            }
        }
        looked
    }

    /// What a file holds, unpacked, and never more than one byte too many.
    fn contents(&self, path: &Path, file: &KnownFile) -> Result<Vec<u8>, DataError> {
        match self.provision {
            Provision::Cifar => cifar::read_records(path),
            _ => Contents::open(path)?.read_up_to(file.num_bytes + 1),
        }
    }
}

fn belongs_to_another_set(sha256: &str) -> bool {
    known_datasets().iter().flat_map(|known| known.files).any(|file| file.sha256 == sha256)
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

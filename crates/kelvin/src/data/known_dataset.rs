//! What is known of a data set by name: what it holds, where it comes from, its files with their hashes.

use super::error::MissingFile;
use super::shape::Shape;
use super::synthetic::Pattern;

/// A data set known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDataset {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it is called in full.
    pub title: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Where it comes from and how it was made.
    pub origin: &'static str,
    /// What to cite.
    pub citation: &'static str,
    /// Under which terms it may be used.
    pub licence: &'static str,
    /// Where below the data folder its files are looked for, in this order; `""` is the folder itself.
    pub folders: &'static [&'static str],
    /// Its files: of an embedded set the one it was made from, of a generated set none.
    pub files: &'static [KnownFile],
    pub(super) provision: Provision,
}

/// What a known data set holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rows of numbers.
    Table {
        /// The column that is predicted.
        target: &'static str,
        /// Columns left out: other targets.
        drop: &'static [&'static str],
        /// How many rows it has.
        num_rows: usize,
        /// How many features are left once constant columns are dropped.
        num_features: usize,
    },
    /// Labelled images.
    Images {
        /// The shape of an image.
        shape: Shape,
        /// What the labels stand for.
        class_names: &'static [&'static str],
        /// How many images are for training.
        num_train: usize,
        /// How many images are for validation, and again for testing.
        num_held_out: usize,
    },
}

/// A file of a known data set, known by what it holds unpacked: how it was packed does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// The names it may have, the usual one first.
    pub names: &'static [&'static str],
    /// How many bytes it holds, unpacked.
    pub num_bytes: u64,
    /// SHA-256 of what it holds, unpacked, in hexadecimal.
    pub sha256: &'static str,
}

impl KnownFile {
    /// The name it usually has.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The name it has when it is not packed; [`sha256`](Self::sha256) is the hash of that file.
    pub fn unpacked_name(&self) -> &'static str {
        let is_packed = |name: &&&str| name.ends_with(".gz") || name.ends_with(".zst");
        self.names.iter().find(|name| !is_packed(name)).unwrap_or(&self.names[0])
    }

    /// As an error names it where it is not there.
    pub(super) fn missing(&self) -> MissingFile {
        MissingFile { name: self.name(), unpacked_name: self.unpacked_name(), sha256: self.sha256 }
    }
}

/// How a known data set comes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provision {
    /// The library carries the text of a table.
    Embedded(&'static str),
    /// It is computed.
    Generated(Pattern),
    /// One CSV file.
    Csv,
    /// Four idx files: training images and labels, test images and labels.
    Idx,
    /// Batches of CIFAR-10, the last for testing.
    Cifar,
}

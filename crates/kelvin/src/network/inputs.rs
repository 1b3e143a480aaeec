//! Inputs in the form an evaluator reads fastest.

use std::sync::Arc;

use aligned_vec::AVec;

use crate::data::Augmentation;
use crate::random::NoiseKey;

/// Which rows of the prepared inputs a pass visits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows<'a> {
    /// All, in order.
    All,
    /// These, in this order.
    These(&'a [u32]),
    /// These, in this order, each image flipped and cropped as the key says for its place in the list. Networks that do
    /// not read images see the plain rows.
    Augmented {
        /// Which rows.
        rows: &'a [u32],
        /// How often an image is changed.
        augmentation: Augmentation,
        /// Names the changes.
        key: NoiseKey,
    },
}

/// Inputs in the form an evaluator reads fastest.
#[derive(Clone, Debug)]
pub enum PreparedInputs {
    /// Rows of numbers, padded.
    Rows(PaddedRows),
    /// Images.
    Images(ImageRows),
}

/// Rows of numbers, each padded to whole vectors.
#[derive(Clone, Debug)]
pub struct PaddedRows {
    pub(super) values: AVec<f32>,
    pub(super) stride: usize,
    pub(super) num_rows: usize,
}

/// Images as they came.
#[derive(Clone, Debug)]
pub struct ImageRows {
    pub(super) pixels: Pixels,
    pub(super) num_rows: usize,
}

/// The numbers of images.
#[derive(Clone, Debug)]
pub(super) enum Pixels {
    Numbers(Arc<[f32]>),
    /// A pixel is its byte over 255.
    Bytes(Arc<[u8]>),
}

impl PreparedInputs {
    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.num_rows,
            Self::Images(images) => images.num_rows,
        }
    }

    /// The padded rows that a dense evaluator prepared.
    pub(super) fn padded(&self) -> &PaddedRows {
        match self {
            Self::Rows(rows) => rows,
            Self::Images(_) => unreachable!("inputs belong to the evaluator that prepared them"),
        }
    }

    /// The images that an image evaluator prepared.
    pub(super) fn images(&self) -> &ImageRows {
        match self {
            Self::Images(images) => images,
            Self::Rows(_) => unreachable!("inputs belong to the evaluator that prepared them"),
        }
    }
}

impl<'a> Rows<'a> {
    /// The rows in their order; `None` where a pass visits all.
    pub fn listed(&self) -> Option<&'a [u32]> {
        match *self {
            Self::All => None,
            Self::These(rows) | Self::Augmented { rows, .. } => Some(rows),
        }
    }

    /// How many rows of `num_rows` a pass visits.
    pub(super) fn count(&self, num_rows: usize) -> usize {
        self.listed().map_or(num_rows, <[u32]>::len)
    }
}

impl PaddedRows {
    pub(super) fn count(&self, rows: Rows<'_>) -> usize {
        rows.count(self.num_rows)
    }

    /// Copies rows `first..first + count` of a pass to `to`, row after row.
    pub(super) fn gather(&self, rows: Rows<'_>, first: usize, count: usize, to: &mut [f32]) {
        match rows.listed() {
            None => {
                let len = count * self.stride;
                to[..len].copy_from_slice(&self.values[first * self.stride..][..len]);
            }
            Some(list) => {
                for (&row, to) in list[first..first + count].iter().zip(to.chunks_exact_mut(self.stride)) {
                    to.copy_from_slice(&self.values[row as usize * self.stride..][..self.stride]);
                }
            }
        }
    }
}

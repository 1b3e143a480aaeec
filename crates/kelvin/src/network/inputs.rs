//! Inputs in the form an evaluator reads fastest.

use std::sync::Arc;

use aligned_vec::AVec;

/// Which rows of the prepared inputs a pass visits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows<'a> {
    /// All, in order.
    All,
    /// These, in this order.
    These(&'a [u32]),
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
    Numbers(Vec<f32>),
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

impl Rows<'_> {
    /// How many rows of `num_rows` a pass visits.
    pub(super) fn count(&self, num_rows: usize) -> usize {
        match self {
            Self::All => num_rows,
            Self::These(list) => list.len(),
        }
    }
}

impl PaddedRows {
    pub(super) fn count(&self, rows: Rows<'_>) -> usize {
        rows.count(self.num_rows)
    }

    /// Copies rows `first..first + count` of a pass to `to`, row after row.
    pub(super) fn gather(&self, rows: Rows<'_>, first: usize, count: usize, to: &mut [f32]) {
        match rows {
            Rows::All => {
                let len = count * self.stride;
                to[..len].copy_from_slice(&self.values[first * self.stride..][..len]);
            }
            Rows::These(list) => {
                for (&row, to) in list[first..first + count].iter().zip(to.chunks_exact_mut(self.stride)) {
                    to.copy_from_slice(&self.values[row as usize * self.stride..][..self.stride]);
                }
            }
        }
    }
}

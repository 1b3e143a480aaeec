//! Weights in a safetensors file, read a few draws at a time.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::error::DrawsError;
use super::log::DrawShape;
use super::lot::Lot;

/// Where the numbers of one named tensor are: in the file, and in a draw.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub offset: u64,
    pub range: Range<usize>,
}

/// Weights in a safetensors file.
#[derive(Debug, PartialEq)]
pub(super) struct StoredWeights {
    pub path: PathBuf,
    pub shape: DrawShape,
    pub count: usize,
    pub positions: Vec<Span>,
    pub statistics: Vec<Span>,
}

impl StoredWeights {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn shape(&self) -> DrawShape {
        self.shape
    }

    pub fn cannot_grow(&self) -> DrawsError {
        let source = std::io::Error::other("a finished file of draws does not grow");
        DrawsError::File { action: "write", path: self.path.clone(), source }
    }

    /// Some draws.
    pub fn read(&self, range: Range<usize>) -> Result<Lot<'static>, DrawsError> {
        let mut file = File::open(&self.path).map_err(|error| unreadable(&self.path, error))?;
        let mut gather = |spans: &[Span], dim: usize| -> Result<Vec<f32>, DrawsError> {
            let mut numbers = vec![0.0; range.len() * dim];
            for span in spans {
                let each = span.range.len();
                let offset = span.offset + (range.start * each * 4) as u64;
                let bytes = read_at(&mut file, offset, range.len() * each * 4)
                    .map_err(|error| unreadable(&self.path, error))?;
                let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                let places = (0..range.len()).flat_map(|draw| span.range.clone().map(move |place| draw * dim + place));
                places.zip(values).for_each(|(place, value)| numbers[place] = value);
            }
            Ok(numbers)
        };
        let positions = gather(&self.positions, self.shape.dim)?;
        let statistics = gather(&self.statistics, self.shape.num_statistics)?;
        Ok(Lot { positions: Cow::Owned(positions), statistics: Cow::Owned(statistics), dim: self.shape.dim })
    }
}

pub(super) fn read_at(file: &mut File, offset: u64, size: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn unreadable(path: &Path, source: std::io::Error) -> DrawsError {
    match source.kind() {
        ErrorKind::UnexpectedEof => DrawsError::Damaged { path: path.into(), reason: "it ends too soon".into() },
        _ => DrawsError::File { action: "read", path: path.into(), source },
    }
}

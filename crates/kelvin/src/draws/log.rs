//! Draws as they are kept: a file that only grows, one checked record a draw.
//!
//! A header (magic, format, numbers in a position, numbers of statistics, whether momenta are measured), then records of one
//! size: position and statistics as f32, three f64 (U, configurational and kinetic temperature), and the first eight bytes of
//! the SHA-256 of the record's number and contents; all little-endian. A record that was not written whole, or was damaged
//! since, is seen by its checksum, and so is one in the wrong place.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::DrawsError;
use super::layout::DrawLayout;
use super::lot::Lot;
use super::measurements::Measurements;
use crate::network::Weights;
use crate::write_file::{create_new, open_in_place};

const MAGIC: [u8; 8] = *b"KLVDRAWS";
const FORMAT: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 8 + 1;
const CHECKSUM: usize = 8;

/// How many numbers a draw has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawShape {
    /// Numbers in a position.
    pub dim: usize,
    /// Running statistics of batch norms.
    pub num_statistics: usize,
    /// Whether the kinetic temperature is measured.
    pub measures_momentum: bool,
}

impl DrawShape {
    /// Of draws of these tensors.
    pub fn of(layout: impl Into<DrawLayout>, measures_momentum: bool) -> Self {
        let DrawLayout { position, statistics } = layout.into();
        Self { dim: position.len(), num_statistics: statistics.len(), measures_momentum }
    }

    fn record(&self) -> usize {
        4 * (self.dim + self.num_statistics) + 3 * 8 + CHECKSUM
    }

    fn header(&self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(FORMAT.to_le_bytes());
        header.extend((self.dim as u64).to_le_bytes());
        header.extend((self.num_statistics as u64).to_le_bytes());
        header.push(u8::from(self.measures_momentum));
        header
    }
}

/// A growing file of draws; opened anew for each draw, since a population may have more chains than a process may have open
/// files.
#[derive(Debug, PartialEq)]
pub(super) struct DrawLog {
    path: PathBuf,
    shape: DrawShape,
    count: usize,
}

impl DrawLog {
    /// A new log in place of what is there.
    pub(super) fn create(path: &Path, shape: DrawShape) -> Result<Self, DrawsError> {
        let written = create_new(path).and_then(|mut file| file.write_all(&shape.header()));
        written.map_err(|source| write_error(path, source))?;
        Ok(Self { path: path.into(), shape, count: 0 })
    }

    /// Opens the first `count` draws of a log to go on from there, with what was measured at them; what comes after them is cut off.
    pub(super) fn reopen(path: &Path, shape: DrawShape, count: usize) -> Result<(Self, Vec<Measurements>), DrawsError> {
        let log = Self { path: path.into(), shape, count };
        let mut file = log.open()?;
        log.check_header(&mut file)?;
        let measured = (0..count).map(|number| log.measurements(&mut file, number)).collect::<Result<_, _>>()?;
        let end = (HEADER + count * shape.record()) as u64;
        let cut = open_in_place(OpenOptions::new().write(true), path).and_then(|file| file.set_len(end));
        cut.map_err(|source| write_error(path, source))?;
        Ok((log, measured))
    }

    /// Flushes it to disk.
    pub(super) fn sync(&self) -> Result<(), DrawsError> {
        let synced = open_in_place(OpenOptions::new().append(true), &self.path).and_then(|file| file.sync_data());
        synced.map_err(|source| write_error(&self.path, source))
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn shape(&self) -> DrawShape {
        self.shape
    }

    pub(super) fn append(&mut self, weights: Weights<'_>, measured: Measurements) -> Result<(), DrawsError> {
        let Measurements { potential_energy, configurational_temperature, kinetic_temperature } = measured;
        let mut record = Vec::with_capacity(self.shape.record());
        let numbers = weights.parameters.iter().chain(weights.statistics);
        record.extend(numbers.flat_map(|number| number.to_le_bytes()));
        for number in [potential_energy, configurational_temperature, kinetic_temperature.unwrap_or(f64::NAN)] {
            record.extend(number.to_le_bytes());
        }
        record.extend(checksum(self.count, &record));
        // Half a record is in nobody's way: it is cut off when the log is opened again.
        let file = open_in_place(OpenOptions::new().append(true), &self.path);
        let written = file.and_then(|mut file| file.write_all(&record));
        written.map_err(|source| write_error(&self.path, source))?;
        self.count += 1;
        Ok(())
    }

    /// Some draws.
    pub(super) fn read(&self, range: Range<usize>) -> Result<Lot<'static>, DrawsError> {
        let (mut positions, mut statistics) = (Vec::new(), Vec::new());
        positions.reserve_exact(range.len() * self.shape.dim);
        let mut file = self.open()?;
        for number in range {
            let record = self.record_at(&mut file, number)?;
            let mut numbers =
                record.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            positions.extend(numbers.by_ref().take(self.shape.dim));
            statistics.extend(numbers.take(self.shape.num_statistics));
        }
        Ok(Lot { positions: Cow::Owned(positions), statistics: Cow::Owned(statistics), dim: self.shape.dim })
    }

    fn measurements(&self, file: &mut File, number: usize) -> Result<Measurements, DrawsError> {
        let record = self.record_at(file, number)?;
        let mut numbers = record[record.len() - 24..].chunks_exact(8).map(|bytes| {
            f64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
        });
        let mut next = || numbers.next().unwrap_or(f64::NAN);
        Ok(Measurements {
            potential_energy: next(),
            configurational_temperature: next(),
            kinetic_temperature: Some(next()).filter(|_| self.shape.measures_momentum),
        })
    }

    /// The contents of a record, checked.
    fn record_at(&self, file: &mut File, number: usize) -> Result<Vec<u8>, DrawsError> {
        let size = self.shape.record();
        let mut record = vec![0; size];
        let offset = HEADER as u64 + number as u64 * size as u64;
        self.read_at(file, offset, &mut record, &format!("draw {}", number + 1))?;
        let contents = size - CHECKSUM;
        if record[contents..] != checksum(number, &record[..contents]) {
            return Err(self.damaged(format!("draw {}, at byte {offset}, does not have its checksum", number + 1)));
        }
        record.truncate(contents);
        Ok(record)
    }

    fn check_header(&self, file: &mut File) -> Result<(), DrawsError> {
        let mut header = [0; HEADER];
        self.read_at(file, 0, &mut header, "its head")?;
        if header[..8] != MAGIC {
            return Err(self.damaged("byte 0: it is no log of draws".into()));
        }
        let found = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if found != FORMAT {
            return Err(DrawsError::OtherVersion { path: self.path.clone(), found, known: FORMAT });
        }
        if header[..] != self.shape.header() {
            let reason = "its draws have another number of weights or statistics".into();
            return Err(DrawsError::OtherNetwork { path: self.path.clone(), reason });
        }
        Ok(())
    }

    fn open(&self) -> Result<File, DrawsError> {
        File::open(&self.path).map_err(|source| read_error(&self.path, source))
    }

    fn read_at(&self, file: &mut File, offset: u64, bytes: &mut [u8], what: &str) -> Result<(), DrawsError> {
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(bytes));
        read.map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => self.damaged(format!("it ends before {what}, at byte {offset}, does")),
            _ => read_error(&self.path, source),
        })
    }

    fn damaged(&self, reason: String) -> DrawsError {
        DrawsError::Damaged { path: self.path.clone(), reason }
    }
}

fn checksum(number: usize, contents: &[u8]) -> [u8; CHECKSUM] {
    let hash = Sha256::new().chain_update((number as u64).to_le_bytes()).chain_update(contents).finalize();
    std::array::from_fn(|i| hash[i])
}

fn write_error(path: &Path, source: std::io::Error) -> DrawsError {
    DrawsError::File { action: "write", path: path.into(), source }
}

fn read_error(path: &Path, source: std::io::Error) -> DrawsError {
    DrawsError::File { action: "read", path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::kept::{Draws, Place};
    use proptest::prelude::*;

    const SHAPE: DrawShape = DrawShape { dim: 5, num_statistics: 2, measures_momentum: true };

    fn push(draws: &mut Draws, number: usize) -> Result<(), DrawsError> {
        let numbers: Vec<f32> = (0..7).map(|i| (number * 7 + i) as f32).collect();
        let weights = Weights { parameters: &numbers[..5], statistics: &numbers[5..] };
        let measured = Measurements {
            potential_energy: number as f64,
            configurational_temperature: -1.0,
            kinetic_temperature: Some(0.5),
        };
        draws.push(weights, measured)
    }

    fn log_of(path: &Path, count: usize) -> Vec<u8> {
        let mut draws = Draws::create_log(path, SHAPE).unwrap();
        (0..count).for_each(|number| push(&mut draws, number).unwrap());
        draws.sync().unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_log_goes_on_where_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let whole = log_of(&path, 6);
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        assert!(matches!(Draws::reopen_log(&path, SHAPE, 6), Err(DrawsError::Damaged { .. })));
        let mut draws = Draws::reopen_log(&path, SHAPE, 4).unwrap();
        assert_eq!((draws.len(), &draws.potential_energy[..]), (4, &[0.0, 1.0, 2.0, 3.0][..]));
        push(&mut draws, 4).unwrap();
        push(&mut draws, 5).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        assert_eq!(draws.kinetic_temperature, [0.5; 6]);
        let lots: Vec<_> = draws.lots(4).map(|lot| lot.unwrap()).collect();
        assert_eq!(lots.iter().map(Lot::len).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(lots[1].iter().last().unwrap().statistics, [40.0, 41.0]);
    }

    #[test]
    fn foreign_logs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut bytes = log_of(&path, 1);
        let other = DrawShape { dim: 6, ..SHAPE };
        assert!(matches!(Draws::reopen_log(&path, other, 1), Err(DrawsError::OtherNetwork { .. })));
        bytes[8] = 99;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(
            Draws::reopen_log(&path, SHAPE, 1),
            Err(DrawsError::OtherVersion { found: 99, known: 1, .. })
        ));
        assert!(matches!(Draws::reopen_log(&folder.path().join("b"), SHAPE, 0), Err(DrawsError::File { .. })));
    }

    /// `/dev/full` refuses every byte.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said() {
        let mut draws = Draws {
            place: Place::Log(DrawLog { path: "/dev/full".into(), shape: SHAPE, count: 0 }),
            ..Draws::default()
        };
        let said = push(&mut draws, 0).unwrap_err().to_string();
        assert!(said.contains("cannot write the draws /dev/full") && said.contains("No space left"), "{said}");
        assert!(draws.is_empty() && draws.potential_energy.is_empty());
    }

    proptest! {
        #[test]
        fn damage_anywhere_is_an_error_and_never_a_panic(place in 0_usize..10_000, bit in 0_u8..8, cut in any::<bool>()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.log");
            let mut bytes = log_of(&path, 3);
            let place = place % bytes.len();
            if cut { bytes.truncate(place) } else { bytes[place] ^= 1 << bit }
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(Draws::reopen_log(&path, SHAPE, 3).is_err());
            prop_assert_eq!(std::fs::read(&path).unwrap(), bytes, "what is damaged is left alone");
        }
    }
}

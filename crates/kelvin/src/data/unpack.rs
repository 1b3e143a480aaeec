//! The contents of a binary file, plain or packed: read from the front, never more than asked for, every error with its byte.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::error::DataError;
use super::source_text::unreadable;

/// Bytes of a file, unpacked on the way where it begins as gzip does.
pub(super) struct Contents<'a> {
    file: String,
    reader: Box<dyn Read + 'a>,
    is_packed: bool,
    offset: u64,
}

impl<'a> Contents<'a> {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let reader = BufReader::with_capacity(1 << 16, file);
        Self::new(path.display().to_string(), reader).map_err(|error| unreadable(path, &error))
    }

    /// Contents that are already in memory.
    pub(super) fn from_bytes(file: &str, bytes: &'a [u8]) -> Self {
        Self::new(file.to_owned(), bytes).expect("memory can be read")
    }

    fn new(file: String, mut reader: impl BufRead + 'a) -> std::io::Result<Self> {
        let is_packed = reader.fill_buf()?.starts_with(&[0x1F, 0x8B]);
        let reader: Box<dyn Read + 'a> =
            if is_packed { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
        Ok(Self { file, reader, is_packed, offset: 0 })
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// At most `limit` bytes of what is left. Memory grows with what is really there, not with `limit`.
    pub(super) fn read_up_to(&mut self, limit: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        let outcome = self.reader.by_ref().take(limit).read_to_end(&mut bytes);
        self.offset += bytes.len() as u64;
        match outcome {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Exactly `count` bytes, which are to be `expected`.
    pub(super) fn read_exactly(&mut self, count: u64, expected: &str) -> Result<Vec<u8>, DataError> {
        let start = self.offset;
        let bytes = self.read_up_to(count)?;
        if (bytes.len() as u64) < count {
            let found = format!("the end after {} of {count} bytes", bytes.len());
            return Err(self.wrong(start, expected.to_owned(), found));
        }
        Ok(bytes)
    }

    /// A big-endian number of 32 bits.
    pub(super) fn read_u32(&mut self, expected: &str) -> Result<u32, DataError> {
        let bytes = self.read_exactly(4, expected)?;
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    /// An error if anything is left, or if a packed file's own checksum does not fit.
    pub(super) fn expect_end(&mut self) -> Result<(), DataError> {
        let start = self.offset;
        if self.read_up_to(1)?.is_empty() {
            return Ok(());
        }
        Err(self.wrong(start, "the end of the file".to_owned(), "more bytes".to_owned()))
    }

    /// That the contents are not what they should be from byte `offset` on.
    pub(super) fn wrong(&self, offset: u64, expected: String, found: String) -> DataError {
        DataError::WrongBytes { file: self.file.clone(), offset, expected, found }
    }

    fn failed(&self, error: &std::io::Error) -> DataError {
        if self.is_packed {
            return damaged(&self.file, self.offset, error.to_string());
        }
        DataError::Unreadable { path: self.file.clone().into(), reason: error.to_string() }
    }
}

/// The least window that decoders of zstd are advised to have.
const LEAST_WINDOW: u64 = 8 << 20;

/// At most `limit` bytes of what one zstd frame holds; its checksum and its end are checked where it is read whole.
pub(super) fn unpack_zstd(file: &str, packed: &[u8], limit: u64) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let mut rest = packed;
    // A window is set aside as a frame's head asks for it: none needs to be larger than what may be unpacked.
    let window = limit.checked_next_power_of_two().unwrap_or(u64::MAX).max(LEAST_WINDOW);
    let mut decoder = StreamingDecoder::new_with_max_window_size(&mut rest, window)
        .map_err(|error| damaged(file, 0, format!("not zstd: {error}")))?;
    if let Err(error) = decoder.by_ref().take(limit).read_to_end(&mut bytes) {
        let reason =
            if error.kind() == ErrorKind::UnexpectedEof { "it ends too early".into() } else { error.to_string() };
        return Err(damaged(file, bytes.len() as u64, reason));
    }
    let frame = decoder.into_frame_decoder();
    if frame.is_finished() && frame.can_collect() == 0 {
        let (stored, computed) = (frame.get_checksum_from_data(), frame.get_calculated_checksum());
        if stored.is_some() && stored != computed {
            return Err(damaged(file, bytes.len() as u64, "its checksum does not fit".to_owned()));
        }
        if !rest.is_empty() {
            return Err(damaged(file, bytes.len() as u64, format!("{} bytes follow the end of the frame", rest.len())));
        }
    }
    Ok(bytes)
}

fn damaged(file: &str, offset: u64, reason: String) -> DataError {
    DataError::DamagedArchive { file: file.to_owned(), offset, reason }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    pub(in crate::data) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(in crate::data) fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn all(bytes: &[u8], limit: u64) -> Result<Vec<u8>, DataError> {
        Contents::from_bytes("f", bytes).read_up_to(limit)
    }

    #[test]
    fn plain_and_packed_hold_the_same() {
        let bytes: Vec<u8> = (0..10_000u32).map(|index| ((index * index) >> 7) as u8).collect();
        assert_eq!(all(&bytes, u64::MAX).unwrap(), bytes);
        assert_eq!(all(&gzip(&bytes), u64::MAX).unwrap(), bytes);
        assert_eq!(unpack_zstd("f", &zstd(&bytes), u64::MAX).unwrap(), bytes);
    }

    #[test]
    fn a_bomb_is_unpacked_no_further_than_asked_for() {
        let zeros = vec![0; 10 << 20];
        let (gzip, zstd) = (gzip(&zeros), zstd(&zeros));
        assert!(gzip.len() < 100_000 && zstd.len() < 100_000);
        assert_eq!(all(&gzip, 100).unwrap().len(), 100);
        assert_eq!(unpack_zstd("f", &zstd, 100).unwrap().len(), 100);
    }

    #[test]
    fn a_cut_or_changed_archive_is_damaged() {
        let bytes: Vec<u8> = (0..5000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for packed in [gzip(&bytes), zstd(&bytes)] {
            let unpacked = |packed: &[u8]| {
                if packed[0] == 0x1F { all(packed, 1 << 20) } else { unpack_zstd("f", packed, 1 << 20) }
            };
            assert!(matches!(unpacked(&packed[..packed.len() - 5]), Err(DataError::DamagedArchive { .. })));
            let mut changed = packed.clone();
            let middle = changed.len() / 2;
            changed[middle] ^= 0x10;
            assert!(matches!(unpacked(&changed), Err(DataError::DamagedArchive { .. })));
            let mut longer = packed.clone();
            longer.extend(b"more");
            assert!(matches!(unpacked(&longer), Err(DataError::DamagedArchive { .. })));
        }
    }

    #[test]
    fn an_early_end_is_told_with_its_place() {
        let mut contents = Contents::from_bytes("f", &[0, 0, 1, 2, 9, 9]);
        assert_eq!(contents.read_u32("a number").unwrap(), 258);
        let message = contents.read_u32("the number of rows").unwrap_err().to_string();
        assert!(
            message.starts_with("f, byte 4: expected the number of rows, found the end after 2 of 4 bytes"),
            "{message}"
        );
    }

    #[test]
    fn what_follows_is_noticed() {
        let mut contents = Contents::from_bytes("f", &[1, 2]);
        contents.read_exactly(1, "a byte").unwrap();
        let message = contents.expect_end().unwrap_err().to_string();
        assert!(message.starts_with("f, byte 1: expected the end of the file, found more bytes"), "{message}");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack_zstd("f", &bytes, 1000);
            let _ = all(&bytes, 1000);
            bytes.splice(0..0, [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]);
            let _ = all(&bytes, 1000);
            bytes.splice(0..10, [0x28, 0xB5, 0x2F, 0xFD]);
            let _ = unpack_zstd("f", &bytes, 1000);
        }

        #[test]
        fn a_changed_frame_never_panics(at in 0..400usize, bit in 0..8u32) {
            let bytes: Vec<u8> = (0..2000u32).map(|index| ((index * index) >> 5) as u8 & 0x3F).collect();
            let mut packed = zstd(&bytes);
            let at = at % packed.len();
            packed[at] ^= 1 << bit;
            let _ = unpack_zstd("f", &packed, 1 << 20);
        }
    }
}

//! CIFAR-10's batches: the original records, and a smaller form that holds the same bytes as differences, packed with zstd.
//!
//! An original record is 3,073 bytes: a label, then 32 × 32 bytes of red, of green, of blue. The smaller form of N records
//! unpacks to N labels and three blocks of N planes. A plane holds differences modulo 256, first along each row, then down
//! the columns; green is block 1, red is block 0 + green, blue is block 2 + green.

use std::path::Path;

use super::error::DataError;
use super::images::ImageSet;
use super::shape::Shape;
use super::unpack::{Contents, unpack_zstd};

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PLANE;
const NUM_CLASSES: u8 = 10;
/// The most records a batch may have: those of the original files.
const MAX_RECORDS: usize = 10_000;

/// The most bytes a batch has, unpacked.
pub(super) const MAX_BYTES: u64 = (MAX_RECORDS * RECORD) as u64;
/// How the name of a file in the smaller form ends.
const DIFFERENCES: &str = ".delta.zst";

/// Reads one batch: original records, or the smaller form where the name ends in `.delta.zst`.
pub fn read_cifar_batch(path: &Path) -> Result<ImageSet, DataError> {
    let file = path.display().to_string();
    images(&file, &read_records(path)?)
}

/// The original records of a batch in either form, and at most one byte more than a batch has.
pub(super) fn read_records(path: &Path) -> Result<Vec<u8>, DataError> {
    let file = path.display().to_string();
    records_of(&file, Contents::open(path)?)
}

fn records_of(file: &str, mut contents: Contents<'_>) -> Result<Vec<u8>, DataError> {
    let bytes = contents.read_up_to(MAX_BYTES + 1)?;
    if file.ends_with(DIFFERENCES) { records(file, &unpack_zstd(file, &bytes, MAX_BYTES + 1)?) } else { Ok(bytes) }
}

impl ImageSet {
    /// A batch of CIFAR-10 that is in memory, in the form that `file` is the name of; it stands for the batch in errors.
    pub fn from_cifar(file: &str, bytes: &[u8]) -> Result<Self, DataError> {
        images(file, &records_of(file, Contents::from_bytes(file, bytes))?)
    }
}

/// The images of original records, red, green and blue of a pixel side by side.
pub(super) fn images(file: &str, records: &[u8]) -> Result<ImageSet, DataError> {
    let count = num_records(file, records)?;
    let mut pixels = vec![0; count * 3 * PLANE];
    let mut labels = Vec::with_capacity(count);
    for (index, (record, image)) in records.chunks_exact(RECORD).zip(pixels.chunks_exact_mut(3 * PLANE)).enumerate() {
        let (label, planes) = (record[0], &record[1..]);
        if label >= NUM_CLASSES {
            let (expected, found) = ("a label below 10".to_owned(), label.to_string());
            return Err(DataError::WrongBytes {
                file: file.to_owned(),
                offset: (index * RECORD) as u64,
                expected,
                found,
            });
        }
        labels.push(u32::from(label));
        let (red, rest) = planes.split_at(PLANE);
        let (green, blue) = rest.split_at(PLANE);
        for (pixel, ((&red, &green), &blue)) in image.chunks_exact_mut(3).zip(red.iter().zip(green).zip(blue)) {
            pixel.copy_from_slice(&[red, green, blue]);
        }
    }
    Ok(ImageSet { shape: Shape::image(SIDE, SIDE, 3), pixels, labels })
}

/// The original records from the smaller form, unpacked.
fn records(file: &str, differences: &[u8]) -> Result<Vec<u8>, DataError> {
    let count = num_records(file, differences)?;
    let (labels, planes) = differences.split_at(count);
    let plane = |block: usize, index: usize| -> [u8; PLANE] {
        let mut values = [0; PLANE];
        values.copy_from_slice(&planes[(block * count + index) * PLANE..][..PLANE]);
        sum_differences(&mut values);
        values
    };
    let mut records = vec![0; count * RECORD];
    for (index, record) in records.chunks_exact_mut(RECORD).enumerate() {
        record[0] = labels[index];
        let (mut red, green, mut blue) = (plane(0, index), plane(1, index), plane(2, index));
        for at in 0..PLANE {
            red[at] = red[at].wrapping_add(green[at]);
            blue[at] = blue[at].wrapping_add(green[at]);
        }
        record[1..][..PLANE].copy_from_slice(&red);
        record[1 + PLANE..][..PLANE].copy_from_slice(&green);
        record[1 + 2 * PLANE..].copy_from_slice(&blue);
    }
    Ok(records)
}

/// Running sums down the columns, then along each row.
fn sum_differences(plane: &mut [u8; PLANE]) {
    for at in SIDE..PLANE {
        plane[at] = plane[at].wrapping_add(plane[at - SIDE]);
    }
    for row in plane.chunks_exact_mut(SIDE) {
        let mut sum = 0u8;
        for value in row {
            sum = sum.wrapping_add(*value);
            *value = sum;
        }
    }
}

/// How many records these bytes are, in either form.
fn num_records(file: &str, bytes: &[u8]) -> Result<usize, DataError> {
    let count = bytes.len() / RECORD;
    if count > 0 && bytes.len() == count * RECORD && count <= MAX_RECORDS {
        return Ok(count);
    }
    let expected = format!("1 to {MAX_RECORDS} records of {RECORD} bytes");
    let found =
        if bytes.len() as u64 > MAX_BYTES { "more bytes".to_owned() } else { format!("{} bytes in all", bytes.len()) };
    Err(DataError::WrongBytes {
        file: file.to_owned(),
        offset: (count.min(MAX_RECORDS) * RECORD) as u64,
        expected,
        found,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::unpack::tests::zstd;
    use super::*;

    /// Records with every byte a different mixture of its place.
    fn some_records(count: usize) -> Vec<u8> {
        let byte = |at: usize| if at.is_multiple_of(RECORD) { (at / RECORD % 10) as u8 } else { (at * at / 37) as u8 };
        (0..count * RECORD).map(byte).collect()
    }

    /// The smaller form, made as its description says: green out of red and blue, differences along rows, down columns.
    fn differences(records: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = records.chunks_exact(RECORD).map(|record| record[0]).collect();
        for block in 0..3 {
            for record in records.chunks_exact(RECORD) {
                let channel = |channel: usize| &record[1 + channel * PLANE..][..PLANE];
                let value = |row: usize, column: usize| {
                    let at = row * SIDE + column;
                    if block == 1 { channel(1)[at] } else { channel(block)[at].wrapping_sub(channel(1)[at]) }
                };
                let along = |row: usize, column: usize| {
                    value(row, column).wrapping_sub(if column == 0 { 0 } else { value(row, column - 1) })
                };
                for at in 0..PLANE {
                    let (row, column) = (at / SIDE, at % SIDE);
                    bytes.push(along(row, column).wrapping_sub(if row == 0 { 0 } else { along(row - 1, column) }));
                }
            }
        }
        bytes
    }

    #[test]
    fn channels_of_a_pixel_stand_side_by_side() {
        let records = some_records(12);
        let images = images("batch", &records).unwrap();
        assert_eq!((images.len(), images.labels[11]), (12, 1));
        let (row, column) = (5, 9);
        let at = row * SIDE + column;
        let record = &records[3 * RECORD..][..RECORD];
        assert_eq!(
            images.image(3)[3 * at..][..3],
            [record[1 + at], record[1 + PLANE + at], record[1 + 2 * PLANE + at]]
        );
    }

    #[test]
    fn the_smaller_form_holds_the_same_records() {
        let original = some_records(3);
        assert_eq!(records("batch", &differences(&original)).unwrap(), original);
    }

    #[test]
    fn both_forms_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let original = some_records(2);
        let (plain, packed) = (folder.path().join("b.bin"), folder.path().join("b.delta.zst"));
        std::fs::write(&plain, &original).unwrap();
        std::fs::write(&packed, zstd(&differences(&original))).unwrap();
        assert_eq!(read_cifar_batch(&plain).unwrap(), read_cifar_batch(&packed).unwrap());
        std::fs::write(&packed, &original).unwrap();
        assert!(matches!(read_cifar_batch(&packed), Err(DataError::DamagedArchive { .. })));
        std::fs::write(&packed, zstd(&vec![0; 100 << 20])).unwrap();
        assert!(read_cifar_batch(&packed).unwrap_err().to_string().contains("found more bytes"));
    }

    #[test]
    fn a_wrong_length_or_label_is_told_with_its_place() {
        let mut records = some_records(2);
        let message = images("batch", &records[..RECORD + 10]).unwrap_err().to_string();
        assert!(message.starts_with("batch, byte 3073: expected 1 to 10000 records of 3073 bytes"), "{message}");
        assert!(message.contains("found 3083 bytes in all"), "{message}");
        records[RECORD] = 10;
        let message = images("batch", &records).unwrap_err().to_string();
        assert!(message.starts_with("batch, byte 3073: expected a label below 10, found 10"), "{message}");
        assert!(images("batch", &[]).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2 * RECORD)) {
            let _ = (images("batch", &bytes), records("batch", &bytes));
            let whole = bytes.len() / RECORD * RECORD;
            let _ = (images("batch", &bytes[..whole]), records("batch", &bytes[..whole]));
        }
    }
}

//! The idx format of MNIST: images or labels as bytes behind a header of big-endian numbers, plain or gzipped.
//!
//! ```text
//! magic 0x00000801, count                                    then a byte for each label
//! magic 0x00000803, count, height, width                     then the grey images, rows from the top
//! magic 0x00000804, count, height, width, channels           then images with channels innermost
//! ```

use std::path::Path;

use super::error::DataError;
use super::images::Images;
use super::shape::Shape;
use super::unpack::Contents;

const LABELS: u32 = 0x0801;
const GREY_IMAGES: u32 = 0x0803;
const IMAGES_WITH_CHANNELS: u32 = 0x0804;

/// The most bytes a header may promise.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a file of images; it may be gzipped.
pub fn read_idx_images(path: &Path) -> Result<Images, DataError> {
    images(&mut Contents::open(path)?)
}

impl Images {
    /// The images of an idx file that is in memory, gzipped or not; `file` stands for it in errors.
    pub fn from_idx(file: &str, bytes: &[u8]) -> Result<Self, DataError> {
        images(&mut Contents::from_bytes(file, bytes))
    }
}

/// The labels of an idx file that is in memory, gzipped or not; `file` stands for it in errors.
pub fn labels_from_idx(file: &str, bytes: &[u8]) -> Result<Vec<u32>, DataError> {
    labels(&mut Contents::from_bytes(file, bytes))
}

fn images(contents: &mut Contents<'_>) -> Result<Images, DataError> {
    let magic = contents.read_u32("the magic number of idx images")?;
    if magic != GREY_IMAGES && magic != IMAGES_WITH_CHANNELS {
        let expected = format!("the magic number of idx images, {GREY_IMAGES:#010x} or {IMAGES_WITH_CHANNELS:#010x}");
        return Err(contents.wrong(0, expected, named(magic)));
    }
    let count = dimension(contents, "the number of images")?;
    let height = dimension(contents, "the height of an image")?;
    let width = dimension(contents, "the width of an image")?;
    let channels = if magic == GREY_IMAGES { 1 } else { dimension(contents, "the channels of a pixel")? };
    let num_bytes = [count, height, width, channels].iter().try_fold(1u64, |product, &size| product.checked_mul(size));
    let Some(num_bytes) = num_bytes.filter(|&bytes| bytes <= MAX_BYTES) else {
        let found = format!("{count} images of {height} × {width} × {channels}");
        return Err(contents.wrong(4, format!("at most {} MiB of images", MAX_BYTES >> 20), found));
    };
    let pixels =
        contents.read_exactly(num_bytes, &format!("{count} images of {height} × {width} × {channels} bytes"))?;
    contents.expect_end()?;
    // None of the three exceeds MAX_BYTES.
    let shape = Shape::image(height as usize, width as usize, channels as usize);
    Ok(Images { shape, pixels })
}

fn labels(contents: &mut Contents<'_>) -> Result<Vec<u32>, DataError> {
    let magic = contents.read_u32("the magic number of idx labels")?;
    if magic != LABELS {
        return Err(contents.wrong(0, format!("the magic number of idx labels, {LABELS:#010x}"), named(magic)));
    }
    let count = dimension(contents, "the number of labels")?;
    if count > MAX_BYTES {
        return Err(contents.wrong(4, format!("at most {MAX_BYTES} labels"), count.to_string()));
    }
    let bytes = contents.read_exactly(count, &format!("{count} labels"))?;
    contents.expect_end()?;
    Ok(bytes.into_iter().map(u32::from).collect())
}

/// A number of the header that must not be 0.
fn dimension(contents: &mut Contents<'_>, what: &str) -> Result<u64, DataError> {
    let offset = contents.offset();
    match contents.read_u32(what)? {
        0 => Err(contents.wrong(offset, format!("{what}, at least 1"), "0".to_owned())),
        size => Ok(u64::from(size)),
    }
}

/// A magic number as an error shows it.
fn named(magic: u32) -> String {
    let meaning = match magic {
        LABELS => " (a file of labels)",
        GREY_IMAGES | IMAGES_WITH_CHANNELS => " (a file of images)",
        _ => "",
    };
    format!("{magic:#010x}{meaning}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::unpack::tests::gzip;
    use super::*;

    fn idx(magic: u32, dimensions: &[u32], bytes: &[u8]) -> Vec<u8> {
        let header = std::iter::once(magic).chain(dimensions.iter().copied()).flat_map(u32::to_be_bytes);
        header.chain(bytes.iter().copied()).collect()
    }

    fn images_of(bytes: &[u8]) -> Result<Images, DataError> {
        Images::from_idx("images", bytes)
    }

    fn labels_of(bytes: &[u8]) -> Result<Vec<u32>, DataError> {
        labels_from_idx("labels", bytes)
    }

    fn complaint<T: std::fmt::Debug>(outcome: Result<T, DataError>) -> String {
        outcome.unwrap_err().to_string()
    }

    #[test]
    fn two_small_images_plain_and_gzipped() {
        let bytes = idx(GREY_IMAGES, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        for bytes in [gzip(&bytes), bytes] {
            let images = images_of(&bytes).unwrap();
            assert_eq!(images.shape, Shape::image(1, 3, 1));
            assert_eq!((images.len(), images.image(1)), (2, [4, 5, 6].as_slice()));
        }
        let coloured = images_of(&idx(IMAGES_WITH_CHANNELS, &[1, 1, 2, 3], &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(coloured.shape, Shape::image(1, 2, 3));
    }

    #[test]
    fn labels_are_read() {
        let bytes = idx(LABELS, &[3], &[7, 0, 255]);
        assert_eq!(labels_of(&bytes).unwrap(), [7, 0, 255]);
        assert_eq!(labels_of(&gzip(&bytes)).unwrap(), [7, 0, 255]);
    }

    #[test]
    fn one_kind_is_not_the_other() {
        let message = complaint(images_of(&idx(LABELS, &[3], &[7, 0, 9])));
        assert!(message.contains("images, byte 0: expected the magic number of idx images"), "{message}");
        assert!(message.contains("found 0x00000801 (a file of labels)"), "{message}");
        assert!(complaint(labels_of(&idx(GREY_IMAGES, &[1, 1, 1], &[0]))).contains("(a file of images)"));
        assert!(complaint(labels_of(b"labels,text")).contains("found 0x6c616265\n"));
    }

    #[test]
    fn a_wrong_length_is_told_with_its_place() {
        let short = idx(GREY_IMAGES, &[2, 1, 3], &[1, 2, 3, 4]);
        for bytes in [gzip(&short), short] {
            let message = complaint(images_of(&bytes));
            let expected = "byte 16: expected 2 images of 1 × 3 × 1 bytes, found the end after 4 of 6 bytes";
            assert!(message.contains(expected), "{message}");
        }
        let long = idx(LABELS, &[1], &[1, 2]);
        for bytes in [gzip(&long), long] {
            let message = complaint(labels_of(&bytes));
            assert!(message.contains("byte 9: expected the end of the file, found more bytes"), "{message}");
        }
        assert!(complaint(images_of(&[0, 0, 8])).contains("byte 0: expected the magic number"));
    }

    /// The headers promise up to 2¹²⁸ bytes; nothing is set aside for them.
    #[test]
    fn a_forged_header_costs_nothing() {
        let all = u32::MAX;
        let message = complaint(images_of(&idx(GREY_IMAGES, &[all, all, all], &[])));
        assert!(message.contains("byte 4: expected at most 1024 MiB of images, found 4294967295 images"), "{message}");
        assert!(images_of(&idx(IMAGES_WITH_CHANNELS, &[all, all, all, all], &[])).is_err());
        assert!(complaint(images_of(&idx(GREY_IMAGES, &[1 << 20, 32, 32], &[1]))).contains("the end after 1 of"));
        assert!(complaint(labels_of(&idx(LABELS, &[all], &[]))).contains("at most"));
        assert!(complaint(images_of(&idx(GREY_IMAGES, &[1, 0, 1], &[]))).contains("byte 8: expected the height"));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(magic in prop::sample::select(vec![0, LABELS, GREY_IMAGES, IMAGES_WITH_CHANNELS]),
                                    bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let file = idx(magic, &[], &bytes);
            let _ = (images_of(&bytes), labels_of(&bytes), images_of(&file), labels_of(&file));
        }
    }
}

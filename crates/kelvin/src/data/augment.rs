//! Augmentation of images: flip, pad with zeros, crop; a function of a random number's name and the place in the batch.
//!
//! Block `position` of the key ([`NoiseKey::words`]) decides all about the image at that place of the batch, so any device
//! can do the same:
//! ```text
//! word 0   augmented if word < ⌊strength · 2³²⌋ (compared as 64 bits, so that strength 1 takes every word)
//! word 1   flipped if its highest bit is set
//! word 2   top  = ⌊9 · word / 2³²⌋, 0 to 8
//! word 3   left = ⌊9 · word / 2³²⌋, 0 to 8
//! ```
//! Pixel (row, column) of the result is pixel (row + top − 4, column + left − 4) of the (flipped) image, 0 outside of it.

use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::shape::Shape;
use crate::random::NoiseKey;

/// Rows and columns of zeros around an image before it is cropped.
pub const PADDING: usize = 4;

/// How often images are augmented.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Augmentation {
    strength: f64,
}

/// Where the crop of one image lies, and whether the image is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Whether left and right change places.
    pub flip: bool,
    /// First row of the crop in the padded image, 0 to 8.
    pub top: usize,
    /// First column of the crop in the padded image, 0 to 8.
    pub left: usize,
}

impl Placement {
    /// The image as it is.
    pub const PLAIN: Self = Self { flip: false, top: PADDING, left: PADDING };
}

impl Augmentation {
    /// With `strength` the probability that an image is augmented at all.
    pub fn new(strength: f64) -> Result<Self, DataError> {
        if (0.0..=1.0).contains(&strength) {
            return Ok(Self { strength });
        }
        Err(DataError::AugmentationStrength { found: strength })
    }

    /// The probability that an image is augmented at all.
    pub fn strength(&self) -> f64 {
        self.strength
    }

    /// What word 0 must be below: ⌊strength · 2³²⌋.
    pub fn threshold(&self) -> u64 {
        (self.strength * (1u64 << 32) as f64) as u64
    }

    /// What becomes of the image at `position` of the batch that `key` names.
    ///
    /// # Panics
    /// If `position` is not below 2³².
    #[inline]
    pub fn placement(&self, key: &NoiseKey, position: usize) -> Placement {
        let words = key.words(u32::try_from(position).expect("a batch of fewer than 2³² images"));
        if u64::from(words[0]) >= self.threshold() {
            return Placement::PLAIN;
        }
        let offset = |word: u32| ((u64::from(word) * (2 * PADDING as u64 + 1)) >> 32) as usize;
        Placement { flip: words[1] >> 31 == 1, top: offset(words[2]), left: offset(words[3]) }
    }
}

impl TryFrom<f64> for Augmentation {
    type Error = DataError;

    fn try_from(strength: f64) -> Result<Self, DataError> {
        Self::new(strength)
    }
}

impl From<Augmentation> for f64 {
    fn from(augmentation: Augmentation) -> Self {
        augmentation.strength
    }
}

/// A byte of an image as a network reads it: byte / 255.
#[inline]
pub fn scaled(byte: u8) -> f32 {
    f32::from(byte) / 255.0
}

/// What an image holds: bytes, or numbers as a network reads them.
pub trait Pixel: Copy {
    /// As a network reads it.
    fn number(self) -> f32;
}

impl Pixel for u8 {
    #[inline]
    fn number(self) -> f32 {
        scaled(self)
    }
}

impl Pixel for f32 {
    #[inline]
    fn number(self) -> f32 {
        self
    }
}

/// Writes an image as a network reads it, flipped and cropped as `placement` says, its pixels `stride` numbers apart; what
/// lies between them stays as it is.
///
/// # Panics
/// If the image does not have the size of `shape`, or `to` not that of its pixels.
pub fn write_augmented<P: Pixel>(image: &[P], shape: Shape, placement: Placement, to: &mut [f32], stride: usize) {
    let Shape { height, width, channels } = shape;
    assert_eq!((image.len(), to.len()), (shape.len(), height * width * stride), "the size of {shape:?}");
    let inside = |at: usize, size: usize| at.checked_sub(PADDING).filter(|&at| at < size);
    for (row, to_row) in to.chunks_exact_mut(width * stride).enumerate() {
        let row = inside(row + placement.top, height);
        for (column, to_pixel) in to_row.chunks_exact_mut(stride).enumerate() {
            let to_pixel = &mut to_pixel[..channels];
            match row.zip(inside(column + placement.left, width)) {
                None => to_pixel.fill(0.0),
                Some((row, column)) => {
                    let column = if placement.flip { width - 1 - column } else { column };
                    let pixel = &image[(row * width + column) * channels..][..channels];
                    to_pixel.iter_mut().zip(pixel).for_each(|(to, from)| *to = from.number());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const KEY: NoiseKey = NoiseKey { seed: 5, purpose: Purpose::Augmentation, chain: 2, step: 77 };

    fn placements(strength: f64, count: usize) -> Vec<Placement> {
        let augmentation = Augmentation::new(strength).unwrap();
        (0..count).map(|position| augmentation.placement(&KEY, position)).collect()
    }

    /// Pixels 1 to 9 of a grey 3 × 3 image, as whole numbers again.
    fn moved(placement: Placement) -> Vec<u8> {
        let (shape, image) = (Shape::image(3, 3, 1), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut to = [-1.0; 9];
        write_augmented(&image, shape, placement, &mut to, 1);
        to.iter().map(|&value| (value * 255.0).round() as u8).collect()
    }

    #[test]
    fn a_hand_worked_image() {
        assert_eq!(moved(Placement::PLAIN), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(moved(Placement { flip: true, ..Placement::PLAIN }), [3, 2, 1, 6, 5, 4, 9, 8, 7]);
        // The crop begins a row lower and a column further right: the picture moves up and left.
        assert_eq!(moved(Placement { flip: false, top: 5, left: 5 }), [5, 6, 0, 8, 9, 0, 0, 0, 0]);
        assert_eq!(moved(Placement { flip: false, top: 3, left: 4 }), [0, 0, 0, 1, 2, 3, 4, 5, 6]);
        // Flipped first, then moved down by two and left by one.
        assert_eq!(moved(Placement { flip: true, top: 2, left: 5 }), [0, 0, 0, 0, 0, 0, 2, 1, 0]);
        assert_eq!(moved(Placement { flip: false, top: 0, left: 0 }), [0; 9]);
    }

    #[test]
    fn channels_stay_together() {
        let shape = Shape::image(1, 2, 3);
        let mut to = [0.0; 6];
        write_augmented(&[1, 2, 3, 4, 5, 6], shape, Placement { flip: true, ..Placement::PLAIN }, &mut to, 3);
        assert_eq!(to, [4, 5, 6, 1, 2, 3].map(scaled));
        write_augmented(&[1, 2, 3, 4, 5, 6], shape, Placement { left: 5, ..Placement::PLAIN }, &mut to, 3);
        assert_eq!(to, [4, 5, 6, 0, 0, 0].map(scaled));
        let mut wide = [-1.0; 8];
        write_augmented(&[1, 2, 3, 4, 5, 6], shape, Placement { left: 5, ..Placement::PLAIN }, &mut wide, 4);
        assert_eq!(wide, [scaled(4), scaled(5), scaled(6), -1.0, 0.0, 0.0, 0.0, -1.0]);
    }

    #[test]
    fn numbers_are_moved_as_bytes_are() {
        let (shape, bytes) = (Shape::image(3, 2, 2), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        for placement in placements(1.0, 40) {
            let (mut of_bytes, mut of_numbers) = ([-1.0; 18], [-1.0; 18]);
            write_augmented(&bytes, shape, placement, &mut of_bytes, 3);
            write_augmented(&bytes.map(scaled), shape, placement, &mut of_numbers, 3);
            assert_eq!(of_bytes, of_numbers, "{placement:?}");
        }
    }

    #[test]
    fn strength_is_how_often() {
        const COUNT: usize = 20_000;
        let num_changed = |strength| placements(strength, COUNT).iter().filter(|&&p| p != Placement::PLAIN).count();
        assert_eq!(num_changed(0.0), 0);
        // 1 in 162 of the augmented is as it was by chance. |z| < 5.
        for (strength, share) in [(0.5f64, 0.5 * 161.0 / 162.0), (1.0, 161.0 / 162.0)] {
            let (expected, variance) = (share * COUNT as f64, share * (1.0 - share) * COUNT as f64);
            let found = num_changed(strength) as f64;
            assert!((found - expected).abs() < 5.0 * variance.sqrt(), "{strength}: {found}, expected {expected}");
        }
    }

    #[test]
    fn strength_one_takes_every_word() {
        assert_eq!(Augmentation::new(1.0).unwrap().threshold(), 1 << 32);
        assert_eq!(Augmentation::new(0.25).unwrap().threshold(), 1 << 30);
    }

    /// 9 · 9 · 2 outcomes, each expected 500 times. Chi squared has 161 degrees of freedom: |z| < 5.
    #[test]
    fn every_placement_occurs_equally_often() {
        let mut counts = [0.0f64; 162];
        for placement in placements(1.0, 81_000) {
            counts[(placement.top * 9 + placement.left) * 2 + usize::from(placement.flip)] += 1.0;
        }
        let chi_squared: f64 = counts.iter().map(|count| (count - 500.0).powi(2) / 500.0).sum();
        assert!(counts.iter().all(|&count| count > 0.0));
        assert!((chi_squared - 161.0).abs() < 5.0 * (2.0 * 161.0f64).sqrt(), "{chi_squared}");
    }

    #[test]
    fn the_same_name_gives_the_same_placement() {
        let augmentation = Augmentation::new(1.0).unwrap();
        assert_eq!(placements(1.0, 50), placements(1.0, 50));
        let next: Vec<Placement> =
            (0..50).map(|position| augmentation.placement(&NoiseKey { step: 78, ..KEY }, position)).collect();
        assert_ne!(placements(1.0, 50), next);
    }

    #[test]
    fn the_bits_are_used_as_described() {
        let words = KEY.words(3);
        let placement = Augmentation::new(1.0).unwrap().placement(&KEY, 3);
        assert_eq!(placement.flip, words[1] >= 1 << 31);
        assert_eq!(placement.top as u64, u64::from(words[2]) * 9 / (1 << 32));
        assert_eq!(placement.left as u64, u64::from(words[3]) * 9 / (1 << 32));
    }

    #[test]
    fn only_a_probability_is_a_strength() {
        for strength in [-0.1, 1.5, f64::NAN, f64::INFINITY] {
            assert!(Augmentation::new(strength).is_err());
        }
        let message = Augmentation::new(2.0).unwrap_err().to_string();
        assert_eq!(message, "the strength of augmentation must be a number from 0 to 1, got 2");
        assert!(serde_json::from_str::<Augmentation>("1.5").is_err());
        let read: Augmentation = serde_json::from_str("0.75").unwrap();
        assert_eq!((read.strength(), serde_json::to_string(&read).unwrap()), (0.75, "0.75".to_owned()));
    }
}

//! Generated image sets that need no files: grey stripes in four directions under noise, and rings to be surprised by.
//!
//! Every pixel is a function of (set, image, pixel) through [`NoiseKey`] and of sums, products and square roots only, which
//! every processor rounds alike: the sets are the same everywhere.

use super::images::{ImageDataset, ImageSet};
use super::shape::Shape;
use crate::random::{NoiseKey, Purpose};

/// The shape of generated images.
pub(super) const SHAPE: Shape = Shape::image(12, 12, 1);
pub(super) const NUM_TRAIN: usize = 512;
pub(super) const NUM_HELD_OUT: usize = 128;

/// Standard deviation of a pixel's noise; the stripes' own swing is ± contrast, which varies from image to image.
const NOISE_STD: f64 = 40.0;
const CONTRAST: [f64; 2] = [16.0, 72.0];
const PERIOD: [f64; 2] = [3.0, 6.0];

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Parallel stripes; the class is their direction.
    Stripes,
    /// Rings around a point near the middle; the class is how far apart they are.
    Rings,
}

impl Pattern {
    /// The whole set.
    pub(super) fn dataset(self, name: &str, class_names: &[&str]) -> ImageDataset {
        let images = |from: usize, count: usize| self.images(from as u64, count, class_names.len() as u64);
        ImageDataset {
            name: name.to_owned(),
            class_names: class_names.iter().map(|&class| class.to_owned()).collect(),
            train: images(0, NUM_TRAIN),
            validation: images(NUM_TRAIN, NUM_HELD_OUT),
            test: images(NUM_TRAIN + NUM_HELD_OUT, NUM_HELD_OUT),
        }
    }

    /// Classes take turns, so that the first n images are as balanced as they can be.
    fn images(self, from: u64, count: usize, num_classes: u64) -> ImageSet {
        let mut pixels = Vec::with_capacity(count * SHAPE.len());
        let mut labels = Vec::with_capacity(count);
        for index in from..from + count as u64 {
            let class = index % num_classes;
            self.draw(index, class as u32, &mut pixels);
            labels.push(class as u32);
        }
        ImageSet { shape: SHAPE, pixels, labels }
    }

    fn draw(self, index: u64, class: u32, pixels: &mut Vec<u8>) {
        let key = NoiseKey { seed: 0, purpose: Purpose::Synthetic, chain: self as u32, step: index };
        let [phase, period, contrast, centre] = key.words(0);
        let phase = share(phase);
        let contrast = between(CONTRAST, share(contrast));
        let period = match self {
            Self::Stripes => between(PERIOD, share(period)),
            Self::Rings => f64::from(3 + class),
        };
        let centre = [centre >> 16, centre & 0xFFFF].map(|bits| 3.5 + 4.0 * f64::from(bits) / 65536.0);
        for pixel in 0..SHAPE.len() as u32 {
            let (row, column) = (f64::from(pixel / 12), f64::from(pixel % 12));
            let along = match (self, class) {
                (Self::Stripes, 0) => row,
                (Self::Stripes, 1) => column,
                (Self::Stripes, 2) => row + column,
                (Self::Stripes, _) => row - column,
                (Self::Rings, _) => {
                    let (down, right) = (row - centre[0], column - centre[1]);
                    (down * down + right * right).sqrt()
                }
            };
            let noise = bell(key.words(1 + pixel / 4)[pixel as usize % 4]);
            let value = 128.0 + contrast * wave(along / period + phase) + NOISE_STD * noise;
            pixels.push((value + 0.5).clamp(0.0, 255.0) as u8);
        }
    }
}

/// A triangle of period 1 between −1 and 1.
fn wave(turns: f64) -> f64 {
    4.0 * (turns - turns.floor() - 0.5).abs() - 1.0
}

/// A number of mean 0 and variance 1: the sum of a word's four bytes, which is close to normal.
fn bell(word: u32) -> f64 {
    let sum: f64 = word.to_le_bytes().iter().map(|&byte| f64::from(byte)).sum();
    (sum - 510.0) / 21845.0f64.sqrt()
}

fn share(word: u32) -> f64 {
    f64::from(word) / (1u64 << 32) as f64
}

fn between([low, high]: [f64; 2], share: f64) -> f64 {
    low + (high - low) * share
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    const CLASSES: [&str; 4] = ["a", "b", "c", "d"];

    /// The direction of stripes (any period, any phase) that fits best.
    fn best_direction(image: &[u8]) -> u32 {
        let strength = |direction: u32| -> f64 {
            let at_period = |tenths: u32| -> f64 {
                let turn = std::f64::consts::TAU / (f64::from(tenths) / 10.0);
                let (mut cosine, mut sine) = (0.0, 0.0);
                for (pixel, &value) in image.iter().enumerate() {
                    let (row, column) = ((pixel / 12) as f64, (pixel % 12) as f64);
                    let angle = turn * [row, column, row + column, row - column][direction as usize];
                    cosine += (f64::from(value) - 128.0) * angle.cos();
                    sine += (f64::from(value) - 128.0) * angle.sin();
                }
                cosine * cosine + sine * sine
            };
            (30..60).map(at_period).fold(0.0, f64::max)
        };
        (0..4).max_by(|&a, &b| strength(a).total_cmp(&strength(b))).unwrap()
    }

    #[test]
    fn stripes_can_be_told_apart_but_not_always() {
        let set = Pattern::Stripes.dataset("stripes", &CLASSES).train;
        let right = (0..set.len()).filter(|&index| best_direction(set.image(index)) == set.labels[index]).count();
        let accuracy = right as f64 / set.len() as f64;
        assert!((0.92..0.99).contains(&accuracy), "{accuracy}");
    }

    #[test]
    fn the_parts_differ_and_are_balanced() {
        for pattern in [Pattern::Stripes, Pattern::Rings] {
            let set = pattern.dataset("set", &CLASSES);
            assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (512, 128, 128));
            assert_ne!(set.validation.pixels, set.test.pixels);
            assert_ne!(set.train.image(0), set.validation.image(0));
            for class in 0..4 {
                assert_eq!(set.test.labels.iter().filter(|&&label| label == class).count(), 32);
            }
            assert!(set.train.pixels.iter().any(|&value| value < 40) && set.train.pixels.iter().any(|&v| v > 215));
        }
    }

    /// Pinned, so that results can be compared between versions and machines.
    #[test]
    fn the_sets_are_the_same_everywhere() {
        let hash = |pattern: Pattern| {
            let set = pattern.dataset("set", &CLASSES);
            let mut hash = Sha256::new();
            for part in [&set.train, &set.validation, &set.test] {
                hash.update(&part.pixels);
            }
            hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!([hash(Pattern::Stripes), hash(Pattern::Rings)], ["f6aac89b1982207a", "92962e4e2f69bd21"]);
    }
}

//! Corrupted images: noise, blur and loss of contrast in five strengths each, functions of a seed and of an image's place in its set.
//!
//! With x = byte / 255, z standard normal and x̄ the mean of a channel of the image; results are cut to \[0, 1\] and rounded to bytes:
//! ```text
//! strength     1     2     3     4     5
//! noise       0.04  0.06  0.08  0.09  0.10    x + s z, every number of the image with its own z, which all strengths share
//! blur        0.4   0.6   0.7   0.8   1.0     mean under a Gaussian of s pixels, cut off at 4 s; edges go on as they end
//! contrast    0.75  0.5   0.4   0.3   0.15    x̄ + s (x − x̄)
//! ```
//! Formulas and constants are those of CIFAR-10-C (Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
//! Perturbations", ICLR 2019); the noise is other noise, and CIFAR-10-C cuts decimals off where these round.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::augment::scaled;
use super::images::ImageSet;
use super::shape::Shape;
use crate::random::{NoiseKey, Purpose};

/// What is done to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CorruptionKind {
    /// Gaussian noise.
    Noise,
    /// Gaussian blur.
    Blur,
    /// Less contrast.
    Contrast,
}

/// A kind of corruption at one of its strengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corruption {
    /// What is done.
    pub kind: CorruptionKind,
    /// How strongly, from 1 to 5.
    pub strength: usize,
}

impl CorruptionKind {
    /// Its name in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noise => "noise",
            Self::Blur => "blur",
            Self::Contrast => "contrast",
        }
    }

    /// What s is at each strength.
    fn parameters(self) -> [f64; Corruption::STRENGTHS] {
        match self {
            Self::Noise => [0.04, 0.06, 0.08, 0.09, 0.10],
            Self::Blur => [0.4, 0.6, 0.7, 0.8, 1.0],
            Self::Contrast => [0.75, 0.5, 0.4, 0.3, 0.15],
        }
    }
}

impl Corruption {
    /// How many strengths there are.
    pub const STRENGTHS: usize = 5;

    /// These kinds at all of their strengths, one kind after the other.
    pub fn all_of(kinds: &[CorruptionKind]) -> impl Iterator<Item = Self> {
        kinds.iter().flat_map(|&kind| (1..=Self::STRENGTHS).map(move |strength| Self { kind, strength }))
    }

    /// Corrupts all images; labels stay.
    ///
    /// # Panics
    /// If the strength is not from 1 to 5.
    pub fn of(self, images: &ImageSet, seed: u64) -> ImageSet {
        let (shape, s) = (images.shape, self.kind.parameters()[self.strength - 1]);
        let mut pixels = Vec::with_capacity(images.pixels.len());
        for index in 0..images.len() {
            let image: Vec<f64> = images.image(index).iter().map(|&byte| f64::from(scaled(byte))).collect();
            let corrupted = match self.kind {
                CorruptionKind::Noise => noisy(&image, s, seed, index),
                CorruptionKind::Blur => blurred(&image, shape, s),
                CorruptionKind::Contrast => flattened(&image, shape, s),
            };
            pixels.extend(corrupted.iter().map(|value| (value.clamp(0.0, 1.0) * 255.0).round() as u8));
        }
        ImageSet { shape, pixels, labels: images.labels.clone() }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind.name(), self.strength)
    }
}

fn noisy(image: &[f64], std: f64, seed: u64, index: usize) -> Vec<f64> {
    let mut noise = vec![0.0; image.len()];
    NoiseKey { seed, purpose: Purpose::Corruption, chain: 0, step: index as u64 }.fill_normal(&mut noise);
    image.iter().zip(noise).map(|(value, noise)| value + std * f64::from(noise)).collect()
}

fn blurred(image: &[f64], Shape { height, width, channels }: Shape, std: f64) -> Vec<f64> {
    let reach = (4.0 * std).round() as usize;
    let weights: Vec<f64> = (0..=reach).map(|away| (-0.5 * (away as f64 / std).powi(2)).exp()).collect();
    let sum = weights[0] + 2.0 * weights[1..].iter().sum::<f64>();
    // Numbers of one line lie `apart`; a line has `len` of them.
    let along = |from: &[f64], first: usize, apart: usize, at: usize, len: usize| {
        let value = |at: usize| from[first + at.min(len - 1) * apart];
        let sides = (1..=reach).map(|away| weights[away] * (value(at.saturating_sub(away)) + value(at + away)));
        (weights[0] * value(at) + sides.sum::<f64>()) / sum
    };
    let place = |row: usize, column: usize, channel: usize| (row * width + column) * channels + channel;
    let (mut across, mut down) = (vec![0.0; image.len()], vec![0.0; image.len()]);
    for (row, column, channel) in places(height, width, channels) {
        across[place(row, column, channel)] = along(image, place(row, 0, channel), channels, column, width);
    }
    for (row, column, channel) in places(height, width, channels) {
        down[place(row, column, channel)] = along(&across, place(0, column, channel), width * channels, row, height);
    }
    down
}

fn places(height: usize, width: usize, channels: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..height).flat_map(move |row| {
        (0..width).flat_map(move |column| (0..channels).map(move |channel| (row, column, channel)))
    })
}

fn flattened(image: &[f64], shape: Shape, keep: f64) -> Vec<f64> {
    let mut means = vec![0.0; shape.channels];
    for pixel in image.chunks_exact(shape.channels) {
        means.iter_mut().zip(pixel).for_each(|(mean, value)| *mean += value / shape.num_pixels() as f64);
    }
    image.iter().zip(means.iter().cycle()).map(|(value, mean)| mean + keep * (value - mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Images;

    const KINDS: [CorruptionKind; 3] = [CorruptionKind::Noise, CorruptionKind::Blur, CorruptionKind::Contrast];

    fn set(shape: Shape, pixels: Vec<u8>) -> ImageSet {
        let images = Images { shape, pixels };
        let labels = vec![0; images.len()];
        images.with_labels(labels, 1).unwrap()
    }

    fn corrupted(kind: CorruptionKind, strength: usize, images: &ImageSet) -> Vec<u8> {
        Corruption { kind, strength }.of(images, 3).pixels
    }

    /// Means of the two channels: 100 and 50; half of each distance stays.
    #[test]
    fn contrast_by_hand() {
        let images = set(Shape::image(1, 2, 2), vec![40, 0, 160, 100]);
        assert_eq!(corrupted(CorruptionKind::Contrast, 2, &images), [70, 25, 130, 75]);
        let flat = set(Shape::image(2, 2, 1), vec![77; 4]);
        assert_eq!(corrupted(CorruptionKind::Contrast, 5, &flat), [77; 4]);
    }

    /// A white pixel in the middle of a black row, s = 1: weights exp(−d²/2) over their sum to four pixels away, 2.50663; nothing to blur downwards.
    #[test]
    fn blur_by_hand() {
        let mut row = vec![0; 11];
        row[5] = 255;
        let images = set(Shape::image(1, 11, 1), row);
        let by_hand =
            [0.0, 0.0, 1.13, 13.77, 61.70, 101.73, 61.70, 13.77, 1.13, 0.0, 0.0].map(|value: f64| value.round() as u8);
        assert_eq!(corrupted(CorruptionKind::Blur, 5, &images), by_hand);
        // Down as across, and channels apart.
        let column = ImageSet { shape: Shape::image(11, 1, 1), ..images.clone() };
        assert_eq!(corrupted(CorruptionKind::Blur, 5, &column), by_hand);
        let two: Vec<u8> = images.pixels.iter().flat_map(|&grey| [grey, 9]).collect();
        let two = corrupted(CorruptionKind::Blur, 5, &set(Shape::image(1, 11, 2), two));
        assert!(two.chunks_exact(2).zip(by_hand).all(|(pixel, grey)| pixel == [grey, 9]), "{two:?}");
    }

    /// Beyond an edge its last pixel goes on, so that a plain image stays as it is, whatever its size.
    #[test]
    fn blur_does_not_darken_edges() {
        for shape in [Shape::image(1, 1, 1), Shape::image(2, 3, 3), Shape::image(12, 12, 1)] {
            let images = set(shape, vec![200; 2 * shape.len()]);
            for strength in 1..=Corruption::STRENGTHS {
                assert_eq!(corrupted(CorruptionKind::Blur, strength, &images), images.pixels);
            }
        }
    }

    /// 20,000 grey pixels: mean and standard deviation of the noise within five standard errors.
    #[test]
    fn noise_has_the_deviation_that_it_names() {
        let images = set(Shape::image(100, 100, 1), vec![128; 20_000]);
        for (strength, std) in (1..).zip(CorruptionKind::Noise.parameters()) {
            let noise: Vec<f64> = corrupted(CorruptionKind::Noise, strength, &images)
                .iter()
                .map(|&byte| (f64::from(byte) - 128.0) / 255.0)
                .collect();
            let n = noise.len() as f64;
            let mean = noise.iter().sum::<f64>() / n;
            let found = (noise.iter().map(|value| value * value).sum::<f64>() / n).sqrt();
            assert!(mean.abs() < 5.0 * std / n.sqrt(), "{mean} at {std}");
            assert!((found / std - 1.0).abs() < 5.0 / (2.0 * n).sqrt() + 0.002, "{found} is not {std}");
        }
    }

    #[test]
    fn noise_is_named_by_seed_and_image() {
        let grey = |count: usize| set(Shape::image(4, 4, 3), vec![128; 48 * count]);
        let of = |count, seed| Corruption { kind: CorruptionKind::Noise, strength: 5 }.of(&grey(count), seed);
        let two = of(2, 3);
        assert_eq!(two, of(2, 3));
        assert_ne!(two, of(2, 4));
        assert_ne!(two.image(0), two.image(1));
        assert_eq!(two.image(1), of(9, 3).image(1), "how many images there are does not matter");
    }

    #[test]
    fn every_strength_goes_further_than_the_one_before() {
        let shape = Shape::image(12, 12, 3);
        let images = set(shape, (0..shape.len()).map(|at| (at * 97 % 251) as u8).collect());
        for kind in KINDS {
            let change = |strength| -> f64 {
                let pixels = corrupted(kind, strength, &images);
                pixels.iter().zip(&images.pixels).map(|(&a, &b)| f64::from(a.abs_diff(b)).powi(2)).sum()
            };
            let changes: Vec<f64> = (1..=Corruption::STRENGTHS).map(change).collect();
            assert!(changes[0] > 0.0 && changes.is_sorted_by(|a, b| a < b), "{kind:?} {changes:?}");
        }
    }

    #[test]
    fn names_and_order() {
        let names: Vec<String> = Corruption::all_of(&KINDS[1..]).map(|corruption| corruption.to_string()).collect();
        assert_eq!(names.len(), 10);
        assert_eq!((names[0].as_str(), names[9].as_str()), ("blur-1", "contrast-5"));
        for kind in KINDS {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}

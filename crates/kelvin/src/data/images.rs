//! Images as bytes: their shape, their labels, and the parts of a data set that has its own division.

use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::shape::Shape;
use crate::random::{Permutation, Purpose};

/// Images without labels, as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// The shape all of them have.
    pub shape: Shape,
    /// Image after image.
    pub pixels: Vec<u8>,
}

impl Images {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.shape.len().max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of one image.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.len();
        &self.pixels[index * size..][..size]
    }

    /// The images with a class for each; there must be as many labels, all below `num_classes`.
    pub fn with_labels(self, labels: Vec<u32>, num_classes: usize) -> Result<ImageSet, DataError> {
        if labels.len() != self.len() {
            return Err(DataError::LabelCount { num_images: self.len(), num_labels: labels.len() });
        }
        if let Some(index) = labels.iter().position(|&label| label as usize >= num_classes) {
            return Err(DataError::LabelOutOfRange { index, label: labels[index], num_classes });
        }
        Ok(ImageSet { shape: self.shape, pixels: self.pixels, labels })
    }
}

/// Labelled images as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSet {
    /// The shape all of them have.
    pub shape: Shape,
    /// Image after image.
    pub pixels: Vec<u8>,
    /// The class of each, from 0.
    pub labels: Vec<u32>,
}

impl ImageSet {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The bytes of one image.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.len();
        &self.pixels[index * size..][..size]
    }

    /// The first `num_images`; all of them where there are fewer.
    pub fn first(mut self, num_images: usize) -> Self {
        self.labels.truncate(num_images);
        self.pixels.truncate(self.labels.len() * self.shape.len());
        self
    }

    /// The same images in the order that `seed` names.
    ///
    /// # Panics
    /// If there are 2³¹ images or more.
    pub fn permuted(&self, seed: u64) -> Self {
        let order = Permutation::new(seed, Purpose::Split, 0, 0, self.len());
        let mut pixels = Vec::with_capacity(self.pixels.len());
        let mut labels = Vec::with_capacity(self.len());
        for index in (0..self.len()).map(|position| order.at(position)) {
            pixels.extend_from_slice(self.image(index));
            labels.push(self.labels[index]);
        }
        Self { shape: self.shape, pixels, labels }
    }

    /// The first half and the second; of an odd number the first has one more.
    pub fn halves(mut self) -> (Self, Self) {
        let middle = self.len().div_ceil(2);
        let second = Self {
            shape: self.shape,
            pixels: self.pixels.split_off(middle * self.shape.len()),
            labels: self.labels.split_off(middle),
        };
        (self, second)
    }
}

/// Which half of a set's held-out images is for validation; the other is for testing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halves {
    /// The first half of the files. They may be in an order: MNIST's first 5000 test images are harder than the others.
    #[default]
    FileOrder,
    /// A random half that `run.seed` names, the same in all repetitions.
    Permuted,
}

impl Halves {
    /// Whether it is the first half of the files.
    pub fn is_file_order(&self) -> bool {
        *self == Self::FileOrder
    }

    /// Images for validation and for testing.
    pub fn of(self, held_out: ImageSet, seed: u64) -> (ImageSet, ImageSet) {
        match self {
            Self::FileOrder => held_out.halves(),
            Self::Permuted => held_out.permuted(seed).halves(),
        }
    }
}

/// A known image data set with its own division: the test images are halved into validation and test.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageDataset {
    /// The name it is known by.
    pub name: String,
    /// What the labels stand for.
    pub class_names: Vec<String>,
    /// Images to learn from.
    pub train: ImageSet,
    /// Images to choose by.
    pub validation: ImageSet,
    /// Images to be judged on.
    pub test: ImageSet,
}

impl ImageDataset {
    /// The shape of its images.
    pub fn shape(&self) -> Shape {
        self.train.shape
    }

    /// How many classes there are.
    pub fn num_classes(&self) -> usize {
        self.class_names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` images of 1 × 2 pixels: (0, 1), (2, 3), …, labelled 0, 1, 0, ….
    fn counting(count: u8) -> ImageSet {
        let shape = Shape::image(1, 2, 1);
        Images { shape, pixels: (0..2 * count).collect() }
            .with_labels((0..u32::from(count)).map(|index| index % 2).collect(), 2)
            .unwrap()
    }

    #[test]
    fn an_odd_number_is_halved_with_the_first_the_larger() {
        let (first, second) = counting(5).halves();
        assert_eq!((first.len(), second.len()), (3, 2));
        assert_eq!((second.image(0), second.labels[0]), ([6, 7].as_slice(), 1));
    }

    #[test]
    fn permuted_halves_are_disjoint_and_cover_all() {
        let all = counting(101);
        for (halves, seed) in [(Halves::FileOrder, 0), (Halves::Permuted, 0), (Halves::Permuted, 9)] {
            let (first, second) = halves.of(all.clone(), seed);
            assert_eq!((first.len(), second.len()), (51, 50));
            let parts = [&first, &second];
            let mut images: Vec<(&[u8], u32)> =
                parts.iter().flat_map(|part| (0..part.len()).map(|at| (part.image(at), part.labels[at]))).collect();
            images.sort_unstable();
            let expected: Vec<(&[u8], u32)> = (0..all.len()).map(|at| (all.image(at), all.labels[at])).collect();
            assert_eq!(images, expected, "every image once, with its label");
        }
    }

    #[test]
    fn the_seed_names_the_halves() {
        let halves = |halves: Halves, seed| halves.of(counting(101), seed);
        assert_eq!(halves(Halves::FileOrder, 0), counting(101).halves());
        assert_eq!(halves(Halves::FileOrder, 0), halves(Halves::FileOrder, 1));
        assert_eq!(halves(Halves::Permuted, 3), halves(Halves::Permuted, 3));
        assert_ne!(halves(Halves::Permuted, 3), halves(Halves::Permuted, 4));
        assert_ne!(halves(Halves::Permuted, 0), halves(Halves::FileOrder, 0));
    }

    #[test]
    fn sorted_classes_are_in_both_permuted_halves() {
        let shape = Shape::image(1, 1, 1);
        let labels: Vec<u32> = (0..1000).map(|index| index / 100).collect();
        let sorted = Images { shape, pixels: vec![0; 1000] }.with_labels(labels, 10).unwrap();
        let (first, _) = Halves::Permuted.of(sorted.clone(), 0);
        for class in 0..10 {
            let count = first.labels.iter().filter(|&&label| label == class).count();
            // 50 ± 4.7: five standard deviations.
            assert!((26..=74).contains(&count), "{count} of class {class}");
        }
        assert!(
            sorted.halves().0.labels.iter().all(|&label| label < 5),
            "in the files' order half of the classes are missing"
        );
    }

    #[test]
    fn the_first_images_keep_their_labels() {
        let kept = counting(5).first(4);
        assert_eq!((kept.len(), kept.pixels.len(), kept.image(3)), (4, 8, [6, 7].as_slice()));
        assert_eq!(counting(5).first(6), counting(5));
    }

    #[test]
    fn labels_must_fit_the_images_and_the_classes() {
        let images = || Images { shape: Shape::image(1, 1, 1), pixels: vec![7, 8] };
        let message = images().with_labels(vec![0], 1).unwrap_err().to_string();
        assert!(message.starts_with("there are 2 images and 1 labels"), "{message}");
        let message = images().with_labels(vec![0, 3], 3).unwrap_err().to_string();
        assert!(message.starts_with("image 1 has the label 3, but there are 3 classes"), "{message}");
    }
}

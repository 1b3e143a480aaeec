//! Images as bytes: their shape, their labels, and the parts of a data set that has its own division.

use super::error::DataError;
use super::shape::Shape;

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

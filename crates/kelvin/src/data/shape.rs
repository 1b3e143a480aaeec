//! Shapes of images, and of what networks make of them.

use serde::{Deserialize, Serialize};

/// Height, width and channels of an image and of all that flows between layers: rows of pixels from the top, channels
/// innermost (NHWC). A flat row is 1 × 1 × its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Numbers of a pixel: 1 for grey, 3 for red, green and blue.
    pub channels: usize,
}

impl Shape {
    /// A row of `len` numbers.
    pub const fn flat(len: usize) -> Self {
        Self { height: 1, width: 1, channels: len }
    }

    /// An image.
    pub const fn image(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// Height × width, or the largest number where no number holds that: a shape that was read may say anything.
    pub fn num_pixels(&self) -> usize {
        self.height.saturating_mul(self.width)
    }

    /// How many numbers that are, in the same way.
    pub fn len(&self) -> usize {
        self.num_pixels().saturating_mul(self.channels)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.num_pixels() == 1 {
            write!(f, "{}", self.channels)
        } else {
            write!(f, "{}×{}×{}", self.height, self.width, self.channels)
        }
    }
}

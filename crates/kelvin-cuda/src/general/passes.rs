//! Batches as the passes they are run in: one where batch norm couples the images, else pieces that fit.

use kelvin::network::{ImageStack, Rows};

use super::core::Core;

/// Packed `Placement::PLAIN`: an image as it is.
pub const PLAIN: u32 = 4 << 4 | 4;

/// The images of a pass: which examples, and how each is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// Rows of the data set, one an image.
    pub rows: Vec<u32>,
    /// flip·256 + top·16 + left of each.
    pub placements: Vec<u32>,
}

/// Cuts `count` images into pieces of at most `most`: (first, length) of each.
pub fn pieces(count: usize, most: usize) -> Vec<(usize, usize)> {
    (0..count).step_by(most.max(1)).map(|first| (first, most.min(count - first))).collect()
}

/// Images of a pass where nothing couples them, or as many as have this many numbers in their largest value.
const IMAGES_OF_A_PASS: usize = 512;
const NUMBERS_OF_A_PASS: usize = 1 << 18;
/// Kernels count the numbers of a value in 32 bits.
const MOST_NUMBERS: usize = 1 << 31;

impl Core {
    /// The most images of a pass where nothing couples them.
    pub(super) fn most_images(&self) -> usize {
        let largest = (0..self.plan.program.values.len()).map(|value| self.plan.len(value)).max().unwrap_or(1);
        (NUMBERS_OF_A_PASS / largest).max(IMAGES_OF_A_PASS).min(MOST_NUMBERS / largest).max(1)
    }

    /// The most images of a pass over a batch of `batch_size` rows, or over all rows in order.
    pub(super) fn pass_len(&self, batch_size: Option<usize>, coupled: bool) -> usize {
        match (batch_size, coupled) {
            (Some(size), true) => size,
            // As the CPU does it: all rows are batches of this size to batch norm.
            (None, true) => ImageStack::BATCH.min(self.num_examples),
            (size, false) => size.unwrap_or(self.num_examples).min(self.most_images()),
        }
    }
}

/// The passes of a batch, each of up to `most` images.
pub fn images_of(rows: Rows<'_>, num_examples: usize, most: usize) -> Vec<Images> {
    let listed: Vec<u32> = rows.listed().map_or_else(|| (0..num_examples as u32).collect(), <[u32]>::to_vec);
    let placements: Vec<u32> = match rows {
        Rows::All | Rows::These(_) => vec![PLAIN; listed.len()],
        Rows::Augmented { augmentation, key, .. } => (0..listed.len())
            .map(|position| {
                let placement = augmentation.placement(&key, position);
                u32::from(placement.flip) << 8 | (placement.top as u32) << 4 | placement.left as u32
            })
            .collect(),
    };
    let cut = pieces(listed.len(), most).into_iter();
    cut.map(|(first, len)| Images {
        rows: listed[first..first + len].to_vec(),
        placements: placements[first..first + len].to_vec(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_where_nothing_couples_their_images() {
        assert_eq!(pieces(7, 3), [(0, 3), (3, 3), (6, 1)]);
        let cut = images_of(Rows::These(&[5, 1, 9]), 10, 2);
        assert_eq!(cut[1], Images { rows: vec![9], placements: vec![PLAIN] });
        assert_eq!(images_of(Rows::All, 4, 9)[0].rows, [0, 1, 2, 3]);
    }
}

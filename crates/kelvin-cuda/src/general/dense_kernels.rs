//! The three products of a dense layer on the tensor cores (`product.cu`): how each is cut.

/// Rows and columns that a block of `product.cu` makes, a group's threads, and how far a group goes along a sum in a stage.
pub const PRODUCT_TILE: usize = 64;
pub const PRODUCT_THREADS: usize = 128;
pub const PRODUCT_DEPTH: usize = 32;

/// Which of a dense layer's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseProduct {
    Forward,
    Weights,
    Input,
}

/// How `product.cu` is cut.
#[derive(Clone, Copy, Debug)]
pub struct ProductCut {
    pub stages: usize,
    /// Groups of four warps that share a sum.
    pub groups: usize,
    /// Blocks that are to run on a multiprocessor at the same time.
    pub blocks: usize,
}

impl DenseProduct {
    /// Whether the first factor, and the second, are read transposed.
    pub fn transposed(self) -> (bool, bool) {
        (self == Self::Weights, self == Self::Input)
    }

    /// The forward product's sums are long and its blocks few; the others' are short, and many blocks hide their beginnings.
    pub fn cut(self) -> ProductCut {
        match self {
            Self::Forward => ProductCut { stages: 3, groups: 2, blocks: 4 },
            Self::Weights | Self::Input => ProductCut { stages: 4, groups: 1, blocks: 6 },
        }
    }

    /// Shared memory of a block, in bytes: rows of tiles as they lie in memory, each with one chunk of padding.
    pub fn shared_bytes(self) -> usize {
        let ProductCut { stages, groups, .. } = self.cut();
        let (a_transposed, b_transposed) = self.transposed();
        let room = |down: bool| {
            let depth = PRODUCT_DEPTH * groups;
            let (rows, numbers) = if down { (depth, PRODUCT_TILE) } else { (PRODUCT_TILE, depth) };
            rows * (numbers / 8 + 1) * 16
        };
        stages * (room(a_transposed) + room(!b_transposed))
    }
}

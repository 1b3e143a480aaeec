//! The tiles of the backward pass of strided convolutions by warpgroups (`wgmma.cuh`), where a GPU has them.
//!
//! The sizes mirror those of `conv_strided_*.cuh` and `conv_backward_strided.cu`; chunks are sixteen bytes.

use kelvin::network::Convolution;

use super::conv_tile::{ARRIVAL_BYTES, CHUNK_BYTES, ConvShape, Gradients, Tile, resident};
use super::conv_wide::SIDE;

/// Numbers of channels, each with how many squares a tile has, how many warpgroups share them, and how many blocks are to run on a
/// multiprocessor.
const CUTS: [(usize, usize, usize, usize); 2] = [(16, 2, 2, 2), (32, 1, 4, 1)];
/// Columns of a product of the input's gradient, and the chunks they take in shared memory.
const COLUMNS: usize = 32;
const WEIGHT_PLANE: usize = COLUMNS + 1;
/// Remainders of a pixel's row and column.
const CLASSES: usize = 4;

/// How the backward pass of a strided convolution is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedCut {
    /// Images and rows that a block takes at a time.
    pub tile: Tile,
    /// Rooms for tiles: with two the next is put into its place while one is multiplied.
    pub rooms: usize,
    /// Shared memory of a block, in bytes.
    pub bytes: usize,
}

impl ConvShape {
    /// Whether this is a convolution of 1×1 that can go along with one of 3×3 and as many channels and filters.
    pub fn is_shortcut_of(&self, other: &Self) -> bool {
        let Convolution { kernel, before, .. } = self.sizes;
        let wider = Convolution { kernel: other.sizes.kernel, before: other.sizes.before, ..self.sizes };
        kernel == 1 && before == [0, 0] && other.sizes.kernel == 3 && wider == other.sizes
    }

    /// How the backward pass by warpgroups is cut, where there is a kernel that fits into `shared_bytes`.
    pub fn strided_cut(&self, gradients: &Gradients, shared_bytes: usize) -> Option<StridedCut> {
        let Convolution { input, output, kernel, stride, before, .. } = self.sizes;
        let &(_, squares, warpgroups, blocks) = CUTS.iter().find(|cut| cut.0 == input.channels)?;
        let plain = gradients.input && gradients.pool == 1 && !gradients.bias && !self.packed;
        let sizes = kernel == 3 && stride == 2 && before == [0, 0] && output.channels == 2 * input.channels;
        let pixels = squares * SIDE * SIDE;
        let (images, rows) = self.cut(pixels);
        let whole = rows.is_multiple_of(SIDE) && output.width.is_multiple_of(SIDE);
        let full = whole && images * rows * output.width == pixels;
        // Each thread keeps its class of pixels.
        let warps = 4 * warpgroups;
        let has_threads = (32 * warps).is_multiple_of(2 * input.width * input.channels / 8);
        if !(plain && sizes && full && has_threads) {
            return None;
        }
        let tile = Tile { images, rows, warps, blocks, together: 1, strip: 0, weight_strip: 0 };
        [2, 1].into_iter().find_map(|rooms| {
            let bytes = self.strided_bytes(&tile, gradients, rooms);
            (resident(bytes, shared_bytes) >= blocks).then_some(StridedCut { tile, rooms, bytes })
        })
    }

    fn strided_bytes(&self, tile: &Tile, gradients: &Gradients, rooms: usize) -> usize {
        let Convolution { input, output, kernel, .. } = self.sizes;
        let (chunks, filter_chunks) = (input.channels / 8, output.channels / 8);
        let (places, apart) = (tile.images * tile.rows * output.width, 4 / chunks);
        let plane = places + (3 * apart - places % (2 * apart)) % (2 * apart);
        let dy = tile.images * (tile.rows + 1) * filter_chunks * (output.width + 8 / filter_chunks);
        let shortcut = usize::from(gradients.shortcut);
        let room = CLASSES * chunks * plane + (1 + shortcut) * dy;
        let above = usize::from(tile.rows < output.height);
        let staged_rows = tile.images * (tile.rows + above + shortcut * tile.rows);
        let values = if gradients.output_norm { 2 } else { 1 };
        let stage = CLASSES * chunks * places + values * staged_rows * output.width * filter_chunks;
        let blocks = kernel * kernel.div_ceil(COLUMNS / input.channels) + shortcut;
        let coefficients = 3 * input.channels + 6 * output.channels;
        (rooms * room + stage + blocks * filter_chunks * WEIGHT_PLANE) * CHUNK_BYTES + 4 * coefficients + ARRIVAL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::network::{Network, Operation};

    /// What a block of Hopper has.
    const SHARED: usize = 227 << 10;

    #[test]
    fn strided_layers_of_a_resnet_are_multiplied_by_warpgroups() {
        let network = Network::resnet(20).unwrap();
        let program = network.program();
        let shapes: Vec<ConvShape> = program
            .operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Conv { sizes, .. } => Some(*sizes),
                _ => None,
            })
            .map(|sizes| ConvShape { sizes, packed: false, input_norm: false, input_relu: true, terms: None })
            .collect();
        let gradients = Gradients {
            output_norm: true,
            pool: 1,
            pool_relu: false,
            pooled: false,
            input: true,
            bias: false,
            adds: false,
            masks: true,
            norm_sums: 1,
            shortcut: true,
        };
        let mut found = vec![];
        for shape in &shapes {
            let Some(cut) = shape.strided_cut(&gradients, SHARED) else { continue };
            assert_eq!(shape.strided_cut(&Gradients { bias: true, ..gradients }, SHARED), None);
            assert_eq!(shape.strided_cut(&gradients, 64 << 10), None);
            assert_eq!(shapes.iter().filter(|other| other.is_shortcut_of(shape)).count(), 1);
            let alone = shape.strided_cut(&Gradients { shortcut: false, ..gradients }, SHARED).unwrap();
            assert_eq!((alone.tile, alone.rooms), (cut.tile, 2));
            let Tile { images, rows, blocks, .. } = cut.tile;
            found.push((shape.sizes.input.channels, images, rows, blocks, cut.rooms, cut.bytes, alone.bytes));
        }
        assert_eq!(found, [(16, 1, 8, 2, 1, 104_328, 102_472), (32, 1, 8, 1, 2, 168_072, 126_728)]);
    }
}

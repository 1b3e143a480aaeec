//! The tiles of the convolutions' kernels that multiply by warpgroups (`wgmma.cuh`), where a GPU has them.
//!
//! The sizes mirror those of `conv_planes.cuh`, `conv_wide_*_gradient.cuh`, `conv_forward_wide.cu` and
//! `conv_backward_wide.cu`; chunks are sixteen bytes.

use kelvin::network::Convolution;

use super::conv_tile::{ARRIVAL_BYTES, CHUNK_BYTES, ConvShape, Gradients, Tile, resident};

/// Numbers of channels and of as many filters: half of their sums for all taps fit into the registers of a warpgroup. The way
/// forward needs 32 at least.
const CHANNELS: [usize; 3] = [16, 32, 64];
/// Channels that the weights' gradient multiplies at a time: of fewer there are copies.
const ROWS: usize = 64;
/// Pixels of a side of the squares that are multiplied at a time.
pub(super) const SIDE: usize = 8;
const WARPGROUPS: usize = 2;

impl ConvShape {
    /// A tile of so many squares for each of two warpgroups, where the kernels can serve this shape.
    fn wide_tile(&self, gradients: &Gradients, squares: usize) -> Option<Tile> {
        let Convolution { input, output, kernel, stride, before, .. } = self.sizes;
        let channels = CHANNELS.contains(&input.channels) && output.channels == input.channels;
        let plain = gradients.pool == 1 && !gradients.bias && !self.packed;
        let pixels = squares * WARPGROUPS * SIDE * SIDE;
        let (images, rows) = self.cut(pixels);
        let whole = rows.is_multiple_of(SIDE) && output.width.is_multiple_of(SIDE);
        let full = whole && images * rows * output.width == pixels;
        (channels && plain && full && kernel == 3 && stride == 1 && before == [1, 1]).then_some(Tile {
            images,
            rows,
            warps: 4 * WARPGROUPS,
            blocks: 1,
            together: 1,
            strip: 0,
            weight_strip: 0,
        })
    }

    /// Chunks of a plane of pixels of so many lines.
    fn plane(&self, lines: usize) -> usize {
        let (pixels, apart) = (lines * (self.sizes.output.width + 1) + 1, 64 / self.sizes.output.channels);
        pixels + (3 * apart - pixels % (2 * apart)) % (2 * apart)
    }

    /// Shared memory in bytes: two rooms of so many chunks for tiles, a stage for so many values without neighbouring rows and
    /// with them, the weights, and so many coefficients a channel.
    fn wide_bytes(&self, tile: &Tile, room: usize, values: [usize; 2], coefficients: usize) -> usize {
        let (output, chunks) = (self.sizes.output, self.sizes.output.channels / 8);
        let with_neighbours = if tile.rows == output.height { tile.rows } else { tile.rows + 2 };
        let stage = tile.images * (tile.rows * values[0] + with_neighbours * values[1]) * output.width;
        let weights = 9 * (output.channels + 1);
        (2 * room + (stage + weights) * chunks) * CHUNK_BYTES + 4 * coefficients * output.channels + ARRIVAL_BYTES
    }

    /// The tile of the forward pass by warpgroups and its shared memory, where there is one that fits into `shared_bytes`.
    pub fn wide_forward_tile(&self, gradients: &Gradients, shared_bytes: usize) -> Option<(Tile, usize)> {
        // Few channels are little work, and leave registers for two squares.
        let squares = if self.filters() < ROWS { 2 } else { 1 };
        let tile = self.wide_tile(gradients, squares).filter(|_| self.filters() >= 32)?;
        let room = self.filters() / 8 * self.plane(tile.images * (tile.rows + 1) + 1);
        let bytes = self.wide_bytes(&tile, room, [0, 1], self.coefficients());
        let blocks = resident(bytes, shared_bytes).min(2);
        (bytes <= shared_bytes).then_some((Tile { blocks, ..tile }, bytes))
    }

    /// The tile of the backward pass by warpgroups and its shared memory, where there is one that fits into `shared_bytes`.
    pub fn wide_backward_tile(&self, gradients: &Gradients, shared_bytes: usize) -> Option<(Tile, usize)> {
        // Of more than 16 channels one fills the registers, or leaves room for another block, which matters more.
        let squares = if self.filters() < 32 { 2 } else { 1 };
        let tile = self.wide_tile(gradients, squares).filter(|_| gradients.input)?;
        let values = [1, if gradients.output_norm { 2 } else { 1 }];
        let (width, chunks) = (self.sizes.output.width, self.filters() / 8);
        let dy = (tile.images * (tile.rows + 1) + 1) * chunks * (width + 8 / chunks) + 1;
        let planes = if chunks == 2 { 3 * chunks } else { ROWS / 8 };
        let room = planes * self.plane(tile.images * tile.rows) + dy;
        let bytes = self.wide_bytes(&tile, room, values, 5 + gradients.norm_sums.max(1));
        let blocks = resident(bytes, shared_bytes).min(2);
        (bytes <= shared_bytes).then_some((Tile { blocks, ..tile }, bytes))
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Network, Operation};

    use super::*;

    /// What a block of Hopper has.
    const SHARED: usize = 227 << 10;

    #[test]
    fn all_stages_of_a_resnet_are_multiplied_by_warpgroups() {
        let network = Network::resnet(20).unwrap();
        let program = network.program();
        let mut found = vec![];
        for operation in &program.operations {
            let Operation::Conv { from, sizes, .. } = operation else { continue };
            let shape =
                ConvShape { sizes: *sizes, packed: *from == 0, input_norm: true, input_relu: true, terms: None };
            let gradients = Gradients {
                output_norm: true,
                pool: 1,
                pool_relu: false,
                pooled: false,
                input: *from != 0,
                bias: false,
                adds: false,
                masks: true,
                norm_sums: 1,
                shortcut: false,
            };
            assert_eq!(shape.wide_backward_tile(&Gradients { bias: true, ..gradients }, SHARED), None);
            let (forward, backward) =
                (shape.wide_forward_tile(&gradients, SHARED), shape.wide_backward_tile(&gradients, SHARED));
            assert_eq!(forward.is_some(), backward.is_some() && sizes.input.channels > 16);
            let Some((backward, bytes)) = backward else { continue };
            assert!(bytes <= SHARED && forward.is_none_or(|(forward, _)| forward.images == backward.images));
            assert_eq!(backward.blocks, if sizes.input.channels < 64 { 2 } else { 1 });
            found.push((sizes.input.channels, backward.images, backward.rows));
        }
        let stage = |channels, images, rows, count| vec![(channels, images, rows); count];
        assert_eq!(found, [stage(16, 1, 8, 6), stage(32, 1, 8, 5), stage(64, 2, 8, 5)].concat());
    }
}

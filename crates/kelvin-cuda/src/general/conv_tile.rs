//! The tiles of the tensor cores' convolutions: which shapes they serve, how large they are, what room they need.
//!
//! The sizes mirror those of `conv_tile.cuh`, `conv_forward.cu` and `conv_backward.cu`; chunks are sixteen bytes.

use kelvin::network::Convolution;

use super::plan::{PACKED_CHANNELS, ROWS_PER_PART};

/// The most input channels and filters: a warp keeps all of their sums.
const MOST_CHANNELS: usize = 64;
pub(super) const CHUNK_BYTES: usize = 16;
/// What counts copies that have arrived (`bulk_copy.cuh`).
pub const ARRIVAL_BYTES: usize = 8;

/// What a kernel of a convolution is compiled for.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvShape {
    /// Sizes of input, output, kernel and stride.
    pub sizes: Convolution,
    /// Whether it reads the packed input.
    pub packed: bool,
    /// Whether the input has a norm.
    pub input_norm: bool,
    /// Whether the input is read with a ReLU.
    pub input_relu: bool,
    /// Where the input is a sum that the forward pass is to work out: whether its terms have a norm, and a ReLU.
    pub terms: Option<[(bool, bool); 2]>,
}

/// What the gradients of a convolution need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradients {
    /// Whether the output has a norm.
    pub output_norm: bool,
    /// Where only a pool reads the output, its size; else 1. Gradients then come straight from the pool's.
    pub pool: usize,
    /// Whether the pool reads the output with a ReLU.
    pub pool_relu: bool,
    /// Whether the forward pass made the pool as well, and left bits of the ReLU instead of the output.
    pub pooled: bool,
    /// Whether the input's gradient is wanted.
    pub input: bool,
    /// Whether the bias's is.
    pub bias: bool,
    /// Whether the input's gradient has been written to before.
    pub adds: bool,
    /// Whether this is the last to write to it, so that its ReLU cuts off.
    pub masks: bool,
    /// Of how many norms that the input's gradient goes through next the sums are taken in passing.
    pub norm_sums: usize,
    /// Whether a shortcut of 1×1 that reads the same goes along.
    pub shortcut: bool,
}

/// How a kernel cuts its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Images of a tile; whole ones if there are several.
    pub images: usize,
    /// Output rows of a tile.
    pub rows: usize,
    /// Warps of a block.
    pub warps: usize,
    /// Blocks that are to run on a multiprocessor at the same time.
    pub blocks: usize,
    /// Sixteens of pixels that a warp multiplies by the same weights, where there are no strips.
    pub together: usize,
    /// Sixteens of pixels of a strip, 0 for none.
    pub strip: usize,
    /// The same of the strips of the weights' gradient.
    pub weight_strip: usize,
}

impl Tile {
    /// Tiles of `num_images` images.
    pub fn count(&self, output_rows: usize, num_images: usize) -> usize {
        if self.images == 1 { num_images * (output_rows / self.rows) } else { num_images.div_ceil(self.images) }
    }
}

/// Shared memory of each block that the system keeps for itself.
const RESERVED: usize = 1 << 10;

/// Blocks with so much shared memory that a multiprocessor has room for, where one block can have `shared_bytes`.
pub(super) fn resident(bytes: usize, shared_bytes: usize) -> usize {
    (shared_bytes + RESERVED) / (bytes + RESERVED)
}

impl ConvShape {
    /// Whether the kernels can serve it.
    pub fn fits(&self) -> bool {
        let Convolution { input, output, kernel, stride, before, groups } = self.sizes;
        let even = |channels: usize| channels.is_multiple_of(16) && channels <= MOST_CHANNELS;
        let channels = if self.packed {
            input.channels <= PACKED_CHANNELS && kernel <= 4 && stride == 1 && !self.input_norm && !self.input_relu
        } else {
            even(input.channels) && input.channels.is_power_of_two() && kernel <= 5
        };
        let whole = input.height == output.height * stride && input.width == output.width * stride;
        groups == 1
            && channels
            && even(output.channels)
            && output.channels.is_power_of_two()
            && whole
            && before[0] == before[1]
    }

    /// Whether the tiles of the forward pass cover the input, so that they can work it out where it is a sum.
    pub fn covers_input(&self) -> bool {
        let Convolution { kernel, stride, before, .. } = self.sizes;
        let covers = |before: usize| kernel >= stride + before;
        !self.packed && !self.input_norm && before.into_iter().all(covers)
    }

    pub(super) fn depth(&self) -> usize {
        if self.packed { 16 } else { self.sizes.input.channels }
    }

    pub(super) fn taps(&self) -> usize {
        if self.packed { self.sizes.kernel } else { self.sizes.kernel * self.sizes.kernel }
    }

    pub(super) fn filters(&self) -> usize {
        self.sizes.output.channels
    }

    /// Filters of a square, whose sums a warp of the backward pass keeps: few leave registers for loads under way, many leave warps
    /// for all squares.
    pub(super) fn square_filters(&self) -> usize {
        if self.filters() >= 64 && !self.packed { 32 } else { 16 }
    }

    /// Squares of sixteen channels by so many filters.
    fn squares(&self) -> usize {
        self.depth() / 16 * (self.filters() / self.square_filters())
    }

    /// Whether pixels can be taken in strips (`conv_strip.cuh`): rows of neighbouring pixels that several taps share.
    fn has_strips(&self, images: usize) -> bool {
        let Convolution { output, kernel, stride, .. } = self.sizes;
        // Of a row's sixteens no more than a fifth may hang over its end; eight pixels go with those of another image.
        let wide = output.width > 8 && 5 * output.width >= 4 * output.width.next_multiple_of(16);
        kernel == 3 && stride == 1 && (wide || (output.width == 8 && images.is_multiple_of(2)))
    }

    /// Strips of a tile of so many images and rows, each of `strip` sixteens.
    fn num_strips(&self, images: usize, rows: usize, strip: usize) -> usize {
        let width = self.sizes.output.width;
        let side_by_side = if width == 8 { images / 2 } else { images * width.div_ceil(16) };
        side_by_side * rows.div_ceil(strip)
    }

    /// The sixteens of a strip, four or two, so that each of `tasks` tasks has one: `most`, if that is possible.
    fn strip(&self, images: usize, rows: usize, tasks: usize, most: usize) -> usize {
        let fits = |strip: &usize| *strip <= rows.min(most) && self.num_strips(images, rows, *strip) >= tasks;
        if self.has_strips(images) { [4, 2].into_iter().find(fits).unwrap_or(0) } else { 0 }
    }

    /// The sixteens of a strip of the weights' gradient, so that `shares` warps have the same number of strips each.
    fn weight_strip(&self, images: usize, rows: usize, shares: usize) -> usize {
        let fits =
            |strip: &usize| rows.is_multiple_of(*strip) && self.num_strips(images, rows, *strip).is_multiple_of(shares);
        (2..=8).rev().find(fits).unwrap_or(0)
    }

    /// Pixels that hang over the end of a row.
    fn overhang(&self, tile: &Tile) -> usize {
        let width = self.sizes.output.width;
        if tile.strip > 0 && width != 8 { width.next_multiple_of(16) - width } else { 0 }
    }

    /// Chunks of the tile of inputs, of its stage, and of the weights.
    fn rooms(&self, tile: &Tile) -> (usize, usize, usize) {
        let Convolution { input, output, kernel, stride, before, .. } = self.sizes;
        let step = if kernel == 1 { stride } else { 1 };
        let lines = tile.images * ((tile.rows - 1) * (stride / step) + kernel);
        let weights = self.taps() * self.depth() * (self.filters() / 8 + 1);
        if self.packed {
            let chunks = lines * ((output.width + kernel) / 2 * 2) / 2;
            let beyond = 3 + self.overhang(tile) / 2;
            return (2 * ((chunks + beyond).next_multiple_of(8) + 4), 0, weights);
        }
        let chunks = self.depth() / 8;
        let width = (output.width - 1) * (stride / step) + kernel;
        let columns = (input.width / step).min(width - before[1]);
        ((lines * width + self.overhang(tile)) * (chunks + 1), lines * columns * chunks, weights)
    }

    /// Coefficients of a channel of the input that the forward pass keeps: of one value or of two terms.
    pub(super) fn coefficients(&self) -> usize {
        if self.terms.is_some() { 4 } else { 2 }
    }

    /// Shared memory of the forward pass, in bytes.
    fn forward_bytes(&self, tile: &Tile) -> usize {
        let (inputs, stage, weights) = self.rooms(tile);
        let sums = tile.warps / self.filters().div_ceil(32) * self.filters() * 8;
        let coefficients = 4 * (self.coefficients() * self.depth() + self.filters());
        (inputs + stage + weights) * CHUNK_BYTES + coefficients + sums + ARRIVAL_BYTES
    }

    /// Shared memory of the backward pass, in bytes.
    fn backward_bytes(&self, tile: &Tile, gradients: &Gradients) -> usize {
        let Convolution { output, kernel, stride, before, .. } = self.sizes;
        let (inputs, stage, weights) = self.rooms(tile);
        let (above, below) = match gradients.input {
            true => ((kernel - 1 - before[0]).div_ceil(stride), before[0].div_ceil(stride)),
            false => (0, 0),
        };
        let chunks = self.filters() / 8;
        let lines = tile.images * (tile.rows + above + below);
        let border = (lines * (output.width + self.overhang(tile).max(above + below)) + 1) * (chunks + 1);
        let reads_output = gradients.output_norm || (gradients.pool_relu && !gradients.pooled);
        let bits = if gradients.pooled && gradients.pool_relu {
            let pairs = tile.images * ((tile.rows + above + below) / 2 + 1);
            pairs * output.width.div_ceil(16) * self.filters().div_ceil(32) * 8
        } else {
            0
        };
        let border_stage = lines * output.width * chunks * if reads_output { 2 } else { 1 } + bits;
        let weights = if gradients.input { weights } else { 0 };
        let at_work = (border + border_stage + inputs + stage + weights) * CHUNK_BYTES
            + 4 * ((2 + gradients.norm_sums.max(1)) * self.depth() + 3 * self.filters())
            + ARRIVAL_BYTES;
        // In the end the shares of the weights' gradient are added there, and the bias's.
        let shares = if tile.warps > self.squares() { 4 * self.taps() * self.depth() * self.filters() } else { 0 };
        let biases = if gradients.bias { 4 * 8 * 32 * tile.warps } else { 0 };
        at_work.max(shares).max(biases)
    }

    /// Whole images or rows that make about `pixels` output pixels.
    pub(super) fn cut(&self, pixels: usize) -> (usize, usize) {
        let output = self.sizes.output;
        if output.num_pixels() <= pixels {
            return (pixels / output.num_pixels(), output.height);
        }
        let rows =
            (1..=output.height).rev().find(|rows| output.height.is_multiple_of(*rows) && rows * output.width <= pixels);
        (1, rows.unwrap_or(1))
    }

    /// Whether each thread has its place in a line.
    fn has_threads(&self, warps: usize) -> bool {
        let line = |width: usize, channels: usize| width * channels / 8 <= 32 * warps;
        let Convolution { input, output, .. } = self.sizes;
        (self.packed || line(input.width, input.channels)) && line(output.width, output.channels)
    }

    /// The tile of the forward pass and its shared memory, where one fits into `shared_bytes`.
    ///
    /// Few filters want large tiles, since a pixel is little work; many want few warps with many sums each.
    pub fn forward_tile(&self, shared_bytes: usize) -> Option<(Tile, usize)> {
        let together = if self.filters() >= 64 { 4 } else { 2 };
        let most = match self.filters() {
            _ if self.packed => 800,
            0..32 => 1024,
            _ => 256,
        };
        [most, most / 2, most / 4, ROWS_PER_PART, 1].into_iter().find_map(|pixels| {
            let (images, rows) = self.cut(pixels);
            // Long strips are worth a few idle warps; the many filters of a packed input leave no registers for them.
            let most = if self.packed && self.filters() >= 32 { 2 } else { 4 };
            let strip = self.strip(images, rows, 4 / self.filters().div_ceil(32), most);
            let tile = Tile { images, rows, warps: 8, blocks: 1, together, strip, weight_strip: 0 };
            let bytes = self.forward_bytes(&tile);
            let blocks = resident(bytes, shared_bytes).min(2);
            (self.has_threads(8) && bytes <= shared_bytes).then_some((Tile { blocks, ..tile }, bytes))
        })
    }

    /// The tile of the backward pass and its shared memory, where one fits into `shared_bytes`: a warp for each square at least.
    ///
    /// Many small blocks hide each other's waiting, as far as registers and shared memory go. Strips want a task for each warp;
    /// without them the size is best that fills its sixteens of pixels.
    pub fn backward_tile(&self, gradients: &Gradients, shared_bytes: usize) -> Option<(Tile, usize)> {
        let fewest = if self.filters() >= 64 || (self.packed && self.filters() >= 32) { 8 } else { 4 };
        let mut warps = self.squares().max(fewest);
        while !self.has_threads(warps) {
            warps *= 2;
        }
        let fitting = |(images, rows): (usize, usize), strip: usize, weight_strip: usize, wanted: usize| {
            let tile = Tile { images, rows, warps, blocks: 1, together: 2, strip, weight_strip };
            let bytes = self.backward_bytes(&tile, gradients);
            let blocks = resident(bytes, shared_bytes).clamp(1, wanted);
            (warps <= 16 && bytes <= shared_bytes).then_some((Tile { blocks, ..tile }, bytes))
        };
        let (wanted, sizes): (usize, &[usize]) = match self.filters() {
            32.. if self.packed => (2, &[512]),
            0..32 if self.packed => (4, &[256]),
            0..32 => (3, &[256]),
            32..64 => (2, &[128, 256]),
            _ => (1, &[128, 256]),
        };
        let in_strips = sizes.iter().find_map(|&pixels| {
            let (images, rows) = self.cut(pixels);
            // Tasks of the input's gradient, a strip and sixteen channels each.
            let parts = if self.packed { warps } else { self.sizes.input.channels / 16 };
            let strip = self.strip(images, rows, warps / parts, 4);
            let weight_strip = self.weight_strip(images, rows, warps / self.squares());
            if strip == 0 || weight_strip == 0 {
                return None;
            }
            fitting((images, rows), strip, weight_strip, wanted)
        });
        if in_strips.is_some() {
            return in_strips;
        }
        let (wanted, sizes): (usize, &[usize]) = match self.filters() {
            32.. if self.packed => (2, &[512, 256]),
            0..32 => (4, &[128, 256]),
            32..64 => (4, &[64, 128, 256]),
            _ => (1, &[128, 64, 256]),
        };
        let filled = |pixels: usize| {
            let (images, rows) = self.cut(pixels);
            let pixels = images * rows * self.sizes.output.width;
            pixels as f64 / pixels.next_multiple_of(16) as f64
        };
        let mut most = sizes[0];
        for &size in sizes {
            if filled(size) > filled(most) {
                most = size;
            }
        }
        [most, most / 2, most / 4, 1].into_iter().find_map(|pixels| fitting(self.cut(pixels), 0, 0, wanted))
    }

    /// Whether there is room for the parts of a norm that the forward pass leaves, one for each tile at most.
    pub fn has_room_for_parts(&self, tile: &Tile) -> bool {
        tile.images * tile.rows * self.sizes.output.width >= ROWS_PER_PART
    }

    /// Of how many norms the backward pass can take the sums in passing: of both terms of a sum in strips and by warpgroups (which
    /// `wide` says), whose registers are full with 64 filters. There is room for parts of so many pixels and more.
    pub fn most_norm_sums(&self, tile: &Tile, wide: bool) -> usize {
        let pixels = tile.images * tile.rows * self.sizes.output.width * self.sizes.stride * self.sizes.stride;
        match (wide && self.filters() < 64) || tile.strip > 0 {
            _ if pixels < ROWS_PER_PART => 0,
            true => 2,
            false => 1,
        }
    }

    /// Whether the forward pass can make a pool of squares of `size` pixels of what it computes.
    pub fn makes_pool(&self, tile: &Tile, size: usize) -> bool {
        let output = self.sizes.output;
        size == 2 && tile.strip > 0 && tile.rows.is_multiple_of(2) && output.width > 8 && self.filters() >= 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::network::{Network, Operation};

    /// What a block of a recent GPU has.
    const SHARED: usize = 227 << 10;

    #[test]
    fn every_convolution_of_the_papers_networks_has_tiles() {
        for network in [Network::mnist_cnn(), Network::resnet(20).unwrap()] {
            let program = network.program();
            for operation in &program.operations {
                let Operation::Conv { from, sizes, .. } = operation else { continue };
                let value = &program.values[*from];
                let shape = ConvShape {
                    sizes: *sizes,
                    packed: *from == 0,
                    input_norm: value.norm.is_some(),
                    input_relu: value.relu,
                    terms: None,
                };
                assert!(shape.fits(), "{sizes:?}");
                let (tile, bytes) = shape.forward_tile(SHARED).unwrap();
                assert!(bytes * tile.blocks <= SHARED && sizes.output.height.is_multiple_of(tile.rows));
                let gradients = Gradients {
                    output_norm: true,
                    pool: 1,
                    pool_relu: false,
                    pooled: false,
                    input: *from != 0,
                    bias: false,
                    adds: false,
                    masks: true,
                    norm_sums: 0,
                    shortcut: false,
                };
                let (tile, bytes) = shape.backward_tile(&gradients, SHARED).unwrap();
                assert!(bytes * tile.blocks <= SHARED && tile.warps.is_multiple_of(shape.squares()), "{tile:?}");
            }
        }
    }

    #[test]
    fn odd_shapes_are_left_to_the_plain_kernels() {
        let of = |input, output, stride| {
            let mut network =
                Network::resnet(20).unwrap().program().operations.iter().find_map(|operation| match operation {
                    Operation::Conv { sizes, .. } => Some(*sizes),
                    _ => None,
                });
            let sizes = network.as_mut().unwrap();
            (sizes.input.channels, sizes.output.channels, sizes.stride) = (input, output, stride);
            ConvShape { sizes: *sizes, packed: false, input_norm: true, input_relu: true, terms: None }.fits()
        };
        assert!(of(16, 32, 1) && !of(24, 32, 1) && !of(16, 10, 1) && !of(128, 32, 1) && !of(16, 16, 2));
    }
}

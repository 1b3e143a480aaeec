//! Which kernels a convolution is given, and how the products of those without special ones are cut.
//!
//! | layer | kernels |
//! |---|---|
//! | of bf16, channels and filters 16, 32 or 64 (or a packed input), sizes multiples of the stride | `fast_plan.rs`: whole tiles of the image |
//! | depthwise, of kernels up to 8×8 | `depthwise_kernels.rs`: a thread some channels of a strip of pixels, without tensor cores |
//! | any other, also in groups, and dense layers that `dense_kernels.rs` has nothing for | `conv_product.cu`: products gathered from the images |
//!
//! How a product is cut depends on the layer and the batch alone, never on how many chains there are, so that no bit does.

use kelvin::network::{Network, Operation, Program};

use super::arguments::ConvSizes;
use super::depthwise_kernels;
use super::fast::Fast;
use super::plan::Plan;
use super::precision::Precision;
use super::small_dense::is_small_dense;
use crate::gpu::device::{Device, DeviceError, Kernel};
use crate::gpu::kernels::KernelSource;

/// The fewest pixels of a partial sum of the weights' gradient, a multiple of what a block adds at a time.
const PIXELS_OF_A_SPLIT: usize = 512;
/// The blocks of one chain that partial sums are to make: enough for a device with few chains.
const BLOCKS_OF_A_CHAIN: usize = 128;
/// Rows and columns that blocks may make.
const ROWS: [usize; 3] = [128, 64, 32];
const COLUMNS: [usize; 5] = [128, 64, 48, 32, 16];
/// Tiles that are under way or being multiplied, at most, and the bytes of those of all blocks of a multiprocessor.
const MOST_STAGES: usize = 4;
const MOST_STAGED: usize = 180 << 10;
/// What a tile costs beside its own rows or columns: the other factor is read again.
const OVERHEAD: usize = 16;

/// The kernels of one layer's products.
#[derive(Clone, Copy, Debug)]
pub struct ConvProducts {
    pub(super) forward: ConvProductKernel,
    pub(super) weights: ConvProductKernel,
    pub(super) input: Option<ConvProductKernel>,
}

/// A compiled product and its cut.
#[derive(Clone, Copy, Debug)]
pub struct ConvProductKernel {
    pub(super) kernel: Kernel,
    pub(super) cut: Cut,
    /// Shared memory of a block, in bytes.
    pub(super) shared_bytes: u32,
}

/// Which of the three products; its number in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvProductKind {
    Forward = 0,
    Input = 1,
    Weights = 2,
}

/// How a block makes its part of a product: warps, and the sixteens of rows and eights of columns of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    warps: [usize; 2],
    warp: [usize; 2],
    blocks: usize,
}

/// The size whose tiles of so many rows or columns cost least; of several the largest.
fn cheapest(sizes: impl IntoIterator<Item = usize>, count: usize) -> usize {
    let cost = |size: &usize| count.div_ceil(*size) * (size + OVERHEAD);
    sizes.into_iter().min_by_key(cost).expect("there are sizes")
}

impl Cut {
    /// The cut for so many rows and columns.
    fn new(precision: Precision, kind: ConvProductKind, is_wide: bool, rows: usize, columns: usize) -> Self {
        // A sum of f32 takes twice the registers; gathering pixel after pixel takes more than tap after tap, and number after number more
        // again.
        let is_weights = kind == ConvProductKind::Weights;
        let most_columns = if is_weights || precision == Precision::Single { 64 } else { 128 };
        let most_rows = if is_weights && !is_wide { 64 } else { 128 };
        let columns = cheapest(COLUMNS.into_iter().filter(|&size| size <= most_columns), columns);
        let rows = cheapest(ROWS.into_iter().filter(|&size| size <= most_rows), rows);
        let (warps, warp, blocks) = match (precision, columns) {
            (_, ..=16) => ([4, 1], [2, 2], 4),
            (_, ..=32) => ([4, 1], [2, 4], if precision == Precision::Half { 4 } else { 3 }),
            (_, ..=48) => ([4, 1], [2, 6], if precision == Precision::Half { 3 } else { 2 }),
            (Precision::Single, _) => ([4, 2], [2, 4], 1),
            (Precision::Half, ..=64) => ([2, 2], [4, 4], 3),
            (Precision::Half, _) => ([2, 4], [4, 4], 2),
        };
        // Fewer rows: shorter ones of a warp, then fewer warps.
        let (warps, warp) = match (rows, warps[0]) {
            (128, _) => (warps, warp),
            (64, _) => (warps, [warp[0] / 2, warp[1]]),
            (_, 4) => ([2, warps[1]], [1, warp[1]]),
            (_, _) => (warps, [1, warp[1]]),
        };
        Self { warps, warp, blocks }
    }

    /// Threads of a block.
    pub fn num_threads(&self) -> u32 {
        (32 * self.warps[0] * self.warps[1]) as u32
    }

    fn rows(&self) -> usize {
        16 * self.warps[0] * self.warp[0]
    }

    fn columns(&self) -> usize {
        8 * self.warps[1] * self.warp[1]
    }

    /// Blocks of a chain for so many rows and columns.
    pub fn num_tiles(&self, rows: usize, columns: usize) -> u32 {
        (rows.div_ceil(self.rows()) * columns.div_ceil(self.columns())) as u32
    }

    /// Bytes of a tile of each factor, each row with its padding (`conv_product_tiles.cuh`).
    fn tile_bytes(&self, precision: Precision, kind: ConvProductKind) -> [usize; 2] {
        let tile = |size: usize, across: bool| match precision {
            Precision::Half => {
                let (rows, chunks) = if across { (32, size / 8) } else { (size, 4) };
                16 * rows * (chunks + 1)
            }
            Precision::Single => 4 * if across { 16 * (size + 4) } else { size * (16 + 8) },
        };
        let a = tile(self.rows(), kind == ConvProductKind::Weights);
        let b = tile(self.columns(), kind != ConvProductKind::Input);
        [a, b]
    }
}

/// The stages of a product, and its shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    count: usize,
    bytes: usize,
}

impl Stages {
    /// As many as have room beside what the cache needs.
    fn new(cut: Cut, stage_bytes: usize) -> Self {
        let fits = |count: &usize| cut.blocks * count * stage_bytes <= MOST_STAGED;
        let count = (2..=MOST_STAGES).rev().find(fits).unwrap_or(2);
        Self { count, bytes: count * stage_bytes }
    }
}

/// A layer as its products see it: a dense one is a convolution of one pixel whose channels are all of its numbers.
#[derive(Clone, Copy, Debug)]
pub struct LayerSizes {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Where weights and bias begin among the parameters.
    pub(super) kernel: usize,
    pub(super) bias: Option<usize>,
    /// For batches of no images.
    pub(super) sizes: ConvSizes,
    /// Channels of a pixel of what it reads, and whether that has a norm and a ReLU; whether what it writes has a norm.
    norm_channels: usize,
    input_norm: bool,
    input_relu: bool,
    output_norm: bool,
    /// Whether it makes the outputs, which are f32 whatever the elements are.
    pub(super) is_output: bool,
}

impl LayerSizes {
    /// The sizes of a convolution or dense layer.
    pub fn new(program: &Program, operation: &Operation) -> Option<Self> {
        let (from, to, kernel, bias, sizes) = match operation {
            Operation::Conv { from, to, kernel, bias, sizes, adds_bias } => {
                let sizes = ConvSizes {
                    input_height: sizes.input.height as u32,
                    input_width: sizes.input.width as u32,
                    channels: (sizes.input.channels / sizes.groups) as u32,
                    output_height: sizes.output.height as u32,
                    output_width: sizes.output.width as u32,
                    filters: (sizes.output.channels / sizes.groups) as u32,
                    kernel_height: sizes.kernel as u32,
                    kernel_width: sizes.kernel as u32,
                    stride: sizes.stride as u32,
                    above: sizes.before[0] as u32,
                    left: sizes.before[1] as u32,
                    num_images: 0,
                    groups: sizes.groups as u32,
                    reserved: 0,
                };
                (*from, *to, kernel, adds_bias.then_some(bias.start), sizes)
            }
            Operation::Dense { from, to, kernel, bias } => {
                let [inputs, units] = [*from, *to].map(|value| program.values[value].shape.len() as u32);
                let sizes = ConvSizes {
                    input_height: 1,
                    input_width: 1,
                    channels: inputs,
                    output_height: 1,
                    output_width: 1,
                    filters: units,
                    kernel_height: 1,
                    kernel_width: 1,
                    stride: 1,
                    above: 0,
                    left: 0,
                    num_images: 0,
                    groups: 1,
                    reserved: 0,
                };
                (*from, *to, kernel, Some(bias.start), sizes)
            }
            _ => return None,
        };
        let input = &program.values[from];
        Some(Self {
            from,
            to,
            kernel: kernel.start,
            bias,
            sizes,
            norm_channels: input.shape.channels,
            input_norm: input.norm.is_some(),
            input_relu: input.relu,
            output_norm: program.values[to].norm.is_some(),
            is_output: to + 1 == program.values.len(),
        })
    }

    fn taps(&self) -> usize {
        (self.sizes.kernel_height * self.sizes.kernel_width) as usize
    }

    /// Rows and columns of a product for so many images; of the input's gradient those of the largest class of pixels.
    pub fn rows_and_columns(&self, kind: ConvProductKind, num_images: usize) -> (usize, usize) {
        let ConvSizes { input_height, input_width, output_height, output_width, channels, filters, stride, .. } =
            self.sizes;
        let pixels = |height: u32, width: u32| num_images * (height * width) as usize;
        match kind {
            ConvProductKind::Forward => (pixels(output_height, output_width), filters as usize),
            ConvProductKind::Input => {
                (pixels(input_height.div_ceil(stride), input_width.div_ceil(stride)), channels as usize)
            }
            ConvProductKind::Weights => (self.taps() * channels as usize, filters as usize),
        }
    }

    /// Partial sums of the weights' gradient for batches of so many images; no fewer for more images.
    pub fn num_splits(&self, num_images: usize) -> usize {
        let (rows, columns) = self.rows_and_columns(ConvProductKind::Weights, num_images);
        // In both precisions the same, so that there is one number of them.
        let tiles = self.cut(ConvProductKind::Weights, Precision::Half).num_tiles(rows, columns) as usize;
        let pixels = num_images * (self.sizes.output_height * self.sizes.output_width) as usize;
        (pixels / PIXELS_OF_A_SPLIT).min(BLOCKS_OF_A_CHAIN / tiles).max(1)
    }

    /// Pixels of each of so many partial sums but the last.
    pub fn pixels_per_split(&self, num_images: usize, num_splits: usize) -> usize {
        let pixels = num_images * (self.sizes.output_height * self.sizes.output_width) as usize;
        pixels.div_ceil(num_splits).next_multiple_of(32)
    }

    /// Whether eight neighbouring channels of a group begin at a multiple of sixteen bytes, and so do their norm's coefficients.
    fn input_is_wide(&self) -> bool {
        self.sizes.channels.is_multiple_of(8) && (!self.input_norm || self.norm_channels.is_multiple_of(8))
    }

    fn cut(&self, kind: ConvProductKind, precision: Precision) -> Cut {
        // Of pixels there are always many.
        let (rows, columns) = self.rows_and_columns(kind, ROWS[0]);
        let rows = if kind == ConvProductKind::Weights { rows } else { ROWS[0] };
        Cut::new(precision, kind, self.input_is_wide(), rows, columns)
    }

    /// Whether eight neighbouring numbers of A, of B and of C are of one pixel or row and begin at a multiple of sixteen bytes.
    fn is_wide(&self, kind: ConvProductKind) -> [bool; 3] {
        let filters = self.sizes.filters;
        let eights = |numbers: u32| numbers.is_multiple_of(8);
        let of_input = self.input_is_wide();
        let of_kernel = eights(filters) && self.kernel.is_multiple_of(8);
        match kind {
            ConvProductKind::Forward => [of_input, of_kernel, eights(filters) && !self.is_output],
            ConvProductKind::Input => [eights(filters), of_kernel, of_input],
            ConvProductKind::Weights => [of_input, eights(filters), false],
        }
    }

    fn stages(&self, kind: ConvProductKind, precision: Precision) -> Stages {
        let cut = self.cut(kind, precision);
        let ([a, b], [wide_a, wide_b, _]) = (cut.tile_bytes(precision, kind), self.is_wide(kind));
        // A gradient that goes through a norm has the value beside it.
        let others = match kind {
            ConvProductKind::Input if wide_a && self.output_norm => a,
            ConvProductKind::Weights if wide_b && self.output_norm => b,
            _ => 0,
        };
        Stages::new(cut, a + b + others)
    }

    fn source(&self, kind: ConvProductKind, precision: Precision) -> KernelSource {
        let [wide_a, wide_b, wide_c] = self.is_wide(kind);
        let cut = self.cut(kind, precision);
        let Cut { warps, warp, blocks } = cut;
        let defines = vec![
            ("HALF", i64::from(precision == Precision::Half)),
            ("PRODUCT", kind as i64),
            ("WARPS_M", warps[0] as i64),
            ("WARPS_N", warps[1] as i64),
            ("WARP_M", warp[0] as i64),
            ("WARP_N", warp[1] as i64),
            ("BLOCKS", blocks as i64),
            ("STAGES", self.stages(kind, precision).count as i64),
            ("WIDE_A", i64::from(wide_a)),
            ("WIDE_B", i64::from(wide_b)),
            ("WIDE_C", i64::from(wide_c && precision == Precision::Half)),
            ("INPUT_NORM", i64::from(self.input_norm)),
            ("INPUT_RELU", i64::from(self.input_relu)),
            ("OUTPUT_NORM", i64::from(self.output_norm && kind != ConvProductKind::Forward)),
        ];
        KernelSource { file: "conv_product.cu", entry: "conv_product", defines }
    }

    fn kinds(&self) -> impl Iterator<Item = ConvProductKind> {
        let input = (self.from != 0).then_some(ConvProductKind::Input);
        [ConvProductKind::Forward, ConvProductKind::Weights].into_iter().chain(input)
    }
}

/// The layers that products serve, by operation.
fn layers(plan: &Plan, fast: &Fast) -> Vec<Option<LayerSizes>> {
    let program = &plan.program;
    let operations = program.operations.iter().enumerate();
    let of = |(number, operation): (usize, &Operation)| {
        let is_fast = fast.conv(number).is_some() || fast.dense(number).is_some();
        let is_served = is_fast || depthwise_kernels::is_served(operation) || is_small_dense(program, operation);
        if is_served { None } else { LayerSizes::new(program, operation) }
    };
    operations.map(of).collect()
}

/// Compiles the products of all layers that no faster kernel serves, by operation.
pub fn compile(
    device: &dyn Device,
    precision: Precision,
    plan: &Plan,
    fast: &Fast,
) -> Result<Vec<Option<ConvProducts>>, DeviceError> {
    let layers = layers(plan, fast);
    let of = |layer: &LayerSizes| layer.kinds().map(|kind| layer.source(kind, precision)).collect::<Vec<_>>();
    let sources: Vec<KernelSource> = layers.iter().flatten().flat_map(of).collect();
    let mut compiled = device.compile_all(&sources)?.into_iter();
    let mut products = |layer: &LayerSizes| {
        let mut product = |kind| {
            compiled.next().map(|kernel| ConvProductKernel {
                kernel,
                cut: layer.cut(kind, precision),
                shared_bytes: layer.stages(kind, precision).bytes as u32,
            })
        };
        let forward = product(ConvProductKind::Forward)?;
        let weights = product(ConvProductKind::Weights)?;
        let input = (layer.from != 0).then(|| product(ConvProductKind::Input)).flatten();
        Some(ConvProducts { forward, weights, input })
    };
    Ok(layers.iter().map(|layer| layer.as_ref().and_then(&mut products)).collect())
}

/// The products of networks with every cut, in one precision.
pub fn example_kernels(precision: Precision) -> Vec<KernelSource> {
    use kelvin::network::{Layer, Shape};
    let conv = |filters, kernel, stride| Layer::Conv { filters, kernel, stride, groups: 1 };
    let networks = [
        vec![conv(5, 5, 1), conv(24, 3, 2), conv(48, 5, 1), conv(72, 3, 1), Layer::Dense { units: 3 }],
        vec![conv(8, 3, 1), Layer::BATCH_NORM, conv(128, 3, 2), Layer::BATCH_NORM, Layer::Dense { units: 40 }],
    ];
    let mut sources = Vec::new();
    for layers in networks {
        let network = Network::new(Shape::image(9, 9, 3), layers).expect("a network of convolutions");
        let operations = network.program().operations.iter();
        for layer in operations.filter_map(|operation| LayerSizes::new(network.program(), operation)) {
            for source in layer.kinds().map(|kind| layer.source(kind, precision)) {
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Shape};

    use super::*;

    fn layer(channels: usize, filters: usize, kernel: usize) -> LayerSizes {
        let layers = vec![Layer::Conv { filters, kernel, stride: 1, groups: 1 }, Layer::Dense { units: 3 }];
        let network = Network::new(Shape::image(14, 14, channels), layers).unwrap();
        LayerSizes::new(network.program(), &network.program().operations[0]).unwrap()
    }

    #[test]
    fn partial_sums_grow_with_the_batch_and_shrink_with_the_layer() {
        let of = |layer: LayerSizes| [1, 8, 128, 4096].map(|num_images| layer.num_splits(num_images));
        assert_eq!(of(layer(1, 24, 5)), [1, 3, 49, 128]);
        assert_eq!(of(layer(24, 48, 5)), [1, 3, 25, 25]);
        assert_eq!(of(layer(256, 512, 3)), [1, 1, 1, 1]);
    }

    #[test]
    fn a_block_has_room_for_its_tiles() {
        for (channels, filters, kernel) in [(1, 5, 7), (24, 48, 5), (64, 128, 3), (512, 512, 3)] {
            for precision in [Precision::Single, Precision::Half] {
                let layer = layer(channels, filters, kernel);
                for kind in [ConvProductKind::Forward, ConvProductKind::Input, ConvProductKind::Weights] {
                    let cut = layer.cut(kind, precision);
                    let stages = layer.stages(kind, precision);
                    assert!(stages.bytes <= 99 << 10 && (2..=MOST_STAGES).contains(&stages.count));
                    assert!(cut.num_threads() <= 256 && ROWS.contains(&cut.rows()) && COLUMNS.contains(&cut.columns()));
                }
            }
        }
    }
}

//! Depthwise convolutions, which tensor cores do not help: their kernels and launches, forward and backward.

use kelvin::network::{Convolution, Layer, Network, Operation, Program, Shape};

use super::arguments::{Depthwise, DepthwiseInput, DepthwiseSizes, DepthwiseWeights};
use super::block_size::THREADS;
use super::compiled::ByWidth;
use super::lower::Lowering;
use super::precision::Precision;
use crate::gpu::device::{Device, DeviceError, Launch};
use crate::gpu::kernels::KernelSource;

/// The widest kernel: a thread keeps a sum for each tap of a line.
const WIDEST_KERNEL: usize = 8;
/// The fewest pixels of a partial sum of the weights' gradient, and the most partial sums.
const PIXELS_OF_A_SPLIT: usize = 512;
const MOST_SPLITS: usize = 32;

/// The kernels of one layer.
#[derive(Clone, Copy, Debug)]
pub struct DepthwiseKernels {
    forward: ByWidth,
    weights: ByWidth,
    input: ByWidth,
}

/// Whether an operation is such a convolution.
pub fn is_served(operation: &Operation) -> bool {
    matches!(operation, Operation::Conv { sizes, .. } if sizes.is_depthwise() && sizes.kernel <= WIDEST_KERNEL)
}

/// Into how many partial sums the gradients of weights and bias are cut; no fewer for more images.
pub fn num_splits(sizes: &Convolution, num_images: usize) -> usize {
    (num_images * sizes.output.num_pixels() / PIXELS_OF_A_SPLIT).clamp(1, MOST_SPLITS)
}

/// Of one layer: forward for any channels and by sixteen bytes, then weights, then input.
fn sources(precision: Precision, operation: &Operation) -> Option<[KernelSource; 6]> {
    let Operation::Conv { sizes, .. } = operation else { return None };
    let source = |file, entry, width: usize| {
        let half = ("HALF", i64::from(precision == Precision::Half));
        KernelSource { file, entry, defines: vec![half, ("WIDTH", width as i64), ("KERNEL", sizes.kernel as i64)] }
    };
    let wide = precision.wide();
    is_served(operation).then(|| {
        [
            source("depthwise.cu", "depthwise", 1),
            source("depthwise.cu", "depthwise", wide),
            source("depthwise_weights.cu", "depthwise_weights", 1),
            source("depthwise_weights.cu", "depthwise_weights", wide),
            source("depthwise_input.cu", "depthwise_input", 1),
            source("depthwise_input.cu", "depthwise_input", wide),
        ]
    })
}

/// Compiles those of a program's layers, by operation.
pub fn compile(
    device: &dyn Device,
    precision: Precision,
    program: &Program,
) -> Result<Vec<Option<DepthwiseKernels>>, DeviceError> {
    let sources: Vec<_> = program.operations.iter().map(|operation| sources(precision, operation)).collect();
    let all: Vec<KernelSource> = sources.iter().flatten().flatten().cloned().collect();
    let compiled = device.compile_all(&all)?;
    let mut layers = compiled.chunks_exact(6).map(|kernels| DepthwiseKernels {
        forward: ByWidth::new(kernels[0], kernels[1]),
        weights: ByWidth::new(kernels[2], kernels[3]),
        input: ByWidth::new(kernels[4], kernels[5]),
    });
    Ok(sources.iter().map(|source| source.as_ref().and_then(|_| layers.next())).collect())
}

/// Those of one layer, in one precision.
pub fn example_kernels(precision: Precision) -> Vec<KernelSource> {
    let conv = |groups| Layer::Conv { filters: 8, kernel: 3, stride: 1, groups };
    let layers = vec![conv(1), conv(8), Layer::Dense { units: 2 }];
    let network = Network::new(Shape::image(4, 4, 1), layers).expect("a depthwise network");
    network.program().operations.iter().filter_map(|operation| sources(precision, operation)).flatten().collect()
}

impl Lowering<'_> {
    fn depthwise_sizes(&self, sizes: &Convolution) -> DepthwiseSizes {
        DepthwiseSizes {
            input_height: sizes.input.height as u32,
            input_width: sizes.input.width as u32,
            output_height: sizes.output.height as u32,
            output_width: sizes.output.width as u32,
            channels: sizes.output.channels as u32,
            stride: sizes.stride as u32,
            above: sizes.before[0] as u32,
            left: sizes.before[1] as u32,
            num_images: self.num_images,
            reserved: 0,
        }
    }

    /// The forward pass of a depthwise convolution.
    pub(super) fn depthwise(&mut self, kernels: DepthwiseKernels, operation: &Operation) {
        let Operation::Conv { from, to, kernel, bias, sizes, adds_bias } = operation else { return };
        let arguments = Depthwise {
            input: self.reading(*from),
            kernel: self.weight(kernel.start),
            bias: if *adds_bias { self.parameter(bias.start) } else { 0 },
            output: self.memory.value(*to),
            parameter_stride: self.parameter_stride(),
            sizes: self.depthwise_sizes(sizes),
        };
        let (function, width) = kernels.forward.of(self.precision, packed_channels(sizes, kernel.start));
        self.over(function, self.count(*to) / width, &arguments);
    }

    /// Its backward pass.
    pub(super) fn depthwise_backward(&mut self, kernels: DepthwiseKernels, operation: &Operation) {
        let Operation::Conv { from, to, kernel, bias, sizes, adds_bias } = operation else { return };
        let num_splits = self.splits[self.blocks.tensor_at(kernel.start)];
        let pixels = self.num_images as usize * sizes.output.num_pixels();
        let weights = DepthwiseWeights {
            output: self.upstream(*to),
            input: self.reading(*from),
            sums: self.sums(kernel.start),
            bias_sums: if *adds_bias { self.sums(bias.start) } else { 0 },
            num_splits: num_splits as u32,
            pixels_per_split: pixels.div_ceil(num_splits) as u32,
            sizes: self.depthwise_sizes(sizes),
        };
        let channels = sizes.output.channels;
        let (function, width) = kernels.weights.of(self.precision, channels);
        let tiles = (channels / width).div_ceil(THREADS) * sizes.kernel;
        let grid = [num_splits as u32, self.group.num_chains, tiles as u32];
        let shared = THREADS * width * (sizes.kernel + 1) * size_of::<f32>();
        self.launches.push(Launch::new(function, grid, THREADS as u32, shared as u32, &weights));
        if *from == 0 {
            return;
        }
        let input = DepthwiseInput {
            output: self.upstream(*to),
            input: self.reading(*from),
            to: self.downstream(*from),
            kernel: self.weight(kernel.start),
            parameter_stride: self.parameter_stride(),
            sizes: self.depthwise_sizes(sizes),
        };
        let (function, width) = kernels.input.of(self.precision, packed_channels(sizes, kernel.start));
        self.over(function, self.count(*from) / width, &input);
    }
}

/// The channels that are read together with weights; one where weights do not begin at a multiple of sixteen bytes.
fn packed_channels(sizes: &Convolution, kernel: usize) -> usize {
    if kernel.is_multiple_of(8) { sizes.output.channels } else { 1 }
}

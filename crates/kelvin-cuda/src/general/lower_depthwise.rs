//! Depthwise convolutions as launches, forward and backward.

use kelvin::network::{Convolution, Operation, Shape};

use super::arguments::{Depthwise, DepthwiseInput, DepthwiseSizes, DepthwiseWeights};
use super::block_size::THREADS;
use super::depthwise_kernels::{DepthwiseKernels, STRIP, input_strip};
use super::lower::Lowering;
use crate::gpu::device::Launch;

impl Lowering<'_> {
    fn depthwise_sizes(&self, sizes: &Convolution) -> DepthwiseSizes {
        DepthwiseSizes {
            input_height: sizes.input.height as u32,
            input_width: sizes.input.width as u32,
            output_height: sizes.output.height as u32,
            output_width: sizes.output.width as u32,
            channels: sizes.output.channels as u32,
            num_images: self.num_images,
        }
    }

    /// Strips of so many pixels of all images of a chain.
    fn num_strips(&self, shape: Shape, strip: usize) -> usize {
        self.num_images as usize * shape.height * shape.width.div_ceil(strip)
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
        self.over(function, self.num_strips(sizes.output, STRIP) * sizes.output.channels / width, &arguments);
    }

    /// Its backward pass.
    pub(super) fn depthwise_backward(&mut self, kernels: DepthwiseKernels, operation: &Operation) {
        let Operation::Conv { from, to, kernel, bias, sizes, adds_bias } = operation else { return };
        let num_splits = self.splits[self.blocks.tensor_at(kernel.start)];
        let weights = DepthwiseWeights {
            output: self.upstream(*to),
            input: self.reading(*from),
            sums: self.sums(kernel.start),
            bias_sums: if *adds_bias { self.sums(bias.start) } else { 0 },
            num_splits: num_splits as u32,
            reserved: 0,
            sizes: self.depthwise_sizes(sizes),
        };
        let channels = sizes.output.channels;
        let (function, width) = kernels.weights.of(self.precision, channels);
        let tiles = (channels / width).div_ceil(THREADS) * sizes.kernel;
        let grid = [num_splits as u32, self.group.num_chains, tiles as u32];
        let shared = THREADS * width * (sizes.kernel + 1) * size_of::<f32>();
        self.launch_beside(Launch::new(function, grid, THREADS as u32, shared as u32, &weights), *to);
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
        self.over(
            function,
            self.num_strips(sizes.input, input_strip(sizes.stride)) * sizes.input.channels / width,
            &input,
        );
    }
}

/// The channels that are read together with weights; one where weights do not begin at a multiple of sixteen bytes.
fn packed_channels(sizes: &Convolution, kernel: usize) -> usize {
    if kernel.is_multiple_of(8) { sizes.output.channels } else { 1 }
}

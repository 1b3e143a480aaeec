//! Activations, maxima, group and layer norms as launches, forward and backward.

use kelvin::network::{Convolution, Operation};

use super::arguments::{
    ActivationBackward, ActivationForward, GroupNorm, GroupNormBackward, LayerNorm, LayerNormBackward, MaxPool,
    MaxPoolBackward, Window,
};
use super::block_size::{SHARED_SUMS, THREADS};
use super::layer_kernels::{LayerKernels, PIXELS_OF_A_BLOCK, layer_norm_blocks, number_of};
use super::lower::Lowering;
use crate::gpu::device::Launch;

/// Bytes of a number for each warp of a block, and of two for each pixel.
const SHARED_WARPS: u32 = (THREADS / 32 * size_of::<f64>()) as u32;
const SHARED_PIXELS: u32 = (2 * PIXELS_OF_A_BLOCK * size_of::<f32>()) as u32;

fn window_of(window: &Convolution) -> Window {
    Window {
        input_height: window.input.height as u32,
        input_width: window.input.width as u32,
        output_height: window.output.height as u32,
        output_width: window.output.width as u32,
        size: window.kernel as u32,
        stride: window.stride as u32,
        above: window.before[0] as u32,
        left: window.before[1] as u32,
    }
}

impl Lowering<'_> {
    /// A layer of [`LayerKernels`], forward.
    pub(super) fn layer_forward(&mut self, kernels: LayerKernels, operation: &Operation) {
        match operation {
            Operation::Activation { from, to, by } => {
                let arguments = ActivationForward {
                    input: self.reading(*from),
                    output: self.memory.value(*to),
                    by: number_of(Some(*by)),
                    reserved: 0,
                };
                self.over_packs(kernels.forward, *to, &arguments);
            }
            Operation::MaxPool { from, to, window } => {
                let arguments =
                    MaxPool { input: self.reading(*from), output: self.memory.value(*to), window: window_of(window) };
                self.over_packs(kernels.forward, *to, &arguments);
            }
            Operation::GroupNorm { from, to, scale, offset, groups, epsilon } => {
                let arguments = GroupNorm {
                    input: self.reading(*from),
                    gamma: self.parameter(scale.start),
                    beta: self.parameter(offset.start),
                    output: self.memory.value(*to),
                    epsilon: *epsilon,
                    parameter_stride: self.parameter_stride(),
                    groups: *groups as u32,
                    reserved: 0,
                };
                let grid = [self.num_images * *groups as u32, self.group.num_chains, 1];
                let (kernel, _) = kernels.forward.of(self.precision, 1);
                self.launches.push(Launch::new(kernel, grid, THREADS as u32, SHARED_WARPS, &arguments));
            }
            Operation::LayerNorm { from, to, scale, offset, epsilon } => {
                let arguments = LayerNorm {
                    input: self.reading(*from),
                    gamma: self.parameter(scale.start),
                    beta: self.parameter(offset.start),
                    output: self.memory.value(*to),
                    epsilon: *epsilon,
                    parameter_stride: self.parameter_stride(),
                };
                let pixels = self.num_images as usize * self.plan.program.values[*from].shape.num_pixels();
                let (kernel, _) = kernels.forward.of(self.precision, 1);
                self.over(kernel, 32 * pixels, &arguments);
            }
            _ => unreachable!("layers that have such kernels"),
        }
    }

    /// The same, backward.
    pub(super) fn layer_backward(&mut self, kernels: LayerKernels, operation: &Operation) {
        let (kernel, _) = kernels.backward.of(self.precision, 1);
        match operation {
            Operation::Activation { from, to, by } => {
                if *from == 0 {
                    return;
                }
                let arguments = ActivationBackward {
                    output: self.upstream(*to),
                    input: self.reading(*from),
                    to: self.downstream(*from),
                    by: number_of(Some(*by)),
                    reserved: 0,
                };
                self.over_packs(kernels.backward, *from, &arguments);
            }
            Operation::MaxPool { from, to, window } => {
                if *from == 0 {
                    return;
                }
                let arguments = MaxPoolBackward {
                    output: self.upstream(*to),
                    input: self.reading(*from),
                    to: self.downstream(*from),
                    window: window_of(window),
                };
                self.over_packs(kernels.backward, *from, &arguments);
            }
            Operation::GroupNorm { from, to, scale, offset, groups, epsilon } => {
                let arguments = GroupNormBackward {
                    output: self.upstream(*to),
                    input: self.reading(*from),
                    to: self.downstream(*from),
                    gamma: self.parameter(scale.start),
                    gamma_gradient: self.sums(scale.start),
                    beta_gradient: self.sums(offset.start),
                    epsilon: *epsilon,
                    parameter_stride: self.parameter_stride(),
                    groups: *groups as u32,
                    has_input_gradient: u32::from(*from != 0),
                };
                let grid = [self.num_images * *groups as u32, self.group.num_chains, 1];
                let shared = 2 * SHARED_SUMS + SHARED_WARPS;
                self.launches.push(Launch::new(kernel, grid, THREADS as u32, shared, &arguments));
            }
            Operation::LayerNorm { from, to, scale, offset, epsilon } => {
                let blocks_per_image = layer_norm_blocks(self.plan.program.values[*from].shape) as u32;
                let arguments = LayerNormBackward {
                    output: self.upstream(*to),
                    input: self.reading(*from),
                    to: self.downstream(*from),
                    gamma: self.parameter(scale.start),
                    gamma_gradient: self.sums(scale.start),
                    beta_gradient: self.sums(offset.start),
                    epsilon: *epsilon,
                    parameter_stride: self.parameter_stride(),
                    has_input_gradient: u32::from(*from != 0),
                    pixels_per_block: PIXELS_OF_A_BLOCK as u32,
                    blocks_per_image,
                    reserved: 0,
                };
                let grid = [self.num_images * blocks_per_image, self.group.num_chains, 1];
                self.launches.push(Launch::new(kernel, grid, THREADS as u32, SHARED_PIXELS, &arguments));
            }
            _ => unreachable!("layers that have such kernels"),
        }
    }
}

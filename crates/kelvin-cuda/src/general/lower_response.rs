//! Filter response norms, with what is made along with them, as launches, forward and backward.

use kelvin::network::Operation;

use super::arguments::{ResponseCells, ResponseNorm, ResponseNormBackward};
use super::block_size::THREADS;
use super::by_width::ByWidth;
use super::lower::Lowering;
use super::response::{Response, ResponseCut};
use crate::gpu::device::{Kernel, Launch};

/// Sums of each channel that a block takes.
const SUMS: usize = 1;
const SUMS_BACKWARD: usize = 3;

/// Single pixels that a thread asks for at the same time, forward and backward; of pools' rectangles it is one.
const TOGETHER: usize = 4;
const TOGETHER_BACKWARD: usize = 2;

impl Lowering<'_> {
    /// The cells of a result, for a kernel that is cut so.
    fn response_cells(&self, response: &Response, from: usize, cut: ResponseCut) -> ResponseCells {
        let (input, output) = (self.plan.program.values[from].shape, self.plan.program.values[response.to].shape);
        let (height, width) = (input.height / output.height, input.width / output.width);
        ResponseCells {
            threshold: response.threshold.map_or(0, |start| self.parameter(start)),
            floor: if response.cuts_at_zero { 0.0 } else { f32::NEG_INFINITY },
            input_width: input.width as u32,
            num_cells: output.num_pixels() as u32,
            cells_across: output.width as u32,
            height: height as u32,
            width: width as u32,
            share: (1.0 / (height * width) as f64) as f32,
            units: cut.units as u32,
            keeps: u32::from(cut.kept_bytes > 0),
            reserved: 0,
        }
    }

    /// A kernel's cut, and its launch without arguments: the grid and the shared memory of a block that takes `sums` sums.
    fn response_cut(
        &self,
        response: &Response,
        from: usize,
        width: usize,
        together: usize,
        sums: usize,
    ) -> (ResponseCut, [u32; 3], u32) {
        let (input, output) = (self.plan.program.values[from].shape, self.plan.program.values[response.to].shape);
        let area = input.num_pixels() / output.num_pixels();
        let cells = (output.num_pixels(), area);
        let cut =
            ResponseCut::new(self.precision, (input.channels, width), cells, if area == 1 { together } else { 1 });
        let shared = THREADS * width * sums * size_of::<f32>() + cut.kept_bytes;
        (cut, [self.num_images, self.group.num_chains, cut.blocks as u32], shared as u32)
    }

    /// A filter response norm, forward.
    pub(super) fn response_forward(&mut self, number: usize, operation: &Operation) {
        let Operation::FilterResponseNorm { from, scale, offset, epsilon, .. } = operation else { return };
        let (at, response) = self.plan.responses.of(number).expect("a filter response norm");
        let (kernel, width) = self.response_kernel(self.compiled.response_norm, *from);
        let (cut, grid, shared) = self.response_cut(response, *from, width, TOGETHER, SUMS);
        let arguments = ResponseNorm {
            input: self.reading(*from),
            gamma: self.parameter(scale.start),
            beta: self.parameter(offset.start),
            roots: self.memory.roots(at),
            output: self.memory.value(response.to),
            epsilon: *epsilon,
            parameter_stride: self.parameter_stride(),
            cells: self.response_cells(response, *from, cut),
        };
        self.launches.push(Launch::new(kernel, grid, THREADS as u32, shared, &arguments));
    }

    /// The same, backward.
    pub(super) fn response_backward(&mut self, number: usize, operation: &Operation) {
        let Operation::FilterResponseNorm { from, scale, offset, .. } = operation else { return };
        let (at, response) = self.plan.responses.of(number).expect("a filter response norm");
        let (kernel, width) = self.response_kernel(self.compiled.response_norm_backward, *from);
        let (cut, grid, shared) = self.response_cut(response, *from, width, TOGETHER_BACKWARD, SUMS_BACKWARD);
        let arguments = ResponseNormBackward {
            output: self.upstream(response.to),
            input: self.reading(*from),
            to: self.downstream(*from),
            gamma: self.parameter(scale.start),
            beta: self.parameter(offset.start),
            roots: self.memory.roots(at),
            gamma_gradient: self.sums(scale.start),
            beta_gradient: self.sums(offset.start),
            threshold_gradient: response.threshold.map_or(0, |start| self.sums(start)),
            parameter_stride: self.parameter_stride(),
            cells: self.response_cells(response, *from, cut),
            has_input_gradient: u32::from(*from != 0),
            reserved: 0,
        };
        self.launches.push(Launch::new(kernel, grid, THREADS as u32, shared, &arguments));
    }

    fn response_kernel(&self, kernels: ByWidth, from: usize) -> (Kernel, usize) {
        kernels.of(self.precision, self.plan.program.values[from].shape.channels)
    }
}

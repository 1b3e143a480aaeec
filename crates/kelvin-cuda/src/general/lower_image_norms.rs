//! Norms of single images, with what is made along with them, as launches, forward and backward.

use kelvin::network::{Activation, Operation};

use super::arguments::{Cells, CutOff, GroupNormCells, GroupNormCellsBackward, ResponseNorm, ResponseNormBackward};
use super::block_size::THREADS;
use super::by_width::ByWidth;
use super::image_norms::{CellCut, ImageNorm};
use super::layer_kernels::LayerKernels;
use super::lower::Lowering;
use crate::gpu::device::{Kernel, Launch};

/// Single pixels that a thread asks for at the same time, forward and backward; of pools' rectangles it is one.
const TOGETHER: usize = 4;
const TOGETHER_BACKWARD: usize = 2;
/// Sums of each channel that a block takes.
const SUMS: usize = 1;
const SUMS_BACKWARD: usize = 3;
const SUMS_OF_GROUPS: usize = 2;

/// How a kernel of a norm is launched.
struct CellLaunch {
    kernel: Kernel,
    grid: [u32; 3],
    shared_bytes: u32,
    cells: Cells,
}

impl CellLaunch {
    fn with<A: bytemuck::NoUninit>(&self, arguments: &A) -> Launch {
        Launch::new(self.kernel, self.grid, THREADS as u32, self.shared_bytes, arguments)
    }
}

impl Lowering<'_> {
    /// The launch of a kernel that takes `sums` sums of each channel, of as many pixels `together`; of a number of groups, if the norm has
    /// some.
    fn cell_launch(
        &self,
        (norm, from): (&ImageNorm, usize),
        kernels: ByWidth,
        (together, sums): (usize, usize),
        groups: Option<usize>,
    ) -> CellLaunch {
        let (input, output) = (self.plan.program.values[from].shape, self.plan.program.values[norm.to].shape);
        let (height, width) = (input.height / output.height, input.width / output.width);
        let (kernel, pack) = kernels.of(self.precision, input.channels);
        let cells = (output.num_pixels(), height * width);
        let channels = (input.channels, pack);
        let together = if height * width == 1 { together } else { 1 };
        let cut = match groups {
            Some(_) => CellCut::whole(self.precision, channels, cells, together),
            None => CellCut::new(self.precision, channels, cells, together),
        };
        // Two numbers of each group, in multiples of sixteen bytes.
        let of_groups = groups.map_or(0, |groups| (2 * groups).next_multiple_of(4));
        let shared = (THREADS * pack * sums + of_groups) * size_of::<f32>() + cut.kept_bytes;
        let cells = Cells {
            input_width: input.width as u32,
            num_cells: output.num_pixels() as u32,
            cells_across: output.width as u32,
            height: height as u32,
            width: width as u32,
            share: (1.0 / (height * width) as f64) as f32,
            units: cut.units as u32,
            keeps: u32::from(cut.kept_bytes > 0),
        };
        let grid = [self.num_images, self.group.num_chains, cut.blocks as u32];
        CellLaunch { kernel, grid, shared_bytes: shared as u32, cells }
    }

    fn cut_off(&self, norm: &ImageNorm) -> CutOff {
        CutOff {
            threshold: norm.threshold.map_or(0, |start| self.parameter(start)),
            floor: if norm.activation == Some(Activation::Relu) { 0.0 } else { f32::NEG_INFINITY },
            reserved: 0,
        }
    }

    /// A filter response norm, forward.
    pub(super) fn response_forward(&mut self, number: usize, operation: &Operation) {
        let Operation::FilterResponseNorm { from, scale, offset, epsilon, .. } = operation else { return };
        let (at, norm) = self.plan.image_norms.of(number).expect("a filter response norm");
        let launch = self.cell_launch((norm, *from), self.compiled.response_norm, (TOGETHER, SUMS), None);
        let arguments = ResponseNorm {
            input: self.reading(*from),
            gamma: self.parameter(scale.start),
            beta: self.parameter(offset.start),
            roots: self.memory.moments(at),
            output: self.memory.value(norm.to),
            epsilon: *epsilon,
            parameter_stride: self.parameter_stride(),
            cut_off: self.cut_off(norm),
            cells: launch.cells,
        };
        self.launches.push(launch.with(&arguments));
    }

    /// The same, backward.
    pub(super) fn response_backward(&mut self, number: usize, operation: &Operation) {
        let Operation::FilterResponseNorm { from, scale, offset, .. } = operation else { return };
        let (at, norm) = self.plan.image_norms.of(number).expect("a filter response norm");
        let cut = (TOGETHER_BACKWARD, SUMS_BACKWARD);
        let launch = self.cell_launch((norm, *from), self.compiled.response_norm_backward, cut, None);
        let arguments = ResponseNormBackward {
            output: self.upstream(norm.to),
            input: self.reading(*from),
            to: self.downstream(*from),
            gamma: self.parameter(scale.start),
            beta: self.parameter(offset.start),
            roots: self.memory.moments(at),
            gamma_gradient: self.sums(scale.start),
            beta_gradient: self.sums(offset.start),
            threshold_gradient: norm.threshold.map_or(0, |start| self.sums(start)),
            parameter_stride: self.parameter_stride(),
            cut_off: self.cut_off(norm),
            cells: launch.cells,
            has_input_gradient: u32::from(*from != 0),
            reserved: 0,
        };
        self.launches.push(launch.with(&arguments));
    }

    /// A group norm whose channels fit into a block, forward.
    pub(super) fn group_norm_forward(&mut self, number: usize, kernels: LayerKernels, operation: &Operation) {
        let Operation::GroupNorm { from, scale, offset, groups, epsilon, .. } = operation else { return };
        let (at, norm) = self.plan.image_norms.of(number).expect("such a group norm");
        let launch = self.cell_launch((norm, *from), kernels.forward, (TOGETHER, SUMS_OF_GROUPS), Some(*groups));
        let arguments = GroupNormCells {
            input: self.reading(*from),
            gamma: self.parameter(scale.start),
            beta: self.parameter(offset.start),
            moments: self.memory.moments(at),
            output: self.memory.value(norm.to),
            epsilon: *epsilon,
            parameter_stride: self.parameter_stride(),
            cells: launch.cells,
            groups: *groups as u32,
            reserved: 0,
        };
        self.launches.push(launch.with(&arguments));
    }

    /// The same, backward.
    pub(super) fn group_norm_backward(&mut self, number: usize, kernels: LayerKernels, operation: &Operation) {
        let Operation::GroupNorm { from, scale, offset, groups, .. } = operation else { return };
        let (at, norm) = self.plan.image_norms.of(number).expect("such a group norm");
        let cut = (TOGETHER_BACKWARD, SUMS_OF_GROUPS);
        let launch = self.cell_launch((norm, *from), kernels.backward, cut, Some(*groups));
        let arguments = GroupNormCellsBackward {
            output: self.upstream(norm.to),
            input: self.reading(*from),
            to: self.downstream(*from),
            gamma: self.parameter(scale.start),
            beta: self.parameter(offset.start),
            moments: self.memory.moments(at),
            gamma_gradient: self.sums(scale.start),
            beta_gradient: self.sums(offset.start),
            parameter_stride: self.parameter_stride(),
            cells: launch.cells,
            groups: *groups as u32,
            has_input_gradient: u32::from(*from != 0),
        };
        self.launches.push(launch.with(&arguments));
    }
}

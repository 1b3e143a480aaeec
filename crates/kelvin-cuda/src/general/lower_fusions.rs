//! Operations that make others along with them as launches, forward and backward.

use kelvin::network::{Activation, Operation};

use super::arguments::{
    CellPool, CellPoolBackward, Cells, CutOff, GroupNormCells, GroupNormCellsBackward, PooledCells, ResponseNorm,
    ResponseNormBackward,
};
use super::block_size::THREADS;
use super::by_width::ByWidth;
use super::fusions::{CellCut, Fusion};
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

/// What each of a rectangle's pixels adds to its result.
fn share_of(fusion: &Fusion, num_pixels: usize) -> f32 {
    if fusion.maxima { 1.0 } else { (1.0 / num_pixels as f64) as f32 }
}

impl<'a> Lowering<'a> {
    /// An operation that begins a fusion, with all of it, forward.
    pub(super) fn fusion_forward(&mut self, number: usize, operation: &Operation) {
        let kernels = self.compiled.layer(number).forward;
        match operation {
            Operation::FilterResponseNorm { .. } => self.response_forward(number, kernels, operation),
            Operation::GroupNorm { .. } => self.group_norm_forward(number, kernels, operation),
            _ => {
                let (fusion, from) = self.fusion_from(number, operation);
                let arguments = CellPool {
                    input: self.reading(from),
                    output: self.memory.value(fusion.to),
                    cells: self.pooled_cells(fusion),
                };
                self.over_packs(kernels, fusion.to, &arguments);
            }
        }
    }

    /// The same, backward.
    pub(super) fn fusion_backward(&mut self, number: usize, operation: &Operation) {
        let kernels = self.compiled.layer(number).backward;
        match operation {
            Operation::FilterResponseNorm { .. } => self.response_backward(number, kernels, operation),
            Operation::GroupNorm { .. } => self.group_norm_backward(number, kernels, operation),
            _ => {
                let (fusion, from) = self.fusion_from(number, operation);
                if from == 0 {
                    return;
                }
                let arguments = CellPoolBackward {
                    output: self.upstream(fusion.to),
                    input: self.reading(from),
                    to: self.downstream(from),
                    cells: self.pooled_cells(fusion),
                };
                self.over_packs(kernels, fusion.to, &arguments);
            }
        }
    }

    fn fusion_from(&self, number: usize, operation: &Operation) -> (&'a Fusion, usize) {
        let (_, fusion) = self.plan.fusions.of(number).expect("an operation that begins a fusion");
        (fusion, operation.reads().next().expect("an operation that reads"))
    }

    fn pooled_cells(&self, fusion: &Fusion) -> PooledCells {
        let [height, width] = fusion.cell(&self.plan.program);
        let output = self.plan.program.values[fusion.to].shape;
        PooledCells {
            input_width: (output.width * width) as u32,
            down: output.height as u32,
            across: output.width as u32,
            height: height as u32,
            width: width as u32,
            share: share_of(fusion, height * width),
        }
    }

    /// The launch of a kernel that takes `sums` sums of each channel, of as many pixels `together`; of a number of groups, if the norm has
    /// some; with `places` of maxima, if it goes back through them.
    fn cell_launch(
        &self,
        (norm, from): (&Fusion, usize),
        kernels: ByWidth,
        (together, sums, places): (usize, usize, bool),
        groups: Option<usize>,
    ) -> CellLaunch {
        let (input, output) = (self.plan.program.values[from].shape, self.plan.program.values[norm.to].shape);
        let [height, width] = norm.cell(&self.plan.program);
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
        let of_places = if places && norm.maxima { THREADS * cut.turns } else { 0 };
        let shared = (THREADS * pack * sums + of_groups + of_places) * size_of::<f32>() + cut.kept_bytes;
        let cells = Cells {
            input_width: input.width as u32,
            num_cells: output.num_pixels() as u32,
            cells_across: output.width as u32,
            height: height as u32,
            width: width as u32,
            share: share_of(norm, height * width),
            units: cut.units as u32,
            keeps: u32::from(cut.kept_bytes > 0),
            turns: cut.turns as u32,
        };
        let grid = [self.num_images, self.group.num_chains, cut.blocks as u32];
        CellLaunch { kernel, grid, shared_bytes: shared as u32, cells }
    }

    fn cut_off(&self, norm: &Fusion) -> CutOff {
        CutOff {
            threshold: norm.threshold.map_or(0, |start| self.parameter(start)),
            floor: if norm.activation == Some(Activation::Relu) { 0.0 } else { f32::NEG_INFINITY },
            reserved: 0,
        }
    }

    /// A filter response norm, forward.
    fn response_forward(&mut self, number: usize, kernels: ByWidth, operation: &Operation) {
        let Operation::FilterResponseNorm { from, scale, offset, epsilon, .. } = operation else { return };
        let (at, norm) = self.plan.fusions.of(number).expect("a filter response norm");
        let launch = self.cell_launch((norm, *from), kernels, (TOGETHER, SUMS, false), None);
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
            reserved: 0,
        };
        self.launches.push(launch.with(&arguments));
    }

    /// The same, backward.
    fn response_backward(&mut self, number: usize, kernels: ByWidth, operation: &Operation) {
        let Operation::FilterResponseNorm { from, scale, offset, .. } = operation else { return };
        let (at, norm) = self.plan.fusions.of(number).expect("a filter response norm");
        let cut = (TOGETHER_BACKWARD, SUMS_BACKWARD, true);
        let launch = self.cell_launch((norm, *from), kernels, cut, None);
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
        };
        self.launches.push(launch.with(&arguments));
    }

    /// A group norm whose channels fit into a block, forward.
    fn group_norm_forward(&mut self, number: usize, kernels: ByWidth, operation: &Operation) {
        let Operation::GroupNorm { from, scale, offset, groups, epsilon, .. } = operation else { return };
        let (at, norm) = self.plan.fusions.of(number).expect("such a group norm");
        let launch = self.cell_launch((norm, *from), kernels, (TOGETHER, SUMS_OF_GROUPS, false), Some(*groups));
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
        };
        self.launches.push(launch.with(&arguments));
    }

    /// The same, backward.
    fn group_norm_backward(&mut self, number: usize, kernels: ByWidth, operation: &Operation) {
        let Operation::GroupNorm { from, scale, offset, groups, .. } = operation else { return };
        let (at, norm) = self.plan.fusions.of(number).expect("such a group norm");
        let cut = (TOGETHER_BACKWARD, SUMS_OF_GROUPS, true);
        let launch = self.cell_launch((norm, *from), kernels, cut, Some(*groups));
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
            reserved: 0,
        };
        self.launches.push(launch.with(&arguments));
    }
}

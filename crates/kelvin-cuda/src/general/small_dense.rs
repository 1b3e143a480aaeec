//! Dense layers of few units, such as the last of most networks: their own kernels, and their launches.

use kelvin::network::{Network, Operation, Program};

use super::Precision;
use super::arguments::{Downstream, SmallDense, SmallDenseBackward};
use super::lower::{Lowering, THREADS};
use crate::gpu::device::{Device, DeviceError, Kernel, Launch};
use crate::gpu::kernels::KernelSource;

/// The most units of such a layer: a thread keeps a sum for each.
const MOST_UNITS: usize = 32;
/// Images that the way back reads at the same time, and the most partial sums it leaves.
const TOGETHER: usize = 8;
const MOST_SPLITS: usize = 16;

/// The kernels of one layer.
#[derive(Clone, Copy, Debug)]
pub struct SmallDenseKernels {
    forward: Kernel,
    backward: Kernel,
}

/// Whether an operation is such a layer, unless a faster kernel serves it.
pub fn is_small_dense(program: &Program, operation: &Operation) -> bool {
    matches!(operation, Operation::Dense { to, .. } if program.values[*to].shape.len() <= MOST_UNITS)
}

/// Into how many partial sums the gradients of kernel and bias are cut.
pub fn num_splits(num_images: usize) -> usize {
    num_images.div_ceil(TOGETHER).clamp(1, MOST_SPLITS)
}

/// Sources of a layer of so many units, forward and backward.
fn sources(precision: Precision, units: usize, is_output: bool) -> [KernelSource; 2] {
    let both = [("HALF", i64::from(precision == Precision::Half)), ("UNITS", units as i64)];
    let mut forward = both.to_vec();
    forward.push(("SINGLE_OUTPUT", i64::from(is_output)));
    [
        KernelSource { file: "small_dense.cu", entry: "small_dense", defines: forward },
        KernelSource { file: "small_dense_backward.cu", entry: "small_dense_backward", defines: both.to_vec() },
    ]
}

/// Those of a program's layers, by operation.
fn program_sources(precision: Precision, program: &Program) -> Vec<Option<[KernelSource; 2]>> {
    let of = |operation: &Operation| match operation {
        Operation::Dense { to, .. } if is_small_dense(program, operation) => {
            Some(sources(precision, program.values[*to].shape.len(), *to + 1 == program.values.len()))
        }
        _ => None,
    };
    program.operations.iter().map(of).collect()
}

/// Kernels of a program's layers of few units, by operation.
pub fn compile(
    device: &dyn Device,
    precision: Precision,
    program: &Program,
) -> Result<Vec<Option<SmallDenseKernels>>, DeviceError> {
    let sources = program_sources(precision, program);
    let all: Vec<KernelSource> = sources.iter().flatten().flatten().cloned().collect();
    let compiled = device.compile_all(&all)?;
    let mut pairs = compiled.chunks_exact(2).map(|pair| SmallDenseKernels { forward: pair[0], backward: pair[1] });
    Ok(sources.iter().map(|source| source.as_ref().and_then(|_| pairs.next())).collect())
}

/// Those of the paper's networks.
pub fn example_kernels(precision: Precision) -> Vec<KernelSource> {
    program_sources(precision, Network::mnist_cnn().program()).into_iter().flatten().flatten().collect()
}

impl Lowering<'_> {
    /// The way forward, a warp an image.
    pub(super) fn small_dense(
        &mut self,
        kernels: &SmallDenseKernels,
        from: usize,
        to: usize,
        kernel: usize,
        bias: usize,
    ) {
        let arguments = SmallDense {
            input: self.reading(from),
            kernel: self.weight(kernel),
            bias: self.parameter(bias),
            output: self.memory.value(to),
            parameter_stride: self.parameter_stride(),
        };
        let grid = [self.num_images.div_ceil(THREADS as u32 / 32), self.group.num_chains, 1];
        let shared = THREADS * (self.plan.len(to) | 1) * size_of::<f32>();
        self.launches.push(Launch::new(kernels.forward, grid, THREADS as u32, shared as u32, &arguments));
    }

    /// All of the way back.
    pub(super) fn small_dense_backward(
        &mut self,
        kernels: &SmallDenseKernels,
        from: usize,
        to: usize,
        kernel: usize,
        bias: usize,
    ) {
        let (inputs, units) = (self.plan.len(from), self.plan.len(to));
        let num_splits = num_splits(self.num_images as usize) as u32;
        let arguments = SmallDenseBackward {
            output: self.upstream(to),
            input: self.reading(from),
            to: if from == 0 { Downstream::default() } else { self.downstream(from) },
            kernel: self.weight(kernel),
            kernel_sums: self.sums(kernel),
            bias_sums: self.sums(bias),
            parameter_stride: self.parameter_stride(),
            num_splits,
            images_per_split: self.num_images.div_ceil(num_splits),
        };
        let threads = inputs.next_multiple_of(32).min(THREADS);
        let grid = [num_splits, self.group.num_chains, inputs.div_ceil(threads) as u32];
        let shared = (TOGETHER * units + threads * (units | 1)) * size_of::<f32>();
        self.launches.push(Launch::new(kernels.backward, grid, threads as u32, shared as u32, &arguments));
    }
}

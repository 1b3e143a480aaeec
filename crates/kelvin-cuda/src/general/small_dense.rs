//! Dense layers of few units, such as the last of most networks: which layers those are, and the kernels of each.

use kelvin::network::{Network, Operation, Program};

use super::precision::Precision;
use crate::gpu::device::{Device, DeviceError, Kernel};
use crate::gpu::kernels::KernelSource;

/// The most units of such a layer: a thread keeps a sum for each.
const MOST_UNITS: usize = 32;
/// Images that the backward pass reads at the same time, and the most partial sums it leaves.
pub const TOGETHER: usize = 8;
const MOST_SPLITS: usize = 16;

/// The kernels of one layer.
#[derive(Clone, Copy, Debug)]
pub struct SmallDenseKernels {
    pub(super) forward: Kernel,
    pub(super) backward: Kernel,
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

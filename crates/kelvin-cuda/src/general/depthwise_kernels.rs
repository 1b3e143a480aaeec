//! The kernels of depthwise convolutions, which tensor cores do not help.

use kelvin::network::{Convolution, Layer, Network, Operation, Program, Shape};

use super::by_width::ByWidth;
use super::precision::Precision;
use crate::gpu::device::{Device, DeviceError};
use crate::gpu::kernels::KernelSource;

/// The widest kernel: a thread keeps a sum for each tap of a line.
const WIDEST_KERNEL: usize = 8;
/// The fewest pixels of a partial sum of the weights' gradient, and the most partial sums.
const PIXELS_OF_A_SPLIT: usize = 512;
const MOST_SPLITS: usize = 128;

/// The kernels of one layer.
#[derive(Clone, Copy, Debug)]
pub struct DepthwiseKernels {
    pub(super) forward: ByWidth,
    pub(super) weights: ByWidth,
    pub(super) input: ByWidth,
}

/// Whether an operation is such a convolution.
pub fn is_served(operation: &Operation) -> bool {
    matches!(operation, Operation::Conv { sizes, .. } if sizes.is_depthwise() && sizes.kernel <= WIDEST_KERNEL)
}

/// Pixels side by side that a thread takes of the output, and of the input in the backward pass.
pub const STRIP: usize = 4;
pub fn input_strip(stride: usize) -> usize {
    if stride > 4 { stride } else { 4 / stride * stride }
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
        let defines = vec![
            half,
            ("WIDTH", width as i64),
            ("KERNEL", sizes.kernel as i64),
            ("STRIDE", sizes.stride as i64),
            ("ABOVE", sizes.before[0] as i64),
            ("LEFT", sizes.before[1] as i64),
        ];
        KernelSource { file, entry, defines }
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
    let conv = |groups, stride| Layer::Conv { filters: 8, kernel: 3, stride, groups };
    let layers = vec![conv(1, 1), conv(8, 1), conv(8, 2), Layer::Dense { units: 2 }];
    let network = Network::new(Shape::image(4, 4, 1), layers).expect("a depthwise network");
    network.program().operations.iter().filter_map(|operation| sources(precision, operation)).flatten().collect()
}

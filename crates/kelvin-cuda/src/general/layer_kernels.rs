//! The kernels of layers that few networks have, compiled for those that do: activations other than ReLU, maxima, group and layer norm.

use kelvin::network::{Activation, Layer, Network, Operation, Program, Shape};

use super::by_width::ByWidth;
use super::image_norms::{ImageNorm, ImageNorms};
use super::precision::Precision;
use crate::gpu::device::{Device, DeviceError};
use crate::gpu::kernels::KernelSource;

/// Pixels that a block of a layer norm's backward pass takes: it keeps two numbers for each.
pub const PIXELS_OF_A_BLOCK: usize = 256;

/// Blocks that share an image in the backward pass of a layer norm, each with a partial sum.
pub fn layer_norm_blocks(shape: Shape) -> usize {
    shape.num_pixels().div_ceil(PIXELS_OF_A_BLOCK)
}

/// The kernels of a layer, forward and backward.
#[derive(Clone, Copy, Debug)]
pub struct LayerKernels {
    pub(super) forward: ByWidth,
    pub(super) backward: ByWidth,
}

/// Files of a layer's kernels and their entries, and whether they have a form that takes sixteen bytes at a time.
type Files = ([(&'static str, &'static str); 2], bool);

fn files(operation: &Operation) -> Option<Files> {
    match operation {
        Operation::Activation { .. } => {
            Some(([("activation.cu", "activation"), ("activation_backward.cu", "activation_backward")], true))
        }
        Operation::MaxPool { .. } => {
            Some(([("max_pool.cu", "max_pool"), ("max_pool_backward.cu", "max_pool_backward")], true))
        }
        Operation::GroupNorm { .. } => {
            Some(([("group_norm.cu", "group_norm"), ("group_norm_backward.cu", "group_norm_backward")], false))
        }
        Operation::LayerNorm { .. } => {
            Some(([("layer_norm.cu", "layer_norm"), ("layer_norm_backward.cu", "layer_norm_backward")], false))
        }
        _ => None,
    }
}

/// The number of an activation in the kernels; that of a ReLU and of none are only those of `group_norm_cells.cuh`.
pub fn number_of(by: Option<Activation>) -> u32 {
    match by {
        Some(Activation::Tanh) => 0,
        Some(Activation::Gelu) => 1,
        Some(Activation::Silu) => 2,
        None => 3,
        Some(Activation::Relu) => 4,
    }
}

/// Of one layer: forward for any channels and by sixteen bytes, then backward; `norm` is what is made along with it, if it is a norm
/// whose kernels do so.
fn sources(
    precision: Precision,
    program: &Program,
    operation: &Operation,
    norm: Option<&ImageNorm>,
) -> Option<[KernelSource; 4]> {
    let half = ("HALF", i64::from(precision == Precision::Half));
    let wide = precision.wide();
    if let (Operation::GroupNorm { from, .. }, Some(norm)) = (operation, norm) {
        let (input, output) = (program.values[*from].shape, program.values[norm.to].shape);
        let area = match (input.height / output.height, input.width / output.width) {
            (1, 1) => 1,
            (2, 2) => 4,
            _ => 0,
        };
        let source = |file, entry, width: usize| {
            let by = i64::from(number_of(norm.activation));
            KernelSource { file, entry, defines: vec![half, ("WIDTH", width as i64), ("BY", by), ("CELL", area)] }
        };
        let forward = |width| source("group_norm_cells.cu", "group_norm_cells", width);
        let backward = |width| source("group_norm_cells_backward.cu", "group_norm_cells_backward", width);
        return Some([forward(1), forward(wide), backward(1), backward(wide)]);
    }
    let (files, by_width) = files(operation)?;
    let source = |at: usize, width: usize| {
        let (file, entry) = files[at];
        let width = if by_width { width } else { 1 };
        KernelSource { file, entry, defines: vec![half, ("WIDTH", width as i64)] }
    };
    Some([source(0, 1), source(0, wide), source(1, 1), source(1, wide)])
}

/// Those of a program's layers, by operation.
fn program_sources(precision: Precision, program: &Program) -> Vec<Option<[KernelSource; 4]>> {
    let norms = ImageNorms::new(program);
    let operations = program.operations.iter().enumerate();
    let norm = |number| norms.of(number).map(|(_, norm)| norm);
    operations.map(|(number, operation)| sources(precision, program, operation, norm(number))).collect()
}

/// Compiles those of a program's layers, by operation.
pub fn compile(
    device: &dyn Device,
    precision: Precision,
    program: &Program,
) -> Result<Vec<Option<LayerKernels>>, DeviceError> {
    let sources = program_sources(precision, program);
    let all: Vec<KernelSource> = sources.iter().flatten().flatten().cloned().collect();
    let compiled = device.compile_all(&all)?;
    let mut layers = compiled.chunks_exact(4).map(|kernels| LayerKernels {
        forward: ByWidth::new(kernels[0], kernels[1]),
        backward: ByWidth::new(kernels[2], kernels[3]),
    });
    Ok(sources.iter().map(|source| source.as_ref().and_then(|_| layers.next())).collect())
}

/// One of each, in one precision.
pub fn example_kernels(precision: Precision) -> Vec<KernelSource> {
    let layers = vec![
        Layer::Conv { filters: 4, kernel: 3, stride: 1, groups: 1 },
        Layer::Gelu,
        Layer::MaxPool { size: 2, stride: None },
        Layer::GroupNorm { groups: 2, epsilon: 1e-5 },
        Layer::Silu,
        Layer::AvgPool { size: 2 },
        Layer::LAYER_NORM,
        Layer::Conv { filters: 300, kernel: 1, stride: 1, groups: 1 },
        Layer::GroupNorm { groups: 2, epsilon: 1e-5 },
        Layer::Dense { units: 2 },
    ];
    let network = Network::new(Shape::image(4, 4, 1), layers).expect("a network of layers");
    let mut all: Vec<KernelSource> = Vec::new();
    for source in program_sources(precision, network.program()).into_iter().flatten().flatten() {
        if !all.contains(&source) {
            all.push(source);
        }
    }
    all
}

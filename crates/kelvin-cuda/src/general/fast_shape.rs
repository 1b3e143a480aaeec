//! Which convolutions the tensor cores' kernels serve, and the kernel of each forward pass.

use kelvin::network::Operation;

use super::conv_tile::{ConvShape, Gradients, Tile};
use super::plan::{Plan, pool_of};
use crate::gpu::device::Limits;

/// The terms of what an operation reads, where it is a sum without norm that nobody reads before.
pub(super) fn terms_of(plan: &Plan, operation: &Operation, value: usize) -> Option<[usize; 2]> {
    let program = &plan.program;
    let reads = |other: &&Operation| other.reads().any(|read| read == value);
    let is_first = program.operations.iter().find(reads).is_some_and(|first| std::ptr::eq(first, operation));
    program.operations.iter().find_map(|made| match *made {
        Operation::Add { left, right, to } if to == value => {
            let plain = program.values[value].norm.is_none() && left != 0 && right != 0;
            (is_first && plain).then_some([left, right])
        }
        _ => None,
    })
}

/// A convolution's shape and what its gradients need, where fast kernels can serve it.
pub(super) fn fast_shape(
    plan: &Plan,
    operation: &Operation,
    packed_input: bool,
    adds: bool,
    is_last: bool,
) -> Option<(ConvShape, Gradients)> {
    let Operation::Conv { from, to, kernel, sizes, adds_bias, .. } = operation else { return None };
    let (input, output) = (&plan.program.values[*from], &plan.program.values[*to]);
    let mut shape = ConvShape {
        sizes: *sizes,
        packed: *from == 0 && packed_input,
        input_norm: input.norm.is_some(),
        input_relu: input.relu,
        terms: None,
    };
    let reading = |term: usize| (plan.program.values[term].norm.is_some(), plan.program.values[term].relu);
    shape.terms = terms_of(plan, operation, *from).filter(|_| shape.covers_input()).map(|terms| terms.map(reading));
    let pool = pool_of(plan, *to);
    let gradients = Gradients {
        output_norm: output.norm.is_some(),
        pool: pool.map_or(1, |(_, size)| size),
        pool_relu: pool.is_some() && output.relu,
        pooled: false,
        input: *from != 0,
        bias: *adds_bias,
        adds,
        masks: is_last && input.relu,
        norm_sums: if is_last { plan.normed_by(*from).iter().flatten().count() } else { 0 },
        shortcut: false,
    };
    (shape.fits() && kernel.start.is_multiple_of(8)).then_some((shape, gradients))
}

/// A kernel's file and its entry.
pub(super) type Source = (&'static str, &'static str);

/// The kernel of the forward pass, its tile and shared memory: by warpgroups, where the GPU has their products and the shape fits.
pub(super) fn forward_kernel(
    shape: &ConvShape,
    gradients: &Gradients,
    limits: Limits,
) -> Option<(Source, (Tile, usize))> {
    let shared = limits.shared_bytes as usize;
    let wide = shape.wide_forward_tile(gradients, shared).filter(|_| limits.warpgroup_products);
    let source = match wide {
        Some(_) => ("conv_forward_wide.cu", "conv_forward_wide"),
        None => ("conv_forward.cu", "conv_forward"),
    };
    let forward = wide.or_else(|| shape.forward_tile(shared))?;
    (!gradients.output_norm || shape.has_room_for_parts(&forward.0)).then_some((source, forward))
}

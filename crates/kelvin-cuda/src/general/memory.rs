//! What a group of chains writes to on the way: values, gradients, norms and partial sums; the next group uses it again.

use std::sync::Arc;

use kelvin::network::{Operation, Program};

use super::conv_kernels::LayerSizes;
use super::depthwise_kernels;
use super::fast::Fast;
use super::layer_kernels::layer_norm_blocks;
use super::parameter_blocks::ParameterBlocks;
use super::plan::{Plan, ROWS_PER_PART};
use super::precision::Precision;
use super::small_dense::{self, is_small_dense};
use crate::gpu::device::{Address, Buffer, Device, DeviceError};

/// Memory of a lane: what the passes of its chains write.
pub struct GroupMemory {
    /// The most chains of a lane.
    pub num_chains: usize,
    /// The most images of a chain's batch.
    pub num_images: usize,
    values: Vec<Buffer<u8>>,
    gradients: Vec<Buffer<u8>>,
    norms: Vec<Buffer<f32>>,
    slopes: Vec<Buffer<f32>>,
    parts: Vec<Buffer<f32>>,
    moments: Vec<Buffer<f32>>,
    sums: Vec<Buffer<f32>>,
    /// ∇ of each chain.
    pub totals: Buffer<f32>,
    /// Σ g² of each block.
    pub squares: Buffer<f64>,
    /// Σ g² of each chain.
    pub square_sums: Buffer<f64>,
    /// How many blocks of each chain have added theirs; 0 between launches.
    pub tickets: Buffer<u32>,
    /// Σ m²/M of each block.
    pub kinetic: Buffer<f64>,
    /// Σ log p and Σ ∂/∂log β of each chain.
    pub likelihood: Buffer<f64>,
    /// Which example each image is.
    pub rows: Buffer<u32>,
    /// What becomes of each image.
    pub placements: Buffer<u32>,
}

/// The sizes of all buffers, in numbers.
struct Sizes {
    values: Vec<usize>,
    gradients: Vec<usize>,
    norms: Vec<usize>,
    parts: Vec<usize>,
    moments: Vec<usize>,
    sums: Vec<usize>,
    totals: usize,
    blocks: usize,
}

impl Sizes {
    fn new(plan: &Plan, fast: &Fast, blocks: &ParameterBlocks, num_chains: usize, num_images: usize) -> Self {
        let program = &plan.program;
        let together = num_chains * num_images;
        let channels = |norm: usize| program.values[program.norms[norm].value].shape.channels;
        let parts = program.norms.iter().map(|norm| {
            let shape = program.values[norm.value].shape;
            2 * num_chains * (num_images * shape.num_pixels()).div_ceil(ROWS_PER_PART) * shape.channels
        });
        let written_len = |value: usize| if plan.image_norms.pass(value) { 0 } else { plan.stored_len(value) };
        let moments = plan.image_norms.iter().map(|norm| 2 * together * program.values[norm.to].shape.channels);
        let tensors = program.layout.tensors().iter();
        Self {
            values: (0..program.values.len()).map(|value| together * written_len(value)).collect(),
            gradients: plan.places.iter().map(|len| together * len).collect(),
            norms: (0..program.norms.len()).map(|norm| num_chains * channels(norm)).collect(),
            parts: parts.collect(),
            moments: moments.collect(),
            sums: tensors
                .zip(most_splits(program, fast, num_images))
                .map(|(tensor, splits)| num_chains * splits * tensor.range.len())
                .collect(),
            totals: num_chains * blocks.parameter_stride,
            blocks: num_chains * blocks.num_blocks(),
        }
    }

    fn bytes(&self, precision: Precision) -> usize {
        let elements: usize = self.values.iter().chain(&self.gradients).sum();
        let norms = 7 * self.norms.iter().sum::<usize>() + self.parts.iter().chain(&self.moments).sum::<usize>();
        let singles = norms + self.sums.iter().sum::<usize>() + self.totals;
        elements * precision.bytes() + 4 * singles + 16 * self.blocks
    }
}

/// Into how many partial sums the gradient of each tensor is cut for batches of so many images.
pub fn num_splits(program: &Program, fast: &Fast, num_images: usize) -> Vec<usize> {
    splits(program, num_images, |operation| fast.num_splits(operation, num_images))
}

/// The most of them for batches of so many images or fewer.
fn most_splits(program: &Program, fast: &Fast, num_images: usize) -> Vec<usize> {
    splits(program, num_images, |operation| fast.most_splits(operation, num_images))
}

fn splits(program: &Program, num_images: usize, of_fast: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let tensors = program.layout.tensors();
    let mut splits = vec![1; tensors.len()];
    let mut set = |first: usize, count: usize| {
        if let Some(at) = tensors.iter().position(|tensor| tensor.range.start == first) {
            splits[at] = count;
        }
    };
    let of_product = |operation: &Operation| match operation {
        Operation::Conv { sizes, .. } if depthwise_kernels::is_served(operation) => {
            depthwise_kernels::num_splits(sizes, num_images)
        }
        _ => LayerSizes::new(program, operation).map_or(1, |sizes| sizes.num_splits(num_images)),
    };
    for (number, operation) in program.operations.iter().enumerate() {
        let fast = of_fast(number);
        match operation {
            Operation::Conv { kernel, bias, .. } | Operation::Dense { kernel, bias, .. } => {
                let is_small = fast.is_none() && is_small_dense(program, operation);
                let of_layer = || if is_small { small_dense::num_splits(num_images) } else { of_product(operation) };
                let count = fast.unwrap_or_else(of_layer);
                set(kernel.start, count);
                // Where a norm follows, it says what becomes of the bias.
                if !matches!(operation, Operation::Conv { adds_bias: false, .. }) {
                    set(bias.start, count);
                }
            }
            Operation::FilterResponseNorm { scale, offset, .. } | Operation::GroupNorm { scale, offset, .. } => {
                set(scale.start, num_images);
                set(offset.start, num_images);
            }
            Operation::LayerNorm { from, scale, offset, .. } => {
                let count = num_images * layer_norm_blocks(program.values[*from].shape);
                set(scale.start, count);
                set(offset.start, count);
            }
            Operation::Threshold { threshold, .. } => set(threshold.start, num_images),
            Operation::BatchNorm { .. }
            | Operation::Activation { .. }
            | Operation::MaxPool { .. }
            | Operation::Pool { .. }
            | Operation::Add { .. }
            | Operation::Copy { .. } => {}
        }
    }
    splits
}

impl GroupMemory {
    /// Bytes that a group of so many chains with batches of so many images takes.
    pub fn bytes(
        plan: &Plan,
        fast: &Fast,
        blocks: &ParameterBlocks,
        precision: Precision,
        num_chains: usize,
        num_images: usize,
    ) -> usize {
        Sizes::new(plan, fast, blocks, num_chains, num_images).bytes(precision)
    }

    /// Room for groups of up to `num_chains` chains with batches of up to `num_images` images.
    pub fn new(
        device: &Arc<dyn Device>,
        plan: &Plan,
        fast: &Fast,
        blocks: &ParameterBlocks,
        precision: Precision,
        num_chains: usize,
        num_images: usize,
    ) -> Result<Self, DeviceError> {
        let sizes = Sizes::new(plan, fast, blocks, num_chains, num_images);
        let singles = |lens: &[usize], times: usize| -> Result<Vec<Buffer<f32>>, DeviceError> {
            lens.iter().map(|len| Buffer::zeros(device, len * times)).collect()
        };
        // Outputs are f32 whatever the elements are.
        let bytes_of = |value: usize| if value == plan.output() { 4 } else { precision.bytes() };
        let values = sizes.values.iter().enumerate().map(|(value, len)| Buffer::zeros(device, len * bytes_of(value)));
        let gradients = sizes.gradients.iter().map(|len| Buffer::zeros(device, len * precision.bytes()));
        Ok(Self {
            num_chains,
            num_images,
            values: values.collect::<Result<_, _>>()?,
            gradients: gradients.collect::<Result<_, _>>()?,
            norms: singles(&sizes.norms, 4)?,
            slopes: singles(&sizes.norms, 3)?,
            parts: singles(&sizes.parts, 1)?,
            moments: singles(&sizes.moments, 1)?,
            sums: singles(&sizes.sums, 1)?,
            totals: Buffer::zeros(device, sizes.totals)?,
            squares: Buffer::zeros(device, sizes.blocks)?,
            square_sums: Buffer::zeros(device, num_chains)?,
            tickets: Buffer::zeros(device, num_chains)?,
            kinetic: Buffer::zeros(device, sizes.blocks)?,
            likelihood: Buffer::zeros(device, 2 * num_chains)?,
            rows: Buffer::zeros(device, num_chains * num_images)?,
            placements: Buffer::zeros(device, num_chains * num_images)?,
        })
    }

    /// V of a value.
    pub fn value(&self, value: usize) -> Address {
        self.values[value].at(0)
    }

    /// D at a place.
    pub fn gradient(&self, place: usize) -> Address {
        self.gradients[place].at(0)
    }

    /// s, t, mean and 1/std of a norm: [chain][4][channel].
    pub fn norm(&self, norm: usize) -> Address {
        self.norms[norm].at(0)
    }

    /// a, b, c of a norm: [chain][3][channel].
    pub fn slopes(&self, norm: usize) -> Address {
        self.slopes[norm].at(0)
    }

    /// Parts of the sums of a norm, which lie there until they are read: one way at a time.
    pub fn parts(&self, norm: usize) -> Address {
        self.parts[norm].at(0)
    }

    /// Of a norm of single images by its number among them: 1/√(mean u² + ε) in f64, [chain][image][channel], of a filter response norm;
    /// mean and r of the channel's group, [chain][image][2][channel], of a group norm.
    pub fn moments(&self, norm: usize) -> Address {
        self.moments[norm].at(0)
    }

    /// Partial sums of the gradient of a tensor.
    pub fn sums(&self, tensor: usize) -> Address {
        self.sums[tensor].at(0)
    }

    /// The outputs of a pass of `num_chains` chains and `num_images` images, chain after chain.
    pub fn read_outputs(&self, plan: &Plan, num_chains: usize, num_images: usize) -> Result<Vec<f32>, DeviceError> {
        let mut outputs = vec![0.0; num_chains * num_images * plan.len(plan.output())];
        self.values[plan.output()].read(0, bytemuck::cast_slice_mut(&mut outputs))?;
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::Network;

    use super::*;
    use crate::gpu::device::Limits;

    #[test]
    fn there_is_room_for_the_partial_sums_of_smaller_batches() {
        let sizes = [(100, 132), (127, 132), (128, 108), (128, 132), (90, 142), (7, 4)];
        for network in [Network::resnet(20).unwrap(), Network::mnist_cnn()] {
            for ((most, num_multiprocessors), warpgroup_products) in
                sizes.into_iter().flat_map(|size| [(size, false), (size, true)])
            {
                let limits =
                    Limits { num_multiprocessors, shared_bytes: 227 << 10, warpgroup_products, memory_bytes: 0 };
                let plan = Plan::new(network.program());
                let fast = Fast::planned(limits, &plan, Precision::Half).0;
                let room = most_splits(&plan.program, &fast, most);
                for few in 1..=most {
                    let needed = num_splits(&plan.program, &fast, few);
                    assert!(needed.iter().zip(&room).all(|(needed, room)| needed <= room), "{few} of {most} images");
                }
            }
        }
    }
}

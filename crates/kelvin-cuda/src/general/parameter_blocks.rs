//! How the parameter vector is cut into blocks that do not straddle tensors, on the host and on the device.

use std::ops::Range;
use std::sync::Arc;

use kelvin::network::Layout;

use super::arguments::{ParameterBlock, TensorBlocks};
use super::block_size::THREADS;
use crate::gpu::device::{Buffer, Device, DeviceError};

/// Parameters of a block, at most, eight a thread; blocks begin at multiples of it or where a tensor begins.
const BLOCK: usize = 8 * THREADS;

/// The blocks of a layout.
pub struct ParameterBlocks {
    /// Numbers from one chain's parameters to the next's.
    pub parameter_stride: usize,
    /// Numbers in each tensor.
    pub tensor_lens: Vec<usize>,
    /// Where each tensor begins.
    pub tensor_starts: Vec<usize>,
    /// The blocks of all tensors, in the order of the parameters.
    pub blocks: Buffer<ParameterBlock>,
    /// Which blocks each tensor has.
    pub tensors: Buffer<TensorBlocks>,
}

/// Tensors begin and end where ranges without a prior do.
fn cut(layout: &Layout, without_prior: &[Range<usize>]) -> (Vec<ParameterBlock>, Vec<TensorBlocks>) {
    let (mut blocks, mut tensors) = (Vec::new(), Vec::new());
    for (number, tensor) in layout.tensors().iter().enumerate() {
        let before = blocks.len();
        let has_prior = !without_prior.iter().any(|range| range.contains(&tensor.range.start));
        let mut first = tensor.range.start;
        while first < tensor.range.end {
            let end = ((first / BLOCK + 1) * BLOCK).min(tensor.range.end);
            blocks.push(ParameterBlock {
                tensor: number as u32,
                first: first as u32,
                len: (end - first) as u32,
                tensor_first: tensor.range.start as u32,
                has_prior: has_prior.into(),
            });
            first = end;
        }
        tensors.push(TensorBlocks { first: before as u32, count: (blocks.len() - before) as u32 });
    }
    (blocks, tensors)
}

impl ParameterBlocks {
    /// Cuts a layout, of which the prior says nothing in some ranges, and copies the blocks to the device.
    pub fn new(device: &Arc<dyn Device>, layout: &Layout, without_prior: &[Range<usize>]) -> Result<Self, DeviceError> {
        let (blocks, tensors) = cut(layout, without_prior);
        Ok(Self {
            parameter_stride: layout.len().next_multiple_of(64),
            tensor_lens: layout.tensors().iter().map(|tensor| tensor.range.len()).collect(),
            tensor_starts: layout.tensors().iter().map(|tensor| tensor.range.start).collect(),
            blocks: Buffer::of(device, &blocks)?,
            tensors: Buffer::of(device, &tensors)?,
        })
    }

    /// How many blocks there are.
    pub fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// How many tensors there are.
    pub fn num_tensors(&self) -> usize {
        self.tensors.len()
    }

    /// The number of the tensor that begins at a place of the parameters.
    pub fn tensor_at(&self, start: usize) -> usize {
        self.tensor_starts.partition_point(|&other| other < start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::network::Network;

    #[test]
    fn blocks_cover_every_parameter_once_and_no_boundary() {
        let layout = Network::mnist_cnn().layout();
        let free = layout.tensors()[2].range.clone();
        let (blocks, tensors) = cut(&layout, std::slice::from_ref(&free));
        let mut next = 0;
        for block in &blocks {
            assert_eq!(block.first, next);
            next += block.len;
            let range = &layout.tensors()[block.tensor as usize].range;
            assert_eq!(block.has_prior == 0, block.tensor == 2);
            assert!(range.start <= block.first as usize && next as usize <= range.end);
            assert_eq!(block.first as usize / BLOCK, (next as usize - 1) / BLOCK);
        }
        assert_eq!(next as usize, layout.len());
        assert_eq!(tensors.iter().map(|tensor| tensor.count as usize).sum::<usize>(), blocks.len());
    }
}

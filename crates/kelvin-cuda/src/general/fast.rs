//! Tensor cores where shapes allow it: the fast kernels of a network's convolutions and dense layers.

use kelvin::network::Operation;

use super::conv_tile::Tile;
use super::dense_kernels::DenseShape;
use super::plan::{Plan, pool_of, written as written_by};
use crate::gpu::device::{Kernel, Launch};

/// Chains that are to fill the device. Partial sums, and with them every last bit, depend on how a chain's work is cut, so that
/// it is cut for so many chains however many there are: those of a repetition of the paper's experiment, whose fifty then fill the
/// device five times over.
const CHAINS: usize = 10;

/// A kernel that takes tile after tile.
#[derive(Clone, Copy, Debug)]
pub struct Tiled {
    pub(super) kernel: Kernel,
    pub(super) tile: Tile,
    pub(super) shared_bytes: u32,
    pub(super) output_rows: usize,
    /// Multiprocessors times blocks on each.
    pub(super) slots: usize,
}

impl Tiled {
    /// As many that the blocks of those chains all run at the same time: one too many would be waited for by all.
    pub(super) fn tiles_per_block(&self, num_images: usize) -> usize {
        self.tile.count(self.output_rows, num_images).div_ceil(self.slots_of_a_chain())
    }

    fn slots_of_a_chain(&self) -> usize {
        (self.slots / CHAINS).max(1)
    }

    /// Blocks of a chain.
    pub(super) fn num_blocks(&self, num_images: usize) -> usize {
        self.tile.count(self.output_rows, num_images).div_ceil(self.tiles_per_block(num_images))
    }

    /// The most blocks of a chain that has so many images or fewer: more images can have fewer blocks, of more tiles.
    fn most_blocks(&self, num_images: usize) -> usize {
        self.tile.count(self.output_rows, num_images).min(self.slots_of_a_chain())
    }

    pub(super) fn launch<A: bytemuck::NoUninit>(&self, num_chains: u32, num_images: usize, arguments: &A) -> Launch {
        let grid = [self.num_blocks(num_images) as u32, num_chains, 1];
        Launch::new(self.kernel, grid, 32 * self.tile.warps as u32, self.shared_bytes, arguments)
    }
}

/// The fast kernels of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct FastConv {
    pub(super) forward: Tiled,
    pub(super) backward: Tiled,
    /// Whether the forward pass leaves parts of the norm that follows.
    pub(super) statistics: bool,
    /// The terms of the input, where it is a sum that the forward pass works out.
    pub(super) terms: Option<[usize; 2]>,
    /// The result of the pool that the forward pass makes as well.
    pub(super) pooled: Option<usize>,
    /// The values whose norms' sums the backward pass takes as well.
    pub(super) normed: [Option<usize>; 2],
    /// Which kernel makes the backward pass, and for which others as well.
    pub(super) company: Company,
}

/// Whether a convolution's backward pass is fused with another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Its kernel makes its own backward pass and nothing else.
    None,
    /// By the kernel of strided convolutions, which may take a shortcut along: its operation.
    Strided(Option<usize>),
    /// Along with another operation, later in the backward pass.
    Follows(usize),
}

/// The fast kernels of a dense layer.
#[derive(Clone, Copy, Debug)]
pub struct FastDense {
    pub(super) shape: DenseShape,
    pub(super) forward: Kernel,
    pub(super) weights: Kernel,
    /// None for the first layer.
    pub(super) input: Option<Kernel>,
}

/// Which kernels finalise the statistics of a batch norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finishers {
    /// Whether in the forward pass it is the convolution that reads the value first.
    pub(super) reader: bool,
    /// Whether in the backward pass it is the convolution that made the value.
    pub(super) maker: bool,
}

/// Fast kernels by operation.
#[derive(Clone, Debug, Default)]
pub struct Fast {
    pub(super) convs: Vec<Option<FastConv>>,
    pub(super) denses: Vec<Option<FastDense>>,
    /// Sums that convolutions work out.
    pub(super) sums: Vec<usize>,
    /// For each batch norm of the program.
    pub(super) finishers: Vec<Finishers>,
}

impl Fast {
    /// Into how many partial sums the fast kernel of an operation cuts the gradients of its parameters.
    pub fn num_splits(&self, operation: usize, num_images: usize) -> Option<usize> {
        self.splits(operation, num_images, |backward| backward.num_blocks(num_images))
    }

    /// The most of them for so many images or fewer.
    pub fn most_splits(&self, operation: usize, num_images: usize) -> Option<usize> {
        self.splits(operation, num_images, |backward| backward.most_blocks(num_images))
    }

    fn splits(&self, operation: usize, num_images: usize, of_conv: impl Fn(&Tiled) -> usize) -> Option<usize> {
        if let Some(conv) = self.convs.get(operation).copied().flatten() {
            return Some(of_conv(&conv.backward));
        }
        self.dense(operation).map(|dense| dense.shape.num_splits(num_images))
    }

    /// The values whose gradient fast kernels take from that of the pool that reads them, each with the pool's result.
    pub fn passed_pools(&self, plan: &Plan) -> Vec<(usize, usize)> {
        let made = |operation: &Operation| written_by(operation).and_then(|to| Some((to, pool_of(plan, to)?.0)));
        let operations = plan.program.operations.iter().zip(&self.convs);
        operations.filter_map(|(operation, conv)| conv.and_then(|_| made(operation))).collect()
    }

    /// The values whose gradients are needed until an operation that comes later in the backward pass, each with that.
    pub fn kept_gradients(&self, plan: &Plan) -> Vec<(usize, usize)> {
        let operations = plan.program.operations.iter().zip(&self.convs);
        let kept = operations.filter_map(|(operation, conv)| match conv.as_ref()?.company {
            Company::Follows(leader) => Some((written_by(operation)?, leader)),
            _ => None,
        });
        kept.collect()
    }

    /// Whether a fast kernel has made the pool with this result.
    pub fn makes_pool(&self, result: usize) -> bool {
        self.convs.iter().flatten().any(|conv| conv.pooled == Some(result))
    }

    /// Whether a fast kernel works out this sum.
    pub fn makes_sum(&self, sum: usize) -> bool {
        self.sums.contains(&sum)
    }

    /// Whether the convolution that reads the value of a norm first works out how it is read.
    pub fn reader_finishes(&self, norm: usize) -> bool {
        self.finishers.get(norm).is_some_and(|finishers| finishers.reader)
    }

    /// Whether the convolution that made the value of a norm works out how its gradient comes back.
    pub fn maker_finishes(&self, norm: usize) -> bool {
        self.finishers.get(norm).is_some_and(|finishers| finishers.maker)
    }

    /// The fast kernels of a convolution, if it has any.
    pub fn conv(&self, operation: usize) -> Option<FastConv> {
        self.convs.get(operation).copied().flatten()
    }

    /// The fast kernels of a dense layer, if it has any.
    pub fn dense(&self, operation: usize) -> Option<FastDense> {
        self.denses.get(operation).copied().flatten()
    }
}

//! Chains in the device's memory: positions, the copy that products read, running statistics and cells.

use std::sync::Arc;

use kelvin::network::Weights;

use super::arguments::{ChainCell, RoundWeights};
use super::block_size::THREADS;
use super::compiled::Compiled;
use super::parameter_blocks::ParameterBlocks;
use super::precision::Precision;
use crate::gpu::device::{Address, Buffer, Device, DeviceError, Launch};

/// Where the chains of a group lie.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Chains of the group.
    pub num_chains: u32,
    /// θ of the first.
    pub positions: Address,
    /// What products read of it: θ itself or its bf16 copy.
    pub weights: Address,
    /// Running statistics of the first.
    pub statistics: Address,
    /// Cell of the first.
    pub cells: Address,
    /// Numbers from one chain's statistics to the next's.
    pub statistics_stride: u64,
}

/// Positions of chains that live on the device.
pub struct States {
    /// θ: [chain][stride].
    pub positions: Buffer<f32>,
    /// The bf16 copy, where products read one.
    weights: Option<Buffer<u16>>,
    statistics: Buffer<f32>,
    /// What the device knows of each chain beside its numbers.
    pub cells: Buffer<ChainCell>,
    parameter_stride: usize,
    statistics_stride: usize,
}

impl States {
    /// Bytes of a chain.
    pub fn bytes(blocks: &ParameterBlocks, num_statistics: usize, precision: Precision) -> usize {
        let copy = if precision == Precision::Half { 2 } else { 0 };
        (4 + copy) * blocks.parameter_stride + 4 * num_statistics + size_of::<ChainCell>()
    }

    /// Room for so many chains.
    pub fn new(
        device: &Arc<dyn Device>,
        blocks: &ParameterBlocks,
        num_statistics: usize,
        precision: Precision,
        num_chains: usize,
    ) -> Result<Self, DeviceError> {
        let len = num_chains * blocks.parameter_stride;
        Ok(Self {
            positions: Buffer::zeros(device, len)?,
            weights: match precision {
                Precision::Single => None,
                Precision::Half => Some(Buffer::zeros(device, len)?),
            },
            statistics: Buffer::zeros(device, num_chains * num_statistics)?,
            cells: Buffer::zeros(device, num_chains)?,
            parameter_stride: blocks.parameter_stride,
            statistics_stride: num_statistics,
        })
    }

    /// Chains `first..first + count` as a group.
    pub fn group(&self, first: usize, count: usize) -> Group {
        let parameters = first * self.parameter_stride;
        let positions = self.positions.at(parameters);
        Group {
            num_chains: count as u32,
            positions,
            weights: self.weights.as_ref().map_or(positions, |weights| weights.at(parameters)),
            statistics: self.statistics.at(first * self.statistics_stride),
            cells: self.cells.at(first),
            statistics_stride: self.statistics_stride as u64,
        }
    }

    /// Copies a chain's weights to the device; [`States::round`] must follow.
    pub fn write(&self, chain: usize, weights: Weights<'_>) -> Result<(), DeviceError> {
        self.positions.write(chain * self.parameter_stride, weights.parameters)?;
        self.statistics.write(chain * self.statistics_stride, weights.statistics)
    }

    /// Renews the copy that products read, of chains `first..first + count`.
    pub fn round(
        &self,
        device: &dyn Device,
        compiled: &Compiled,
        first: usize,
        count: usize,
    ) -> Result<(), DeviceError> {
        let Some(weights) = &self.weights else { return Ok(()) };
        let start = first * self.parameter_stride;
        let arguments = RoundWeights {
            positions: self.positions.at(start),
            weights: weights.at(start),
            parameter_stride: self.parameter_stride as u64,
        };
        let grid = [self.parameter_stride.div_ceil(THREADS) as u32, count as u32, 1];
        device.launch(&Launch::new(compiled.round_weights, grid, THREADS as u32, 0, &arguments))
    }

    /// Copies a chain's weights from the device.
    pub fn read(&self, chain: usize, position: &mut [f32], statistics: &mut [f32]) -> Result<(), DeviceError> {
        self.positions.read(chain * self.parameter_stride, position)?;
        self.read_statistics(chain, statistics)
    }

    /// Copies a chain's running statistics from the device.
    pub fn read_statistics(&self, chain: usize, statistics: &mut [f32]) -> Result<(), DeviceError> {
        self.statistics.read(chain * self.statistics_stride, statistics)
    }
}

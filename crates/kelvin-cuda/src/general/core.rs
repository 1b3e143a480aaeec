//! What passes of a network are lowered from: its plan, its kernels and its data, everything but the memory of a group.

use std::sync::Arc;

use super::compiled::Compiled;
use super::data::DeviceData;
use super::fast::Fast;
use super::lower::{Lowering, Norms};
use super::memory::GroupMemory;
use super::parameter_blocks::ParameterBlocks;
use super::plan::Plan;
use super::precision::Precision;
use super::states::{Group, States};
use crate::gpu::device::{Device, DeviceError};

/// Everything but the memory of a group: what passes are lowered from.
pub(super) struct Core {
    pub(super) device: Arc<dyn Device>,
    pub(super) plan: Plan,
    pub(super) blocks: ParameterBlocks,
    pub(super) compiled: Compiled,
    pub(super) fast: Fast,
    pub(super) precision: Precision,
    pub(super) data: DeviceData,
    /// σ², 0 for a categorical likelihood.
    pub(super) noise_variance: f64,
    pub(super) inverse_prior_variance: f64,
    pub(super) num_examples: usize,
    pub(super) initial_statistics: Vec<f32>,
}

impl Core {
    pub(super) fn has_norms(&self) -> bool {
        !self.plan.program.norms.is_empty()
    }

    pub(super) fn num_statistics(&self) -> usize {
        self.initial_statistics.len()
    }

    pub(super) fn lowering<'a>(
        &'a self,
        memory: &'a GroupMemory,
        group: Group,
        num_images: usize,
        norms: Norms,
    ) -> Lowering<'a> {
        Lowering::new(
            &self.plan,
            &self.blocks,
            &self.compiled,
            &self.fast,
            memory,
            self.precision,
            group,
            num_images,
            norms,
        )
    }

    /// Bytes of a lane's memory.
    pub(super) fn lane_bytes(&self, num_chains: usize, num_images: usize) -> usize {
        GroupMemory::bytes(&self.plan, &self.fast, &self.blocks, self.precision, num_chains, num_images)
    }

    /// A memory for a lane of so many chains with batches of so many images.
    pub(super) fn lane(&self, num_chains: usize, num_images: usize) -> Result<GroupMemory, DeviceError> {
        let largest = (0..self.plan.program.values.len()).map(|value| self.plan.len(value)).max().unwrap_or(0);
        if largest * num_images > u32::MAX as usize {
            let reason =
                format!("{num_images} images of {largest} numbers are too many for one batch; use smaller batches");
            return Err(DeviceError::Failed { doing: "planning a pass", reason });
        }
        GroupMemory::new(&self.device, &self.plan, &self.fast, &self.blocks, self.precision, num_chains, num_images)
    }

    pub(super) fn states(&self, num_chains: usize) -> Result<States, DeviceError> {
        States::new(&self.device, &self.blocks, self.num_statistics(), self.precision, num_chains)
    }
}

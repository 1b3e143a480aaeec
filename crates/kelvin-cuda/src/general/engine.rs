//! The engine of any network: what it is made of, and how many chains live and step together.

use std::sync::Arc;

use kelvin::potential::{Posterior, Potential};
use kelvin::sampler::Plan as RunPlan;
use thiserror::Error;

use super::compiled::Compiled;
use super::core::Core;
use super::data::DeviceData;
use super::fast::Fast;
use super::fast_plan::wants_packed_input;
use super::lanes::{Lanes, Wanted, wanted};
use super::parameter_blocks::ParameterBlocks;
use super::plan::Plan;
use super::precision::Precision;
use super::slow_layers::slow_layers;
use super::states::States;
use super::wave::Wave;
use crate::gpu::device::{Device, DeviceError};

/// Chains of a group, unless memory is short.
const CHAINS_OF_A_GROUP: usize = 64;

/// Why an engine cannot be made.
#[derive(Debug, Error, PartialEq)]
pub enum GeneralEngineError {
    /// The device says no.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device knows one prior.
    #[error(
        "the prior (model.prior) is none that its kernels have: they have independent Gaussians of one variance \
         (model.prior = \"gaussian\" or \"gaussian_free_norms\"); take that one, or sample on the CPU (--device cpu)"
    )]
    Prior,
}

/// What an engine chose for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residence {
    /// Chains that live on the device at a time.
    pub wave: usize,
    /// Chains that step together.
    pub group: usize,
    /// Bytes that a chain takes.
    pub chain_bytes: usize,
    /// Bytes that a group takes beside its chains.
    pub group_bytes: usize,
}

impl Residence {
    /// What was chosen for `num_chains` chains, in words.
    pub fn describe(&self, num_chains: usize) -> String {
        let megabytes = |bytes: usize| bytes.div_ceil(1 << 20);
        let (chain, group) = (megabytes(self.chain_bytes), megabytes(self.group_bytes));
        let waves = match num_chains.div_ceil(self.wave.max(1)) {
            0 | 1 => String::new(),
            count => format!("{count} waves of up to {} chains, for more do not fit; ", self.wave),
        };
        format!("{waves}{} chains step together, {chain} MiB each and {group} MiB for their values", self.group)
    }
}

/// Runs chains of a network's posterior, many at a time, on a device.
pub struct GeneralEngine {
    pub(super) core: Core,
    /// Shared by sampling and evaluation: chains leave nothing in it between their steps.
    pub(super) lanes: Lanes,
    pub(super) group_chains: usize,
    pub(super) most_resident: usize,
}

impl GeneralEngine {
    /// An engine for a posterior, whose examples are copied to the device.
    ///
    /// # Errors
    /// Where the device fails, or the prior is none that it knows.
    pub fn new(
        device: Arc<dyn Device>,
        posterior: &Posterior,
        precision: Precision,
    ) -> Result<Self, GeneralEngineError> {
        let (variance, without_prior) = posterior.prior().gaussian_except().ok_or(GeneralEngineError::Prior)?;
        let program = posterior.network().program();
        let mut plan = Plan::new(program);
        plan.packed_input = precision == Precision::Half && wants_packed_input(device.limits(), &plan);
        let fast = Fast::new(&*device, &plan, precision)?;
        let passed = [fast.passed_pools(&plan), plan.image_norms.passed()].concat();
        plan.borrow_gradients(&passed, &fast.kept_gradients(&plan));
        let compiled = Compiled::new(&*device, precision, &plan, &fast)?;
        let core = Core {
            plan,
            fast,
            blocks: ParameterBlocks::new(&device, &program.layout, without_prior)?,
            compiled,
            precision,
            data: DeviceData::new(&device, posterior.examples())?,
            // 0 stands for classes.
            noise_variance: posterior.likelihood().known_noise_variance().unwrap_or(0.0),
            inverse_prior_variance: 1.0 / variance,
            num_examples: posterior.num_examples(),
            initial_statistics: posterior.initial_statistics(),
            device,
        };
        Ok(Self { core, lanes: Lanes::default(), group_chains: CHAINS_OF_A_GROUP, most_resident: usize::MAX })
    }

    /// The same with groups of up to `group` chains, of which up to `wave` live on the device at a time; numbers do not
    /// depend on either.
    ///
    /// # Panics
    /// If one of them is 0.
    pub fn with_sizes(mut self, group: usize, wave: usize) -> Self {
        assert!(group > 0 && wave > 0, "a group and a wave have at least one chain");
        (self.group_chains, self.most_resident) = (group, wave);
        self.lanes = Lanes::default();
        self
    }

    /// How many of `num_chains` chains with passes of `num_images` images would live and step together.
    ///
    /// # Errors
    /// Where there is no room for one.
    pub fn residence(&self, num_chains: usize, num_images: usize) -> Result<Residence, DeviceError> {
        let core = &self.core;
        let free = core.device.free_memory()?;
        let chain_bytes = Wave::bytes(core);
        let state_bytes = States::bytes(&core.blocks, core.num_statistics(), core.precision);
        let left = |group: usize| self.left(free, wanted(group, num_images), group * (chain_bytes + state_bytes));
        let mut group = self.group_chains.min(num_chains.max(1));
        while group > 1 && left(group).is_err() {
            group -= 1;
        }
        let left = left(group)?;
        let wave = (group + left / chain_bytes)
            .min(self.most_resident)
            .min(num_chains.max(1))
            .max(group.min(self.most_resident));
        let lanes = wanted(group, num_images);
        let group_bytes = lanes.count * core.lane_bytes(lanes.num_chains, num_images) + group * state_bytes;
        Ok(Residence { wave, group: group.min(wave), chain_bytes, group_bytes })
    }

    /// Dense layers and convolutions that have no kernels for their shape, in words.
    pub fn slow_layers(&self) -> Vec<String> {
        slow_layers(&self.core.plan.program, &self.core.fast)
    }

    /// The same for chains that are to be moved by a plan.
    ///
    /// # Errors
    /// Where there is no room for one.
    pub fn residence_of(&self, plan: &RunPlan, num_chains: usize) -> Result<Residence, DeviceError> {
        self.residence(num_chains, self.core.pass_len(plan.batches.batch_size(), self.core.has_norms()))
    }

    /// Bytes that are left of the free ones beside lanes and what else is asked for.
    pub(super) fn left(&self, free: usize, lanes: Wanted, beside: usize) -> Result<usize, DeviceError> {
        let (more, given_back) = self.lanes.change(&self.core, lanes);
        let asked = more + beside;
        // A tenth is left to others.
        ((free + given_back) / 10 * 9).checked_sub(asked).ok_or(DeviceError::OutOfMemory { asked, free })
    }
}

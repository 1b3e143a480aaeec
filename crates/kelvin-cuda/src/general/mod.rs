//! The engine for images (and any other network): groups of chains step together as one batch on the device.
//!
//! Chains of a *wave* live on the device; a *group* of them steps together, and the memory of its values serves the
//! next group as well; `lanes` keeps it. `plan` gives gradients their places, `lower`, `lower_norm` and `lower_back` turn
//! a program into launches (`fast` and `fast_back` into those of tensor cores, chosen by `fast_plan`, of which `finishers` says who finishes
//! norms, `small_dense` those of dense layers with few units), `wave` records them, `run` moves chains and `evaluate`
//! looks at draws. The CPU's `network::images` is the specification.

mod arguments;
mod compiled;
mod conv_defines;
mod conv_strided;
mod conv_tile;
mod conv_wide;
mod data;
mod evaluate;
mod fast;
mod fast_back;
mod fast_lower;
mod fast_plan;
mod finishers;
mod lanes;
mod lower;
mod lower_back;
mod lower_norm;
mod masses;
mod memory;
mod parameter_blocks;
mod passes;
mod plan;
mod run;
mod small_dense;
mod states;
mod steps;
mod wave;

use std::sync::{Arc, Mutex, MutexGuard};

use kelvin::likelihood::Likelihood;
use kelvin::potential::{Posterior, Potential};
use kelvin::sampler::{Chain, JointAscent, Langevin, Observer, Plan as RunPlan};
use thiserror::Error;

use self::compiled::Compiled;
pub use self::compiled::kernel_sources;
use self::data::DeviceData;
use self::fast::Fast;
use self::lanes::{Lanes, Wanted};
use self::lower::{Group, Lowering, Norms};
use self::memory::GroupMemory;
use self::parameter_blocks::Tables;
use self::plan::Plan;
use self::states::States;
use self::steps::Motion;
use crate::gpu::device::{Device, DeviceError, MOST_LANES};

/// Chains of a group, unless memory is short.
const CHAINS_OF_A_GROUP: usize = 64;

/// The numbers that values, their gradients and the factors of products consist of; all else is f32 or f64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// "f32".
    Single,
    /// "bf16": stored in bf16, summed in f32.
    #[default]
    Half,
}

impl Precision {
    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Single => 4,
            Self::Half => 2,
        }
    }

    /// How many numbers sixteen bytes are.
    pub(crate) const fn wide(self) -> usize {
        16 / self.bytes()
    }

    /// "f32" or "bf16".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "f32",
            Self::Half => "bf16",
        }
    }
}

/// Why an engine cannot be made.
#[derive(Debug, Error, PartialEq)]
pub enum ImageEngineError {
    /// The device says no.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device knows one prior.
    #[error(
        "the prior (model.prior) is none that its kernels have: they have independent Gaussians of one variance \
         (model.prior = \"gaussian\"); take that one, or sample on the CPU (--device cpu)"
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

/// Chains of a lane of a group. Half of a group's chains step beside the other half, so that blocks of one fill the
/// multiprocessors that the last blocks of a launch of the other leave idle.
fn lane_of(group: usize) -> usize {
    group.div_ceil(MOST_LANES)
}

/// The lanes of a group.
fn wanted(group: usize, num_images: usize) -> Wanted {
    let num_chains = lane_of(group);
    Wanted { count: group.div_ceil(num_chains), num_chains, num_images }
}

/// Everything but the memory of a group: what passes are lowered from.
struct Core {
    device: Arc<dyn Device>,
    plan: Plan,
    tables: Tables,
    compiled: Compiled,
    fast: Fast,
    precision: Precision,
    data: DeviceData,
    /// σ², 0 for a categorical likelihood.
    noise_variance: f64,
    inverse_prior_variance: f64,
    num_examples: usize,
    initial_statistics: Vec<f32>,
}

impl Core {
    fn has_norms(&self) -> bool {
        !self.plan.program.norms.is_empty()
    }

    fn num_statistics(&self) -> usize {
        self.initial_statistics.len()
    }

    fn lowering<'a>(&'a self, memory: &'a GroupMemory, group: Group, num_images: usize, norms: Norms) -> Lowering<'a> {
        Lowering::new(
            &self.plan,
            &self.tables,
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
    fn lane_bytes(&self, num_chains: usize, num_images: usize) -> usize {
        GroupMemory::bytes(&self.plan, &self.fast, &self.tables, self.precision, num_chains, num_images)
    }

    /// A memory for a lane of so many chains with batches of so many images.
    fn lane(&self, num_chains: usize, num_images: usize) -> Result<GroupMemory, DeviceError> {
        let largest = (0..self.plan.program.values.len()).map(|value| self.plan.len(value)).max().unwrap_or(0);
        if largest * num_images > u32::MAX as usize {
            let reason =
                format!("{num_images} images of {largest} numbers are too many for one batch; use smaller batches");
            return Err(DeviceError::Failed { doing: "planning a pass", reason });
        }
        GroupMemory::new(&self.device, &self.plan, &self.fast, &self.tables, self.precision, num_chains, num_images)
    }

    fn states(&self, num_chains: usize) -> Result<States, DeviceError> {
        States::new(&self.device, &self.tables, self.num_statistics(), self.precision, num_chains)
    }
}

/// Runs chains of a network's posterior, many at a time, on a device.
pub struct ImageEngine {
    core: Core,
    /// Shared by sampling and evaluation: chains leave nothing in it between their steps.
    lanes: Lanes,
    group_chains: usize,
    most_resident: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl ImageEngine {
    /// An engine for a posterior, whose examples are copied to the device.
    ///
    /// # Errors
    /// Where the device fails, or the prior is none that it knows.
    pub fn new(device: Arc<dyn Device>, posterior: &Posterior, precision: Precision) -> Result<Self, ImageEngineError> {
        let variance = posterior.prior().isotropic_variance().ok_or(ImageEngineError::Prior)?;
        let program = posterior.network().program();
        let mut plan = Plan::new(program);
        let fast = match precision {
            Precision::Single => Fast::default(),
            Precision::Half => {
                plan.packed_input = fast_plan::wants_packed_input(device.limits(), &plan);
                let fast = Fast::new(&*device, &plan)?;
                plan.borrow_gradients(&fast.passed_pools(&plan), &fast.kept_gradients(&plan));
                fast
            }
        };
        let core = Core {
            plan,
            fast,
            tables: Tables::new(&device, &program.layout)?,
            compiled: Compiled::new(&*device, precision, program)?,
            precision,
            data: DeviceData::new(&device, posterior.examples())?,
            noise_variance: match posterior.likelihood() {
                Likelihood::Gaussian { noise_variance } => noise_variance,
                Likelihood::Categorical { .. } => 0.0,
            },
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

    /// Moves every chain to `plan.num_steps` by sampling; a chain that diverges stops and says so, the others go on.
    ///
    /// # Errors
    /// Where the device fails; chains are then of no use, and go on from where they were stored last.
    pub fn sample(
        &self,
        rule: &Langevin,
        plan: &RunPlan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        self.run(Motion::Sample(rule), plan, chains, observer)
    }

    /// The same by joint ascent.
    ///
    /// # Errors
    /// Where the device fails; chains are then of no use, and go on from where they were stored last.
    pub fn search(
        &self,
        rule: &JointAscent,
        plan: &RunPlan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        self.run(Motion::Search(rule), plan, chains, observer)
    }

    /// How many of `num_chains` chains with passes of `num_images` images would live and step together.
    ///
    /// # Errors
    /// Where there is no room for one.
    pub fn residence(&self, num_chains: usize, num_images: usize) -> Result<Residence, DeviceError> {
        let core = &self.core;
        let free = core.device.free_memory()?;
        let chain_bytes = wave::Wave::bytes(core);
        let state_bytes = States::bytes(&core.tables, core.num_statistics(), core.precision);
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

    /// The same for chains that are to be moved by a plan.
    ///
    /// # Errors
    /// Where there is no room for one.
    pub fn residence_of(&self, plan: &RunPlan, num_chains: usize) -> Result<Residence, DeviceError> {
        self.residence(num_chains, self.core.pass_len(plan.batches.batch_size(), self.core.has_norms()))
    }

    /// Bytes that are left of the free ones beside lanes and what else is asked for.
    fn left(&self, free: usize, lanes: Wanted, beside: usize) -> Result<usize, DeviceError> {
        let (more, given_back) = self.lanes.change(&self.core, lanes);
        let asked = more + beside;
        // A tenth is left to others.
        ((free + given_back) / 10 * 9).checked_sub(asked).ok_or(DeviceError::OutOfMemory { asked, free })
    }
}

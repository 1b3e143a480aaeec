//! A wave: chains that live on the device, and the recorded steps of their groups.

use std::ops::Range;
use std::sync::Arc;

use kelvin::network::Weights;
use kelvin::sampler::{Chain, ClipScope, LayerwiseMass, Motion, Plan as RunPlan, PriorShare};

use super::arguments::{
    AscentStep, BatchRows, FinishStep, GradientSource, LangevinStep, LogBetaRule, MassSquares, StepNumbers,
};
use super::block_size::{SHARED_SUMS, THREADS};
use super::core::Core;
use super::lower::{Lowering, Norms, Running};
use super::lower_back::Passes;
use super::memory::GroupMemory;
use super::passes::pieces;
use super::states::{Group, States};
use crate::gpu::device::{Address, Buffer, DeviceError, Kernel, Launch, MOST_LANES, Recorded};

/// The most steps between two looks at the chains: rows of the tables of step numbers.
pub const MOST_STEPS: usize = 512;

/// Threads of a block that sums tensors, a warp each.
const THREADS_OF_TENSORS: u32 = 1024;

/// Chains on the device.
pub struct Wave<'a> {
    pub(super) core: &'a Core,
    pub(super) motion: Motion<'a>,
    pub(super) plan: &'a RunPlan,
    pub(super) states: States,
    pub(super) momenta: Buffer<f32>,
    /// [chain][row].
    pub(super) steps: Buffer<StepNumbers>,
    /// [chain][tensor] each.
    pub(super) masses: Buffer<f64>,
    pub(super) last_kinetic: Buffer<f64>,
    pub(super) kinetic_sums: Buffer<f64>,
    pub(super) mass_squares: Buffer<f64>,
    pub(super) mass_factors: Buffer<f32>,
    pub(super) groups: Vec<RecordedGroup>,
}

/// A group of a wave with its recorded step, and its recorded batch of an estimate of masses.
pub(super) struct RecordedGroup {
    pub chains: Range<usize>,
    pub step: Recorded,
    pub mass_batch: Option<Recorded>,
    /// What the recordings read.
    _sources: Vec<Buffer<GradientSource>>,
}

impl<'a> Wave<'a> {
    /// Bytes of a chain.
    pub fn bytes(core: &Core) -> usize {
        let tensors = core.blocks.num_tensors() * (4 * size_of::<f64>() + size_of::<f32>());
        States::bytes(&core.blocks, core.num_statistics(), core.precision)
            + core.blocks.parameter_stride * size_of::<f32>()
            + MOST_STEPS * size_of::<StepNumbers>()
            + tensors
    }

    /// Copies chains to the device and records the steps of their groups of `group_chains`, with a memory for each lane.
    pub fn new(
        core: &'a Core,
        memory: &[Arc<GroupMemory>],
        motion: Motion<'a>,
        plan: &'a RunPlan,
        chains: &[Chain],
        group_chains: usize,
    ) -> Result<Self, DeviceError> {
        let (device, count) = (&core.device, chains.len());
        let tensors = count * core.blocks.num_tensors();
        let mut wave = Self {
            core,
            motion,
            plan,
            states: core.states(count)?,
            momenta: Buffer::zeros(device, count * core.blocks.parameter_stride)?,
            steps: Buffer::zeros(device, count * MOST_STEPS)?,
            masses: Buffer::zeros(device, tensors)?,
            last_kinetic: Buffer::zeros(device, tensors)?,
            kinetic_sums: Buffer::zeros(device, tensors)?,
            mass_squares: Buffer::zeros(device, tensors)?,
            mass_factors: Buffer::zeros(device, tensors)?,
            groups: Vec::new(),
        };
        for (slot, chain) in chains.iter().enumerate() {
            let Weights { parameters, statistics } = chain.state.weights();
            wave.states.write(slot, Weights { parameters, statistics })?;
            wave.momenta.write(slot * core.blocks.parameter_stride, &chain.state.momentum)?;
            wave.masses.write(slot * core.blocks.num_tensors(), &chain.state.mass)?;
        }
        wave.states.round(&**device, &core.compiled, 0, count)?;
        let kernels = match motion {
            Motion::Sample(rule) => core.compiled.sampler(&**device, rule.integrator)?,
            Motion::Search(_) => core.compiled.ascent(&**device)?,
        };
        for first in (0..count).step_by(group_chains) {
            let chains = first..(first + group_chains).min(count);
            let group = wave.record(memory, chains, kernels)?;
            wave.groups.push(group);
        }
        Ok(wave)
    }

    /// Neither lane of a group writes what the other touches: chains, and the memory of a lane, are each its own.
    fn record(
        &self,
        memory: &[Arc<GroupMemory>],
        chains: Range<usize>,
        kernels: [Kernel; 2],
    ) -> Result<RecordedGroup, DeviceError> {
        let lane_len = chains.len().div_ceil(memory.len().min(MOST_LANES));
        let lanes = || {
            let first = (chains.start..chains.end).step_by(lane_len);
            memory.iter().zip(first.map(|first| first..(first + lane_len).min(chains.end)))
        };
        let mut kept = Vec::new();
        let mut steps = Vec::new();
        for (memory, chains) in lanes() {
            let mut sources = Vec::new();
            let group = self.states.group(chains.start, chains.len());
            let mut launches = self.gradient(memory, group, Norms::Training(Running::Move), 0, &mut sources)?;
            let single = if let [source] = &sources[..] { source.at(0) } else { 0 };
            launches.extend(self.step(memory, &chains, group, kernels, single));
            steps.push(launches);
            kept.append(&mut sources);
        }
        let mut mass_batches = Vec::new();
        if let Some(estimate) = self.motion.mass_estimate() {
            for (memory, chains) in lanes() {
                mass_batches.push(self.mass_batch(memory, chains, estimate, &mut kept)?);
            }
        }
        let record = |lanes: &[Vec<Launch>]| {
            let lanes: Vec<&[Launch]> = lanes.iter().map(Vec::as_slice).collect();
            Recorded::new(&self.core.device, &lanes)
        };
        let mass_batch = if mass_batches.is_empty() { None } else { Some(record(&mass_batches)?) };
        Ok(RecordedGroup { chains, step: record(&steps)?, mass_batch, _sources: kept })
    }

    /// The launches of a batch of an estimate of masses.
    fn mass_batch(
        &self,
        memory: &GroupMemory,
        chains: Range<usize>,
        estimate: &LayerwiseMass,
        sources: &mut Vec<Buffer<GradientSource>>,
    ) -> Result<Vec<Launch>, DeviceError> {
        let group = self.states.group(chains.start, chains.len());
        let norms = if estimate.training_mode { Norms::Training(Running::Stay) } else { Norms::Inference };
        let num_batches = estimate.num_visited(&self.plan.batches);
        let epochs = num_batches.div_ceil(self.plan.batches.steps_per_epoch());
        let mut launches = self.gradient(memory, group, norms, epochs, sources)?;
        let arguments = MassSquares {
            tensors: self.core.blocks.tensors.at(0),
            cells: group.cells,
            squares: memory.squares.at(0),
            totals: self.mass_squares.at(chains.start * self.core.blocks.num_tensors()),
            num_tensors: self.core.blocks.num_tensors() as u32,
            num_blocks: self.core.blocks.num_blocks() as u32,
            num_batches: num_batches as u32,
            reserved: 0,
        };
        let kernel = self.core.compiled.mass_squares;
        launches.push(Launch::new(kernel, [1, group.num_chains, 1], THREADS_OF_TENSORS, 0, &arguments));
        Ok(launches)
    }

    /// The gradient of a batch, in as many passes as it takes; `mass_epochs` is 0 for the batch of a step.
    fn gradient(
        &self,
        memory: &GroupMemory,
        group: Group,
        norms: Norms,
        mass_epochs: u64,
        sources: &mut Vec<Buffer<GradientSource>>,
    ) -> Result<Vec<Launch>, DeviceError> {
        let core = self.core;
        let batches = &self.plan.batches;
        let batch_len = batches.batch_size().unwrap_or(core.num_examples);
        let most = core.pass_len(batches.batch_size(), core.has_norms());
        let pieces = pieces(batch_len, most);
        let mut launches = Vec::new();
        for (number, &(first, num_images)) in pieces.iter().enumerate() {
            let is_last = number + 1 == pieces.len();
            // Of several passes over all rows the last leaves its statistics, as on the CPU.
            let norms = match norms {
                Norms::Training(Running::Move) if !is_last => Norms::Training(Running::Stay),
                norms => norms,
            };
            let mut pass = core.lowering(memory, group, num_images, norms);
            self.name_rows(&mut pass, memory, group, (first, num_images), mass_epochs);
            pass.gather(&core.data, batches.augmentation().is_some());
            pass.forward();
            pass.loss(&core.data, core.noise_variance, number > 0);
            pass.backward();
            let source = Buffer::of(&core.device, &pass.sources)?;
            let variance = match self.motion {
                Motion::Sample(_) => core.inverse_prior_variance,
                Motion::Search(rule) => self.prior_in_ascent(rule.objective.prior),
            };
            // The step takes the gradient of a single pass from where it lies.
            let keeps = pieces.len() > 1 || matches!(self.motion, Motion::Search(_));
            let passes = Passes { adds: number > 0, finishes: is_last, keeps };
            pass.total(Some(source.at(0)), passes, variance);
            sources.push(source);
            launches.append(&mut pass.launches);
        }
        Ok(launches)
    }

    fn name_rows(
        &self,
        pass: &mut Lowering<'_>,
        memory: &GroupMemory,
        group: Group,
        (first, num_images): (usize, usize),
        mass_epochs: u64,
    ) {
        let batches = &self.plan.batches;
        let arguments = BatchRows {
            cells: group.cells,
            rows: memory.rows.at(0),
            placements: memory.placements.at(0),
            seed: self.plan.seed,
            steps_per_epoch: if batches.is_full() { 0 } else { batches.steps_per_epoch() },
            augmentation_threshold: batches.augmentation().map_or(0, |augmentation| augmentation.threshold()),
            mass_epochs,
            num_examples: self.core.num_examples as u32,
            batch_size: batches.batch_size().unwrap_or(0) as u32,
            first: first as u32,
            num_images: num_images as u32,
        };
        pass.over(self.core.compiled.batch_rows, num_images, &arguments);
    }

    /// What θ is multiplied by and added to Σ∇log p in an ascent, which then multiplies all by the likelihood's weight.
    fn prior_in_ascent(&self, share: PriorShare) -> f64 {
        let count = match share {
            PriorShare::None => 0.0,
            PriorShare::Once => 1.0,
            PriorShare::PerDatum => self.core.num_examples as f64,
        };
        -count * self.core.inverse_prior_variance / self.plan.batches.weight()
    }

    /// The launches that move a group by its gradient, whose partial sums are those of `sources` if there was a single pass.
    fn step(
        &self,
        memory: &GroupMemory,
        chains: &Range<usize>,
        group: Group,
        kernels: [Kernel; 2],
        sources: Address,
    ) -> [Launch; 2] {
        let blocks = &self.core.blocks;
        let (num_blocks, num_tensors) = (blocks.num_blocks() as u32, blocks.num_tensors() as u32);
        let of_tensors = |buffer: &Buffer<f64>| buffer.at(chains.start * blocks.num_tensors());
        let momenta = self.momenta.at(chains.start * blocks.parameter_stride);
        let steps = self.steps.at(chains.start * MOST_STEPS);
        let grid = [num_blocks, group.num_chains, 1];
        let launch = |grid, threads, shared, kernel: usize| (kernels[kernel], grid, threads, shared);
        let mut finish = FinishStep {
            tensors: blocks.tensors.at(0),
            cells: group.cells,
            steps,
            kinetic: memory.kinetic.at(0),
            last_kinetic: of_tensors(&self.last_kinetic),
            kinetic_sums: of_tensors(&self.kinetic_sums),
            sums: memory.likelihood.at(0),
            clip_norm: self.motion.clip_norm(),
            momentum: 0.0,
            log_beta: LogBetaRule::default(),
            burn_in: self.plan.keep.burn_in,
            num_tensors,
            num_blocks,
            num_rows: MOST_STEPS as u32,
            clips_all: 0,
        };
        let (kernel, grid, threads, shared) = launch(grid, THREADS as u32, SHARED_SUMS, 0);
        let move_launch = match self.motion {
            Motion::Sample(_) => {
                let arguments = LangevinStep {
                    blocks: blocks.blocks.at(0),
                    positions: group.positions,
                    momenta,
                    gradients: memory.totals.at(0),
                    sources,
                    weights: group.weights,
                    cells: group.cells,
                    steps,
                    masses: of_tensors(&self.masses),
                    square_sums: memory.square_sums.at(0),
                    kinetic: memory.kinetic.at(0),
                    clip_norm: self.motion.clip_norm(),
                    parameter_stride: blocks.parameter_stride as u64,
                    seed: self.plan.seed,
                    num_blocks,
                    num_tensors,
                    num_rows: MOST_STEPS as u32,
                    inverse_variance: self.core.inverse_prior_variance as f32,
                };
                Launch::new(kernel, grid, threads, shared, &arguments)
            }
            Motion::Search(rule) => {
                let clips_all = u32::from(rule.clip_scope == ClipScope::All);
                let log_beta = LogBetaRule::new(rule.objective.log_beta);
                (finish.momentum, finish.clips_all, finish.log_beta) = (rule.momentum, clips_all, log_beta);
                let arguments = AscentStep {
                    blocks: blocks.blocks.at(0),
                    positions: group.positions,
                    momenta,
                    gradients: memory.totals.at(0),
                    weights: group.weights,
                    cells: group.cells,
                    steps,
                    square_sums: memory.square_sums.at(0),
                    sums: memory.likelihood.at(0),
                    clip_norm: rule.clip_norm,
                    momentum: rule.momentum,
                    weight_decay: rule.weight_decay,
                    log_beta,
                    parameter_stride: blocks.parameter_stride as u64,
                    num_blocks,
                    num_rows: MOST_STEPS as u32,
                    clips_all,
                    reserved: 0,
                };
                Launch::new(kernel, grid, threads, shared, &arguments)
            }
        };
        let (kernel, grid, threads, shared) = launch([1, group.num_chains, 1], THREADS_OF_TENSORS, 0, 1);
        [move_launch, Launch::new(kernel, grid, threads, shared, &finish)]
    }

    /// Copies a chain's numbers from the device.
    pub fn read(&self, slot: usize, chain: &mut Chain) -> Result<(), DeviceError> {
        self.states.read(slot, &mut chain.state.position, &mut chain.state.statistics)?;
        self.momenta.read(slot * self.core.blocks.parameter_stride, &mut chain.state.momentum)
    }
}

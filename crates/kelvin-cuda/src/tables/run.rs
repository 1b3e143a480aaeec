//! The run of a population: launches up to the next state to keep, what they bring back, what observers are told.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use kelvin::random::Purpose;
use kelvin::sampler::{Chain, Divergence, LayerwiseMass, Motion, Observer, Plan};

use super::TableEngine;
use super::arguments::{StepNumbers, TableChain, TableChainArguments, TableResult};
use super::schedule::{ascent_numbers, chain_numbers, clips_log_beta, kernel_rule, step_numbers};
use super::shape::{KernelRule, Shape};
use super::warm_up::HostWarmUp;
use crate::gpu::device::{Buffer, DeviceError, Kernel, Launch};

/// The most steps of a launch.
const MOST_STEPS: u64 = 4096;
/// Multiply-adds of a launch for each chain, so that one takes some tens of milliseconds.
const LAUNCH_WORK: u64 = 4_000_000_000;

impl TableEngine {
    /// Moves every chain to the plan's end; chains at the same step go together.
    pub(super) fn run(
        &self,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        let mut by_step: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, chain) in chains.iter().enumerate() {
            let is_of_this_network = chain.state.position.len() == self.layout.len();
            assert!(is_of_this_network, "chain {index} has {} parameters", chain.state.position.len());
            if !chain.is_done(plan.num_steps) {
                by_step.entry(chain.state.step).or_default().push(index);
            }
        }
        for (step, mut members) in by_step {
            members.iter().for_each(|&index| observer.started(index));
            // Who is to stop before the first launch need not wait for its end.
            members.retain(|&index| observer.advanced(index, 0).is_continue());
            if members.is_empty() {
                continue;
            }
            Group::new(self, motion, plan, chains, members)?.run(step, chains, observer)?;
        }
        Ok(())
    }
}

/// Chains at the same step and their memory on the device.
struct Group<'a> {
    engine: &'a TableEngine,
    motion: Motion<'a>,
    plan: &'a Plan,
    kernel: Kernel,
    mass_kernel: Option<Kernel>,
    shape: Shape,
    /// Which chain lies in each slot.
    members: Vec<usize>,
    /// All positions, then all momenta.
    states: Buffer<f32>,
    squares: Buffer<f64>,
    noise: Buffer<f32>,
    sums: Buffer<f32>,
    records: Buffer<TableChain>,
    results: Buffer<TableResult>,
    steps: Buffer<StepNumbers>,
    most_steps: u64,
    warm_up: Option<HostWarmUp<'a>>,
}

/// A launch whose steps have not been looked at yet.
struct Flight {
    steps: Range<u64>,
    /// The slots that move, in the order of blocks or clusters.
    slots: Vec<usize>,
}

impl<'a> Group<'a> {
    fn new(
        engine: &'a TableEngine,
        motion: Motion<'a>,
        plan: &'a Plan,
        chains: &[Chain],
        members: Vec<usize>,
    ) -> Result<Self, DeviceError> {
        let device = &engine.device;
        let batch_rows = engine.batch_rows(&plan.batches);
        let shape = Shape::new(&engine.sizes, batch_rows, plan.batches.is_full(), members.len(), &device.limits())
            .expect("the engine was made for this network, and rows need no shared memory");
        let kernel = device.compile(&shape.source(kernel_rule(motion)))?;
        let mass_kernel =
            motion.mass_estimate().map(|_| device.compile(&shape.source(KernelRule::MassEstimate))).transpose()?;

        let scratch = shape.scratch();
        let work = 2 * batch_rows as u64 * engine.sizes.num_parameters() as u64;
        let most_steps = (LAUNCH_WORK / work).clamp(1, MOST_STEPS);
        // A launch reads the numbers of each of its steps, and a batch of an estimate is one, though it has none of its own.
        let most_batches = motion.mass_estimate().map_or(0, |estimate| estimate.num_batches);
        let positions = members.iter().flat_map(|&index| &chains[index].state.position);
        let momenta = members.iter().flat_map(|&index| &chains[index].state.momentum);
        let states: Vec<f32> = positions.chain(momenta).copied().collect();
        let warm_up = HostWarmUp::new(motion, plan, chains.len(), || engine.posterior());
        Ok(Self {
            states: Buffer::of(device, &states)?,
            squares: Buffer::zeros(device, members.len() * scratch.squares)?,
            noise: Buffer::zeros(device, members.len() * scratch.noise)?,
            sums: Buffer::zeros(device, members.len() * scratch.sums)?,
            records: Buffer::zeros(device, members.len())?,
            results: Buffer::zeros(device, members.len())?,
            steps: Buffer::zeros(device, most_steps.max(most_batches) as usize)?,
            engine,
            motion,
            plan,
            kernel,
            mass_kernel,
            shape,
            members,
            most_steps,
            warm_up,
        })
    }

    fn run(mut self, first_step: u64, chains: &mut [Chain], observer: &dyn Observer) -> Result<(), DeviceError> {
        let mut live: Vec<usize> = (0..self.members.len()).collect();
        let mut flight = self.launch(first_step, &live, chains)?;
        while let Some(Flight { steps, slots }) = flight {
            self.land(&steps, &slots, &live, chains)?;
            let landed = live.clone();
            live.retain(|&slot| chains[self.members[slot]].divergence.is_none());
            // The device goes on while host and observers look at what it brought back; new masses would change what they see.
            let finds_masses = self.warm_up.as_ref().is_some_and(|warm_up| warm_up.of.looks_at(steps.end));
            let goes_ahead = self.motion.mass_estimate().is_none() && !finds_masses;
            flight = if goes_ahead { self.launch(steps.end, &live, chains)? } else { None };
            self.note_energies(steps.end, &landed, chains);

            if self.plan.keep.is_kept(steps.end) {
                let kept: Vec<_> = live.iter().map(|&slot| self.members[slot]).collect();
                report_kept(observer, &kept, chains);
            }
            for slot in landed {
                let index = self.members[slot];
                if observer.advanced(index, chains[index].state.step - steps.start) == ControlFlow::Break(()) {
                    live.retain(|&other| other != slot);
                }
            }
            if !goes_ahead {
                flight = self.launch(steps.end, &live, chains)?;
            }
        }
        Ok(())
    }

    /// Sends the live chains on their way from `step` to where they are looked at next; `None` at the end.
    fn launch(&mut self, step: u64, live: &[usize], chains: &mut [Chain]) -> Result<Option<Flight>, DeviceError> {
        let plan = self.plan;
        if step >= plan.num_steps || live.is_empty() {
            return Ok(None);
        }
        let mut end = plan.num_steps.min(step + self.most_steps).min(next_kept(plan, step));
        if let (Some(estimate), Some(kernel)) = (self.motion.mass_estimate(), self.mass_kernel) {
            let steps_per_epoch = plan.batches.steps_per_epoch();
            if step.is_multiple_of(steps_per_epoch) {
                self.estimate_masses(estimate, kernel, step / steps_per_epoch, live, chains)?;
            }
            end = end.min((step / steps_per_epoch + 1) * steps_per_epoch);
        }
        if let Some(warm_up) = &self.warm_up {
            end = end.min(warm_up.of.next_stop(step));
            self.look(step, live, chains)?;
        }
        let numbers: Vec<StepNumbers> =
            (step..end).map(|step| step_numbers(self.motion, step, self.engine.num_rows)).collect();
        self.steps.write(0, &numbers)?;
        self.start(self.kernel, Purpose::BatchOrder, step..end, live, chains)?;
        Ok(Some(Flight { steps: step..end, slots: live.to_vec() }))
    }

    /// Chains that adapt: new masses and step sizes, where it is time for a look before `step`.
    fn look(&mut self, step: u64, live: &[usize], chains: &mut [Chain]) -> Result<(), DeviceError> {
        let Some(warm_up) = self.warm_up.as_mut().filter(|warm_up| warm_up.of.looks_at(step)) else { return Ok(()) };
        let indices: Vec<usize> = live.iter().map(|&slot| self.members[slot]).collect();
        warm_up.look(&indices, chains);
        // Nothing runs on the device, and those that were stopped have no use for their slots: one copy is enough for all.
        let momenta: Vec<f32> = self.members.iter().flat_map(|&index| &chains[index].state.momentum).copied().collect();
        self.states.write(momenta.len(), &momenta)?;
        // U of all later states is noted when chains come back from the device.
        if step == 0 {
            warm_up.note_energies(step, &indices, chains);
        }
        Ok(())
    }

    /// Chains that adapt: U where the last step of a launch led, even where the chain diverged by it, as on the CPU.
    fn note_energies(&mut self, step: u64, landed: &[usize], chains: &mut [Chain]) {
        let Some(warm_up) = &mut self.warm_up else { return };
        let indices = landed.iter().map(|&slot| self.members[slot]);
        let arrived: Vec<usize> = indices.filter(|&index| chains[index].state.step + 1 >= step).collect();
        warm_up.note_energies(step, &arrived, chains);
    }

    /// Launches a kernel over steps, a block or a cluster a chain.
    fn start(
        &self,
        kernel: Kernel,
        order_purpose: Purpose,
        steps: Range<u64>,
        slots: &[usize],
        chains: &[Chain],
    ) -> Result<(), DeviceError> {
        let (engine, batches) = (self.engine, &self.plan.batches);
        let record =
            |&slot: &usize| chain_numbers(self.motion, batches, steps.start, &chains[self.members[slot]], slot);
        self.records.write(0, &slots.iter().map(record).collect::<Vec<_>>())?;
        let (momentum, weight_decay) = ascent_numbers(self.motion);
        let arguments = TableChainArguments {
            rows: engine.rows.at(0),
            steps: self.steps.at(0),
            chains: self.records.at(0),
            results: self.results.at(0),
            positions: self.states.at(0),
            momenta: self.states.at(self.states.len() / 2),
            squares: self.squares.at(0),
            noise: self.noise.at(0),
            sums: self.sums.at(0),
            clip_norm: self.motion.clip_norm(),
            noise_variance: engine.noise_variance,
            momentum,
            weight_decay,
            seed: self.plan.seed,
            first_step: steps.start,
            burn_in: self.plan.keep.burn_in,
            prior_precision: (1.0 / engine.prior_variance) as f32,
            num_steps: (steps.end - steps.start) as u32,
            num_rows: engine.num_rows as u32,
            batch_rows: engine.batch_rows(batches) as u32,
            steps_per_epoch: batches.steps_per_epoch() as u32,
            is_full: u32::from(batches.is_full()),
            clips_log_beta: u32::from(clips_log_beta(self.motion)),
            order_purpose: order_purpose as u32,
        };
        let grid = [slots.len() as u32 * self.shape.blocks, 1, 1];
        let launch = Launch::new(kernel, grid, self.shape.num_threads(), self.shape.shared_bytes, &arguments);
        engine.device.launch(&launch.in_clusters_of(self.shape.blocks))
    }

    /// Waits for a launch and brings its chains' states and readings back; those that are no longer `live` stay as they
    /// were when they were stopped.
    fn land(
        &self,
        steps: &Range<u64>,
        slots: &[usize],
        live: &[usize],
        chains: &mut [Chain],
    ) -> Result<(), DeviceError> {
        let mut results: Vec<TableResult> = vec![bytemuck::Zeroable::zeroed(); slots.len()];
        self.results.read(0, &mut results)?;
        let states = self.states.to_vec()?;
        let (positions, momenta) = states.split_at(states.len() / 2);
        let is_kept = self.plan.keep.is_kept(steps.end);
        let is_seen = is_kept || steps.end == self.plan.num_steps;
        let len = self.engine.layout.len();
        for (&slot, result) in slots.iter().zip(&results).filter(|(slot, _)| live.contains(slot)) {
            let chain = &mut chains[self.members[slot]];
            let state = &mut chain.state;
            state.position.copy_from_slice(&positions[slot * len..][..len]);
            state.momentum.copy_from_slice(&momenta[slot * len..][..len]);
            (state.log_beta, state.log_beta_velocity) = (result.log_beta, result.log_beta_velocity);
            let mut steps_done = u64::from(result.steps_done);
            let failed = result.failed != 0 || (is_seen && !state.is_finite());
            if failed && result.failed == 0 {
                // Only who looks at a state notices that its last step went wrong.
                steps_done -= 1;
            }
            state.step = steps.start + steps_done;
            if failed {
                chain.divergence = Some(Divergence { step: state.step });
            }
            if self.motion.has_momentum_temperature() {
                self.record_temperatures(steps.start, result, is_kept && !failed, chain);
            }
        }
        Ok(())
    }

    /// Adds the readings of a launch to the chain's temperatures.
    fn record_temperatures(&self, first_step: u64, result: &TableResult, is_kept: bool, chain: &mut Chain) {
        let burn_in = self.plan.keep.burn_in;
        let end = first_step + u64::from(result.steps_done);
        let count = end.saturating_sub(first_step.max(burn_in));
        let weigh = |squares: f64, mass: &f64| squares / mass;
        let sums: Vec<f64> = result.squares.iter().zip(&chain.state.mass).map(|(s, m)| weigh(*s, m)).collect();
        // Readings have the layout's shape.
        let _ = chain.kinetic_all.record_sum(&sums, count);
        if is_kept {
            let mut squares = vec![0.0; sums.len()];
            chain.state.kinetic_squares(&self.engine.layout, &mut squares);
            let _ = chain.kinetic_kept.record(&squares);
        }
    }

    /// New masses from fresh batches at frozen positions, and momenta that keep their kinetic energy; see
    /// `kelvin::sampler::LayerwiseMass`.
    fn estimate_masses(
        &self,
        estimate: &LayerwiseMass,
        kernel: Kernel,
        epoch: u64,
        live: &[usize],
        chains: &mut [Chain],
    ) -> Result<(), DeviceError> {
        let visited = estimate.visited(&self.plan.batches, epoch);
        let num_batches = visited.end - visited.start;
        self.start(kernel, Purpose::Preconditioner, visited, live, chains)?;
        let mut results: Vec<TableResult> = vec![bytemuck::Zeroable::zeroed(); live.len()];
        self.results.read(0, &mut results)?;

        let layout = &self.engine.layout;
        for (&slot, result) in live.iter().zip(&mut results) {
            let masses = &mut result.squares[..layout.tensors().len()];
            let state = &mut chains[self.members[slot]].state;
            if estimate.turn_into_masses(masses, layout, num_batches, self.engine.num_rows) {
                state.set_mass(layout, masses);
                self.states.write(self.states.len() / 2 + slot * layout.len(), &state.momentum)?;
            }
        }
        Ok(())
    }
}

/// The first step after `step` whose state is kept; the plan's end where there is none before it.
fn next_kept(plan: &Plan, step: u64) -> u64 {
    let keep = plan.keep;
    let cycles = (step + 1).saturating_sub(keep.burn_in).div_ceil(keep.every).max(1);
    keep.burn_in.saturating_add(cycles.saturating_mul(keep.every))
}

/// Shows the states that all these chains reached together.
fn report_kept(observer: &dyn Observer, kept: &[usize], chains: &[Chain]) {
    let kept: Vec<(usize, &Chain)> = kept.iter().map(|&index| (index, &chains[index])).collect();
    if !kept.is_empty() {
        observer.kept(&kept);
    }
}

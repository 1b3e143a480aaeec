//! Moves a population: waves of chains that fit the device, rounds of steps, and what observers see in between.
//!
//! The contract is that of `kelvin::sampler::run_population`: the same states are kept, a chain that leaves the finite
//! numbers stops, and going on from any state gives the same bits, whatever the waves and groups.

use kelvin::sampler::{Chain, Divergence, JointAscent, Langevin, Motion, Observer, Plan as RunPlan};

use super::arguments::ChainCell;
use super::engine::GeneralEngine;
use super::lanes::{Lanes, wanted};
use super::steps::{cell, step_numbers};
use super::wave::{MOST_STEPS, Wave};
use crate::gpu::device::DeviceError;

/// [`ChainCell::stopped`] of a chain that does not move, and of one that left the finite numbers.
const STOPPED: u32 = 1;
const DIVERGED: u32 = 2;

impl GeneralEngine {
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

    fn run(
        &self,
        motion: Motion<'_>,
        plan: &RunPlan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        let core = &self.core;
        for chain in &mut *chains {
            if chain.state.statistics.is_empty() {
                chain.state.statistics.clone_from(&core.initial_statistics);
            }
        }
        let num_images = core.pass_len(plan.batches.batch_size(), core.has_norms());
        let residence = self.residence_of(plan, chains.len())?;
        let memory = self.lanes.take(core, wanted(residence.group, num_images))?;
        for (number, some) in chains.chunks_mut(residence.wave).enumerate() {
            let wave = Wave::new(core, &memory, motion, plan, some, residence.group)?;
            let first = number * residence.wave;
            Moving { wave, first, lanes: &self.lanes, observer }.run(some)?;
        }
        Ok(())
    }
}

/// A wave on its way.
struct Moving<'a> {
    wave: Wave<'a>,
    /// The number of its first chain.
    first: usize,
    lanes: &'a Lanes,
    observer: &'a dyn Observer,
}

impl Moving<'_> {
    fn run(&self, chains: &mut [Chain]) -> Result<(), DeviceError> {
        let plan = self.wave.plan;
        let motion = self.wave.motion;
        let mut cells: Vec<ChainCell> = chains.iter().map(|chain| cell(motion, chain, &plan.batches)).collect();
        for (slot, (cell, chain)) in cells.iter_mut().zip(&*chains).enumerate() {
            let moves = !chain.is_done(plan.num_steps) && {
                self.observer.started(self.first + slot);
                // Who is to stop before the first round need not wait for its end.
                self.observer.advanced(self.first + slot, 0).is_continue()
            };
            cell.stopped = u32::from(!moves);
        }
        let began: Vec<bool> = cells.iter().map(|cell| cell.stopped == 0).collect();
        while let Some(num_steps) = self.steps_to_next_event(&cells) {
            // Nobody else uses the group's memory until the steps are done.
            let alone = self.lanes.use_alone();
            self.advance(num_steps, chains, &mut cells)?;
            drop(alone);
            self.look(chains, &mut cells)?;
        }
        for (slot, chain) in chains.iter_mut().enumerate().filter(|(slot, _)| began[*slot]) {
            self.wave.read(slot, chain)?;
        }
        Ok(())
    }

    /// How far all moving chains can go before one of them is to be looked at.
    fn steps_to_next_event(&self, cells: &[ChainCell]) -> Option<u64> {
        let plan = self.wave.plan;
        let moving = cells.iter().filter(|cell| cell.stopped == 0);
        let to_event = moving.map(|cell| {
            let (burn_in, every) = (plan.keep.burn_in, plan.keep.every);
            let next = if cell.step < burn_in {
                burn_in + every
            } else {
                burn_in + ((cell.step - burn_in) / every + 1) * every
            };
            next.min(plan.num_steps) - cell.step
        });
        to_event.min().map(|steps| steps.min(MOST_STEPS as u64))
    }

    /// Moves every group by `num_steps` steps and copies back the cells.
    fn advance(&self, num_steps: u64, chains: &mut [Chain], cells: &mut [ChainCell]) -> Result<(), DeviceError> {
        let wave = &self.wave;
        let num_tensors = wave.core.blocks.num_tensors();
        for cell in &mut *cells {
            (cell.row, cell.num_readings, cell.mass_batch) = (0, 0, 0);
        }
        wave.states.cells.write(0, cells)?;
        wave.kinetic_sums.write(0, &vec![0.0; chains.len() * num_tensors])?;
        for (number, group) in wave.groups.iter().enumerate() {
            if cells[group.chains.clone()].iter().all(|cell| cell.stopped != 0) {
                continue;
            }
            for slot in group.chains.clone() {
                let (chain, step) = (&chains[slot], cells[slot].step);
                let numbers = |step| step_numbers(wave.motion, chain, wave.core.num_examples, step);
                let rows: Vec<_> = (step..step + num_steps).map(numbers).collect();
                wave.steps.write(slot * MOST_STEPS, &rows)?;
            }
            self.advance_group(number, num_steps, chains, cells)?;
        }
        wave.states.cells.read(0, cells)
    }

    /// Replays a group's step; where masses are estimated, up to the next epoch of one of its chains at a time.
    fn advance_group(
        &self,
        number: usize,
        num_steps: u64,
        chains: &mut [Chain],
        cells: &[ChainCell],
    ) -> Result<(), DeviceError> {
        let wave = &self.wave;
        let group = &wave.groups[number];
        let Some(estimate) = wave.motion.mass_estimate() else { return group.step.replay(num_steps) };
        let epoch = wave.plan.batches.steps_per_epoch();
        let mut done = 0;
        while done < num_steps {
            let due = |slot: usize| cells[slot].stopped == 0 && (cells[slot].step + done).is_multiple_of(epoch);
            if group.chains.clone().any(due) {
                // Who left the finite numbers since the round began keeps its masses.
                let mut now = vec![ChainCell::default(); group.chains.len()];
                wave.states.cells.read(group.chains.start, &mut now)?;
                let moves = |slot: usize| now[slot - group.chains.start].stopped == 0;
                wave.estimate_masses(number, estimate, chains, |slot| due(slot) && moves(slot))?;
            }
            let moving = cells[group.chains.clone()].iter().filter(|cell| cell.stopped == 0);
            let to_epoch = moving.map(|cell| epoch - (cell.step + done) % epoch).min().unwrap_or(num_steps);
            let steps = to_epoch.min(num_steps - done);
            group.step.replay(steps)?;
            done += steps;
        }
        Ok(())
    }

    /// Takes what was measured, keeps what is to be kept, reports, and stops who is to stop.
    fn look(&self, chains: &mut [Chain], cells: &mut [ChainCell]) -> Result<(), DeviceError> {
        let (wave, plan) = (&self.wave, self.wave.plan);
        let num_tensors = wave.core.blocks.num_tensors();
        let (mut sums, mut last) = (Vec::new(), Vec::new());
        if wave.motion.has_momentum_temperature() {
            (sums, last) = (wave.kinetic_sums.to_vec()?, wave.last_kinetic.to_vec()?);
        }
        let (mut kept, mut advanced) = (Vec::new(), Vec::new());
        for (slot, (chain, cell)) in chains.iter_mut().zip(&mut *cells).enumerate() {
            if cell.stopped == STOPPED || chain.divergence.is_some() {
                continue;
            }
            let tensors = slot * num_tensors..(slot + 1) * num_tensors;
            let steps = cell.step - chain.state.step;
            chain.state.step = cell.step;
            (chain.state.log_beta, chain.state.log_beta_velocity) = (cell.log_beta, cell.log_beta_velocity);
            let is_kept = plan.keep.is_kept(cell.step) && steps > 0 && cell.stopped == 0;
            if cell.stopped == DIVERGED {
                chain.divergence = Some(Divergence { step: cell.step });
            } else if is_kept || cell.step == plan.num_steps {
                wave.read(slot, chain)?;
                if !chain.state.is_finite() {
                    chain.state.step -= 1;
                    chain.divergence = Some(Divergence { step: chain.state.step });
                    // The last step was measured too soon.
                    if wave.motion.has_momentum_temperature() && cell.num_readings > 0 {
                        cell.num_readings -= 1;
                        sums[tensors.clone()]
                            .iter_mut()
                            .zip(&last[tensors.clone()])
                            .for_each(|(sum, last)| *sum -= last);
                    }
                }
            }
            if wave.motion.has_momentum_temperature() {
                // Readings have the layout's shape.
                let _ = chain.kinetic_all.record_sum(&sums[tensors.clone()], cell.num_readings);
                if is_kept && chain.divergence.is_none() {
                    let _ = chain.kinetic_kept.record(&last[tensors]);
                }
            }
            if is_kept && chain.divergence.is_none() {
                kept.push(slot);
            }
            if chain.divergence.is_some() || cell.step >= plan.num_steps {
                cell.stopped = STOPPED;
            }
            advanced.push((slot, steps));
        }
        let kept: Vec<(usize, &Chain)> = kept.into_iter().map(|slot| (self.first + slot, &chains[slot])).collect();
        if !kept.is_empty() {
            self.observer.kept(&kept);
        }
        for (slot, steps) in advanced {
            if self.observer.advanced(self.first + slot, steps).is_break() {
                cells[slot].stopped = STOPPED;
            }
        }
        Ok(())
    }
}

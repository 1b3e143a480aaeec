//! Looks at draws, many at a time: outputs, gradients of energies, statistics of batch norms.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use kelvin::data::Examples;
use kelvin::network::{ImageStack, Rows, Weights};

use super::arguments::{ChainCell, GradientSource};
use super::core::Core;
use super::data::DeviceData;
use super::engine::GeneralEngine;
use super::lanes::{Wanted, lane_of};
use super::lower::{Lowering, Norms, Running};
use super::lower_back::Passes;
use super::memory::GroupMemory;
use super::passes::{Images, images_of};
use super::states::States;
use crate::gpu::device::{Buffer, DeviceError, Launch, Recorded};

/// Evaluations have one lane.
fn one_lane(num_chains: usize, num_images: usize) -> Wanted {
    Wanted { count: 1, num_chains, num_images }
}

/// A cell that draws are evaluated with.
fn cell(likelihood_weight: f64) -> ChainCell {
    ChainCell { gradient_scale: -likelihood_weight, likelihood_weight, ..ChainCell::default() }
}

impl Core {
    fn launch(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        launches.iter().try_for_each(|launch| self.device.launch(launch))
    }

    /// Copies weights to states, with a cell for each.
    fn place(&self, states: &States, weights: &[Weights<'_>], cells: &[ChainCell]) -> Result<(), DeviceError> {
        for (chain, &weights) in weights.iter().enumerate() {
            states.write(chain, weights)?;
        }
        states.cells.write(0, cells)?;
        states.round(&*self.device, &self.compiled, 0, weights.len())
    }

    /// Names the images of each chain's next pass, which have the same number.
    fn name_images(&self, memory: &GroupMemory, images: &[&Images]) -> Result<(), DeviceError> {
        let joined = |of: fn(&Images) -> &[u32]| images.iter().flat_map(|&images| of(images)).copied().collect();
        let (rows, placements): (Vec<u32>, Vec<u32>) = (joined(|i| &i.rows), joined(|i| &i.placements));
        memory.rows.write(0, &rows)?;
        memory.placements.write(0, &placements)
    }
}

impl Core {
    /// A whole pass over the images that the group's memory names, which adds its gradient to the total.
    fn add_gradient(&self, pass: &mut Lowering<'_>) -> Result<Buffer<GradientSource>, DeviceError> {
        pass.gather(&self.data, true);
        pass.forward();
        pass.loss(&self.data, self.noise_variance, true);
        pass.backward();
        let sources = Buffer::of(&self.device, &pass.sources)?;
        pass.total(Some(sources.at(0)), Passes { adds: true, finishes: false, keeps: true }, 0.0);
        Ok(sources)
    }
}

impl GeneralEngine {
    /// Outputs of all examples for each set of weights, row-major; batch norms use the weights' statistics.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn outputs(&self, examples: &Examples, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, DeviceError> {
        let core = &self.core;
        let data = DeviceData::new(&core.device, examples)?;
        let most = self.most_uncoupled().min(examples.len()).max(1);
        let group_len = self.evaluated_together(weights.len(), most)?;
        let memory = &self.lane(group_len, most)?;
        let _alone = self.lanes.use_alone();
        let states = core.states(group_len)?;
        let units = core.plan.len(core.plan.output());
        let mut outputs = Vec::with_capacity(weights.len());
        for some in weights.chunks(group_len) {
            core.place(&states, some, &vec![cell(1.0); some.len()])?;
            let mut found = vec![Vec::with_capacity(examples.len() * units); some.len()];
            for images in images_of(Rows::All, examples.len(), most) {
                let num_images = images.rows.len();
                core.name_images(memory, &vec![&images; some.len()])?;
                let group = states.group(0, some.len());
                let mut pass = core.lowering(memory, group, num_images, Norms::Inference);
                pass.gather(&data, false);
                pass.forward();
                core.launch(&pass.launches)?;
                let read = memory.read_outputs(&core.plan, some.len(), num_images)?;
                for (found, read) in found.iter_mut().zip(read.chunks_exact(num_images * units)) {
                    found.extend_from_slice(read);
                }
            }
            outputs.append(&mut found);
        }
        Ok(outputs)
    }

    /// For each position and its weight w: Σ log p(y|x,θ) over the batches in training mode, each a batch of its own to
    /// batch norm, and ∇(−log p(θ) − w Σ log p(y|x,θ)).
    ///
    /// # Errors
    /// Where the device fails.
    pub fn gradients(
        &self,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, DeviceError> {
        let weights: Vec<Weights<'_>> =
            positions.iter().map(|&parameters| self.without_statistics(parameters)).collect();
        self.gradients_in(Norms::Training(Running::Stay), &weights, likelihood_weights, batches)
    }

    /// The same with the weights' running statistics.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn gradients_with_statistics(
        &self,
        weights: &[Weights<'_>],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, DeviceError> {
        self.gradients_in(Norms::Inference, weights, likelihood_weights, batches)
    }

    /// Weights whose statistics no pass in training mode looks at.
    fn without_statistics<'w>(&'w self, parameters: &'w [f32]) -> Weights<'w> {
        Weights { parameters, statistics: &self.core.initial_statistics }
    }

    /// The most images of a pass that sums nothing over them: what memory there is.
    fn most_uncoupled(&self) -> usize {
        self.lanes.most_images().unwrap_or(self.core.most_images())
    }

    /// How many of `num_draws` draws are evaluated together: as many as are a lane of a run, unless memory is short.
    fn evaluated_together(&self, num_draws: usize, num_images: usize) -> Result<usize, DeviceError> {
        let core = &self.core;
        let free = core.device.free_memory()?;
        let state_bytes = States::bytes(&core.blocks, core.num_statistics(), core.precision);
        let left = |count: usize| self.left(free, one_lane(count, num_images), count * state_bytes);
        let mut count = lane_of(self.group_chains.min(self.most_resident).min(num_draws.max(1)));
        while count > 1 && left(count).is_err() {
            count -= 1;
        }
        left(count).map(|_| count)
    }

    /// A memory for so many chains and images.
    fn lane(&self, num_chains: usize, num_images: usize) -> Result<Arc<GroupMemory>, DeviceError> {
        Ok(self.lanes.take(&self.core, one_lane(num_chains, num_images))?.remove(0))
    }

    /// The passes of batches.
    fn passes(&self, batches: &[Rows<'_>], norms: Norms) -> Vec<Images> {
        let core = &self.core;
        let coupled = core.has_norms() && norms != Norms::Inference;
        let cut = |rows: &Rows<'_>| {
            let len = rows.listed().map(<[u32]>::len);
            // Sums depend on how they are cut, so it must not depend on what memory there is.
            let most = if coupled { core.pass_len(len, true) } else { ImageStack::BATCH.min(core.most_images()) };
            images_of(*rows, core.num_examples, most)
        };
        batches.iter().flat_map(cut).collect()
    }

    fn gradients_in(
        &self,
        norms: Norms,
        weights: &[Weights<'_>],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, DeviceError> {
        let core = &self.core;
        let passes = self.passes(batches, norms);
        let most = passes.iter().map(|images| images.rows.len()).max().unwrap_or(1);
        let group_len = self.evaluated_together(weights.len(), most)?;
        let memory = &self.lane(group_len, most)?;
        let _alone = self.lanes.use_alone();
        let states = core.states(group_len)?;
        let dim = core.plan.program.layout.len();
        let mut found = Vec::with_capacity(weights.len());
        for (some, their_weights) in weights.chunks(group_len).zip(likelihood_weights.chunks(group_len)) {
            let cells: Vec<ChainCell> = their_weights.iter().map(|&weight| cell(weight)).collect();
            core.place(&states, some, &cells)?;
            memory.totals.write(0, &vec![0.0; some.len() * core.blocks.parameter_stride])?;
            memory.likelihood.write(0, &vec![0.0; 2 * some.len()])?;
            let group = states.group(0, some.len());
            // Passes of a size differ in their images alone.
            let mut lowered: HashMap<usize, Prepared<'_>> = HashMap::new();
            for images in &passes {
                let num_images = images.rows.len();
                core.name_images(memory, &vec![images; some.len()])?;
                match lowered.entry(num_images) {
                    Entry::Occupied(lowered) => lowered.into_mut(),
                    Entry::Vacant(place) => {
                        let times = passes.iter().filter(|images| images.rows.len() == num_images).count();
                        let mut pass = core.lowering(memory, group, num_images, norms);
                        let sources = core.add_gradient(&mut pass)?;
                        place.insert(Prepared::new(core, pass.launches, Some(sources), times)?)
                    }
                }
                .run()?;
            }
            let mut end = core.lowering(memory, group, most, norms);
            end.total(None, Passes { adds: true, finishes: true, keeps: true }, core.inverse_prior_variance);
            core.launch(&end.launches)?;
            let mut sums = vec![0.0; 2 * some.len()];
            memory.likelihood.read(0, &mut sums)?;
            for chain in 0..some.len() {
                let mut gradient = vec![0.0; dim];
                memory.totals.read(chain * core.blocks.parameter_stride, &mut gradient)?;
                found.push((sums[2 * chain], gradient));
            }
        }
        Ok(found)
    }

    /// For each position and its batches: means and variances of batch norms, the plain average of those of each batch.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn batch_statistics(
        &self,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, DeviceError> {
        let core = &self.core;
        let norms = Norms::Training(Running::Become);
        let passes: Vec<Vec<Images>> = batches.iter().map(|batches| self.passes(batches, norms)).collect();
        let lens = |passes: &Vec<Images>| passes.iter().map(|images| images.rows.len()).collect::<Vec<usize>>();
        // Only passes of the same sizes can be made together.
        let alike = passes.windows(2).all(|pair| lens(&pair[0]) == lens(&pair[1]));
        let most = passes.iter().flat_map(lens).max().unwrap_or(1);
        let group_len = if alike { self.evaluated_together(positions.len(), most)? } else { 1 };
        let memory = &self.lane(group_len, most)?;
        let _alone = self.lanes.use_alone();
        let states = core.states(group_len)?;
        let mut found = Vec::with_capacity(positions.len());
        for (some, passes) in positions.chunks(group_len).zip(passes.chunks(group_len)) {
            let weights: Vec<Weights<'_>> =
                some.iter().map(|&parameters| self.without_statistics(parameters)).collect();
            core.place(&states, &weights, &vec![cell(1.0); some.len()])?;
            let group = states.group(0, some.len());
            let mut sums = vec![vec![0.0; core.num_statistics()]; some.len()];
            let mut of_batch = vec![0.0; core.num_statistics()];
            let mut lowered: HashMap<usize, Prepared<'_>> = HashMap::new();
            for number in 0..passes[0].len() {
                let images: Vec<&Images> = passes.iter().map(|passes| &passes[number]).collect();
                core.name_images(memory, &images)?;
                let num_images = images[0].rows.len();
                match lowered.entry(num_images) {
                    Entry::Occupied(lowered) => lowered.into_mut(),
                    Entry::Vacant(place) => {
                        let mut pass = core.lowering(memory, group, num_images, norms);
                        pass.gather(&core.data, true);
                        pass.forward();
                        place.insert(Prepared::new(core, pass.launches, None, passes[0].len())?)
                    }
                }
                .run()?;
                for (chain, sums) in sums.iter_mut().enumerate() {
                    states.read_statistics(chain, &mut of_batch)?;
                    sums.iter_mut().zip(&of_batch).for_each(|(sum, &value)| *sum += f64::from(value));
                }
            }
            let count = passes[0].len() as f64;
            found.extend(sums.iter().map(|sums| sums.iter().map(|sum| (sum / count) as f32).collect::<Vec<f32>>()));
        }
        Ok(found)
    }
}

/// A pass that is run several times, with what its launches read.
struct Prepared<'a> {
    core: &'a Core,
    launches: Vec<Launch>,
    recorded: Option<Recorded>,
    _sources: Option<Buffer<GradientSource>>,
}

impl<'a> Prepared<'a> {
    /// Recorded where that is worth its while.
    fn new(
        core: &'a Core,
        launches: Vec<Launch>,
        sources: Option<Buffer<GradientSource>>,
        times: usize,
    ) -> Result<Self, DeviceError> {
        let recorded = if times > 2 { Some(Recorded::new(&core.device, &[&launches])?) } else { None };
        Ok(Self { core, launches, recorded, _sources: sources })
    }

    fn run(&self) -> Result<(), DeviceError> {
        match &self.recorded {
            Some(recorded) => recorded.replay(1),
            None => self.core.launch(&self.launches),
        }
    }
}

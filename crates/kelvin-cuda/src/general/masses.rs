//! Layerwise masses of a group: gradients on the device, masses on the host as the CPU computes them.

use kelvin::sampler::{Chain, LayerwiseMass};

use super::arguments::ScaleMomenta;
use super::block_size::THREADS;
use super::wave::Wave;
use crate::gpu::device::{DeviceError, Launch};

impl Wave<'_> {
    /// Estimates the masses of group `number`, θ frozen, and gives them to those of its chains that are `due`.
    pub(super) fn estimate_masses(
        &self,
        number: usize,
        estimate: &LayerwiseMass,
        chains: &mut [Chain],
        due: impl Fn(usize) -> bool,
    ) -> Result<(), DeviceError> {
        let (core, group) = (self.core, &self.groups[number]);
        let Some(mass_batch) = &group.mass_batch else { return Ok(()) };
        let num_batches = estimate.num_visited(&self.plan.batches);
        if num_batches == 0 {
            return Ok(());
        }
        let num_tensors = core.blocks.num_tensors();
        let (first, len) = (group.chains.start * num_tensors, group.chains.len() * num_tensors);
        self.mass_squares.write(first, &vec![0.0; len])?;
        mass_batch.replay(num_batches)?;
        let mut squares = vec![0.0; len];
        self.mass_squares.read(first, &mut squares)?;
        let layout = &core.plan.program.layout;
        let mut factors = vec![1.0f32; len];
        for (slot, (masses, factors)) in
            group.chains.clone().zip(squares.chunks_exact_mut(num_tensors).zip(factors.chunks_exact_mut(num_tensors)))
        {
            let are_numbers = estimate.turn_into_masses(masses, layout, num_batches, core.num_examples);
            if !due(slot) || !are_numbers {
                continue;
            }
            let old = &mut chains[slot].state.mass;
            for ((old, &new), factor) in old.iter_mut().zip(&*masses).zip(factors) {
                *factor = (new / *old).sqrt() as f32;
                *old = new;
            }
            self.masses.write(slot * num_tensors, old)?;
        }
        self.mass_factors.write(first, &factors)?;
        let arguments = ScaleMomenta {
            blocks: core.blocks.blocks.at(0),
            momenta: self.momenta.at(group.chains.start * core.blocks.parameter_stride),
            factors: self.mass_factors.at(first),
            parameter_stride: core.blocks.parameter_stride as u64,
            num_tensors: num_tensors as u32,
            reserved: 0,
        };
        let grid = [core.blocks.num_blocks() as u32, group.chains.len() as u32, 1];
        core.device.launch(&Launch::new(core.compiled.scale_momenta, grid, THREADS as u32, 0, &arguments))
    }
}

//! Batch norms as launches, both ways: sums over the batch, unless a kernel took them in passing, and what follows from
//! them, unless a convolution works it out for itself.

use super::arguments::{NormBackwardFinish, NormFinish, NormStatistics, NormSums};
use super::block_size::THREADS;
use super::lower::{Lowering, Norms, Parts, Running};
use super::plan::ROWS_PER_PART;
use crate::gpu::device::Launch;

impl Lowering<'_> {
    /// How a batch norm is read, from the batch or from running statistics.
    pub(super) fn norm_forward(&mut self, number: usize) {
        if std::mem::take(&mut self.summed_norms[number]) {
            return;
        }
        if self.norms == Norms::Inference {
            let arguments = self.norm_finish(number, Parts { num_parts: 0, rows_per_part: 0 });
            if arguments.norm != 0 {
                let grid = [1, self.group.num_chains, 1];
                self.launches.push(Launch::new(self.compiled.norm_finalise, grid, THREADS as u32, 0, &arguments));
            }
            return;
        }
        let value = self.plan.program.norms[number].value;
        let shape = self.plan.program.values[value].shape;
        let num_pixels = self.num_images * shape.num_pixels() as u32;
        let parts = plain_parts(num_pixels, self.fast.reader_finishes(number));
        let arguments = NormStatistics {
            values: self.memory.value(value),
            parts: self.memory.parts(number),
            tickets: self.memory.tickets.at(0),
            finish: self.norm_finish(number, parts),
            num_pixels,
            channels: shape.channels as u32,
            num_parts: parts.num_parts,
            rows_per_part: parts.rows_per_part,
        };
        self.over_pixels(self.compiled.norm_statistics, value, (parts.num_parts, 1), &arguments);
    }

    /// What finishes a norm once its parts are there; nothing, where it is left to the convolution that reads the value
    /// first.
    pub(super) fn norm_finish(&mut self, number: usize, parts: Parts) -> NormFinish {
        let finish = self.whole_norm_finish(number, parts);
        if self.fast.reader_finishes(number) {
            self.pending[number].0 = finish;
            return NormFinish::default();
        }
        finish
    }

    fn whole_norm_finish(&self, number: usize, parts: Parts) -> NormFinish {
        let norm = &self.plan.program.norms[number];
        let shape = self.plan.program.values[norm.value].shape;
        let num_pixels = self.num_images * shape.num_pixels() as u32;
        let (moves, momentum) = match self.norms {
            Norms::Training(Running::Move) => (1, norm.momentum),
            Norms::Training(Running::Become) => (1, 0.0),
            Norms::Training(Running::Stay) | Norms::Inference => (0, 0.0),
        };
        let statistic = |at: usize| self.group.statistics + 4 * at as u64;
        NormFinish {
            parts: if self.norms == Norms::Inference { 0 } else { self.memory.parts(number) },
            norm: self.memory.norm(number),
            bias: norm.bias.as_ref().map_or(0, |bias| self.parameter(bias.start)),
            gamma: self.parameter(norm.scale.start),
            beta: self.parameter(norm.offset.start),
            running_mean: statistic(norm.mean.start),
            running_variance: statistic(norm.variance.start),
            cells: self.group.cells,
            momentum,
            epsilon: norm.epsilon,
            share: 1.0 / f64::from(num_pixels),
            parameter_stride: self.parameter_stride(),
            statistics_stride: self.group.statistics_stride,
            channels: shape.channels as u32,
            num_parts: parts.num_parts,
            rows_per_part: parts.rows_per_part,
            num_pixels,
            moves,
            reserved: 0,
        }
    }

    /// The backward pass through a batch norm, and the gradients of its parameters.
    pub(super) fn norm_backward(&mut self, number: usize) {
        if std::mem::take(&mut self.summed_norms[number]) {
            return;
        }
        let value = self.plan.program.norms[number].value;
        let shape = self.plan.program.values[value].shape;
        let num_pixels = self.num_images * shape.num_pixels() as u32;
        let parts = plain_parts(num_pixels, self.fast.maker_finishes(number));
        let arguments = NormSums {
            values: self.memory.value(value),
            gradient: self.gradient(value),
            norm: self.memory.norm(number),
            parts: self.memory.parts(number),
            tickets: self.memory.tickets.at(0),
            finish: self.norm_backward_finish(number, parts.num_parts),
            num_pixels,
            channels: shape.channels as u32,
            num_parts: parts.num_parts,
            rows_per_part: parts.rows_per_part,
        };
        self.over_pixels(self.compiled.norm_sums, value, (parts.num_parts, 2), &arguments);
    }

    /// What finishes the backward pass through a norm once its parts are there; without slopes, where it is left to the
    /// convolution that made the value.
    pub(super) fn norm_backward_finish(&mut self, number: usize, num_parts: u32) -> NormBackwardFinish {
        let norm = &self.plan.program.norms[number];
        let shape = self.plan.program.values[norm.value].shape;
        let mut finish = NormBackwardFinish {
            parts: self.memory.parts(number),
            norm: self.memory.norm(number),
            slopes: self.memory.slopes(number),
            gamma_gradient: self.sums(norm.scale.start),
            beta_gradient: self.sums(norm.offset.start),
            bias_gradient: norm.bias.as_ref().map_or(0, |bias| self.sums(bias.start)),
            share: 1.0 / (self.num_images as usize * shape.num_pixels()) as f64,
            channels: shape.channels as u32,
            num_parts,
            training: u32::from(self.norms != Norms::Inference),
            reserved: 0,
        };
        if self.fast.maker_finishes(number) {
            self.pending[number].1 = finish;
            finish.slopes = 0;
        }
        finish
    }
}

/// How plain kernels cut the pixels of a batch: enough blocks, each with enough to do; fewer where a convolution finishes the norm, since
/// every one of its blocks reads all parts.
fn plain_parts(num_pixels: u32, convolution_finishes: bool) -> Parts {
    let most_parts = if convolution_finishes { 32 } else { 64 };
    let rows_per_part = num_pixels.div_ceil(most_parts).clamp(2 * ROWS_PER_PART as u32, 4096);
    Parts { num_parts: num_pixels.div_ceil(rows_per_part), rows_per_part }
}

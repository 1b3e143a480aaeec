//! The forward pass as launches: one function for each kind of operation, where a faster kernel may stand in for a plain one.

use kelvin::network::Operation;

use super::arguments::{
    AddValues, GatherImages, GradientSource, Loss, NormBackwardFinish, NormFinish, Pool, Reading, Threshold,
};
use super::block_size::{SHARED_SUMS, THREADS};
use super::by_width::ByWidth;
use super::compiled::Compiled;
use super::data::DeviceData;
use super::fast::Fast;
use super::memory::GroupMemory;
use super::parameter_blocks::ParameterBlocks;
use super::plan::Plan;
use super::precision::Precision;
use super::states::Group;
use crate::gpu::device::{Address, Kernel, Launch};

/// Whose statistics batch norms use, and what becomes of the running ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norms {
    /// Those of the batch.
    Training(Running),
    /// The running ones, which stay.
    Inference,
}

/// What a pass in training mode does to running statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// They stay as they are.
    Stay,
    /// They move towards the batch's.
    Move,
    /// They become the batch's.
    Become,
}

/// Parts of a norm's sums that a kernel leaves in the group's memory.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Parts that were left.
    pub num_parts: u32,
    /// Pixels of each but the last.
    pub rows_per_part: u32,
}

/// A pass of a group over a batch, as the launches it consists of.
pub struct Lowering<'a> {
    pub(super) plan: &'a Plan,
    pub(super) blocks: &'a ParameterBlocks,
    pub(super) compiled: &'a Compiled,
    pub(super) fast: &'a Fast,
    pub(super) memory: &'a GroupMemory,
    pub(super) precision: Precision,
    pub(super) group: Group,
    pub(super) num_images: u32,
    pub(super) norms: Norms,
    /// What is to be launched, in order.
    pub launches: Vec<Launch>,
    /// Where the partial sums of each tensor's gradient lie after the backward pass.
    pub sources: Vec<GradientSource>,
    /// How often each value's gradient was written so far.
    pub(super) written: Vec<usize>,
    /// Partial sums of each tensor.
    pub(super) splits: Vec<usize>,
    /// The norms whose sums a kernel took in passing, until their turn comes.
    pub(super) summed_norms: Vec<bool>,
    /// What finishes each norm that is left to the convolution that needs it first, forward and backward.
    pub(super) pending: Vec<(NormFinish, NormBackwardFinish)>,
    /// Places of gradients that are read by what was launched beside others.
    pub(super) read_beside: Vec<usize>,
    /// Numbers of the launches that must wait for what was launched beside others.
    pub(super) joining: Vec<usize>,
}

impl<'a> Lowering<'a> {
    /// An empty pass of `num_images` images of each chain of a group.
    #[expect(clippy::too_many_arguments, reason = "a pass is a function of exactly these")]
    pub fn new(
        plan: &'a Plan,
        blocks: &'a ParameterBlocks,
        compiled: &'a Compiled,
        fast: &'a Fast,
        memory: &'a GroupMemory,
        precision: Precision,
        group: Group,
        num_images: usize,
        norms: Norms,
    ) -> Self {
        assert!(num_images <= memory.num_images && group.num_chains as usize <= memory.num_chains, "a pass that fits");
        Self {
            plan,
            blocks,
            compiled,
            fast,
            memory,
            precision,
            group,
            num_images: num_images as u32,
            norms,
            launches: Vec::new(),
            sources: vec![GradientSource::default(); blocks.num_tensors()],
            written: vec![0; plan.program.values.len()],
            splits: super::memory::num_splits(&plan.program, fast, num_images),
            summed_norms: vec![false; plan.program.norms.len()],
            pending: vec![Default::default(); plan.program.norms.len()],
            read_beside: Vec::new(),
            joining: Vec::new(),
        }
    }

    /// A thread for each of `count` things of a chain.
    pub(super) fn over<A: bytemuck::NoUninit>(&mut self, kernel: Kernel, count: usize, arguments: &A) {
        let grid = [count.div_ceil(THREADS) as u32, self.group.num_chains, 1];
        self.launches.push(Launch::new(kernel, grid, THREADS as u32, 0, arguments));
    }

    /// A thread for each sixteen bytes of a value of each chain, or for each number where channels do not fit.
    pub(super) fn over_packs<A: bytemuck::NoUninit>(&mut self, kernel: ByWidth, value: usize, arguments: &A) {
        let (kernel, width) = kernel.of(self.precision, self.plan.program.values[value].shape.channels);
        self.over(kernel, self.count(value) / width, arguments);
    }

    /// A block for each of `count` shares of the pixels of a value, which takes `sums` sums of each channel.
    pub(super) fn over_pixels<A: bytemuck::NoUninit>(
        &mut self,
        kernel: ByWidth,
        value: usize,
        (count, sums): (u32, usize),
        arguments: &A,
    ) {
        let channels = self.plan.program.values[value].shape.channels;
        let (kernel, width) = kernel.of(self.precision, channels);
        let grid = [count, self.group.num_chains, (channels / width).div_ceil(THREADS) as u32];
        let shared = (THREADS * width * sums * size_of::<f32>()) as u32;
        self.launches.push(Launch::new(kernel, grid, THREADS as u32, shared, arguments));
    }

    /// How a value is read.
    pub(super) fn reading(&self, value: usize) -> Reading {
        let of = &self.plan.program.values[value];
        Reading {
            values: self.memory.value(value),
            norm: of.norm.map_or(0, |norm| self.memory.norm(norm)),
            len: of.shape.len() as u32,
            channels: of.shape.channels as u32,
            relu: u32::from(of.relu),
            num_images: self.num_images,
        }
    }

    /// Place `at` of the first chain's parameters, in f32.
    pub(super) fn parameter(&self, at: usize) -> Address {
        self.group.positions + 4 * at as u64
    }

    /// The same as products read it.
    pub(super) fn weight(&self, at: usize) -> Address {
        self.group.weights + (self.precision.bytes() * at) as u64
    }

    pub(super) fn parameter_stride(&self) -> u64 {
        self.blocks.parameter_stride as u64
    }

    /// Images of a value, times its numbers.
    pub(super) fn count(&self, value: usize) -> usize {
        self.num_images as usize * self.plan.len(value)
    }

    /// The images that `rows` of the group's memory names, placed as its `placements` say where they are augmented.
    pub fn gather(&mut self, data: &DeviceData, is_augmented: bool) {
        let shape = self.plan.program.values[0].shape;
        let as_they_are = (!is_augmented || shape.num_pixels() == 1) && !self.plan.packed_input;
        let arguments = GatherImages {
            pixels: data.pixels(),
            rows: self.memory.rows.at(0),
            placements: self.memory.placements.at(0),
            output: self.memory.value(0),
            height: shape.height as u32,
            width: shape.width as u32,
            channels: if as_they_are { shape.len() } else { shape.channels } as u32,
            num_images: self.num_images,
            pixel_stride: (self.plan.stored_len(0) / shape.num_pixels()) as u32,
            reserved: 0,
        };
        let kernels = if data.is_bytes() { self.compiled.gather_bytes } else { self.compiled.gather_numbers };
        match as_they_are {
            true if shape.len().is_multiple_of(4) => self.over(kernels.fours, self.count(0) / 4, &arguments),
            true => self.over(kernels.rows, self.count(0), &arguments),
            false => self.over(kernels.images, self.num_images as usize * shape.num_pixels(), &arguments),
        }
    }

    /// From the first value to the last.
    pub fn forward(&mut self) {
        let program = &self.plan.program;
        for (number, operation) in program.operations.iter().enumerate() {
            match operation {
                Operation::Conv { from, to, kernel, bias, adds_bias, .. } => match self.fast.conv(number) {
                    Some(fast) => {
                        self.fast_conv(&fast, *from, *to, kernel.start, adds_bias.then_some(bias.start));
                    }
                    None => match self.compiled.depthwise(number) {
                        Some(kernels) => self.depthwise(kernels, operation),
                        None => self.conv_product(number, operation),
                    },
                },
                Operation::Dense { from, to, kernel, bias } => {
                    if let Some(fast) = self.fast.dense(number) {
                        self.fast_dense(&fast, *from, *to, kernel.start, bias.start);
                    } else if let Some(small) = self.compiled.small_dense(number) {
                        self.small_dense(&small, *from, *to, kernel.start, bias.start);
                    } else {
                        self.conv_product(number, operation);
                    }
                }
                Operation::BatchNorm { number } => self.norm_forward(*number),
                Operation::FilterResponseNorm { .. } => self.response_forward(number, operation),
                Operation::Threshold { .. } if self.plan.image_norms.make(number) => {}
                Operation::Threshold { from, to, threshold } => {
                    let arguments = Threshold {
                        input: self.reading(*from),
                        threshold: self.parameter(threshold.start),
                        output: self.memory.value(*to),
                        parameter_stride: self.parameter_stride(),
                    };
                    self.over_packs(self.compiled.threshold, *to, &arguments);
                }
                Operation::GroupNorm { .. } if self.plan.image_norms.of(number).is_some() => {
                    self.group_norm_forward(number, self.compiled.layer(number), operation);
                }
                Operation::Activation { .. } if self.plan.image_norms.make(number) => {}
                Operation::Activation { .. }
                | Operation::GroupNorm { .. }
                | Operation::LayerNorm { .. }
                | Operation::MaxPool { .. } => self.layer_forward(self.compiled.layer(number), operation),
                Operation::Pool { to, .. } if self.fast.makes_pool(*to) || self.plan.image_norms.make(number) => {}
                Operation::Pool { from, to, height, width } => self.pool_forward(*from, *to, *height, *width),
                Operation::Add { to, .. } if self.fast.makes_sum(*to) => {}
                Operation::Add { left, right, to } => self.add_forward(*left, Some(*right), *to),
                Operation::Copy { from, to } => self.add_forward(*from, None, *to),
            }
        }
    }

    fn pool_forward(&mut self, from: usize, to: usize, height: usize, width: usize) {
        let (input, output) = (self.plan.program.values[from].shape, self.plan.program.values[to].shape);
        let arguments = Pool {
            input: self.reading(from),
            output: self.memory.value(to),
            input_width: input.width as u32,
            output_height: output.height as u32,
            output_width: output.width as u32,
            height: height as u32,
            width: width as u32,
            share: (1.0 / (height * width) as f64) as f32,
        };
        self.over_packs(self.compiled.pool, to, &arguments);
    }

    fn add_forward(&mut self, left: usize, right: Option<usize>, to: usize) {
        let arguments = AddValues {
            left: self.reading(left),
            right: right.map_or_else(Reading::default, |right| self.reading(right)),
            output: self.memory.value(to),
        };
        self.over_packs(self.compiled.add_values, to, &arguments);
    }

    /// Σ log p of the outputs and their gradient.
    pub fn loss(&mut self, data: &DeviceData, noise_variance: f64, adds: bool) {
        let output = self.plan.output();
        let place = self.plan.gradients[output].expect("outputs have a gradient");
        let arguments = Loss {
            outputs: self.memory.value(output),
            gradient: self.memory.gradient(place),
            targets: data.targets(),
            rows: self.memory.rows.at(0),
            cells: self.group.cells,
            sums: self.memory.likelihood.at(0),
            noise_variance,
            num_images: self.num_images,
            num_outputs: self.plan.len(output) as u32,
            adds: u32::from(adds),
            reserved: 0,
        };
        let grid = [1, self.group.num_chains, 1];
        self.launches.push(Launch::new(self.compiled.loss, grid, 2 * THREADS as u32, SHARED_SUMS, &arguments));
    }
}

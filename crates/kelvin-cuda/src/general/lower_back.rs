//! The backward pass as launches: one function for each kind of operation, where a faster kernel may stand in for a plain one.

use kelvin::network::Operation;

use super::arguments::{
    Downstream, GiveGradient, GradientSource, GradientTotal, PoolBackward, ThresholdBackward, Upstream,
};
use super::block_size::{SHARED_SUMS, THREADS};
use super::lower::Lowering;
use super::plan::ROWS_PER_PART;
use crate::gpu::device::{Address, Launch};

/// Parts that the backward pass of a pool leaves of a norm: every block of the convolution that finishes it reads all of them.
const MOST_PARTS_OF_A_POOL: u32 = 64;

/// Which of the passes over a batch a total is of.
#[derive(Clone, Copy, Debug)]
pub struct Passes {
    /// Whether it adds to the sum of those before.
    pub adds: bool,
    /// Whether it is the last.
    pub finishes: bool,
    /// Whether gradients with one partial sum are wanted as well: else who wants them takes them from there.
    pub keeps: bool,
}

impl Lowering<'_> {
    /// From the gradient of the outputs to the partial sums of all parameters' gradients.
    pub fn backward(&mut self) {
        let program = &self.plan.program;
        for (number, operation) in program.operations.iter().enumerate().rev() {
            match operation {
                Operation::Conv { from, to, kernel, bias, adds_bias, .. } => match self.fast.conv(number) {
                    Some(fast) => {
                        let bias = adds_bias.then_some(bias.start);
                        self.fast_conv_backward(&fast, *from, *to, kernel.start, bias);
                    }
                    None => match self.compiled.depthwise(number) {
                        Some(kernels) => self.depthwise_backward(kernels, operation),
                        None => self.conv_product_backward(number, operation),
                    },
                },
                Operation::Dense { from, to, kernel, bias } => {
                    if let Some(fast) = self.fast.dense(number) {
                        self.fast_dense_backward(&fast, *from, *to, kernel.start, bias.start);
                    } else if let Some(small) = self.compiled.small_dense(number) {
                        self.small_dense_backward(&small, *from, *to, kernel.start, bias.start);
                    } else {
                        self.conv_product_backward(number, operation);
                    }
                }
                Operation::BatchNorm { number } => self.norm_backward(*number),
                Operation::FilterResponseNorm { .. } => self.response_backward(number, operation),
                Operation::Threshold { .. } if self.plan.image_norms.make(number) => {}
                Operation::Threshold { from, to, threshold } => {
                    let arguments = ThresholdBackward {
                        output: self.upstream(*to),
                        input: self.reading(*from),
                        to: self.downstream(*from),
                        threshold: self.parameter(threshold.start),
                        threshold_gradient: self.sums(threshold.start),
                        parameter_stride: self.parameter_stride(),
                        has_input_gradient: u32::from(*from != 0),
                        reserved: 0,
                    };
                    self.over_pixels(self.compiled.threshold_backward, *from, (self.num_images, 1), &arguments);
                }
                Operation::GroupNorm { .. } if self.plan.image_norms.of(number).is_some() => {
                    self.group_norm_backward(number, self.compiled.layer(number), operation);
                }
                Operation::Activation { .. } if self.plan.image_norms.make(number) => {}
                Operation::Activation { .. }
                | Operation::GroupNorm { .. }
                | Operation::LayerNorm { .. }
                | Operation::MaxPool { .. } => self.layer_backward(self.compiled.layer(number), operation),
                Operation::Pool { from, to, height, width } => self.pool_backward(*from, *to, *height, *width),
                Operation::Add { left, right, to } => {
                    self.give_gradient(*to, *right);
                    self.give_gradient(*to, *left);
                }
                Operation::Copy { from, to } => self.give_gradient(*to, *from),
            }
        }
    }

    /// Where D of a value lies; 0 for the input.
    pub(super) fn gradient(&self, value: usize) -> Address {
        self.plan.gradients[value].map_or(0, |place| self.memory.gradient(place))
    }

    /// How dV of a value is found from its D.
    pub(super) fn upstream(&self, value: usize) -> Upstream {
        let of = &self.plan.program.values[value];
        Upstream {
            gradient: self.gradient(value),
            values: self.memory.value(value),
            slopes: of.norm.map_or(0, |norm| self.memory.slopes(norm)),
            len: of.shape.len() as u32,
            channels: of.shape.channels as u32,
            num_images: self.num_images,
            reserved: 0,
        }
    }

    /// How the next operation in the backward pass hands on to D of a value: the first overwrites, the last cuts off.
    pub(super) fn downstream(&mut self, value: usize) -> Downstream {
        if self.plan.gradients[value].is_some_and(|place| self.read_beside.contains(&place)) {
            self.join();
        }
        let before = self.written[value];
        self.written[value] += 1;
        let masks = before + 1 == self.plan.writers[value];
        Downstream {
            gradient: self.gradient(value),
            adds: u32::from(before > 0 || self.plan.inherits[value].is_some()),
            masks: u32::from(masks),
        }
    }

    /// Launches what makes a sum over the gradient of `value` that only the total needs: others need not wait for it until one
    /// overwrites this gradient.
    pub(super) fn launch_beside(&mut self, launch: Launch, value: usize) {
        self.read_beside.extend(self.plan.gradients[value]);
        self.launches.push(launch.beside());
    }

    /// Lets the next launch wait for what was launched beside others.
    fn join(&mut self) {
        self.read_beside.clear();
        self.joining.push(self.launches.len());
    }

    /// Where the partial sums of the tensor that begins at `start` go; notes them as its source.
    pub(super) fn sums(&mut self, start: usize) -> Address {
        let tensor = self.blocks.tensor_at(start);
        let sums = self.memory.sums(tensor);
        let (num_splits, len) = (self.splits[tensor] as u32, self.blocks.tensor_lens[tensor] as u32);
        self.sources[tensor] = GradientSource { sums, num_splits, len };
        sums
    }

    fn pool_backward(&mut self, from: usize, to: usize, height: usize, width: usize) {
        if from == 0 || self.plan.borrowed[from] {
            return;
        }
        let (input, output) = (self.plan.program.values[from].shape, self.plan.program.values[to].shape);
        // A thread takes a small rectangle whole and a line of a large one.
        let lines = if height * width <= 4 { height } else { 1 };
        let to_input = self.downstream(from);
        let (kernel, pack) = self.compiled.pool_backward.of(self.precision, input.channels);
        let num_shares = (self.count(from) / (lines * width * pack)).div_ceil(THREADS) as u32;
        let grid = [num_shares, self.group.num_chains, 1];
        let mut arguments = PoolBackward {
            output: self.upstream(to),
            input: self.reading(from),
            to: to_input,
            input_width: input.width as u32,
            output_height: output.height as u32,
            output_width: output.width as u32,
            height: height as u32,
            width: width as u32,
            lines: lines as u32,
            share: (1.0 / (height * width) as f64) as f32,
            num_shares,
            ..PoolBackward::default()
        };
        // Whole pixels for a block, and a part of the norm's sums from each, as many as there is room for.
        let whole = THREADS.is_multiple_of(input.channels / pack)
            && THREADS * pack / input.channels * lines * width >= ROWS_PER_PART;
        match self.plan.normed_by(from)[0].filter(|_| whole && to_input.masks != 0) {
            Some(value) => {
                let number = self.plan.program.values[value].norm.expect("the norm of a normed value");
                let grid = [num_shares.min(MOST_PARTS_OF_A_POOL), self.group.num_chains, 1];
                arguments.normed = self.memory.value(value);
                arguments.parts = self.memory.parts(number);
                arguments.tickets = self.memory.tickets.at(0);
                arguments.finish = self.norm_backward_finish(number, grid[0]);
                self.summed_norms[number] = true;
                let (kernel, _) = self.compiled.pool_backward_sums.of(self.precision, input.channels);
                let shared = (THREADS * pack * 2 * size_of::<f32>()) as u32;
                self.launches.push(Launch::new(kernel, grid, THREADS as u32, shared, &arguments));
            }
            None => self.launches.push(Launch::new(kernel, grid, THREADS as u32, 0, &arguments)),
        }
    }

    /// Hands dV of a sum or copy to one of its terms, unless they share it.
    fn give_gradient(&mut self, to: usize, from: usize) {
        if from == 0 || self.plan.writers[from] == 0 || self.plan.inherits[from] == Some(to) {
            return;
        }
        let arguments =
            GiveGradient { output: self.upstream(to), input: self.reading(from), to: self.downstream(from) };
        self.over_packs(self.compiled.give_gradient, from, &arguments);
    }

    /// Adds up the partial sums: over the passes before, and with weight and prior where this is the last.
    pub fn total(&mut self, sources: Option<Address>, passes: Passes, inverse_variance: f64) {
        let arguments = GradientTotal {
            blocks: self.blocks.blocks.at(0),
            sources: sources.unwrap_or(self.memory.totals.at(0)),
            positions: self.group.positions,
            gradients: self.memory.totals.at(0),
            cells: self.group.cells,
            squares: self.memory.squares.at(0),
            square_sums: self.memory.square_sums.at(0),
            tickets: self.memory.tickets.at(0),
            parameter_stride: self.parameter_stride(),
            inverse_variance: inverse_variance as f32,
            num_blocks: self.blocks.num_blocks() as u32,
            adds: u32::from(passes.adds),
            finishes: u32::from(passes.finishes),
            has_sources: u32::from(sources.is_some()),
            keeps: u32::from(passes.keeps),
        };
        let grid = [self.blocks.num_blocks() as u32, self.group.num_chains, 1];
        let sums: usize = self.splits.iter().zip(&self.blocks.tensor_lens).map(|(splits, len)| splits * len).sum();
        let most_are_single = sums < 2 * self.blocks.tensor_lens.iter().sum::<usize>();
        let kernel = self.compiled.gradient_total[usize::from(most_are_single)];
        self.join();
        self.launches.push(Launch::new(kernel, grid, THREADS as u32, SHARED_SUMS, &arguments));
        for at in self.joining.drain(..) {
            self.launches[at].joins = true;
        }
    }
}

//! The way through a network: operation by operation on a whole batch, each spread over parts of it.

use super::convolution::{ConvForward, ConvScratch};
use super::dense::DenseForward;
use super::depthwise::{DepthwiseForward, DepthwisePlan};
use super::elementwise::{Activate, AddReadings, Moments, Read};
use super::group_norm::GroupNormalise;
use super::layer_norm::LayerNormalise;
use super::max_pool::MaxPoolForward;
use super::plan::{OperationPlan, Plan};
use super::pool::PoolForward;
use super::response_norm::{CutOff, ImageScratch, Normalise};
use super::workspace::{ImageWorkspace, Part, over_parts};
use crate::network::kernels::Number;
use crate::network::program::Operation;

/// Whose statistics batch norm uses, in the evaluator's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistics {
    Batch,
    /// Those in the workspace.
    Running,
}

impl<T: Number> ImageWorkspace<T> {
    /// Lays out the kernels for products.
    pub(super) fn take_kernels(&mut self, plan: &Plan, parameters: &[T], with_gradients: bool) {
        let operations = plan.program.operations.iter().zip(&plan.operations);
        for ((operation, sizes), kernels) in operations.zip(&mut self.kernels) {
            match (operation, sizes) {
                (Operation::Conv { kernel, bias, .. }, OperationPlan::Conv(conv)) => {
                    conv.pack_kernel(&parameters[kernel.clone()], &mut kernels.forward);
                    kernels.bias[..bias.len()].copy_from_slice(&parameters[bias.clone()]);
                    if with_gradients {
                        conv.pack_back_kernel(&parameters[kernel.clone()], &mut kernels.backward);
                    }
                }
                (Operation::Conv { kernel, bias, .. }, OperationPlan::Depthwise(conv)) => {
                    conv.pack_kernel(&parameters[kernel.clone()], &mut kernels.forward);
                    kernels.bias[..bias.len()].copy_from_slice(&parameters[bias.clone()]);
                }
                (Operation::Dense { kernel, bias, .. }, OperationPlan::Dense(dense)) => {
                    dense.pack_kernel(&parameters[kernel.clone()], &mut kernels.forward);
                    kernels.bias[..bias.len()].copy_from_slice(&parameters[bias.clone()]);
                    if with_gradients {
                        dense.pack_back_kernel(&parameters[kernel.clone()], &mut kernels.backward);
                    }
                }
                _ => {}
            }
        }
    }

    /// From the first value to the last.
    pub(super) fn forward(&mut self, plan: &Plan, parameters: &[T], statistics: Statistics) {
        for number in 0..plan.operations.len() {
            match &plan.program.operations[number] {
                Operation::Conv { from, to, adds_bias, .. } => {
                    let wants_moments = !adds_bias && statistics == Statistics::Batch;
                    match plan.operations[number] {
                        OperationPlan::Depthwise(conv) => {
                            self.depthwise_forward(plan, (number, conv), *from, *to, *adds_bias, wants_moments);
                        }
                        _ => self.conv_forward(plan, number, *from, *to, *adds_bias, wants_moments),
                    }
                }
                Operation::Dense { from, to, .. } => self.dense_forward(plan, number, *from, *to),
                Operation::BatchNorm { number } => self.norm_forward(plan, parameters, *number, statistics),
                Operation::FilterResponseNorm { from, to, scale, offset, epsilon } => {
                    let (gamma, beta) = (&parameters[scale.clone()], &parameters[offset.clone()]);
                    let stride = plan.strides[*from];
                    self.image_by_image(plan, *from, *to, |part, values, output| {
                        let scratch = ImageScratch { sums: &mut part.image_sums, coefficients: &mut part.coefficients };
                        T::dispatch(Normalise { stride, gamma, beta, epsilon: *epsilon, values, output, scratch });
                    });
                }
                Operation::Threshold { from, to, threshold } => {
                    let (tau, stride) = (&parameters[threshold.clone()], plan.strides[*from]);
                    self.image_by_image(plan, *from, *to, |part, values, output| {
                        let threshold = part.padded(tau, stride);
                        T::dispatch(CutOff { stride, threshold, values, output });
                    });
                }
                Operation::GroupNorm { from, to, scale, offset, groups, epsilon } => {
                    let (gamma, beta) = (&parameters[scale.clone()], &parameters[offset.clone()]);
                    let (stride, group_len, epsilon) = (plan.strides[*from], gamma.len() / groups, *epsilon);
                    self.image_by_image(plan, *from, *to, |part, values, output| {
                        let scratch = ImageScratch { sums: &mut part.image_sums, coefficients: &mut part.coefficients };
                        T::dispatch(GroupNormalise {
                            stride,
                            group_len,
                            gamma,
                            beta,
                            epsilon,
                            values,
                            output,
                            scratch,
                        });
                    });
                }
                Operation::LayerNorm { from, to, scale, offset, epsilon } => {
                    let (gamma, beta) = (&parameters[scale.clone()], &parameters[offset.clone()]);
                    let (stride, epsilon) = (plan.strides[*from], *epsilon);
                    self.image_by_image(plan, *from, *to, |_, values, output| {
                        T::dispatch(LayerNormalise { stride, gamma, beta, epsilon, values, output });
                    });
                }
                Operation::MaxPool { from, to, window } => {
                    let (window, stride) = (*window, plan.strides[*from]);
                    self.image_by_image(plan, *from, *to, |_, values, output| {
                        T::dispatch(MaxPoolForward { window, stride, values, output });
                    });
                }
                Operation::Activation { from, to, by } => {
                    let stride = plan.strides[*from];
                    self.write_value(plan, *to, |work, number, _, output| {
                        let values = &work.since_part(plan, *from, number)[..output.len()];
                        let reading = work.reading(plan, *from);
                        T::dispatch(Activate { by: *by, reading, stride, values, output });
                    });
                }
                Operation::Pool { from, to, .. } => self.pool_forward(plan, number, *from, *to),
                Operation::Add { left, right, to } => self.add_forward(plan, *left, *right, *to),
                Operation::Copy { from, to } => {
                    let stride = plan.strides[*from];
                    self.write_value(plan, *to, |work, number, _, output| {
                        let values = &work.since_part(plan, *from, number)[..output.len()];
                        T::dispatch(Read { reading: work.reading(plan, *from), stride, values, output });
                    });
                }
            }
        }
    }

    /// Writes a value part by part; `run` gets the number of the part, its scratch and its piece of the value.
    fn write_value(&mut self, plan: &Plan, to: usize, run: impl Fn(&Self, usize, &mut Part<T>, &mut [T]) + Sync) {
        let piece = self.images_per_part() * plan.image_len(to);
        let mut output = std::mem::take(&mut self.values[to]);
        let mut parts = std::mem::take(&mut self.parts);
        let work = &*self;
        over_parts(self.parallel, &mut parts, &mut output, piece, |number, part, output| {
            run(work, number, part, output);
        });
        self.parts = parts;
        self.values[to] = output;
    }

    /// A value from the first image of a part on.
    pub(super) fn since_part(&self, plan: &Plan, value: usize, number: usize) -> &[T] {
        &self.values[value][number * self.images_per_part() * plan.image_len(value)..]
    }

    /// For operations that look at one image at a time, as it is read.
    fn image_by_image(
        &mut self,
        plan: &Plan,
        from: usize,
        to: usize,
        run: impl Fn(&mut Part<T>, &[T], &mut [T]) + Sync,
    ) {
        let (len, output_len) = (plan.image_len(from), plan.image_len(to));
        self.read_flat(plan, from);
        let flat = std::mem::take(&mut self.flat);
        self.write_value(plan, to, |work, number, part, output| {
            let values = flat[number * work.images_per_part() * len..].chunks_exact(len);
            for (values, output) in values.zip(output.chunks_exact_mut(output_len)) {
                run(part, values, output);
            }
        });
        self.flat = flat;
    }

    /// Writes what readers of a value see to `flat`.
    pub(super) fn read_flat(&mut self, plan: &Plan, value: usize) {
        let (stride, len) = (plan.strides[value], plan.image_len(value));
        let piece = self.images_per_part() * len;
        let mut flat = std::mem::take(&mut self.flat);
        flat.resize(self.num_images * len, T::default());
        let mut parts = std::mem::take(&mut self.parts);
        let work = &*self;
        over_parts(self.parallel, &mut parts, &mut flat, piece, |number, _, output| {
            let values = &work.since_part(plan, value, number)[..output.len()];
            T::dispatch(Read { reading: work.reading(plan, value), stride, values, output });
        });
        self.parts = parts;
        self.flat = flat;
    }

    fn conv_forward(&mut self, plan: &Plan, number: usize, from: usize, to: usize, adds_bias: bool, moments: bool) {
        let OperationPlan::Conv(conv) = plan.operations[number] else { return };
        self.write_value(plan, to, |work, part_number, part, output| {
            let kernels = &work.kernels[number];
            part.sums.fill(0.0);
            T::dispatch(ConvForward {
                plan: conv,
                reading: work.reading(plan, from),
                input: work.since_part(plan, from, part_number),
                packed: &kernels.forward,
                bias: adds_bias.then_some(&kernels.bias[..]),
                output,
                scratch: ConvScratch {
                    input: &mut part.input,
                    gradient: &mut part.gradient,
                    tiles: &mut part.tiles,
                    products: &mut part.products,
                },
                moments: moments.then_some(&mut part.sums[..2 * conv.output_stride]),
            });
        });
    }

    fn depthwise_forward(
        &mut self,
        plan: &Plan,
        (number, conv): (usize, DepthwisePlan),
        from: usize,
        to: usize,
        adds_bias: bool,
        moments: bool,
    ) {
        self.write_value(plan, to, |work, part_number, part, output| {
            let kernels = &work.kernels[number];
            part.sums.fill(0.0);
            T::dispatch(DepthwiseForward {
                plan: conv,
                reading: work.reading(plan, from),
                input: work.since_part(plan, from, part_number),
                kernel: &kernels.forward,
                bias: adds_bias.then_some(&kernels.bias[..]),
                output,
                canvas: &mut part.input,
                moments: moments.then_some(&mut part.sums[..2 * conv.pixel]),
            });
        });
    }

    /// Whether a dense layer can read a value as it lies; if not, what readers see is put to `flat`.
    pub(super) fn flatten(&mut self, plan: &Plan, value: usize) -> bool {
        let plain = self.reading(plan, value).is_plain();
        if !plain {
            self.read_flat(plan, value);
        }
        plain
    }

    fn dense_forward(&mut self, plan: &Plan, number: usize, from: usize, to: usize) {
        let OperationPlan::Dense(dense) = plan.operations[number] else { return };
        let plain = self.flatten(plan, from);
        self.write_value(plan, to, |work, part_number, _, output| {
            let kernels = &work.kernels[number];
            let input = if plain { &work.values[from] } else { &work.flat };
            let input = &input[part_number * work.images_per_part() * dense.input_len()..];
            T::dispatch(DenseForward { plan: dense, input, packed: &kernels.forward, bias: &kernels.bias, output });
        });
    }

    fn norm_forward(&mut self, plan: &Plan, parameters: &[T], number: usize, statistics: Statistics) {
        let norm = &plan.program.norms[number];
        match statistics {
            Statistics::Running => self.norms[number].infer(norm, parameters, &self.statistics),
            Statistics::Batch => {
                let (value, stride) = (norm.value, plan.strides[norm.value]);
                let shape = plan.program.values[value].shape;
                if norm.bias.is_none() {
                    // No convolution took the moments on the way.
                    self.write_value(plan, value, |_, _, part, values| {
                        part.sums.fill(0.0);
                        let line = shape.width * stride;
                        T::dispatch(Moments { stride, line, values, sums: &mut part.sums[..2 * stride] });
                    });
                }
                let count = self.num_images * shape.num_pixels();
                self.sum_parts(2 * stride);
                let Self { norms, parts, .. } = self;
                norms[number].train(norm, parameters, &parts[0].sums[..2 * stride], count);
            }
        }
    }

    /// Adds the sums of all parts in use to those of the first.
    pub(super) fn sum_parts(&mut self, len: usize) {
        let in_use = self.num_images.div_ceil(self.images_per_part());
        let (first, others) = self.parts[..in_use].split_at_mut(1);
        for part in others {
            for (sum, &term) in first[0].sums[..len].iter_mut().zip(&part.sums[..len]) {
                *sum += term;
            }
        }
    }

    fn pool_forward(&mut self, plan: &Plan, number: usize, from: usize, to: usize) {
        let OperationPlan::Pool(pool) = plan.operations[number] else { return };
        self.write_value(plan, to, |work, part_number, part, output| {
            let (input, reading) = (work.since_part(plan, from, part_number), work.reading(plan, from));
            T::dispatch(PoolForward { plan: pool, reading, input, output, scratch: &mut part.input });
        });
    }

    fn add_forward(&mut self, plan: &Plan, left: usize, right: usize, to: usize) {
        let stride = plan.strides[to];
        self.write_value(plan, to, |work, number, _, output| {
            let values = [left, right].map(|value| &work.since_part(plan, value, number)[..output.len()]);
            let readings = [left, right].map(|value| work.reading(plan, value));
            T::dispatch(AddReadings { stride, readings, values, output });
        });
    }
}

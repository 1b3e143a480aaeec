//! The way back through a network: from the gradient of its outputs to those of all parameters.

use super::convolution::{ConvBackward, ConvScratch, InputGradient};
use super::dense::{DenseBackward, DenseKernelGradient};
use super::depthwise::{DepthwiseBackward, DepthwisePlan};
use super::elementwise::{ActivateBack, AddBackward, Columns, PullInPlace, PullSums};
use super::group_norm::GroupNormaliseBack;
use super::layer_norm::LayerNormaliseBack;
use super::max_pool::MaxPoolBackward;
use super::plan::{OperationPlan, Plan};
use super::pool::PoolBackward;
use super::response_norm::{CutOffBack, ImageScratch, NormaliseBack};
use super::workspace::{ImageWorkspace, Part, over_pairs, over_parts, over_used_parts};
use crate::network::kernels::Number;
use crate::network::program::{Convolution, Operation};

impl<T: Number> ImageWorkspace<T> {
    /// From the gradient of the last value to those of all parameters, which are added to `gradient`.
    pub(super) fn backward(&mut self, plan: &Plan, parameters: &[T], gradient: &mut [T]) {
        for number in (0..plan.operations.len()).rev() {
            match &plan.program.operations[number] {
                Operation::Conv { from, to, kernel, bias, adds_bias, .. } => {
                    let bias = adds_bias.then_some(&mut gradient[bias.clone()]);
                    match plan.operations[number] {
                        OperationPlan::Depthwise(conv) => {
                            self.depthwise_backward(plan, (number, conv), *from, *to, bias);
                        }
                        _ => self.conv_backward(plan, number, *from, *to, bias),
                    }
                    self.add_conv_gradient(plan, number, &mut gradient[kernel.clone()]);
                    self.release_gradient(*to);
                }
                Operation::Dense { from, to, kernel, bias } => {
                    self.dense_backward(plan, number, *from, *to, &mut gradient[kernel.start..bias.end]);
                    self.release_gradient(*to);
                }
                Operation::BatchNorm { number } => self.norm_backward(plan, *number, gradient),
                Operation::FilterResponseNorm { from, to, scale, offset, epsilon } => {
                    let (gamma, stride) = (&parameters[scale.clone()], plan.strides[*from]);
                    self.image_by_image_back(plan, *from, *to, |part, values, gradient| {
                        let Part { sums, image_sums, coefficients, .. } = part;
                        let scratch = ImageScratch { sums: image_sums, coefficients };
                        let (epsilon, sums) = (*epsilon, &mut sums[..2 * stride]);
                        T::dispatch(NormaliseBack { stride, gamma, epsilon, values, gradient, sums, scratch });
                    });
                    self.add_scale_and_offset(stride, &mut gradient[scale.start..offset.end]);
                }
                Operation::GroupNorm { from, to, scale, offset, groups, epsilon } => {
                    let (gamma, stride) = (&parameters[scale.clone()], plan.strides[*from]);
                    let (group_len, epsilon) = (gamma.len() / groups, *epsilon);
                    self.image_by_image_back(plan, *from, *to, |part, values, gradient| {
                        let Part { sums, image_sums, coefficients, .. } = part;
                        let scratch = ImageScratch { sums: image_sums, coefficients };
                        let sums = &mut sums[..2 * stride];
                        let back =
                            GroupNormaliseBack { stride, group_len, gamma, epsilon, values, gradient, sums, scratch };
                        T::dispatch(back);
                    });
                    self.add_scale_and_offset(stride, &mut gradient[scale.start..offset.end]);
                }
                Operation::LayerNorm { from, to, scale, offset, epsilon } => {
                    let (own, stride, epsilon) = (&parameters[scale.clone()], plan.strides[*from], *epsilon);
                    self.image_by_image_back(plan, *from, *to, |part, values, gradient| {
                        part.padded(own, stride);
                        let Part { sums, coefficients, .. } = part;
                        let (channels, gamma, sums) = (own.len(), &coefficients[..stride], &mut sums[..2 * stride]);
                        T::dispatch(LayerNormaliseBack { stride, channels, gamma, epsilon, values, gradient, sums });
                    });
                    self.add_scale_and_offset(stride, &mut gradient[scale.start..offset.end]);
                }
                Operation::Threshold { from, to, threshold } => {
                    let (tau, stride) = (&parameters[threshold.clone()], plan.strides[*from]);
                    self.image_by_image_back(plan, *from, *to, |part, values, gradient| {
                        part.padded(tau, stride);
                        let Part { sums, coefficients: threshold, .. } = part;
                        let sums = &mut sums[..stride];
                        T::dispatch(CutOffBack { stride, threshold, values, gradient, sums });
                    });
                    let sums = self.parts[0].sums.iter();
                    for (gradient, &sum) in gradient[threshold.clone()].iter_mut().zip(sums) {
                        *gradient += T::from_f64(sum);
                    }
                }
                Operation::Activation { from, to, by } => {
                    self.pull_in_place(plan, *to);
                    if by.reads_again() {
                        self.read_flat(plan, *from);
                    }
                    self.write_gradient(plan, *to, |work, number, _, gradient| {
                        let known = if by.reads_again() { &work.flat } else { &work.values[*to] };
                        let known = &known[number * work.images_per_part() * plan.image_len(*to)..][..gradient.len()];
                        T::dispatch(ActivateBack { by: *by, known, gradient });
                    });
                    self.give_gradient(plan, *to, *from);
                    self.release_gradient(*to);
                }
                Operation::Pool { from, to, .. } => {
                    self.pool_backward(plan, number, *from, *to);
                    self.release_gradient(*to);
                }
                Operation::MaxPool { from, to, window } => {
                    self.max_pool_backward(plan, *window, *from, *to);
                    self.release_gradient(*to);
                }
                Operation::Add { left, right, to } => self.add_backward(plan, number, *left, *right, *to),
                Operation::Copy { from, to } => {
                    self.pull_in_place(plan, *to);
                    self.give_gradient(plan, *to, *from);
                    self.release_gradient(*to);
                }
            }
        }
    }

    /// Adds what the parts summed for the scales of a norm, and behind them for its offsets.
    fn add_scale_and_offset(&self, stride: usize, gradient: &mut [T]) {
        let (scale, offset) = gradient.split_at_mut(gradient.len() / 2);
        let (scale_sums, offset_sums) = self.parts[0].sums.split_at(stride);
        for (gradient, sums) in [(scale, scale_sums), (offset, offset_sums)] {
            for (gradient, &sum) in gradient.iter_mut().zip(sums) {
                *gradient += T::from_f64(sum);
            }
        }
    }

    /// The number of a value's batch norm, where operation `number` is the last to add to the value's gradient.
    fn norm_completed_by(&self, plan: &Plan, number: usize, value: usize) -> Option<usize> {
        plan.program.values[value].norm.filter(|_| plan.first_readers[value] == number)
    }

    /// Sums over the parts what they took in passing for a batch norm.
    fn take_norm_sums(&mut self, norm: usize, which: usize) {
        let in_use = self.num_images.div_ceil(self.images_per_part());
        let state = &mut self.norms[norm];
        state.sums.fill(0.0);
        for part in &self.parts[..in_use] {
            for (sum, &term) in state.sums.iter_mut().zip(&part.norm_sums[which]) {
                *sum += term;
            }
        }
        state.has_sums = true;
    }

    /// The gradient of a sum goes to both terms: one takes its place, the other a copy.
    fn add_backward(&mut self, plan: &Plan, number: usize, left: usize, right: usize, to: usize) {
        if left == 0 || right == 0 || left == right || self.has_gradient[left] {
            self.pull_in_place(plan, to);
            self.give_gradient(plan, to, right);
            self.give_gradient(plan, to, left);
            return self.release_gradient(to);
        }
        let (stride, len) = (plan.strides[to], plan.image_len(to));
        let line = plan.program.values[to].shape.width * stride;
        let piece = self.images_per_part() * len;
        let adds = self.has_gradient[right];
        let norms = [left, right].map(|value| self.norm_completed_by(plan, number, value));
        let mut gradient = std::mem::take(&mut self.gradients[to]);
        self.has_gradient[to] = false;
        let mut copy = self.claim_gradient(plan, right);
        let mut parts = std::mem::take(&mut self.parts);
        let work = &*self;
        over_pairs(self.parallel, &mut parts, [&mut gradient, &mut copy], piece, |number, part, gradient, copy| {
            let piece_of = |value: usize| &work.values[value][number * piece..][..gradient.len()];
            let [left_sums, right_sums] = &mut part.norm_sums;
            left_sums.fill(0.0);
            right_sums.fill(0.0);
            T::dispatch(AddBackward {
                stride,
                line,
                pull_back: work.pull_back(plan, to),
                values: piece_of(to),
                terms: [left, right].map(|value| (work.reading(plan, value), piece_of(value))),
                sums: [norms[0].map(|_| &mut left_sums[..2 * stride]), norms[1].map(|_| &mut right_sums[..2 * stride])],
                gradient,
                copy,
                adds,
            });
        });
        self.parts = parts;
        self.set_gradient(left, gradient);
        self.set_gradient(right, copy);
        for (which, norm) in norms.into_iter().enumerate() {
            if let Some(norm) = norm {
                self.take_norm_sums(norm, which);
            }
        }
    }

    /// Adds the gradient of `to` to that of `from`, which has the same shape.
    fn give_gradient(&mut self, plan: &Plan, to: usize, from: usize) {
        if from == 0 {
            return;
        }
        let adds = self.has_gradient[from];
        let mut target = self.claim_gradient(plan, from);
        if adds {
            for (target, &source) in target.iter_mut().zip(&self.gradients[to]) {
                *target += source;
            }
        } else {
            target.copy_from_slice(&self.gradients[to]);
        }
        self.set_gradient(from, target);
    }

    /// Writes or adds to the gradient of a value part by part.
    fn write_gradient(&mut self, plan: &Plan, value: usize, run: impl Fn(&Self, usize, &mut Part<T>, &mut [T]) + Sync) {
        let piece = self.images_per_part() * plan.image_len(value);
        let mut gradient = self.claim_gradient(plan, value);
        let mut parts = std::mem::take(&mut self.parts);
        let work = &*self;
        over_parts(self.parallel, &mut parts, &mut gradient, piece, |number, part, gradient| {
            run(work, number, part, gradient);
        });
        self.parts = parts;
        self.set_gradient(value, gradient);
    }

    /// From the gradient of what readers of a value saw to that of the value itself.
    fn pull_in_place(&mut self, plan: &Plan, value: usize) {
        if self.pull_back(plan, value).is_plain() {
            return;
        }
        let stride = plan.strides[value];
        self.write_gradient(plan, value, |work, number, _, gradients| {
            let values = &work.since_part(plan, value, number)[..gradients.len()];
            T::dispatch(PullInPlace { pull_back: work.pull_back(plan, value), stride, values, gradients });
        });
    }

    fn image_by_image_back(
        &mut self,
        plan: &Plan,
        from: usize,
        to: usize,
        run: impl Fn(&mut Part<T>, &[T], &mut [T]) + Sync,
    ) {
        let (stride, len) = (plan.strides[from], plan.image_len(from));
        self.pull_in_place(plan, to);
        self.read_flat(plan, from);
        let flat = std::mem::take(&mut self.flat);
        self.write_gradient(plan, to, |work, number, part, gradients| {
            part.sums.fill(0.0);
            let values = flat[number * work.images_per_part() * len..].chunks_exact(len);
            for (values, gradients) in values.zip(gradients.chunks_exact_mut(len)) {
                run(part, values, gradients);
            }
        });
        self.flat = flat;
        self.sum_parts(2 * stride);
        self.give_gradient(plan, to, from);
        self.release_gradient(to);
    }

    fn norm_backward(&mut self, plan: &Plan, number: usize, gradient: &mut [T]) {
        let norm = &plan.program.norms[number];
        if !self.norms[number].has_sums {
            self.norm_sums(plan, number);
        }
        self.norms[number].turn_back(norm, gradient);
    }

    /// Σg and Σgz for a batch norm that no operation summed in passing.
    fn norm_sums(&mut self, plan: &Plan, norm: usize) {
        let value = plan.program.norms[norm].value;
        let stride = plan.strides[value];
        let line = plan.program.values[value].shape.width * stride;
        self.write_gradient(plan, value, |work, number, part, gradients| {
            let sums = &mut part.norm_sums[0];
            sums.fill(0.0);
            let values = &work.since_part(plan, value, number)[..gradients.len()];
            let pull_back = work.pull_back(plan, value);
            T::dispatch(PullSums { pull_back, stride, line, values, gradients, sums: &mut sums[..2 * stride] });
        });
        self.take_norm_sums(norm, 0);
    }

    fn conv_backward(&mut self, plan: &Plan, number: usize, from: usize, to: usize, bias: Option<&mut [T]>) {
        let OperationPlan::Conv(conv) = plan.operations[number] else { return };
        let images = self.images_per_part();
        let (piece, from_piece) = (images * plan.image_len(to), images * plan.image_len(from));
        let adds = self.has_gradient[from];
        let norm = self.norm_completed_by(plan, number, from);
        let mut input_gradient = self.claim_gradient(plan, from);
        let mut parts = std::mem::take(&mut self.parts);
        let work = &*self;
        let run = |part_number: usize, part: &mut Part<T>, to_gradient: Option<&mut [T]>| {
            part.sums.fill(0.0);
            part.norm_sums[0].fill(0.0);
            part.kernel_sums[..conv.kernel_len()].fill(T::default());
            let norm_sums = norm.map(|_| &mut part.norm_sums[0][..2 * conv.input_stride]);
            let end = |len: usize, total: usize| (part_number * len + len).min(total);
            let outputs = part_number * piece..end(piece, work.values[to].len());
            T::dispatch(ConvBackward {
                plan: conv,
                reading: work.reading(plan, from),
                input: &work.values[from][part_number * from_piece..end(from_piece, work.values[from].len())],
                pull_back: work.pull_back(plan, to),
                output: &work.values[to][outputs.clone()],
                output_gradient: &work.gradients[to][outputs],
                packed: &work.kernels[number].backward,
                input_gradient: to_gradient.map(|values| InputGradient { values, adds, norm_sums }),
                kernel_sums: &mut part.kernel_sums[..conv.kernel_len()],
                bias_sums: bias.is_some().then_some(&mut part.sums[..conv.output_stride]),
                scratch: ConvScratch {
                    input: &mut part.input,
                    gradient: &mut part.gradient,
                    tiles: &mut part.tiles,
                    products: &mut part.products,
                },
            });
        };
        if conv.has_input_gradient {
            over_parts(self.parallel, &mut parts, &mut input_gradient, from_piece, |number, part, to| {
                run(number, part, Some(to));
            });
        } else {
            over_used_parts(self.parallel, &mut parts, work.num_images.div_ceil(images), |number, part| {
                run(number, part, None);
            });
        }
        self.parts = parts;
        self.set_gradient(from, input_gradient);
        if let Some(norm) = norm {
            self.take_norm_sums(norm, 0);
        }
        if let Some(bias) = bias {
            self.sum_parts(conv.output_stride);
            for (gradient, &sum) in bias.iter_mut().zip(&self.parts[0].sums) {
                *gradient += T::from_f64(sum);
            }
        }
    }

    fn add_conv_gradient(&mut self, plan: &Plan, number: usize, gradient: &mut [T]) {
        let len = match plan.operations[number] {
            OperationPlan::Conv(conv) => conv.kernel_len(),
            OperationPlan::Depthwise(conv) => conv.kernel_len(),
            _ => return,
        };
        let in_use = self.num_images.div_ceil(self.images_per_part());
        let (first, others) = self.parts[..in_use].split_at_mut(1);
        let sums = &mut first[0].kernel_sums[..len];
        for part in others {
            for (sum, &term) in sums.iter_mut().zip(&part.kernel_sums) {
                *sum += term;
            }
        }
        match plan.operations[number] {
            OperationPlan::Depthwise(conv) => conv.add_kernel_gradient(sums, gradient),
            OperationPlan::Conv(conv) => conv.add_kernel_gradient(sums, gradient),
            _ => {}
        }
    }

    fn depthwise_backward(
        &mut self,
        plan: &Plan,
        (number, conv): (usize, DepthwisePlan),
        from: usize,
        to: usize,
        bias: Option<&mut [T]>,
    ) {
        let images = self.images_per_part();
        let (piece, from_piece) = (images * plan.image_len(to), images * plan.image_len(from));
        let adds = self.has_gradient[from];
        let mut input_gradient = self.claim_gradient(plan, from);
        let mut parts = std::mem::take(&mut self.parts);
        let work = &*self;
        let run = |part_number: usize, part: &mut Part<T>, to_gradient: Option<&mut [T]>| {
            part.sums.fill(0.0);
            part.kernel_sums[..conv.kernel_len()].fill(T::default());
            let end = |len: usize, total: usize| (part_number * len + len).min(total);
            let outputs = part_number * piece..end(piece, work.values[to].len());
            T::dispatch(DepthwiseBackward {
                plan: conv,
                reading: work.reading(plan, from),
                input: &work.values[from][part_number * from_piece..end(from_piece, work.values[from].len())],
                pull_back: work.pull_back(plan, to),
                output: &work.values[to][outputs.clone()],
                output_gradient: &work.gradients[to][outputs],
                kernel: &work.kernels[number].forward,
                input_gradient: to_gradient.map(|values| (values, adds)),
                kernel_sums: &mut part.kernel_sums[..conv.kernel_len()],
                bias_sums: bias.is_some().then_some(&mut part.sums[..conv.pixel]),
                scratch: ConvScratch {
                    input: &mut part.input,
                    gradient: &mut part.gradient,
                    tiles: &mut part.tiles,
                    products: &mut part.products,
                },
            });
        };
        if conv.has_input_gradient {
            over_parts(self.parallel, &mut parts, &mut input_gradient, from_piece, |number, part, to| {
                run(number, part, Some(to));
            });
        } else {
            over_used_parts(self.parallel, &mut parts, work.num_images.div_ceil(images), |number, part| {
                run(number, part, None);
            });
        }
        self.parts = parts;
        self.set_gradient(from, input_gradient);
        if let Some(bias) = bias {
            self.sum_parts(conv.pixel);
            for (gradient, &sum) in bias.iter_mut().zip(&self.parts[0].sums) {
                *gradient += T::from_f64(sum);
            }
        }
    }

    fn dense_backward(&mut self, plan: &Plan, number: usize, from: usize, to: usize, gradient: &mut [T]) {
        let OperationPlan::Dense(dense) = plan.operations[number] else { return };
        self.pull_in_place(plan, to);
        let (kernel, bias) = gradient.split_at_mut(gradient.len() - dense.units);
        let plain = self.flatten(plan, from);
        let mut kernel_sums = std::mem::take(&mut self.kernel_sums);
        let mut parts = std::mem::take(&mut self.parts);
        let input = if plain { &self.values[from] } else { &self.flat };
        let output_gradient = &self.gradients[to][..];
        let unpadded = dense.is_unpadded();
        if !unpadded {
            kernel_sums.clear();
            kernel_sums.resize(dense.kernel_len(), T::default());
        }
        let sums = if unpadded { &mut *kernel } else { &mut kernel_sums[..] };
        // Parts of the kernel, not of the batch: each sums over all images.
        let inputs = dense.input_len().div_ceil(parts.len());
        over_parts(self.parallel, &mut parts, sums, inputs * dense.stride, |part, _, sums| {
            let input = &input[part * inputs..];
            T::dispatch(DenseKernelGradient { plan: dense, input, output_gradient, sums });
        });
        if !unpadded {
            dense.add_kernel_gradient(&kernel_sums, kernel);
        }
        let sums = &mut parts[0].sums[..dense.stride];
        sums.fill(0.0);
        T::dispatch(Columns { stride: dense.stride, values: output_gradient, sums });
        for (gradient, &sum) in bias.iter_mut().zip(&*sums) {
            *gradient += T::from_f64(sum);
        }
        self.parts = parts;
        self.kernel_sums = kernel_sums;
        if dense.has_input_gradient {
            let adds = self.has_gradient[from];
            self.write_gradient(plan, from, |work, part, _, input_gradient| {
                let rows = input_gradient.len() / dense.input_len();
                let first = part * work.images_per_part() * dense.stride;
                let output_gradient = &work.gradients[to][first..][..rows * dense.stride];
                let packed = &work.kernels[number].backward;
                T::dispatch(DenseBackward { plan: dense, output_gradient, packed, input_gradient, adds });
            });
        }
    }

    fn max_pool_backward(&mut self, plan: &Plan, window: Convolution, from: usize, to: usize) {
        self.pull_in_place(plan, to);
        if from == 0 {
            return;
        }
        self.read_flat(plan, from);
        let adds = self.has_gradient[from];
        let (stride, len, output_len) = (plan.strides[from], plan.image_len(from), plan.image_len(to));
        self.write_gradient(plan, from, |work, number, part, gradients| {
            if !adds {
                gradients.fill(T::default());
            }
            let first = number * work.images_per_part();
            let values = work.flat[first * len..].chunks_exact(len);
            let maxima = work.values[to][first * output_len..].chunks_exact(output_len);
            let output_gradients = work.gradients[to][first * output_len..].chunks_exact(output_len);
            let images = gradients.chunks_exact_mut(len).zip(values);
            for ((input_gradient, values), (maxima, output_gradient)) in images.zip(maxima.zip(output_gradients)) {
                let rest = &mut part.coefficients[..stride];
                T::dispatch(MaxPoolBackward { window, stride, values, maxima, output_gradient, input_gradient, rest });
            }
        });
    }

    fn pool_backward(&mut self, plan: &Plan, number: usize, from: usize, to: usize) {
        let OperationPlan::Pool(pool) = plan.operations[number] else { return };
        self.pull_in_place(plan, to);
        if from == 0 {
            return;
        }
        let adds = self.has_gradient[from];
        self.write_gradient(plan, from, |work, part, _, input_gradient| {
            let output_gradient = &work.gradients[to][part * work.images_per_part() * plan.image_len(to)..];
            T::dispatch(PoolBackward { plan: pool, output_gradient, input_gradient, adds });
        });
    }
}

//! The evaluator for images (and any other network): operation by operation on a whole batch.
//!
//! Values lie as rows of pixels, channels innermost and padded to whole vectors. Batch norm and ReLU are done where the
//! next operation reads ([`reading`]), convolutions and dense layers are two products ([`super::kernels`]), and a batch is
//! worked on in parts that do not depend on the number of threads ([`workspace`]). Everything is generic over f32 and
//! f64: the f64 form is the reference.

mod backward;
mod batch_norm;
mod conv_plan;
mod convolution;
mod dense;
mod depthwise;
mod elementwise;
mod forward;
mod group_norm;
mod layer_norm;
mod max_pool;
mod plan;
mod pool;
mod reading;
mod response_norm;
#[cfg(test)]
mod tests;
mod winograd;
mod workspace;

use std::sync::Arc;

use self::forward::Statistics;
use self::plan::Plan;
pub use self::workspace::ImageWorkspace;
use super::inputs::{ImageRows, Pixels, Rows};
use super::kernels::Number;
use super::program::Program;
use super::{Mode, OutputGradient, Shape, Weights};
use crate::data::{Inputs, Pixel, Placement, write_augmented};

/// A network ready to be evaluated on batches of images.
#[derive(Clone, Debug)]
pub struct ImageStack {
    plan: Plan,
}

/// What the f64 reference found.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Outputs, row-major.
    pub outputs: Vec<f64>,
    /// ∂(what was differentiated)/∂parameters, summed over rows.
    pub gradient: Vec<f64>,
    /// Means and variances of the batch, laid out as the network's statistics.
    pub batch_statistics: Vec<f64>,
}

impl ImageStack {
    /// Images of a batch where all rows are visited.
    pub const BATCH: usize = 128;

    pub(super) fn new(program: Arc<Program>) -> Self {
        Self { plan: Plan::new(program) }
    }

    /// Room for passes; `parallel` spreads each batch over threads.
    pub(super) fn workspace(&self, parallel: bool) -> ImageWorkspace<f32> {
        ImageWorkspace::new(&self.plan, parallel)
    }

    pub(super) fn prepare(&self, inputs: &Inputs) -> ImageRows {
        let num_rows = inputs.len() / self.plan.program.values[0].shape.len();
        let pixels = match inputs {
            Inputs::Numbers(numbers) => Pixels::Numbers(Arc::clone(numbers)),
            Inputs::Bytes(bytes) => Pixels::Bytes(Arc::clone(bytes)),
        };
        ImageRows { pixels, num_rows }
    }

    /// Batches of a pass: listed rows are one where batch norm takes their statistics.
    fn batch_len(&self, rows: Rows<'_>, mode: Mode<'_>, count: usize) -> usize {
        let is_one = mode == Mode::Training && !self.plan.program.norms.is_empty() && !matches!(rows, Rows::All);
        if is_one { count.max(1) } else { Self::BATCH }
    }

    /// Copies images `first..first + count` of a pass to the first value.
    fn gather(&self, inputs: &ImageRows, rows: Rows<'_>, first: usize, count: usize, work: &mut ImageWorkspace<f32>) {
        let shape = self.plan.program.values[0].shape;
        let (stride, len) = (self.plan.strides[0], shape.len());
        let to = work.values[0].chunks_exact_mut(shape.num_pixels() * stride);
        for (position, to) in (first..first + count).zip(to) {
            let row = rows.listed().map_or(position, |list| list[position] as usize);
            let place = row * len..(row + 1) * len;
            let placement = match rows {
                Rows::Augmented { augmentation, key, .. } => Some(augmentation.placement(&key, position)),
                Rows::All | Rows::These(_) => None,
            };
            match &inputs.pixels {
                Pixels::Numbers(numbers) => place_image(&numbers[place], shape, placement, to, stride),
                Pixels::Bytes(bytes) => place_image(&bytes[place], shape, placement, to, stride),
            }
        }
    }

    pub(super) fn outputs(
        &self,
        weights: Weights<'_>,
        inputs: &ImageRows,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut ImageWorkspace<f32>,
    ) {
        work.take_kernels(&self.plan, weights.parameters, false);
        work.statistics.copy_from_slice(weights.statistics);
        let units = self.plan.program.output().len();
        for (batch, outputs) in outputs.chunks_mut(Self::BATCH * units).enumerate() {
            let count = outputs.len() / units;
            work.fit(&self.plan, count);
            self.gather(inputs, rows, batch * Self::BATCH, count, work);
            work.forward(&self.plan, weights.parameters, Statistics::Running);
            work.take_outputs(&self.plan);
            outputs.copy_from_slice(&work.outputs);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a gradient is a function of exactly these")]
    pub(super) fn gradient(
        &self,
        parameters: &[f32],
        inputs: &ImageRows,
        rows: Rows<'_>,
        mode: Mode<'_>,
        head: &mut dyn OutputGradient,
        gradient: &mut [f32],
        work: &mut ImageWorkspace<f32>,
    ) {
        work.take_kernels(&self.plan, parameters, true);
        let statistics = work.take_statistics(mode);
        gradient.fill(0.0);
        let num_rows = rows.count(inputs.num_rows);
        let batch_len = self.batch_len(rows, mode, num_rows);
        for first in (0..num_rows).step_by(batch_len) {
            let count = batch_len.min(num_rows - first);
            work.fit(&self.plan, count);
            self.gather(inputs, rows, first, count, work);
            work.forward(&self.plan, parameters, statistics);
            work.take_outputs(&self.plan);
            head.differentiate(first, &mut work.outputs);
            work.give_outputs(&self.plan);
            work.backward(&self.plan, parameters, gradient);
        }
    }

    pub(super) fn update_statistics(&self, work: &ImageWorkspace<f32>, statistics: &mut [f32]) {
        for (norm, state) in self.plan.program.norms.iter().zip(&work.norms) {
            state.update(norm, statistics);
        }
    }

    /// Those of the batch alone.
    pub(super) fn batch_statistics(&self, work: &ImageWorkspace<f32>, statistics: &mut [f32]) {
        for (norm, state) in self.plan.program.norms.iter().zip(&work.norms) {
            state.batch_statistics(norm, statistics);
        }
    }

    /// The reference, in f64: one batch of inputs, and the gradient of what `differentiate` makes of its outputs.
    /// `statistics` are running ones; without them batch norm uses the batch's own.
    pub fn reference(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        statistics: Option<&[f64]>,
        differentiate: impl FnOnce(&mut [f64]),
    ) -> Reference {
        let shape = self.plan.program.values[0].shape;
        let stride = self.plan.strides[0];
        let mut work = ImageWorkspace::<f64>::new(&self.plan, false);
        work.fit(&self.plan, inputs.len() / shape.len());
        work.take_kernels(&self.plan, parameters, true);
        for (from, to) in inputs.chunks_exact(shape.channels).zip(work.values[0].chunks_exact_mut(stride)) {
            to[..shape.channels].copy_from_slice(from);
        }
        let mode = match statistics {
            Some(statistics) => {
                work.statistics.copy_from_slice(statistics);
                Statistics::Running
            }
            None => Statistics::Batch,
        };
        work.forward(&self.plan, parameters, mode);
        work.take_outputs(&self.plan);
        let outputs = work.outputs.clone();
        differentiate(&mut work.outputs);
        work.give_outputs(&self.plan);
        let mut gradient = vec![0.0; parameters.len()];
        work.backward(&self.plan, parameters, &mut gradient);
        let mut batch_statistics = vec![0.0; self.plan.program.statistics.len()];
        for (norm, state) in self.plan.program.norms.iter().zip(&work.norms) {
            state.batch_statistics(norm, &mut batch_statistics);
        }
        Reference { outputs, gradient, batch_statistics }
    }
}

/// Writes an image as it is, or as augmentation places it.
fn place_image<P: Pixel>(image: &[P], shape: Shape, placement: Option<Placement>, to: &mut [f32], stride: usize) {
    if let Some(placement) = placement {
        return write_augmented(image, shape, placement, to, stride);
    }
    for (from, to) in image.chunks_exact(shape.channels).zip(to.chunks_exact_mut(stride)) {
        for (to, &pixel) in to.iter_mut().zip(from) {
            *to = pixel.number();
        }
    }
}

impl ImageWorkspace<f32> {
    fn take_statistics(&mut self, mode: Mode<'_>) -> Statistics {
        match mode {
            Mode::Training => Statistics::Batch,
            Mode::Inference(statistics) => {
                self.statistics.copy_from_slice(statistics);
                Statistics::Running
            }
        }
    }
}

impl<T: Number> ImageWorkspace<T> {
    /// Copies the last value without its padding.
    fn take_outputs(&mut self, plan: &Plan) {
        let (units, stride) = (plan.program.output().len(), plan.strides[plan.strides.len() - 1]);
        let Some(last) = self.values.last() else { return };
        for (to, from) in self.outputs.chunks_exact_mut(units).zip(last.chunks_exact(stride)) {
            to.copy_from_slice(&from[..units]);
        }
    }

    /// Takes the gradient of the outputs for that of the last value.
    fn give_outputs(&mut self, plan: &Plan) {
        let (units, stride) = (plan.program.output().len(), plan.strides[plan.strides.len() - 1]);
        let last = plan.strides.len() - 1;
        let mut gradient = self.claim_gradient(plan, last);
        for (from, to) in self.outputs.chunks_exact(units).zip(gradient.chunks_exact_mut(stride)) {
            to[..units].copy_from_slice(from);
            to[units..].fill(T::default());
        }
        self.set_gradient(last, gradient);
    }
}

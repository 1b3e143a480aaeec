//! Everything a pass writes to: values, gradients, packed kernels, and the scratch of each part of a batch.

use rayon::prelude::*;

use super::batch_norm::NormState;
use super::plan::{OperationPlan, Plan};
use super::reading::{PullBack, Reading};
use crate::network::kernels::Number;

/// A batch is cut into at most this many parts, whatever the number of threads: sums over images are taken part by
/// part, so that results do not depend on the threads.
const NUM_PARTS: usize = 8;

/// What a pass writes to; made once, grown to the largest batch.
#[derive(Debug)]
pub struct ImageWorkspace<T> {
    pub(super) values: Vec<Vec<T>>,
    /// Of values that have one so far, empty for others.
    pub(super) gradients: Vec<Vec<T>>,
    pub(super) has_gradient: Vec<bool>,
    /// Gradients that are no longer needed: few are at a time, and few stay in cache.
    spare: Vec<Vec<T>>,
    pub(super) norms: Vec<NormState<T>>,
    /// The kernels of each operation.
    pub(super) kernels: Vec<Kernels<T>>,
    pub(super) parts: Vec<Part<T>>,
    /// Inputs of a dense layer as they are read.
    pub(super) flat: Vec<T>,
    /// The gradient of a padded dense kernel.
    pub(super) kernel_sums: Vec<T>,
    /// Outputs without padding, then their gradient.
    pub(super) outputs: Vec<T>,
    /// Statistics of an inference pass.
    pub(super) statistics: Vec<T>,
    pub(super) num_images: usize,
    /// Whether the parts of a batch are spread over threads.
    pub(super) parallel: bool,
}

/// A kernel as products read it.
#[derive(Debug, Default)]
pub(super) struct Kernels<T> {
    pub forward: Vec<T>,
    pub backward: Vec<T>,
    pub bias: Vec<T>,
}

/// Scratch of one part of a batch.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub input: Vec<T>,
    pub gradient: Vec<T>,
    pub tiles: Vec<T>,
    pub products: Vec<T>,
    pub kernel_sums: Vec<T>,
    pub sums: Vec<f64>,
    /// Sums for the batch norms of the values that an operation reads.
    pub norm_sums: [Vec<f64>; 2],
    /// Sums and coefficients of one image.
    pub image_sums: Vec<f64>,
    pub coefficients: Vec<T>,
}

impl<T: Number> Part<T> {
    /// One number for each channel, with zeros for the padding.
    pub fn padded(&mut self, channels: &[T], stride: usize) -> &[T] {
        let padded = &mut self.coefficients[..stride];
        padded.fill(T::default());
        padded[..channels.len()].copy_from_slice(channels);
        padded
    }
}

impl<T: Number> ImageWorkspace<T> {
    pub(super) fn new(plan: &Plan, parallel: bool) -> Self {
        let program = &plan.program;
        let [input, gradient, kernel_sums, tiles] = plan.largest_scratch();
        let widest = plan.strides.iter().copied().max().unwrap_or(0);
        let part = || Part {
            input: vec![T::default(); input],
            gradient: vec![T::default(); gradient],
            tiles: vec![T::default(); tiles],
            products: vec![T::default(); tiles],
            kernel_sums: vec![T::default(); kernel_sums],
            sums: vec![0.0; 2 * widest],
            norm_sums: std::array::from_fn(|_| vec![0.0; 2 * widest]),
            image_sums: vec![0.0; 4 * widest],
            coefficients: vec![T::default(); 3 * widest],
        };
        let kernels = plan.operations.iter().map(|operation| {
            let (forward, backward, bias) = match operation {
                OperationPlan::Conv(conv) => (conv.kernel_len(), conv.back_kernel_len(), conv.output_stride),
                OperationPlan::Depthwise(conv) => (conv.kernel_len(), 0, conv.pixel),
                OperationPlan::Dense(dense) => (dense.kernel_len(), dense.back_kernel_len(), dense.stride),
                OperationPlan::Pool(_) | OperationPlan::Other => (0, 0, 0),
            };
            let zeros = |len: usize| vec![T::default(); len];
            Kernels { forward: zeros(forward), backward: zeros(backward), bias: zeros(bias) }
        });
        let norms = program
            .norms
            .iter()
            .map(|norm| NormState::new(program.values[norm.value].shape.channels, plan.strides[norm.value]));
        Self {
            values: vec![Vec::new(); program.values.len()],
            gradients: vec![Vec::new(); program.values.len()],
            has_gradient: vec![false; program.values.len()],
            spare: Vec::new(),
            norms: norms.collect(),
            kernels: kernels.collect(),
            parts: (0..NUM_PARTS).map(|_| part()).collect(),
            flat: Vec::new(),
            kernel_sums: Vec::new(),
            outputs: Vec::new(),
            statistics: vec![T::default(); program.statistics.len()],
            num_images: 0,
            parallel,
        }
    }

    /// Makes room for a batch.
    pub(super) fn fit(&mut self, plan: &Plan, num_images: usize) {
        if num_images != self.num_images {
            self.spare.clear();
        }
        self.num_images = num_images;
        for (number, value) in self.values.iter_mut().enumerate() {
            value.resize(num_images * plan.image_len(number), T::default());
        }
        self.outputs.resize(num_images * plan.program.output().len(), T::default());
    }

    /// The gradient of a value, to be added to or, where it has none yet, to be written.
    pub(super) fn claim_gradient(&mut self, plan: &Plan, value: usize) -> Vec<T> {
        if self.has_gradient[value] || value == 0 {
            return std::mem::take(&mut self.gradients[value]);
        }
        let len = self.num_images * plan.image_len(value);
        match self.spare.iter().position(|spare| spare.len() == len) {
            Some(at) => self.spare.swap_remove(at),
            None => vec![T::default(); len],
        }
    }

    /// Gives a claimed gradient back.
    pub(super) fn set_gradient(&mut self, value: usize, gradient: Vec<T>) {
        self.gradients[value] = gradient;
        self.has_gradient[value] = value != 0;
    }

    /// The gradient of a value has been passed on.
    pub(super) fn release_gradient(&mut self, value: usize) {
        if self.has_gradient[value] {
            self.spare.push(std::mem::take(&mut self.gradients[value]));
            self.has_gradient[value] = false;
        }
    }

    /// Images of a part.
    pub(super) fn images_per_part(&self) -> usize {
        self.num_images.div_ceil(NUM_PARTS).max(1)
    }

    /// How readers see a value.
    pub(super) fn reading(&self, plan: &Plan, value: usize) -> Reading<'_, T> {
        let read = plan.program.values[value];
        Reading { norm: read.norm.map(|number| self.norms[number].affine()), relu: read.relu }
    }

    /// The way back through the reading of a value.
    pub(super) fn pull_back(&self, plan: &Plan, value: usize) -> PullBack<'_, T> {
        let slopes = plan.program.values[value].norm.map(|number| self.norms[number].slopes());
        PullBack { reading: self.reading(plan, value), slopes }
    }
}

/// Runs `work` on each part with its piece of `to`, on threads if `parallel`.
pub(super) fn over_parts<T: Number>(
    parallel: bool,
    parts: &mut [Part<T>],
    to: &mut [T],
    piece: usize,
    work: impl Fn(usize, &mut Part<T>, &mut [T]) + Sync,
) {
    if parallel {
        let pieces = parts.par_iter_mut().zip(to.par_chunks_mut(piece));
        pieces.enumerate().for_each(|(number, (part, to))| work(number, part, to));
    } else {
        for (number, (part, to)) in parts.iter_mut().zip(to.chunks_mut(piece)).enumerate() {
            work(number, part, to);
        }
    }
}

/// Runs `work` on the first `count` parts, on threads if `parallel`.
pub(super) fn over_used_parts<T: Number>(
    parallel: bool,
    parts: &mut [Part<T>],
    count: usize,
    work: impl Fn(usize, &mut Part<T>) + Sync,
) {
    if parallel {
        parts[..count].par_iter_mut().enumerate().for_each(|(number, part)| work(number, part));
    } else {
        parts[..count].iter_mut().enumerate().for_each(|(number, part)| work(number, part));
    }
}

/// Runs `work` on each part with its pieces of two values of the same shape, on threads if `parallel`.
pub(super) fn over_pairs<T: Number>(
    parallel: bool,
    parts: &mut [Part<T>],
    to: [&mut [T]; 2],
    piece: usize,
    work: impl Fn(usize, &mut Part<T>, &mut [T], &mut [T]) + Sync,
) {
    let [first, second] = to;
    if parallel {
        let pieces = parts.par_iter_mut().zip(first.par_chunks_mut(piece)).zip(second.par_chunks_mut(piece));
        pieces.enumerate().for_each(|(number, ((part, first), second))| work(number, part, first, second));
    } else {
        let pieces = parts.iter_mut().zip(first.chunks_mut(piece)).zip(second.chunks_mut(piece));
        pieces.enumerate().for_each(|(number, ((part, first), second))| work(number, part, first, second));
    }
}

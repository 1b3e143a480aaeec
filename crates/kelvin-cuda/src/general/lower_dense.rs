//! Dense layers as launches, forward and backward: products on the tensor cores, and the kernels of layers of few units.

use super::arguments::{Downstream, Product, SmallDense, SmallDenseBackward};
use super::block_size::THREADS;
use super::dense_kernels::{DenseProduct, DenseShape};
use super::fast::FastDense;
use super::lower::Lowering;
use super::small_dense::{SmallDenseKernels, TOGETHER, num_splits};
use crate::gpu::device::{Kernel, Launch};

impl Lowering<'_> {
    fn product(&mut self, shape: &DenseShape, kernel: Kernel, which: DenseProduct, arguments: &Product) {
        let tiles = DenseShape::num_tiles(arguments.rows, arguments.columns);
        let grid = [tiles, self.group.num_chains, arguments.num_splits.max(1)];
        let (threads, shared) = (shape.num_threads(which), shape.shared_bytes(which));
        self.launches.push(Launch::new(kernel, grid, threads, shared, arguments));
    }

    /// A dense layer's forward pass.
    pub(super) fn fast_dense(&mut self, fast: &FastDense, from: usize, to: usize, kernel: usize, bias: usize) {
        let (inputs, units) = (self.plan.len(from), self.plan.len(to));
        let arguments = Product {
            a: self.memory.value(from),
            b: self.weight(kernel),
            c: self.memory.value(to),
            bias: self.parameter(bias),
            a_stride: self.count(from) as u64,
            b_stride: self.parameter_stride(),
            c_stride: self.count(to) as u64,
            bias_stride: self.parameter_stride(),
            rows: self.num_images,
            columns: units as u32,
            depth: inputs as u32,
            ..Product::default()
        };
        self.product(&fast.shape, fast.forward, DenseProduct::Forward, &arguments);
    }

    /// A dense layer's backward pass.
    pub(super) fn fast_dense_backward(&mut self, fast: &FastDense, from: usize, to: usize, kernel: usize, bias: usize) {
        let (inputs, units) = (self.plan.len(from), self.plan.len(to));
        let gradient = self.gradient(to);
        let weights = Product {
            a: self.memory.value(from),
            b: gradient,
            c: self.sums(kernel),
            a_stride: self.count(from) as u64,
            b_stride: self.count(to) as u64,
            c_stride: (inputs * units) as u64,
            rows: inputs as u32,
            columns: units as u32,
            depth: self.num_images,
            num_splits: fast.shape.num_splits(self.num_images as usize) as u32,
            column_sums: self.sums(bias),
            ..Product::default()
        };
        self.product(&fast.shape, fast.weights, DenseProduct::Weights, &weights);
        let Some(kernel_of_input) = fast.input else { return };
        let input = Product {
            a: gradient,
            b: self.weight(kernel),
            c: self.downstream(from).gradient,
            mask: self.memory.value(from),
            a_stride: self.count(to) as u64,
            b_stride: self.parameter_stride(),
            c_stride: self.count(from) as u64,
            rows: self.num_images,
            columns: inputs as u32,
            depth: units as u32,
            ..Product::default()
        };
        self.product(&fast.shape, kernel_of_input, DenseProduct::Input, &input);
    }

    /// The forward pass of a layer of few units, a warp an image.
    pub(super) fn small_dense(
        &mut self,
        kernels: &SmallDenseKernels,
        from: usize,
        to: usize,
        kernel: usize,
        bias: usize,
    ) {
        let arguments = SmallDense {
            input: self.reading(from),
            kernel: self.weight(kernel),
            bias: self.parameter(bias),
            output: self.memory.value(to),
            parameter_stride: self.parameter_stride(),
        };
        let grid = [self.num_images.div_ceil(THREADS as u32 / 32), self.group.num_chains, 1];
        let shared = THREADS * (self.plan.len(to) | 1) * size_of::<f32>();
        self.launches.push(Launch::new(kernels.forward, grid, THREADS as u32, shared as u32, &arguments));
    }

    /// The whole backward pass of a layer of few units.
    pub(super) fn small_dense_backward(
        &mut self,
        kernels: &SmallDenseKernels,
        from: usize,
        to: usize,
        kernel: usize,
        bias: usize,
    ) {
        let (inputs, units) = (self.plan.len(from), self.plan.len(to));
        let num_splits = num_splits(self.num_images as usize) as u32;
        let arguments = SmallDenseBackward {
            output: self.upstream(to),
            input: self.reading(from),
            to: if from == 0 { Downstream::default() } else { self.downstream(from) },
            kernel: self.weight(kernel),
            kernel_sums: self.sums(kernel),
            bias_sums: self.sums(bias),
            parameter_stride: self.parameter_stride(),
            num_splits,
            images_per_split: self.num_images.div_ceil(num_splits),
        };
        let threads = inputs.next_multiple_of(32).min(THREADS);
        let grid = [num_splits, self.group.num_chains, inputs.div_ceil(threads) as u32];
        let shared = (TOGETHER * units + threads * (units | 1)) * size_of::<f32>();
        self.launches.push(Launch::new(kernels.backward, grid, threads as u32, shared as u32, &arguments));
    }
}

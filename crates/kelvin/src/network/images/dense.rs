//! Dense layers on a batch: rows of flattened images times a matrix, in blocks that stay in cache.

use pulp::{Simd, WithSimd};

use crate::network::kernels::{Factors, Lines, Number, Results, Start, pack};

/// Inputs whose products are summed before the next block's.
const DEPTH: usize = 448;

/// A dense layer with its padded sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DensePlan {
    /// Pixels of an input, numbers of a pixel, and the same with padding.
    pub num_pixels: usize,
    pub channels: usize,
    pub pixel_stride: usize,
    pub units: usize,
    pub stride: usize,
    /// Whether anything stands before it that wants a gradient.
    pub has_input_gradient: bool,
}

impl DensePlan {
    /// Numbers of an input row, padding included.
    pub fn input_len(&self) -> usize {
        self.num_pixels * self.pixel_stride
    }

    pub fn kernel_len(&self) -> usize {
        self.input_len() * self.stride
    }

    /// Numbers of the transposed kernel.
    pub fn back_kernel_len(&self) -> usize {
        if self.has_input_gradient { self.kernel_len() } else { 0 }
    }

    /// Whether the gradient of the kernel has the shape of the kernel itself.
    pub fn is_unpadded(&self) -> bool {
        self.pixel_stride == self.channels && self.units == self.stride
    }

    /// The row of the kernel that an input multiplies, if it is no padding.
    fn kernel_row(&self, input: usize) -> Option<usize> {
        let (pixel, channel) = (input / self.pixel_stride, input % self.pixel_stride);
        (channel < self.channels).then_some(pixel * self.channels + channel)
    }

    /// Lays out the kernel, block after block of inputs.
    pub fn pack_kernel<T: Number>(&self, kernel: &[T], packed: &mut [T]) {
        let blocks = packed.chunks_mut(DEPTH * self.stride).enumerate();
        for (block, packed) in blocks {
            pack(packed.len() / self.stride, self.stride, packed, |k, unit| match self.kernel_row(block * DEPTH + k) {
                Some(row) if unit < self.units => kernel[row * self.units + unit],
                _ => T::default(),
            });
        }
    }

    /// Lays out the transposed kernel.
    pub fn pack_back_kernel<T: Number>(&self, kernel: &[T], packed: &mut [T]) {
        if !self.has_input_gradient {
            return;
        }
        pack(self.stride, self.input_len(), packed, |unit, input| match self.kernel_row(input) {
            Some(row) if unit < self.units => kernel[row * self.units + unit],
            _ => T::default(),
        });
    }

    /// Adds sums in the padded shape to the gradient of the kernel.
    pub fn add_kernel_gradient<T: Number>(&self, sums: &[T], gradient: &mut [T]) {
        for (input, sums) in sums.chunks_exact(self.stride).enumerate() {
            let Some(row) = self.kernel_row(input) else { continue };
            for (gradient, &sum) in gradient[row * self.units..][..self.units].iter_mut().zip(sums) {
                *gradient += sum;
            }
        }
    }
}

/// outputs = bias + inputs · kernel, for some rows.
pub(super) struct DenseForward<'a, T> {
    pub plan: DensePlan,
    pub input: &'a [T],
    pub packed: &'a [T],
    pub bias: &'a [T],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for DenseForward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, input, packed, bias, output } = self;
        let (len, num_columns) = (plan.input_len(), plan.stride);
        let num_rows = output.len() / num_columns;
        for (block, packed) in packed[..plan.kernel_len()].chunks(DEPTH * num_columns).enumerate() {
            let start = if block == 0 { Start::Row(bias) } else { Start::Results };
            let piece_len = packed.len() / num_columns;
            let values = &input[block * DEPTH..];
            let from = Factors { values, step: len, num_pieces: 1, piece_stride: 0, piece_len };
            let to = Results { values: &mut *output, step: num_columns, num_rows, num_columns };
            T::product(simd, from, packed, start, to);
        }
    }
}

/// Gradients of the inputs of some rows: output gradients · kernelᵀ.
pub(super) struct DenseBackward<'a, T> {
    pub plan: DensePlan,
    pub output_gradient: &'a [T],
    pub packed: &'a [T],
    pub input_gradient: &'a mut [T],
    pub adds: bool,
}

impl<T: Number> WithSimd for DenseBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, output_gradient, packed, input_gradient, adds } = self;
        let (step, num_columns) = (plan.stride, plan.input_len());
        let num_rows = output_gradient.len() / step;
        let from = Factors { values: output_gradient, step, num_pieces: 1, piece_stride: 0, piece_len: step };
        let to = Results { values: input_gradient, step: num_columns, num_rows, num_columns };
        T::product(simd, from, packed, if adds { Start::Results } else { Start::Zero }, to);
    }
}

/// Adds inputsᵀ · output gradients of all rows to some rows of the kernel's gradient.
pub(super) struct DenseKernelGradient<'a, T> {
    pub plan: DensePlan,
    /// From the first of these inputs on.
    pub input: &'a [T],
    pub output_gradient: &'a [T],
    pub sums: &'a mut [T],
}

impl<T: Number> WithSimd for DenseKernelGradient<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        /// Inputs whose rows stay in the first cache while the columns pass by.
        const INPUTS_TOGETHER: usize = 16;
        let Self { plan, input, output_gradient, sums } = self;
        let stride = plan.stride;
        let num_rows = output_gradient.len() / stride;
        for (block, values) in sums.chunks_mut(INPUTS_TOGETHER * stride).enumerate() {
            let factors = &input[block * INPUTS_TOGETHER..];
            let factors = Lines { values: factors, step: plan.input_len(), line_stride: 0 };
            let terms = Lines { values: output_gradient, step: stride, line_stride: 0 };
            let num_inputs = values.len() / stride;
            let to = Results { values, step: stride, num_rows: num_inputs, num_columns: stride };
            T::add_outer(simd, factors, terms, 1, num_rows, to);
        }
    }
}

//! Readings, sums and their ways back as jobs for the widest vectors.

use pulp::{Simd, WithSimd};

use super::kernels::Number;
use super::reading::{PullBack, Reading, add_columns, add_moments};

/// Writes what readers see.
pub(super) struct Read<'a, T> {
    pub reading: Reading<'a, T>,
    pub stride: usize,
    pub values: &'a [T],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for Read<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.reading.read(self.stride, self.values, self.output);
    }
}

/// Writes the sum of what readers of two values see.
pub(super) struct AddReadings<'a, T> {
    pub stride: usize,
    pub readings: [Reading<'a, T>; 2],
    pub values: [&'a [T]; 2],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for AddReadings<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        /// Numbers of the second value that are read before they are added.
        const BLOCK: usize = 1024;
        let Self { stride, readings, values: [left, right], output } = self;
        let mut block = [T::default(); BLOCK];
        let len = (BLOCK / stride).max(1) * stride;
        if len > BLOCK {
            // Pixels wider than a block are flat rows: read them whole, add the other side number by number.
            readings[0].read(stride, left, output);
            for (pixel, to) in right.chunks_exact(stride).zip(output.chunks_exact_mut(stride)) {
                for channel in 0..stride {
                    to[channel] += readings[1].one(channel, pixel[channel]);
                }
            }
            return;
        }
        for ((left, right), output) in left.chunks(len).zip(right.chunks(len)).zip(output.chunks_mut(len)) {
            let block = &mut block[..right.len()];
            readings[0].read(stride, left, output);
            readings[1].read(stride, right, block);
            for (to, &term) in output.iter_mut().zip(&*block) {
                *to += term;
            }
        }
    }
}

/// Σz and Σz² of each channel.
pub(super) struct Moments<'a, T> {
    pub stride: usize,
    pub line: usize,
    pub values: &'a [T],
    pub sums: &'a mut [f64],
}

impl<T: Number> WithSimd for Moments<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        add_moments(self.stride, self.line, self.values, self.sums);
    }
}

/// Σz of each channel.
pub(super) struct Columns<'a, T> {
    pub stride: usize,
    pub values: &'a [T],
    pub sums: &'a mut [f64],
}

impl<T: Number> WithSimd for Columns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        /// Rows whose sums are taken in single precision.
        const LINE: usize = 32;
        add_columns(self.stride, LINE * self.stride, self.values, self.sums);
    }
}

/// Σg and Σgz of each channel, where the reading was not cut off.
pub(super) struct PullSums<'a, T> {
    pub pull_back: PullBack<'a, T>,
    pub stride: usize,
    pub line: usize,
    pub values: &'a [T],
    pub gradients: &'a [T],
    pub sums: &'a mut [f64],
}

impl<T: Number> WithSimd for PullSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.pull_back.add_sums(self.stride, self.line, self.values, self.gradients, self.sums);
    }
}

/// From the gradient of what readers saw to that of the value.
pub(super) struct PullInPlace<'a, T> {
    pub pull_back: PullBack<'a, T>,
    pub stride: usize,
    pub values: &'a [T],
    pub gradients: &'a mut [T],
}

impl<T: Number> WithSimd for PullInPlace<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.pull_back.pull_in_place(self.stride, self.values, self.gradients);
    }
}

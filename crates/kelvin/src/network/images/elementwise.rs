//! Readings, sums and their ways back as jobs for the widest vectors.

use pulp::{Simd, WithSimd};

use super::kernels::Number;
use super::reading::{PullBack, Reading, add_columns, add_moments, add_readings};

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
    fn with_simd<S: Simd>(self, simd: S) {
        self.reading.read(simd, self.stride, self.values, self.output);
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
    fn with_simd<S: Simd>(self, simd: S) {
        add_readings(simd, self.stride, self.readings, self.values, self.output);
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
    fn with_simd<S: Simd>(self, simd: S) {
        add_moments(simd, self.stride, self.line, self.values, self.sums);
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
    fn with_simd<S: Simd>(self, simd: S) {
        /// Rows whose sums are taken in single precision.
        const LINE: usize = 32;
        add_columns(simd, self.stride, LINE * self.stride, self.values, self.sums);
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
    fn with_simd<S: Simd>(self, simd: S) {
        self.pull_back.add_sums(simd, self.stride, self.line, self.values, self.gradients, self.sums);
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
    fn with_simd<S: Simd>(self, simd: S) {
        self.pull_back.pull_in_place(simd, self.stride, self.values, self.gradients);
    }
}

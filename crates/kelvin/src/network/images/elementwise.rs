//! Readings, sums and their ways back as jobs for the widest vectors.

use pulp::{Simd, WithSimd};

use super::reading::{PullBack, Reading, add_columns, add_moments, add_readings};
use crate::network::activation::{activate, times_slope};
use crate::network::kernels::Number;
use crate::network::layers::Activation;

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

/// Writes what an activation makes of what readers see.
pub(super) struct Activate<'a, T> {
    pub by: Activation,
    pub reading: Reading<'a, T>,
    pub stride: usize,
    pub values: &'a [T],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for Activate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.reading.read(simd, self.stride, self.values, self.output);
        activate(simd, self.by, self.output);
    }
}

/// The way back of an activation.
pub(super) struct ActivateBack<'a, T> {
    pub by: Activation,
    /// What it read or wrote, as [`times_slope`] wants it.
    pub known: &'a [T],
    pub gradient: &'a mut [T],
}

impl<T: Number> WithSimd for ActivateBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        times_slope(simd, self.by, self.known, self.gradient);
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

/// The way back of a sum: `gradient` becomes that of the sum itself and so of one term, `copy` that of the other.
pub(super) struct AddBackward<'a, T> {
    pub stride: usize,
    pub line: usize,
    pub pull_back: PullBack<'a, T>,
    pub values: &'a [T],
    /// How the two terms are read, and their values.
    pub terms: [(Reading<'a, T>, &'a [T]); 2],
    /// Σg and Σgz for the batch norms of the terms whose gradient is complete.
    pub sums: [Option<&'a mut [f64]>; 2],
    pub gradient: &'a mut [T],
    pub copy: &'a mut [T],
    /// Whether the other term has a gradient to add to.
    pub adds: bool,
}

impl<T: Number> WithSimd for AddBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { stride, line, pull_back, values, terms, mut sums, gradient, copy, adds } = self;
        let pieces = gradient.chunks_mut(line).zip(copy.chunks_mut(line));
        for (number, (gradient, copy)) in pieces.enumerate() {
            let place = number * line..number * line + gradient.len();
            pull_back.pull_in_place(simd, stride, &values[place.clone()], gradient);
            if adds {
                let (copy, gradient) = (T::vectors_mut::<S>(copy), T::vectors::<S>(gradient));
                for (to, &from) in copy.iter_mut().zip(gradient) {
                    *to = T::plus(simd, *to, from);
                }
            } else {
                copy.copy_from_slice(gradient);
            }
            for (((reading, values), sums), gradient) in terms.iter().zip(&mut sums).zip([&*gradient, &*copy]) {
                if let Some(sums) = sums {
                    let pull_back = PullBack { reading: *reading, slopes: None };
                    pull_back.add_sums(simd, stride, line, &values[place.clone()], gradient, sums);
                }
            }
        }
    }
}

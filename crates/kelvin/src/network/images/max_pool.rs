//! Maxima over windows of pixels.
//!
//! ```text
//! y[v, u] = max_ij x[s·v + i, s·u + j]      of the pixels inside the image      ∂x: the first that has the maximum gets all of ∂y
//! ```
//! What is not a number is larger than any number.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::network::kernels::Number;
use crate::network::program::Convolution;

/// The pixels of the input that a window sees.
fn seen(window: Convolution, y: usize, x: usize) -> impl Iterator<Item = usize> {
    let Convolution { input, kernel, stride, before: [above, left], .. } = window;
    let inside = |at: usize, before: usize, size: usize| -> Range<usize> {
        (at * stride).saturating_sub(before)..(at * stride + kernel - before).min(size)
    };
    let (rows, columns) = (inside(y, above, input.height), inside(x, left, input.width));
    rows.flat_map(move |row| columns.clone().map(move |column| row * input.width + column))
}

/// Maxima of one image, as it is read.
pub(super) struct MaxPoolForward<'a, T> {
    pub window: Convolution,
    /// Numbers of a pixel, padding included.
    pub stride: usize,
    pub values: &'a [T],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for MaxPoolForward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { window, stride, values, output } = self;
        for (number, maxima) in output.chunks_exact_mut(stride).enumerate() {
            let (y, x) = (number / window.output.width, number % window.output.width);
            for (place, pixel) in seen(window, y, x).enumerate() {
                let pixel = &values[pixel * stride..][..stride];
                if place == 0 {
                    maxima.copy_from_slice(pixel);
                    continue;
                }
                for (maximum, &value) in maxima.iter_mut().zip(pixel) {
                    let is_larger = value > *maximum || value.partial_cmp(&value).is_none();
                    *maximum = if is_larger { value } else { *maximum };
                }
            }
        }
    }
}

/// Gradients of the inputs of one image.
pub(super) struct MaxPoolBackward<'a, T> {
    pub window: Convolution,
    pub stride: usize,
    pub values: &'a [T],
    pub maxima: &'a [T],
    pub output_gradient: &'a [T],
    /// To be added to.
    pub input_gradient: &'a mut [T],
    /// Room for a pixel: the gradient that no pixel has got yet.
    pub rest: &'a mut [T],
}

impl<T: Number> WithSimd for MaxPoolBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { window, stride, values, maxima, output_gradient, input_gradient, rest } = self;
        let pixels = maxima.chunks_exact(stride).zip(output_gradient.chunks_exact(stride));
        for (number, (maxima, gradient)) in pixels.enumerate() {
            rest.copy_from_slice(gradient);
            let (y, x) = (number / window.output.width, number % window.output.width);
            for pixel in seen(window, y, x) {
                let place = pixel * stride..(pixel + 1) * stride;
                let own = values[place.clone()].iter().zip(maxima);
                for ((to, rest), (value, maximum)) in input_gradient[place].iter_mut().zip(&mut *rest).zip(own) {
                    let given = if value == maximum { *rest } else { T::default() };
                    *to += given;
                    *rest = if value == maximum { T::default() } else { *rest };
                }
            }
        }
    }
}

//! Means over rectangles of pixels.

use pulp::{Simd, WithSimd};

use super::reading::Reading;
use crate::network::kernels::Number;
use crate::network::layers::Shape;

/// A pool with its sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolPlan {
    pub input: Shape,
    pub height: usize,
    pub width: usize,
    /// Numbers of a pixel, padding included.
    pub stride: usize,
}

impl PoolPlan {
    fn share<T: Number>(&self) -> T {
        T::from_f64(1.0 / (self.height * self.width) as f64)
    }
}

/// Means of some images.
pub(super) struct PoolForward<'a, T> {
    pub plan: PoolPlan,
    pub reading: Reading<'a, T>,
    pub input: &'a [T],
    pub output: &'a mut [T],
    pub scratch: &'a mut [T],
}

impl<T: Number> WithSimd for PoolForward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, reading, input, output, scratch } = self;
        let (line, out_line) = (plan.input.width * plan.stride, plan.input.width / plan.width * plan.stride);
        let share = plan.share::<T>();
        let scratch = &mut scratch[..line];
        for (lines, output) in input.chunks_exact(plan.height * line).zip(output.chunks_exact_mut(out_line)) {
            output.fill(T::default());
            for line in lines.chunks_exact(line) {
                reading.read(simd, plan.stride, line, scratch);
                let rectangles = scratch.chunks_exact(plan.width * plan.stride);
                for (rectangle, output) in rectangles.zip(output.chunks_exact_mut(plan.stride)) {
                    for pixel in rectangle.chunks_exact(plan.stride) {
                        for (to, &z) in output.iter_mut().zip(pixel) {
                            *to += z * share;
                        }
                    }
                }
            }
        }
    }
}

/// Gradients of the inputs of some images.
pub(super) struct PoolBackward<'a, T> {
    pub plan: PoolPlan,
    pub output_gradient: &'a [T],
    pub input_gradient: &'a mut [T],
    pub adds: bool,
}

impl<T: Number> WithSimd for PoolBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { plan, output_gradient, input_gradient, adds } = self;
        let (line, out_line) = (plan.input.width * plan.stride, plan.input.width / plan.width * plan.stride);
        let share = plan.share::<T>();
        let lines = input_gradient.chunks_exact_mut(plan.height * line);
        for (lines, gradient) in lines.zip(output_gradient.chunks_exact(out_line)) {
            for line in lines.chunks_exact_mut(line) {
                let rectangles = line.chunks_exact_mut(plan.width * plan.stride);
                for (rectangle, gradient) in rectangles.zip(gradient.chunks_exact(plan.stride)) {
                    for pixel in rectangle.chunks_exact_mut(plan.stride) {
                        for (to, &g) in pixel.iter_mut().zip(gradient) {
                            *to = if adds { *to + g * share } else { g * share };
                        }
                    }
                }
            }
        }
    }
}

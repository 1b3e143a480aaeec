//! Depthwise convolutions: each channel has a kernel of its own, so that channels are the lanes of all sums.
//!
//! ```text
//! z[y, x] = Σ_ij W[i, j] · X[s·y + i, s·x + j]       number by number       X: the input, padded
//! ∂W[i, j] = Σ_yx X[s·y + i, s·x + j] · ∂z[y, x]
//! ∂X[s·y + i, s·x + j] += W[i, j] · ∂z[y, x]
//! ```

use pulp::{Simd, WithSimd};

use super::convolution::ConvScratch;
use super::reading::{PullBack, Reading, add_columns, add_moments};
use crate::network::kernels::Number;
use crate::network::program::Convolution;

/// A depthwise convolution with its padded sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepthwisePlan {
    pub sizes: Convolution,
    /// Numbers of a pixel of input and output, padding included.
    pub pixel: usize,
    /// Whether anything stands before it that wants a gradient.
    pub has_input_gradient: bool,
}

impl DepthwisePlan {
    /// Numbers of the padded kernel.
    pub fn kernel_len(&self) -> usize {
        self.sizes.kernel * self.sizes.kernel * self.pixel
    }

    /// Pixels of a line of the padded input, which holds all of the input and all that the kernel reads.
    fn canvas_width(&self) -> usize {
        let Convolution { input, output, kernel, stride, before, .. } = self.sizes;
        ((output.width - 1) * stride + kernel).max(before[1] + input.width)
    }

    /// Numbers of scratch for the input of an image, and for its gradient.
    pub fn canvas_len(&self) -> usize {
        let Convolution { input, output, kernel, stride, before, .. } = self.sizes;
        let height = ((output.height - 1) * stride + kernel).max(before[0] + input.height);
        height * self.canvas_width() * self.pixel
    }

    /// Numbers of scratch for a line of ∂z.
    pub fn line_len(&self) -> usize {
        self.sizes.output.width * self.pixel
    }

    /// Lays out the kernel with its channels padded.
    pub fn pack_kernel<T: Number>(&self, kernel: &[T], packed: &mut [T]) {
        let channels = self.sizes.input.channels;
        for (tap, packed) in kernel.chunks_exact(channels).zip(packed.chunks_exact_mut(self.pixel)) {
            packed[..channels].copy_from_slice(tap);
        }
    }

    /// Adds padded sums to the gradient of the kernel.
    pub fn add_kernel_gradient<T: Number>(&self, sums: &[T], gradient: &mut [T]) {
        let channels = self.sizes.input.channels;
        for (tap, sums) in gradient.chunks_exact_mut(channels).zip(sums.chunks_exact(self.pixel)) {
            for (to, &sum) in tap.iter_mut().zip(sums) {
                *to += sum;
            }
        }
    }

    /// Where line `y` of an image begins on the canvas.
    fn line_at(&self, y: usize) -> usize {
        let [above, left] = self.sizes.before;
        ((y + above) * self.canvas_width() + left) * self.pixel
    }

    /// Where on the canvas tap (i, j) of line `y` of the output begins.
    fn tap_at(&self, y: usize, i: usize, j: usize) -> usize {
        ((y * self.sizes.stride + i) * self.canvas_width() + j) * self.pixel
    }

    /// Every tap with its number.
    fn taps(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let kernel = self.sizes.kernel;
        (0..kernel * kernel).map(move |tap| (tap, tap / kernel, tap % kernel))
    }

    /// Reads an image into scratch whose border is zero.
    #[inline(always)]
    fn lay_out<S: Simd, T: Number>(&self, simd: S, reading: &Reading<'_, T>, image: &[T], canvas: &mut [T]) {
        let line = self.sizes.input.width * self.pixel;
        for (y, from) in image.chunks_exact(line).enumerate() {
            reading.read(simd, self.pixel, from, &mut canvas[self.line_at(y)..][..line]);
        }
    }
}

/// Outputs of some images; also the moments of each channel, where a batch norm wants them.
pub(super) struct DepthwiseForward<'a, T> {
    pub plan: DepthwisePlan,
    pub reading: Reading<'a, T>,
    pub input: &'a [T],
    pub kernel: &'a [T],
    pub bias: Option<&'a [T]>,
    pub output: &'a mut [T],
    pub canvas: &'a mut [T],
    pub moments: Option<&'a mut [f64]>,
}

impl<T: Number> WithSimd for DepthwiseForward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, reading, input, kernel, bias, output, canvas, mut moments } = self;
        let (sizes, line) = (plan.sizes, plan.line_len());
        let canvas = &mut canvas[..plan.canvas_len()];
        canvas.fill(T::default());
        let count = T::num_vectors::<S>(plan.pixel);
        let kernel = T::vectors::<S>(kernel);
        let images = input.chunks_exact(sizes.input.num_pixels() * plan.pixel);
        for (image, output) in images.zip(output.chunks_exact_mut(sizes.output.height * line)) {
            plan.lay_out(simd, &reading, image, canvas);
            for (y, output) in output.chunks_exact_mut(line).enumerate() {
                for (x, output) in T::vectors_mut::<S>(output).chunks_exact_mut(count).enumerate() {
                    for (at, to) in output.iter_mut().enumerate() {
                        let mut sum = match bias {
                            Some(bias) => T::vectors::<S>(bias)[at],
                            None => T::splat(simd, T::default()),
                        };
                        for (tap, i, j) in plan.taps() {
                            let pixel = &canvas[plan.tap_at(y, i, x * sizes.stride + j)..][..plan.pixel];
                            sum = T::mul_add(simd, kernel[tap * count + at], T::vectors::<S>(pixel)[at], sum);
                        }
                        *to = sum;
                    }
                }
            }
            if let Some(moments) = &mut moments {
                add_moments(simd, plan.pixel, line, output, moments);
            }
        }
    }
}

/// Gradients of kernel, bias and inputs from some images.
pub(super) struct DepthwiseBackward<'a, T> {
    pub plan: DepthwisePlan,
    pub reading: Reading<'a, T>,
    pub input: &'a [T],
    pub pull_back: PullBack<'a, T>,
    pub output: &'a [T],
    pub output_gradient: &'a [T],
    pub kernel: &'a [T],
    /// Where the gradient of the inputs goes, and whether there is already one to add to; nowhere for the first layer.
    pub input_gradient: Option<(&'a mut [T], bool)>,
    pub kernel_sums: &'a mut [T],
    /// Σ ∂z of each channel, where the bias wants it.
    pub bias_sums: Option<&'a mut [f64]>,
    pub scratch: ConvScratch<'a, T>,
}

impl<T: Number> WithSimd for DepthwiseBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, reading, input, pull_back, kernel, mut input_gradient, kernel_sums, mut bias_sums, .. } = self;
        let (sizes, line) = (plan.sizes, plan.line_len());
        let ConvScratch { input: canvas, gradient: gradient_canvas, tiles: pulled, .. } = self.scratch;
        let (canvas, gradient_canvas) = (&mut canvas[..plan.canvas_len()], &mut gradient_canvas[..plan.canvas_len()]);
        let pulled = &mut pulled[..line];
        canvas.fill(T::default());
        let count = T::num_vectors::<S>(plan.pixel);
        let (kernel, kernel_sums) = (T::vectors::<S>(kernel), T::vectors_mut::<S>(kernel_sums));
        let (image_len, output_len) = (sizes.input.num_pixels() * plan.pixel, sizes.output.height * line);
        let outputs = self.output.chunks_exact(output_len).zip(self.output_gradient.chunks_exact(output_len));
        for (number, (image, (values, gradients))) in input.chunks_exact(image_len).zip(outputs).enumerate() {
            plan.lay_out(simd, &reading, image, canvas);
            gradient_canvas.fill(T::default());
            let lines = values.chunks_exact(line).zip(gradients.chunks_exact(line));
            for (y, (values, gradients)) in lines.enumerate() {
                pull_back.pull(simd, plan.pixel, values, gradients, pulled);
                if let Some(sums) = &mut bias_sums {
                    add_columns(simd, plan.pixel, line, pulled, sums);
                }
                let pulled = T::vectors::<S>(pulled);
                for (tap, i, j) in plan.taps() {
                    let pixels = T::vectors::<S>(&canvas[plan.tap_at(y, i, j)..]);
                    let to = T::vectors_mut::<S>(&mut gradient_canvas[plan.tap_at(y, i, j)..]);
                    for at in 0..count {
                        let weight = kernel[tap * count + at];
                        let mut sum = T::splat(simd, T::default());
                        for x in 0..sizes.output.width {
                            let (gradient, place) = (pulled[x * count + at], x * sizes.stride * count + at);
                            sum = T::mul_add(simd, pixels[place], gradient, sum);
                            if plan.has_input_gradient {
                                to[place] = T::mul_add(simd, weight, gradient, to[place]);
                            }
                        }
                        kernel_sums[tap * count + at] = T::plus(simd, kernel_sums[tap * count + at], sum);
                    }
                }
            }
            if let Some((gradient, adds)) = &mut input_gradient {
                let gradient = &mut gradient[number * image_len..][..image_len];
                let input_line = sizes.input.width * plan.pixel;
                for (y, to) in gradient.chunks_exact_mut(input_line).enumerate() {
                    let from = &gradient_canvas[plan.line_at(y)..][..input_line];
                    if *adds {
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
                    } else {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
    }
}

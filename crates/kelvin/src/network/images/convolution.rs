//! Convolutions, image by image: a padded copy of what is read lies in cache, and products run over its rows.
//!
//! ```text
//! z[y, x] = Σ_ij W[i, j] · X[s·y + i, s·x + j]            X: the input, padded
//! ∂W[i, j] = Σ_yx X[s·y + i, s·x + j] ⊗ ∂z[y, x]
//! ∂x[y, x] = Σ_ij W[k−1−i, k−1−j]ᵀ · D[y + i, x + j]       D: ∂z, with s−1 zeros between pixels, padded
//! ```
//! Kernels of 3×3 with stride 1 go another way ([`super::winograd`]).

use pulp::{Simd, WithSimd};

use super::conv_plan::ConvPlan;
use super::reading::{PullBack, Reading, add_columns, add_moments};
use super::winograd::{TileOuterProduct, TileProduct};
use crate::network::kernels::{Factors, Lines, Number, Results, Start};
use crate::network::program::Convolution;

/// Lines of pixels whose weight gradient is summed before the next: they stay in the first cache.
const LINES_TOGETHER: usize = 4;

/// Scratch of a convolution.
pub(super) struct ConvScratch<'a, T> {
    pub input: &'a mut [T],
    pub gradient: &'a mut [T],
    pub tiles: &'a mut [T],
    pub products: &'a mut [T],
}

/// Outputs of some images; also the moments of each channel, where a batch norm wants them.
pub(super) struct ConvForward<'a, T> {
    pub plan: ConvPlan,
    pub reading: Reading<'a, T>,
    pub input: &'a [T],
    pub packed: &'a [T],
    pub bias: Option<&'a [T]>,
    pub output: &'a mut [T],
    pub scratch: ConvScratch<'a, T>,
    pub moments: Option<&'a mut [f64]>,
}

impl<T: Number> WithSimd for ConvForward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, reading, input, packed, bias, output, scratch, mut moments } = self;
        let sizes = plan.sizes;
        let ConvScratch { input: canvas, tiles, products, .. } = scratch;
        let canvas = &mut canvas[..plan.input_scratch()];
        canvas.fill(T::default());
        let line = sizes.output.width * plan.output_stride;
        let images = input.chunks_exact(sizes.input.num_pixels() * plan.input_stride);
        for (image, output) in images.zip(output.chunks_exact_mut(sizes.output.height * line)) {
            plan.lay_out(simd, &reading, image, canvas);
            if let Some(tiling) = plan.tiling() {
                let (from, to) = (plan.input_stride, plan.output_stride);
                let image = &mut *output;
                let (tiles, products) = (&mut *tiles, &mut *products);
                TileProduct { tiling, from, to, canvas, packed, bias, adds: false, image, tiles, products }.run(simd);
            } else {
                for (y, output) in output.chunks_exact_mut(line).enumerate() {
                    let start = bias.map_or(Start::Zero, Start::Row);
                    let (num_rows, num_columns) = (sizes.output.width, plan.output_stride);
                    let to = Results { values: output, step: plan.output_stride, num_rows, num_columns };
                    T::product(simd, plan.factors(canvas, y), packed, start, to);
                }
            }
            if let Some(moments) = &mut moments {
                add_moments(simd, plan.output_stride, line, output, moments);
            }
        }
    }
}

/// Gradients of kernel, bias and inputs from some images.
pub(super) struct ConvBackward<'a, T> {
    pub plan: ConvPlan,
    pub reading: Reading<'a, T>,
    pub input: &'a [T],
    pub pull_back: PullBack<'a, T>,
    pub output: &'a [T],
    pub output_gradient: &'a [T],
    pub packed: &'a [T],
    /// Where the gradient of the inputs goes; nowhere for the first layer.
    pub input_gradient: Option<InputGradient<'a, T>>,
    pub kernel_sums: &'a mut [T],
    /// Σ ∂z of each channel, where the bias wants it.
    pub bias_sums: Option<&'a mut [f64]>,
    pub scratch: ConvScratch<'a, T>,
}

/// The gradient of a value that may have other readers.
pub(super) struct InputGradient<'a, T> {
    pub values: &'a mut [T],
    /// Whether there is already a gradient to add to.
    pub adds: bool,
    /// Where the sums for the value's batch norm go, if this gradient is complete.
    pub norm_sums: Option<&'a mut [f64]>,
}

impl<T: Number> WithSimd for ConvBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, reading, packed, mut input_gradient, kernel_sums, mut bias_sums, mut scratch, .. } = self;
        let (input, output) = (plan.sizes.input, plan.sizes.output);
        let (line, input_line) = (output.width * plan.output_stride, input.width * plan.input_stride);
        scratch.input[..plan.input_scratch()].fill(T::default());
        scratch.gradient[..plan.gradient_scratch()].fill(T::default());
        let inputs = self.input.chunks_exact(input.height * input_line);
        let outputs = self.output.chunks_exact(output.height * line);
        let gradients = self.output_gradient.chunks_exact(output.height * line);
        for (number, ((image, values), gradients)) in inputs.zip(outputs).zip(gradients).enumerate() {
            plan.lay_out(simd, &reading, image, scratch.input);
            plan.spread(simd, &self.pull_back, values, gradients, scratch.gradient, bias_sums.as_deref_mut());
            plan.add_kernel_sums(simd, &mut scratch, kernel_sums);
            if let Some(gradient) = &mut input_gradient {
                let to = &mut gradient.values[number * input.height * input_line..][..input.height * input_line];
                plan.pull_image(simd, &mut scratch, packed, gradient.adds, to);
                if let Some(sums) = &mut gradient.norm_sums {
                    let pull_back = PullBack { reading, slopes: None };
                    pull_back.add_sums(simd, plan.input_stride, input_line, image, to, sums);
                }
            }
        }
    }
}

impl ConvPlan {
    /// Reads an image into scratch whose border is zero; thin ones are inputs, which are read as they are.
    #[inline(always)]
    fn lay_out<S: Simd, T: Number>(&self, simd: S, reading: &Reading<'_, T>, image: &[T], scratch: &mut [T]) {
        let Convolution { input, before: [above, left], .. } = self.sizes;
        let pixel = self.input_stride;
        if self.is_thin() {
            return self.lay_out_patches(image, scratch);
        }
        let canvas = self.canvas();
        let num_lines = input.height.min(canvas.height - above);
        let num_columns = input.width.min(canvas.width - left);
        for y in 0..num_lines {
            let from = &image[y * input.width * pixel..][..num_columns * pixel];
            let to = &mut scratch[((y + above) * canvas.width + left) * pixel..][..num_columns * pixel];
            reading.read(simd, pixel, from, to);
        }
    }

    /// Copies the window of each pixel of the output; numbers outside the image stay zero.
    #[inline(always)]
    fn lay_out_patches<T: Number>(&self, image: &[T], scratch: &mut [T]) {
        let Convolution { input, output, kernel, stride, before: [above, left], .. } = self.sizes;
        let (pixel, window) = (self.input_stride, self.window());
        for (number, patch) in scratch[..output.num_pixels() * window].chunks_exact_mut(window).enumerate() {
            let (y, x) = (number / output.width * stride, number % output.width * stride);
            // The columns of the kernel that lie inside.
            let columns = left.saturating_sub(x)..kernel.min((left + input.width).saturating_sub(x));
            for (i, patch) in patch.chunks_exact_mut(kernel * pixel).enumerate() {
                if y + i < above || y + i >= above + input.height || columns.is_empty() {
                    continue;
                }
                let first = ((y + i - above) * input.width + x + columns.start - left) * pixel;
                let to = &mut patch[columns.start * pixel..columns.end * pixel];
                // Too few for a call of memcpy.
                for (to, &from) in to.iter_mut().zip(&image[first..]) {
                    *to = from;
                }
            }
        }
    }

    /// The factors of line `y` of the output.
    #[inline(always)]
    fn factors<'s, T>(&self, scratch: &'s [T], y: usize) -> Factors<'s, T> {
        if self.is_thin() {
            let window = self.window();
            let values = &scratch[y * self.sizes.output.width * window..];
            Factors { values, step: window, num_pieces: 1, piece_stride: 0, piece_len: window }
        } else {
            let Convolution { kernel, stride, .. } = self.sizes;
            let line = self.canvas().width * self.input_stride;
            Factors {
                values: &scratch[y * stride * line..],
                step: stride * self.input_stride,
                num_pieces: kernel,
                piece_stride: line,
                piece_len: kernel * self.input_stride,
            }
        }
    }

    /// Where ∂z begins on its canvas, and how far apart its lines lie.
    fn spread_begin(&self) -> (usize, usize) {
        let Convolution { kernel, stride, before: [above, left], .. } = self.sizes;
        let width = self.back_canvas().width;
        let begin = ((kernel - 1 - above) * width + kernel - 1 - left) * self.output_stride;
        (begin, stride * width * self.output_stride)
    }

    /// Writes ∂z of an image to its canvas, whose other numbers are zero.
    #[inline(always)]
    fn spread<S: Simd, T: Number>(
        &self,
        simd: S,
        pull_back: &PullBack<'_, T>,
        values: &[T],
        gradients: &[T],
        canvas: &mut [T],
        mut bias_sums: Option<&mut [f64]>,
    ) {
        let (pixel, stride) = (self.output_stride, self.sizes.stride);
        let line = self.sizes.output.width * pixel;
        let (begin, line_stride) = self.spread_begin();
        let lines = values.chunks_exact(line).zip(gradients.chunks_exact(line));
        for (y, (values, gradients)) in lines.enumerate() {
            let canvas = &mut canvas[begin + y * line_stride..];
            if stride == 1 {
                pull_back.pull(simd, pixel, values, gradients, &mut canvas[..line]);
                if let Some(sums) = &mut bias_sums {
                    add_columns(simd, pixel, line, &canvas[..line], sums);
                }
                continue;
            }
            let pixels = values.chunks_exact(pixel).zip(gradients.chunks_exact(pixel));
            for ((values, gradients), canvas) in pixels.zip(canvas.chunks_mut(stride * pixel)) {
                pull_back.pull(simd, pixel, values, gradients, &mut canvas[..pixel]);
                if let Some(sums) = &mut bias_sums {
                    add_columns(simd, pixel, pixel, &canvas[..pixel], sums);
                }
            }
        }
    }

    /// Adds the kernel's gradient from one image whose input and ∂z are laid out.
    #[inline(always)]
    fn add_kernel_sums<S: Simd, T: Number>(&self, simd: S, scratch: &mut ConvScratch<'_, T>, sums: &mut [T]) {
        let (from, to) = (self.input_stride, self.output_stride);
        let (input, gradient) = (&*scratch.input, &*scratch.gradient);
        if let Some(tiling) = self.tiling() {
            let (tiles, gradient_tiles) = (&mut *scratch.tiles, &mut *scratch.products);
            let (canvas, gradient_canvas) = (input, gradient);
            TileOuterProduct { tiling, from, to, canvas, gradient_canvas, sums, tiles, gradient_tiles }.run(simd);
            return;
        }
        let Convolution { output, kernel, stride, .. } = self.sizes;
        let (begin, line_stride) = self.spread_begin();
        for y in (0..output.height).step_by(LINES_TOGETHER) {
            let num_lines = LINES_TOGETHER.min(output.height - y);
            let terms = Lines { values: &gradient[begin + y * line_stride..], step: stride * to, line_stride };
            if self.is_thin() {
                let window = self.window();
                let values = &input[y * output.width * window..];
                let factors = Lines { values, step: window, line_stride: output.width * window };
                let sums = Results { values: &mut *sums, step: to, num_rows: window, num_columns: to };
                T::add_outer(simd, factors, terms, num_lines, output.width, sums);
                continue;
            }
            let line = self.canvas().width * from;
            for i in 0..kernel {
                let values = &input[(y * stride + i) * line..];
                let factors = Lines { values, step: stride * from, line_stride: stride * line };
                let num_rows = kernel * from;
                let values = &mut sums[i * num_rows * to..][..num_rows * to];
                let sums = Results { values, step: to, num_rows, num_columns: to };
                T::add_outer(simd, factors, terms, num_lines, output.width, sums);
            }
        }
    }

    /// The gradient of an input image whose ∂z is laid out.
    #[inline(always)]
    fn pull_image<S: Simd, T: Number>(
        &self,
        simd: S,
        scratch: &mut ConvScratch<'_, T>,
        packed: &[T],
        adds: bool,
        image: &mut [T],
    ) {
        // The way back: from filters to channels.
        let (from, to) = (self.output_stride, self.input_stride);
        let canvas = &*scratch.gradient;
        if let Some(tiling) = self.tiling() {
            let (tiles, products) = (&mut *scratch.tiles, &mut *scratch.products);
            let bias = None;
            TileProduct { tiling, from, to, canvas, packed, bias, adds, image, tiles, products }.run(simd);
            return;
        }
        let (kernel, width) = (self.sizes.kernel, self.sizes.input.width);
        let line = self.back_canvas().width * from;
        for (y, image) in image.chunks_exact_mut(width * to).enumerate() {
            let factors = Factors {
                values: &canvas[y * line..],
                step: from,
                num_pieces: kernel,
                piece_stride: line,
                piece_len: kernel * from,
            };
            let start = if adds { Start::Results } else { Start::Zero };
            let results = Results { values: image, step: to, num_rows: width, num_columns: to };
            T::product(simd, factors, packed, start, results);
        }
    }
}

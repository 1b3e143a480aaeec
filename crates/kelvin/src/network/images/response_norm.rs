//! Filter response norm and its learned threshold, image by image: nothing depends on the rest of the batch.
//!
//! ```text
//! r = 1/√(mean x² + ε) over the pixels     y = γ·x·r + β      ∂x = γ·r·(g − x·r²·mean(g·x))
//! y = max(x, τ)                                               ∂x = g where x > τ, ∂τ = Σ g elsewhere
//! ```

use pulp::{Simd, WithSimd};

use super::reading::{Affine, PullBack, Reading, add_columns, add_moments};
use crate::network::kernels::Number;

/// Pixels whose sums are taken in single precision.
const LINE: usize = 32;

/// Scratch of one image: sums in double precision, and coefficients of each channel.
pub(super) struct ImageScratch<'a, T> {
    pub sums: &'a mut [f64],
    pub coefficients: &'a mut [T],
}

/// 1/√(mean x² + ε) of each channel, left in the first half of `sums`.
#[inline(always)]
fn inverse_roots<S: Simd, T: Number>(simd: S, stride: usize, epsilon: f64, values: &[T], sums: &mut [f64]) {
    let sums = &mut sums[..2 * stride];
    sums.fill(0.0);
    add_moments(simd, stride, LINE * stride, values, sums);
    let num_pixels = (values.len() / stride) as f64;
    let (roots, squares) = sums.split_at_mut(stride);
    for (root, square) in roots.iter_mut().zip(squares) {
        *root = 1.0 / (*square / num_pixels + epsilon).sqrt();
    }
}

/// One image of a filter response norm.
pub(super) struct Normalise<'a, T> {
    pub stride: usize,
    pub gamma: &'a [T],
    pub beta: &'a [T],
    pub epsilon: f64,
    pub values: &'a [T],
    pub output: &'a mut [T],
    pub scratch: ImageScratch<'a, T>,
}

impl<T: Number> WithSimd for Normalise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { stride, gamma, beta, epsilon, values, output, scratch } = self;
        inverse_roots(simd, stride, epsilon, values, scratch.sums);
        let coefficients = &mut scratch.coefficients[..2 * stride];
        coefficients.fill(T::default());
        let (scale, shift) = coefficients.split_at_mut(stride);
        for ((scale, gamma), root) in scale.iter_mut().zip(gamma).zip(&*scratch.sums) {
            *scale = T::from_f64(gamma.to_f64() * root);
        }
        shift[..beta.len()].copy_from_slice(beta);
        Reading { norm: Some(Affine { scale, shift }), relu: false }.read(simd, stride, values, output);
    }
}

/// The way back of one image: the gradient of its output becomes that of its input; Σ gxr and Σ g are added to `sums`.
pub(super) struct NormaliseBack<'a, T> {
    pub stride: usize,
    pub gamma: &'a [T],
    pub epsilon: f64,
    pub values: &'a [T],
    pub gradient: &'a mut [T],
    pub sums: &'a mut [f64],
    /// Its sums are four for each channel.
    pub scratch: ImageScratch<'a, T>,
}

impl<T: Number> WithSimd for NormaliseBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { stride, gamma, epsilon, values, gradient, sums, scratch } = self;
        let (roots, own) = scratch.sums.split_at_mut(2 * stride);
        inverse_roots(simd, stride, epsilon, values, roots);
        let own = &mut own[..2 * stride];
        own.fill(0.0);
        let plain = Reading { norm: None, relu: false };
        PullBack { reading: plain, slopes: None }.add_sums(simd, stride, LINE * stride, values, gradient, own);
        let (gradient_sums, products) = own.split_at(stride);
        let (scale_sums, offset_sums) = sums.split_at_mut(stride);
        let coefficients = &mut scratch.coefficients[..3 * stride];
        coefficients.fill(T::default());
        let (a, others) = coefficients.split_at_mut(stride);
        let (b, c) = others.split_at_mut(stride);
        let num_pixels = (values.len() / stride) as f64;
        for (channel, gamma) in gamma.iter().enumerate() {
            let root = roots[channel];
            scale_sums[channel] += products[channel] * root;
            offset_sums[channel] += gradient_sums[channel];
            let scale = gamma.to_f64() * root;
            a[channel] = T::from_f64(scale);
            b[channel] = T::from_f64(-scale * root * root * products[channel] / num_pixels);
        }
        PullBack { reading: plain, slopes: Some([a, b, c]) }.pull_in_place(simd, stride, values, gradient);
    }
}

/// One image of a threshold; `threshold` is padded.
pub(super) struct CutOff<'a, T> {
    pub stride: usize,
    pub threshold: &'a [T],
    pub values: &'a [T],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for CutOff<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let count = T::num_vectors::<S>(self.stride);
        let tau = &T::vectors::<S>(self.threshold)[..count];
        let pixels = T::vectors::<S>(self.values).chunks_exact(count);
        for (from, to) in pixels.zip(T::vectors_mut::<S>(self.output).chunks_exact_mut(count)) {
            for at in 0..count {
                to[at] = T::max(simd, tau[at], from[at]);
            }
        }
    }
}

/// The way back of one image of a threshold; Σ of what was cut off is added to `sums`.
pub(super) struct CutOffBack<'a, T> {
    pub stride: usize,
    pub threshold: &'a [T],
    pub values: &'a [T],
    pub gradient: &'a mut [T],
    pub sums: &'a mut [f64],
}

impl<T: Number> WithSimd for CutOffBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { stride, threshold, values, gradient, sums } = self;
        let line = LINE * stride;
        // What is cut off: all, less what is kept.
        add_columns(simd, stride, line, gradient, sums);
        let count = T::num_vectors::<S>(stride);
        let tau = &T::vectors::<S>(threshold)[..count];
        let pixels = T::vectors::<S>(values).chunks_exact(count);
        for (x, g) in pixels.zip(T::vectors_mut::<S>(gradient).chunks_exact_mut(count)) {
            for at in 0..count {
                g[at] = T::where_positive(simd, T::minus(simd, x[at], tau[at]), g[at]);
            }
        }
        sums.iter_mut().for_each(|sum| *sum = -*sum);
        add_columns(simd, stride, line, gradient, sums);
        sums.iter_mut().for_each(|sum| *sum = -*sum);
    }
}

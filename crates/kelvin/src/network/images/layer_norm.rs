//! Layer norm, pixel by pixel over its channels: of a row of numbers, over all of them.
//!
//! With μ and v the mean and the variance of the C channels of a pixel:
//! ```text
//! r = 1/√(v + ε)   z = (x − μ)·r   y = γ·z + β
//! ∂x = r·(γ·g − Σ γg/C − z·Σ γgz/C)       sums over channels       ∂γ = Σ gz   ∂β = Σ g       sums over pixels and images
//! ```
//! Sums over channels run in [`PIECE`] lanes, whatever the vectors. v is the mean of (x − μ)²: of few channels, or of channels that are
//! nearly equal, the mean of x² less μ² would have no digit right.

use pulp::{Simd, WithSimd};

use crate::network::kernels::{Number, PIECE};

/// Σ term(value).
#[inline(always)]
fn lane_sum<T: Number>(values: &[T], term: impl Fn(T) -> T) -> f64 {
    let (pieces, rest) = values.as_chunks::<PIECE>();
    let mut lanes = [T::default(); PIECE];
    for piece in pieces {
        for lane in 0..PIECE {
            lanes[lane] += term(piece[lane]);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane += term(value);
    }
    lanes.into_iter().map(T::to_f64).sum()
}

/// Mean and 1/√(variance + ε) of a pixel without its padding.
#[inline(always)]
fn moments<T: Number>(pixel: &[T], epsilon: f64) -> (T, f64) {
    let count = pixel.len() as f64;
    let mean = T::from_f64(lane_sum(pixel, |x| x) / count);
    let variance = lane_sum(pixel, |x| (x - mean) * (x - mean)) / count;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

/// One image of a layer norm.
pub(super) struct LayerNormalise<'a, T> {
    pub stride: usize,
    pub gamma: &'a [T],
    pub beta: &'a [T],
    pub epsilon: f64,
    pub values: &'a [T],
    pub output: &'a mut [T],
}

impl<T: Number> WithSimd for LayerNormalise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { stride, gamma, beta, epsilon, values, output } = self;
        for (pixel, output) in values.chunks_exact(stride).zip(output.chunks_exact_mut(stride)) {
            let (mean, root) = moments(&pixel[..gamma.len()], epsilon);
            let root = T::from_f64(root);
            let (own, padding) = output.split_at_mut(gamma.len());
            for ((to, &x), (&gamma, &beta)) in own.iter_mut().zip(pixel).zip(gamma.iter().zip(beta)) {
                *to = gamma * ((x - mean) * root) + beta;
            }
            padding.fill(T::default());
        }
    }
}

/// The way back of one image: the gradient of its output becomes that of its input; Σ gz and Σ g are added to `sums`.
pub(super) struct LayerNormaliseBack<'a, T> {
    pub stride: usize,
    pub channels: usize,
    /// Padded with zeros.
    pub gamma: &'a [T],
    pub epsilon: f64,
    pub values: &'a [T],
    pub gradient: &'a mut [T],
    pub sums: &'a mut [f64],
}

impl<T: Number> WithSimd for LayerNormaliseBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { stride, channels, gamma, epsilon, values, gradient, sums } = self;
        let (scale_sums, offset_sums) = sums.split_at_mut(stride);
        for (pixel, gradient) in values.chunks_exact(stride).zip(gradient.chunks_exact_mut(stride)) {
            let (mean, root) = moments(&pixel[..channels], epsilon);
            let root = T::from_f64(root);
            let (mut levels, mut slopes) = ([T::default(); PIECE], [T::default(); PIECE]);
            let pieces = pixel.as_chunks::<PIECE>().0.iter().zip(gradient.as_chunks::<PIECE>().0);
            for ((x, g), gamma) in pieces.zip(gamma.as_chunks::<PIECE>().0) {
                for lane in 0..PIECE {
                    let scaled = gamma[lane] * g[lane];
                    levels[lane] += scaled;
                    slopes[lane] += scaled * ((x[lane] - mean) * root);
                }
            }
            let over_channels = |lanes: [T; PIECE]| lanes.into_iter().map(T::to_f64).sum::<f64>() / channels as f64;
            let [level, slope] = [levels, slopes].map(|lanes| T::from_f64(over_channels(lanes)));
            let (gradient, padding) = gradient.split_at_mut(channels);
            let sums = scale_sums.iter_mut().zip(&mut *offset_sums);
            let places = gradient.iter_mut().zip(pixel).zip(gamma);
            for (((g, &x), &gamma), (scale_sum, offset_sum)) in places.zip(sums) {
                let normed = (x - mean) * root;
                *scale_sum += (*g * normed).to_f64();
                *offset_sum += g.to_f64();
                *g = root * (gamma * *g - level - normed * slope);
            }
            padding.fill(T::default());
        }
    }
}

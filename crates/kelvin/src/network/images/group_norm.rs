//! Group norm, image by image: nothing depends on the rest of the batch.
//!
//! With μ and v the mean and the variance of an image over all pixels and the channels of a group, and M the numbers these are of:
//! ```text
//! r = 1/√(v + ε)   z = (x − μ)·r   y = γ·z + β
//! ∂x = r·(γ·g − Σ γg/M − z·Σ γgz/M)       sums over the group       ∂γ = Σ gz   ∂β = Σ g       sums over pixels and images
//! ```

use pulp::{Simd, WithSimd};

use super::reading::{Affine, PullBack, Reading, add_moments};
use super::response_norm::ImageScratch;
use crate::network::kernels::Number;

/// Pixels whose sums are taken in single precision.
const LINE: usize = 32;

/// Mean and 1/√(variance + ε) of the group of each channel, left in the two halves of `sums`.
#[inline(always)]
fn group_moments<S: Simd, T: Number>(
    simd: S,
    stride: usize,
    group_len: usize,
    channels: usize,
    epsilon: f64,
    values: &[T],
    sums: &mut [f64],
) {
    sums.fill(0.0);
    add_moments(simd, stride, LINE * stride, values, sums);
    let count = (values.len() / stride * group_len) as f64;
    let (means, roots) = sums.split_at_mut(stride);
    let groups = means[..channels].chunks_exact_mut(group_len).zip(roots.chunks_exact_mut(group_len));
    for (means, roots) in groups {
        let mean = means.iter().sum::<f64>() / count;
        // Rounding may leave less than nothing; what is no number stays none.
        let variance = roots.iter().sum::<f64>() / count - mean * mean;
        let variance = if variance < 0.0 { 0.0 } else { variance };
        means.fill(mean);
        roots.fill(1.0 / (variance + epsilon).sqrt());
    }
}

/// One image of a group norm.
pub(super) struct GroupNormalise<'a, T> {
    pub stride: usize,
    /// Channels of a group.
    pub group_len: usize,
    pub gamma: &'a [T],
    pub beta: &'a [T],
    pub epsilon: f64,
    pub values: &'a [T],
    pub output: &'a mut [T],
    pub scratch: ImageScratch<'a, T>,
}

impl<T: Number> WithSimd for GroupNormalise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { stride, group_len, gamma, beta, epsilon, values, output, scratch } = self;
        let moments = &mut scratch.sums[..2 * stride];
        group_moments(simd, stride, group_len, gamma.len(), epsilon, values, moments);
        let coefficients = &mut scratch.coefficients[..2 * stride];
        coefficients.fill(T::default());
        let (scale, shift) = coefficients.split_at_mut(stride);
        for (channel, (gamma, beta)) in gamma.iter().zip(beta).enumerate() {
            let own = gamma.to_f64() * moments[stride + channel];
            scale[channel] = T::from_f64(own);
            shift[channel] = T::from_f64(beta.to_f64() - own * moments[channel]);
        }
        Reading { norm: Some(Affine { scale, shift }), relu: false }.read(simd, stride, values, output);
    }
}

/// The way back of one image: the gradient of its output becomes that of its input; Σ gz and Σ g are added to `sums`.
pub(super) struct GroupNormaliseBack<'a, T> {
    pub stride: usize,
    pub group_len: usize,
    pub gamma: &'a [T],
    pub epsilon: f64,
    pub values: &'a [T],
    pub gradient: &'a mut [T],
    pub sums: &'a mut [f64],
    /// Its sums are four for each channel.
    pub scratch: ImageScratch<'a, T>,
}

impl<T: Number> WithSimd for GroupNormaliseBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { stride, group_len, gamma, epsilon, values, gradient, sums, scratch } = self;
        let (moments, own) = scratch.sums.split_at_mut(2 * stride);
        group_moments(simd, stride, group_len, gamma.len(), epsilon, values, moments);
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
        let count = (values.len() / stride * group_len) as f64;
        for first in (0..gamma.len()).step_by(group_len) {
            let (mean, root) = (moments[first], moments[stride + first]);
            let (mut level, mut slope) = (0.0, 0.0);
            for channel in first..first + group_len {
                let normed = (products[channel] - mean * gradient_sums[channel]) * root;
                scale_sums[channel] += normed;
                offset_sums[channel] += gradient_sums[channel];
                level += gamma[channel].to_f64() * gradient_sums[channel] / count;
                slope += gamma[channel].to_f64() * normed / count;
            }
            let own = -root * root * slope;
            for channel in first..first + group_len {
                a[channel] = T::from_f64(gamma[channel].to_f64() * root);
                b[channel] = T::from_f64(own);
                c[channel] = T::from_f64(-root * level - own * mean);
            }
        }
        PullBack { reading: plain, slopes: Some([a, b, c]) }.pull_in_place(simd, stride, values, gradient);
    }
}

//! Filter response norm and its learned threshold, image by image: nothing depends on the rest of the batch.
//!
//! ```text
//! r = 1/√(mean x² + ε) over the pixels     y = γ·x·r + β      ∂x = γ·r·(g − x·r²·mean(g·x))
//! y = max(x, τ)                                               ∂x = g where x > τ, ∂τ = Σ g elsewhere
//! ```

use super::kernels::Number;

/// One image of a filter response norm: `values` is read, `output` written.
pub(super) fn normalise<T: Number>(
    stride: usize,
    gamma: &[T],
    beta: &[T],
    epsilon: f64,
    values: &[T],
    output: &mut [T],
) {
    let num_pixels = values.len() / stride;
    for channel in 0..gamma.len() {
        let r = inverse_root(stride, channel, epsilon, values, num_pixels);
        let scale = T::from_f64(gamma[channel].to_f64() * r);
        for pixel in 0..num_pixels {
            output[pixel * stride + channel] = scale * values[pixel * stride + channel] + beta[channel];
        }
    }
}

fn inverse_root<T: Number>(stride: usize, channel: usize, epsilon: f64, values: &[T], num_pixels: usize) -> f64 {
    let squares: f64 = (0..num_pixels).map(|pixel| values[pixel * stride + channel].to_f64().powi(2)).sum();
    1.0 / (squares / num_pixels as f64 + epsilon).sqrt()
}

/// The way back of one image: replaces the gradient of its output by that of its input; Σ gxr and Σ g go to `sums`.
pub(super) fn pull_back_norm<T: Number>(
    stride: usize,
    gamma: &[T],
    epsilon: f64,
    values: &[T],
    gradient: &mut [T],
    sums: &mut [f64],
) {
    let num_pixels = values.len() / stride;
    let (scale_sums, offset_sums) = sums.split_at_mut(stride);
    for channel in 0..gamma.len() {
        let r = inverse_root(stride, channel, epsilon, values, num_pixels);
        let at = |pixel: usize| pixel * stride + channel;
        let (mut product, mut sum) = (0.0, 0.0);
        for pixel in 0..num_pixels {
            product += gradient[at(pixel)].to_f64() * values[at(pixel)].to_f64();
            sum += gradient[at(pixel)].to_f64();
        }
        scale_sums[channel] += product * r;
        offset_sums[channel] += sum;
        let scale = T::from_f64(gamma[channel].to_f64() * r);
        let back = T::from_f64(r * r * product / num_pixels as f64);
        for pixel in 0..num_pixels {
            gradient[at(pixel)] = scale * (gradient[at(pixel)] - back * values[at(pixel)]);
        }
    }
}

/// One image of a threshold.
pub(super) fn cut_off<T: Number>(stride: usize, threshold: &[T], values: &[T], output: &mut [T]) {
    for (from, to) in values.chunks_exact(stride).zip(output.chunks_exact_mut(stride)) {
        for ((to, &x), &tau) in to.iter_mut().zip(from).zip(threshold) {
            *to = x.larger(tau);
        }
    }
}

/// The way back of one image of a threshold; Σ of what was cut off goes to `sums`.
pub(super) fn pull_back_threshold<T: Number>(
    stride: usize,
    threshold: &[T],
    values: &[T],
    gradient: &mut [T],
    sums: &mut [f64],
) {
    for (from, gradient) in values.chunks_exact(stride).zip(gradient.chunks_exact_mut(stride)) {
        for (((g, &x), &tau), sum) in gradient.iter_mut().zip(from).zip(threshold).zip(&mut *sums) {
            if x > tau {
                continue;
            }
            *sum += g.to_f64();
            *g = T::default();
        }
    }
}

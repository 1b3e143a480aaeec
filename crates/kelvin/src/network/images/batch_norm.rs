//! Batch norm as a reading: scale and shift of each channel, their gradients, and running statistics.
//!
//! With z the value before it, M its numbers in a channel, and b the bias of the convolution before it, which is never
//! added to z:
//! ```text
//! training    s = γ/√(var z + ε)   t = β − s·mean z             inference   s = γ/√(v + ε)   t = β + s·(b − m)
//! ∂z = s·(g − Σg/M − ẑ·Σgẑ/M)      ẑ = (z − mean z)/√(var z + ε)            ∂z = s·g
//! ∂β = Σg   ∂γ = Σgẑ   ∂b = 0                                               ∂b = s·Σg
//! ```
//! Running statistics m and v move by 1 − momentum towards mean z + b and var z (the biased one, as in Flax).

use super::reading::Affine;
use crate::network::kernels::Number;
use crate::network::program::BatchNorm;

/// What a batch norm does in this pass.
#[derive(Debug)]
pub(super) struct NormState<T> {
    scale: Vec<T>,
    shift: Vec<T>,
    slopes: [Vec<T>; 3],
    /// Of z, without the bias.
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// 1/√(variance + ε), of the batch or running.
    inverse_std: Vec<f64>,
    /// The bias that was not added.
    bias: Vec<f64>,
    /// Numbers of a channel in the batch; 0 in inference mode.
    count: usize,
    /// Σg and Σgz of each channel on the way back, where an operation took them in passing.
    pub sums: Vec<f64>,
    pub has_sums: bool,
}

impl<T: Number> NormState<T> {
    pub fn new(num_channels: usize, stride: usize) -> Self {
        let (padded, plain) = (|| vec![T::default(); stride], || vec![0.0; num_channels]);
        Self {
            scale: padded(),
            shift: padded(),
            slopes: std::array::from_fn(|_| padded()),
            mean: plain(),
            variance: plain(),
            inverse_std: plain(),
            bias: plain(),
            count: 0,
            sums: vec![0.0; 2 * stride],
            has_sums: false,
        }
    }

    pub fn affine(&self) -> Affine<'_, T> {
        Affine { scale: &self.scale, shift: &self.shift }
    }

    pub fn slopes(&self) -> [&[T]; 3] {
        [&self.slopes[0], &self.slopes[1], &self.slopes[2]]
    }

    fn take_bias(&mut self, norm: &BatchNorm, parameters: &[T]) {
        if let Some(bias) = &norm.bias {
            for (to, &bias) in self.bias.iter_mut().zip(&parameters[bias.clone()]) {
                *to = bias.to_f64();
            }
        }
    }

    /// Scale and shift from Σz and Σz² of each channel over `count` numbers.
    pub fn train(&mut self, norm: &BatchNorm, parameters: &[T], moments: &[f64], count: usize) {
        self.take_bias(norm, parameters);
        self.count = count;
        let (sums, squares) = moments.split_at(moments.len() / 2);
        let (gamma, beta) = (&parameters[norm.scale.clone()], &parameters[norm.offset.clone()]);
        for channel in 0..self.mean.len() {
            let mean = sums[channel] / count as f64;
            // Rounding may leave less than nothing; what is no number stays none.
            let variance = squares[channel] / count as f64 - mean * mean;
            let variance = if variance < 0.0 { 0.0 } else { variance };
            let inverse_std = 1.0 / (variance + norm.epsilon).sqrt();
            let scale = gamma[channel].to_f64() * inverse_std;
            self.mean[channel] = mean;
            self.variance[channel] = variance;
            self.inverse_std[channel] = inverse_std;
            self.scale[channel] = T::from_f64(scale);
            self.shift[channel] = T::from_f64(beta[channel].to_f64() - scale * mean);
        }
    }

    /// Scale and shift from running statistics.
    pub fn infer(&mut self, norm: &BatchNorm, parameters: &[T], statistics: &[T]) {
        self.take_bias(norm, parameters);
        self.count = 0;
        let (gamma, beta) = (&parameters[norm.scale.clone()], &parameters[norm.offset.clone()]);
        let (mean, variance) = (&statistics[norm.mean.clone()], &statistics[norm.variance.clone()]);
        for channel in 0..self.mean.len() {
            let inverse_std = 1.0 / (variance[channel].to_f64() + norm.epsilon).sqrt();
            let scale = gamma[channel].to_f64() * inverse_std;
            self.mean[channel] = mean[channel].to_f64() - self.bias[channel];
            self.inverse_std[channel] = inverse_std;
            self.scale[channel] = T::from_f64(scale);
            self.shift[channel] = T::from_f64(beta[channel].to_f64() - scale * self.mean[channel]);
        }
    }

    /// Slopes for the way back, and the gradients of γ, β and b, from Σg and Σgz of each channel.
    pub fn turn_back(&mut self, norm: &BatchNorm, gradient: &mut [T]) {
        self.has_sums = false;
        let (sums, products) = self.sums.split_at(self.sums.len() / 2);
        for channel in 0..self.mean.len() {
            let (mean, inverse_std) = (self.mean[channel], self.inverse_std[channel]);
            let normed = (products[channel] - mean * sums[channel]) * inverse_std;
            gradient[norm.scale.start + channel] += T::from_f64(normed);
            gradient[norm.offset.start + channel] += T::from_f64(sums[channel]);
            let scale = self.scale[channel].to_f64();
            let (b, c) = if self.count == 0 {
                if let Some(bias) = &norm.bias {
                    gradient[bias.start + channel] += T::from_f64(scale * sums[channel]);
                }
                (0.0, 0.0)
            } else {
                let b = -scale * inverse_std * normed / self.count as f64;
                (b, -scale * sums[channel] / self.count as f64 - b * mean)
            };
            for (slopes, slope) in self.slopes.iter_mut().zip([scale, b, c]) {
                slopes[channel] = T::from_f64(slope);
            }
        }
    }

    /// Moves running statistics towards those of the batch.
    pub fn update(&self, norm: &BatchNorm, statistics: &mut [T]) {
        if self.count == 0 {
            return;
        }
        for channel in 0..self.mean.len() {
            for (range, new) in
                [(&norm.mean, self.mean[channel] + self.bias[channel]), (&norm.variance, self.variance[channel])]
            {
                let old = &mut statistics[range.start + channel];
                *old = T::from_f64(norm.momentum * old.to_f64() + (1.0 - norm.momentum) * new);
            }
        }
    }

    /// Mean (bias included) and variance of the batch.
    pub fn batch_statistics(&self, norm: &BatchNorm, statistics: &mut [T]) {
        for channel in 0..self.mean.len() {
            statistics[norm.mean.start + channel] = T::from_f64(self.mean[channel] + self.bias[channel]);
            statistics[norm.variance.start + channel] = T::from_f64(self.variance[channel]);
        }
    }
}

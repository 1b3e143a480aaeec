//! One output: the hot path of tables.
//!
//! With z = x·W, a unit is on where z_k > −c_k, and μ = Σ_k v_k max(z_k, −c_k) + Σ_k v_k c_k + b. Given the gradient e of
//! a row's output, the gradients are sums of e and e·x over the rows where unit k is on:
//! ```text
//! G_jk = Σ_rows [on] e x_j        ∂W_jk = v_k G_jk        ∂v_k = Σ_j W_jk G_jk + c_k C_k
//! C_k  = Σ_rows [on] e            ∂c_k  = v_k C_k         ∂b   = Σ_rows e
//! ```
//! So the backward pass needs one bit for each row and unit, and only masked additions. Two schedules take the same sums in
//! the same order: [`super::fused_rows`] for vectors of sixteen, [`super::split_rows`] for shorter ones.

use pulp::{Simd, WithSimd};

use super::super::products::halve;
use super::workspace::{LARGE_BLOCK, OneHidden, Own, Pass, SMALL_BLOCK, WIDEST_TILE, WIDEST_VECTOR};

/// Passes of up to this many rows take small blocks: the fused schedule has two blocks in flight, and the last has no partner.
const SHORT_PASS: usize = 256;

pub(super) struct OneOutput<'a, 'h>(pub Pass<'a, 'h>);

impl WithSimd for OneOutput<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.0.network.tile_width {
            3 => self.run::<S, 3>(simd),
            5 => self.run::<S, 5>(simd),
            7 => self.run::<S, 7>(simd),
            8 => self.run::<S, 8>(simd),
            _ => self.run::<S, WIDEST_TILE>(simd),
        }
    }
}

impl OneOutput<'_, '_> {
    #[inline(always)]
    fn run<S: Simd, const J: usize>(mut self, simd: S) {
        let pass = &mut self.0;
        let Own::OneOutput(own) = &mut pass.work.own else {
            unreachable!("a workspace belongs to the network that made it");
        };
        let mut output_bias = pass.output_bias[0];
        let units = own.thresholds.iter_mut().zip(pass.hidden_bias).zip(&pass.work.output_weights[..]);
        for ((threshold, &bias), &weight) in units {
            *threshold = -bias;
            output_bias += weight * bias;
        }
        own.bias_sums.fill(0.0);
        pass.work.sums.fill(0.0);
        let count = pass.inputs.count(pass.rows);
        let block_rows = if count <= SHORT_PASS { SMALL_BLOCK } else { LARGE_BLOCK };
        let bias_gradient = if const { S::F32_LANES == WIDEST_VECTOR } {
            pass.fused_rows::<S, J>(simd, count, block_rows, output_bias)
        } else {
            pass.split_rows::<S, J>(simd, count, block_rows, output_bias)
        };
        if let Some(gradient) = self.0.gradient {
            let work = self.0.work;
            let Own::OneOutput(own) = &work.own else { return };
            let sums = Sums {
                weights: S::as_simd_f32s(&work.weights).0,
                thresholds: S::as_simd_f32s(&own.thresholds).0,
                output_weights: S::as_simd_f32s(&work.output_weights).0,
                sums: S::as_simd_f32s(&work.sums).0,
                bias_sums: S::as_simd_f32s(&own.bias_sums).0,
            };
            sums.write_gradient(simd, self.0.network, bias_gradient, gradient);
        }
    }
}

/// scaled = e·x for every row of a block; returns Σ e.
#[inline(always)]
pub(super) fn scale_rows<S: Simd>(simd: S, stride: usize, inputs: &[f32], errors: &[f32], scaled: &mut [f32]) -> f32 {
    let inputs = S::as_simd_f32s(inputs).0.chunks_exact(stride / S::F32_LANES);
    let scaled = S::as_mut_simd_f32s(scaled).0.chunks_exact_mut(stride / S::F32_LANES);
    for ((inputs, scaled), &error) in inputs.zip(scaled).zip(errors) {
        let error = simd.splat_f32s(error);
        for (&input, scaled) in inputs.iter().zip(scaled) {
            *scaled = simd.mul_f32s(error, input);
        }
    }
    let mut lanes = [0.0; WIDEST_VECTOR];
    for errors in errors.as_chunks::<WIDEST_VECTOR>().0 {
        for (lane, error) in lanes.iter_mut().zip(errors) {
            *lane += error;
        }
    }
    halve::<f32, 16, 8>(&mut lanes);
    halve::<f32, 8, 4>(&mut lanes[..8]);
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// What the gradient of all parameters follows from.
struct Sums<'a, S: Simd> {
    weights: &'a [S::f32s],
    thresholds: &'a [S::f32s],
    output_weights: &'a [S::f32s],
    sums: &'a [S::f32s],
    bias_sums: &'a [S::f32s],
}

impl<S: Simd> Sums<'_, S> {
    #[inline(always)]
    fn write_gradient(&self, simd: S, network: &OneHidden, output_bias_gradient: f32, gradient: &mut [f32]) {
        let OneHidden { num_inputs, hidden, .. } = *network;
        let vectors = self.output_weights.len();
        let (kernel, rest) = gradient.split_at_mut(num_inputs * hidden);
        let (bias, rest) = rest.split_at_mut(hidden);
        for vector in 0..hidden.div_ceil(S::F32_LANES) {
            let units = vector * S::F32_LANES..hidden.min((vector + 1) * S::F32_LANES);
            let output_weight = self.output_weights[vector];
            let bias_sum = self.bias_sums[vector];
            simd.partial_store_f32s(&mut bias[units.clone()], simd.mul_f32s(bias_sum, output_weight));
            let mut output_gradient = simd.neg_f32s(simd.mul_f32s(self.thresholds[vector], bias_sum));
            for (input, kernel) in kernel.chunks_exact_mut(hidden).enumerate() {
                let at = input * vectors + vector;
                output_gradient = simd.mul_add_e_f32s(self.weights[at], self.sums[at], output_gradient);
                simd.partial_store_f32s(&mut kernel[units.clone()], simd.mul_f32s(self.sums[at], output_weight));
            }
            simd.partial_store_f32s(&mut rest[units], output_gradient);
        }
        rest[hidden] = output_bias_gradient;
    }
}

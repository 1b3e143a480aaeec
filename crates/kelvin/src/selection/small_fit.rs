//! The Gaussian that stands for the posterior of a model whose outputs are linear in its parameters: its mode and curvature there.
//!
//! ```text
//! θ̂ = argmin a Σ w_i ℓ_s(o_i + Φ_i θ, y_i) + b ‖θ‖²/(2σ_p²)        H = a Σ w_i Φ_iᵀ ∇²ℓ_s Φ_i + b/σ_p² I
//! ```
//! by Newton's method with halved steps (the sum is convex, so there is one minimum). N(θ̂, H⁻¹) is the posterior itself where ℓ is a quadratic,
//! and Laplace's approximation of it elsewhere. Cost of a step: n outputs d²/2 + d³/6 multiplications.

use pulp::{Simd, WithSimd};

use super::row_loss::{Answer, RowLoss, half};
use crate::exact::Cholesky;
use crate::vector::{dispatch, mul_add_f64};

/// A Newton step that lowers the energy by less than half of this is the last.
const CONVERGED: f64 = 1e-12;
const MOST_STEPS: usize = 100;
/// Rows whose outer products are added together, so that the sums are read and written less often.
const TOGETHER: usize = 8;

/// Rows as a linear model sees them: outputs o + Φ θ.
#[derive(Default)]
pub(super) struct FeatureRows {
    pub num_outputs: usize,
    pub num_parameters: usize,
    pub offsets: Vec<f64>,
    /// Row after row, outputs × parameters each.
    pub features: Vec<f64>,
    pub answers: Vec<Answer>,
}

/// What is minimised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Energy {
    /// s: the power of the normalised tempered model.
    pub scale: f64,
    /// a.
    pub likelihood_weight: f64,
    /// b.
    pub prior_weight: f64,
}

/// A mode with the curvature there.
pub(super) struct Fit {
    pub mode: Vec<f64>,
    precision: Cholesky,
    /// log ∫ exp(−energy) by Laplace, with the prior normalised.
    pub log_evidence: f64,
    /// Rows visited on the way.
    pub num_visits: usize,
}

impl FeatureRows {
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Φ of a row.
    pub fn features(&self, row: usize) -> &[f64] {
        let size = self.num_outputs * self.num_parameters;
        &self.features[row * size..(row + 1) * size]
    }

    /// o + Φ θ of a row.
    pub fn outputs(&self, row: usize, parameters: &[f64]) -> Vec<f64> {
        let features = self.features(row).chunks_exact(self.num_parameters);
        let offsets = &self.offsets[row * self.num_outputs..];
        features.zip(offsets).map(|(features, offset)| offset + dot(features, parameters)).collect()
    }

    /// Φᵀ v of a row.
    pub fn pull_back(&self, row: usize, of_outputs: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.num_parameters];
        for (features, value) in self.features(row).chunks_exact(self.num_parameters).zip(of_outputs) {
            sum.iter_mut().zip(features).for_each(|(sum, feature)| *sum += value * feature);
        }
        sum
    }

    /// Σ w Φᵀ C Φ, C a curvature in the outputs for each row; only the lower triangle counts.
    pub fn add_curvature(&self, curvature_of: impl Fn(usize) -> Option<Vec<f64>>, sum: &mut [f64]) {
        let (d, q) = (self.num_parameters, self.num_outputs);
        let mut waiting: Vec<f64> = Vec::with_capacity(TOGETHER * d);
        for row in 0..self.len() {
            let Some(curvature) = curvature_of(row) else { continue };
            let lower = half(&curvature, q);
            for column in 0..q {
                let along: Vec<f64> = (0..q).map(|output| lower[output * q + column]).collect();
                waiting.extend(self.pull_back(row, &along));
                if waiting.len() == TOGETHER * d {
                    dispatch(AddOuterProducts { rows: &waiting, sum, d });
                    waiting.clear();
                }
            }
        }
        waiting.resize(TOGETHER * d, 0.0);
        dispatch(AddOuterProducts { rows: &waiting, sum, d });
    }
}

impl Fit {
    /// The minimum of an energy over weighted rows, from a start; none where numbers leave the finite.
    pub fn new(
        rows: &FeatureRows,
        weights: &[f64],
        loss: &RowLoss,
        prior_variance: f64,
        energy: Energy,
        start: &[f64],
    ) -> Option<Self> {
        let d = rows.num_parameters;
        let prior_precision = energy.prior_weight / prior_variance;
        let counted: Vec<usize> = (0..rows.len()).filter(|&row| weights[row] > 0.0).collect();
        let weight = |row: usize| energy.likelihood_weight * weights[row];
        let value_at = |parameters: &[f64]| -> f64 {
            let of_row = |&row: &usize| {
                weight(row) * loss.terms(&rows.outputs(row, parameters), rows.answers[row], energy.scale).value
            };
            counted.iter().map(of_row).sum::<f64>() + 0.5 * prior_precision * dot(parameters, parameters)
        };
        let mut mode = start.to_vec();
        let mut value = value_at(&mode);
        let mut num_visits = 0;
        for _ in 0..MOST_STEPS {
            num_visits += counted.len();
            let mut gradient: Vec<f64> = mode.iter().map(|theta| prior_precision * theta).collect();
            let mut curvatures: Vec<Option<Vec<f64>>> = vec![None; rows.len()];
            for &row in &counted {
                let mut terms = loss.terms(&rows.outputs(row, &mode), rows.answers[row], energy.scale);
                terms.gradient.iter_mut().chain(&mut terms.curvature).for_each(|term| *term *= weight(row));
                let pulled = rows.pull_back(row, &terms.gradient);
                gradient.iter_mut().zip(pulled).for_each(|(sum, part)| *sum += part);
                curvatures[row] = Some(terms.curvature);
            }
            let mut curvature = vec![0.0; d * d];
            rows.add_curvature(|row| curvatures[row].clone(), &mut curvature);
            (0..d).for_each(|i| curvature[i * d + i] += prior_precision);
            let precision = Cholesky::new(&curvature, d)?;
            let step = precision.solve(&gradient);
            let decrement = dot(&gradient, &step);
            let last = loss.is_quadratic() || decrement < CONVERGED * (1.0 + value.abs());
            let mut length = 1.0;
            let (moved, at_moved) = loop {
                let moved: Vec<f64> = mode.iter().zip(&step).map(|(theta, step)| theta - length * step).collect();
                let at_moved = value_at(&moved);
                if last || at_moved <= value - 1e-4 * length * decrement || length < 1e-9 {
                    break (moved, at_moved);
                }
                length *= 0.5;
            };
            (mode, value) = (moved, at_moved);
            if !(value.is_finite() && decrement.is_finite()) {
                return None;
            }
            if last {
                let log_volume = -0.5 * (precision.log_determinant() - d as f64 * prior_precision.ln());
                return Some(Self { mode, precision, log_evidence: log_volume - value, num_visits });
            }
        }
        None
    }

    /// Φ H⁻¹ Φᵀ, the covariance of a row's outputs.
    pub fn spread(&self, features: &[f64]) -> Vec<f64> {
        let halves: Vec<Vec<f64>> =
            features.chunks_exact(self.mode.len()).map(|features| self.precision.half_solve(features)).collect();
        halves.iter().flat_map(|a| halves.iter().map(|b| dot(a, b))).collect()
    }

    /// H⁻¹ v.
    pub fn solve(&self, vector: &[f64]) -> Vec<f64> {
        self.precision.solve(vector)
    }

    /// H⁻¹, row-major.
    pub fn covariance(&self) -> Vec<f64> {
        self.precision.inverse()
    }

    /// (θ − θ̂)ᵀ H (θ − θ̂).
    pub fn squared_distance(&self, parameters: &[f64]) -> f64 {
        let away: Vec<f64> = parameters.iter().zip(&self.mode).map(|(a, b)| a - b).collect();
        self.precision.quadratic_form(&away)
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Adds v vᵀ of [`TOGETHER`] vectors to the lower triangle of a sum.
struct AddOuterProducts<'a> {
    rows: &'a [f64],
    sum: &'a mut [f64],
    d: usize,
}

impl WithSimd for AddOuterProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { rows, sum, d } = self;
        for i in 0..d {
            let vectors: [&[f64]; TOGETHER] = std::array::from_fn(|v| &rows[v * d..=v * d + i]);
            let factors = vectors.map(|vector| vector[i]);
            for (j, entry) in sum[i * d..=i * d + i].iter_mut().enumerate() {
                for (vector, factor) in vectors.iter().zip(factors) {
                    *entry = mul_add_f64::<S>(factor, vector[j], *entry);
                }
            }
        }
    }
}

//! A Gaussian posterior that takes in one row after another, each by Laplace's method on what is known so far.
//!
//! ```text
//! f* = argmin a ℓ(f) + ½ (f − f₀)ᵀ S⁻¹ (f − f₀)          f₀ = o + Φ m,  S = Φ P Φᵀ
//! m ← m − P Φᵀ a∇ℓ(f*)          P ← P − P Φᵀ G Φ P,      G = (S + (a∇²ℓ)⁻¹)⁻¹
//! ```
//! For numbers this is recursive least squares, exact. For classes it is the sequential update of Spiegelhalter and Lauritzen
//! (Networks 1990) with its mode found, not stepped to; earlier rows keep the curvature they had when they came. Cost: 2 d² multiplications for each
//! row and output.

use super::row_loss::{RowLoss, half};
use super::small_fit::{FeatureRows, dot};
use crate::exact::Cholesky;

const MOST_STEPS: usize = 100;

/// N(mean, covariance).
pub(super) struct OnlineFit {
    mean: Vec<f64>,
    covariance: Vec<f64>,
}

/// What is known of a row's outputs before its answer.
pub(super) struct OutputBelief {
    pub mean: Vec<f64>,
    /// Row-major.
    pub spread: Vec<f64>,
    /// P Φᵀ, one vector for each output.
    pub(super) towards: Vec<Vec<f64>>,
}

impl OnlineFit {
    pub fn new(mean: Vec<f64>, covariance: Vec<f64>) -> Self {
        Self { mean, covariance }
    }

    /// N(0, variance I).
    pub fn prior(size: usize, variance: f64) -> Self {
        let mut covariance = vec![0.0; size * size];
        (0..size).for_each(|i| covariance[i * size + i] = variance);
        Self { mean: vec![0.0; size], covariance }
    }

    /// Outputs of a row.
    pub fn belief(&self, rows: &FeatureRows, row: usize) -> OutputBelief {
        let d = self.mean.len();
        let features: Vec<&[f64]> = rows.features(row).chunks_exact(d).collect();
        let times = |features: &&[f64]| self.covariance.chunks_exact(d).map(|row| dot(row, features)).collect();
        let towards: Vec<Vec<f64>> = features.iter().map(times).collect();
        let spread = features.iter().flat_map(|a| towards.iter().map(|b| dot(a, b))).collect();
        OutputBelief { mean: rows.outputs(row, &self.mean), spread, towards }
    }

    /// Takes in the answer of the row that a belief is of.
    pub fn absorb(&mut self, belief: &OutputBelief, rows: &FeatureRows, row: usize, loss: &RowLoss, weight: f64) {
        let (q, d) = (belief.mean.len(), self.mean.len());
        let lower = half(&belief.spread, q);
        let answer = rows.answers[row];
        // f = f₀ + L u with u ~ N(0, 1): convex in u, and the curvature is at least 1.
        let outputs = |u: &[f64]| -> Vec<f64> {
            (0..q).map(|i| belief.mean[i] + (0..=i).map(|j| lower[i * q + j] * u[j]).sum::<f64>()).collect()
        };
        let energy = |u: &[f64]| weight * loss.terms(&outputs(u), answer, 1.0).value + 0.5 * dot(u, u);
        let mut u = vec![0.0; q];
        for _ in 0..MOST_STEPS {
            let terms = loss.terms(&outputs(&u), answer, 1.0);
            let gradient: Vec<f64> = (0..q)
                .map(|j| u[j] + weight * (j..q).map(|i| lower[i * q + j] * terms.gradient[i]).sum::<f64>())
                .collect();
            let step = solve(&whitened(&lower, &terms.curvature, weight, q), &gradient, q);
            let decrement = dot(&gradient, &step);
            let mut length = 1.0;
            let moved = |length: f64| -> Vec<f64> { u.iter().zip(&step).map(|(u, step)| u - length * step).collect() };
            while energy(&moved(length)) > energy(&u) - 1e-4 * length * decrement && length > 1e-9 && decrement > 1e-14
            {
                length *= 0.5;
            }
            u = moved(length);
            if decrement < 1e-20 || loss.is_quadratic() {
                break;
            }
        }
        let terms = loss.terms(&outputs(&u), answer, 1.0);
        for (towards, gradient) in belief.towards.iter().zip(&terms.gradient) {
            self.mean.iter_mut().zip(towards).for_each(|(mean, towards)| *mean -= weight * gradient * towards);
        }
        // G = R (I + Rᵀ S R)⁻¹ Rᵀ with a∇²ℓ = R Rᵀ: fine where the curvature is singular.
        let root = half(&terms.curvature.iter().map(|entry| weight * entry).collect::<Vec<_>>(), q);
        let inner = whitened(&root, &belief.spread, 1.0, q);
        let columns: Vec<Vec<f64>> = (0..q)
            .map(|j| {
                let unit: Vec<f64> = (0..q).map(|i| root[j * q + i]).collect();
                let solved = solve(&inner, &unit, q);
                (0..q).map(|i| (0..=i).map(|k| root[i * q + k] * solved[k]).sum()).collect()
            })
            .collect();
        for (i, left) in belief.towards.iter().enumerate() {
            for (j, right) in belief.towards.iter().enumerate() {
                let factor = columns[j][i];
                for (row, &value) in self.covariance.chunks_exact_mut(d).zip(left) {
                    let scaled = factor * value;
                    row.iter_mut().zip(right).for_each(|(entry, right)| *entry -= scaled * right);
                }
            }
        }
    }
}

/// I + w Lᵀ A L of small matrices.
fn whitened(lower: &[f64], matrix: &[f64], weight: f64, q: usize) -> Vec<f64> {
    let entry = |i: usize, j: usize| -> f64 {
        let sum: f64 = (i..q)
            .flat_map(|a| (j..q).map(move |b| (a, b)))
            .map(|(a, b)| lower[a * q + i] * matrix[a * q + b] * lower[b * q + j])
            .sum();
        weight * sum + f64::from(u8::from(i == j))
    };
    (0..q * q).map(|at| entry(at / q, at % q)).collect()
}

/// x with A x = b; not numbers where A is not positive definite.
fn solve(matrix: &[f64], b: &[f64], q: usize) -> Vec<f64> {
    Cholesky::new(matrix, q).map_or_else(|| vec![f64::NAN; q], |factor| factor.solve(b))
}

#[cfg(test)]
mod tests {
    use super::super::row_loss::Answer;
    use super::super::small_fit::{Energy, Fit};
    use super::*;

    /// Rows of two features for each output, in blocks, with answers that follow them loosely.
    fn rows(loss: &RowLoss, count: usize) -> FeatureRows {
        let q = loss.num_outputs();
        let (mut features, mut answers) = (Vec::new(), Vec::new());
        for row in 0..count {
            let (x, noise) = ((1.7 * row as f64).sin(), (2.3 * row as f64).cos());
            for output in 0..q {
                features.extend((0..2 * q).map(|at| match at {
                    at if at == 2 * output => x,
                    at if at == 2 * output + 1 => 1.0,
                    _ => 0.0,
                }));
            }
            answers.push(match loss {
                RowLoss::Gaussian { .. } => Answer::Number(0.8 * x - 0.3 + 0.2 * noise),
                RowLoss::Classes { num_classes, .. } => {
                    Answer::Class((((x + noise + 2.0) / 4.0 * *num_classes as f64) as usize).min(num_classes - 1))
                }
            });
        }
        FeatureRows { num_outputs: q, num_parameters: 2 * q, offsets: vec![0.1; count * q], features, answers }
    }

    /// One row from the prior is Laplace's method itself, for every loss. Many rows are the fit of all for numbers; for classes they keep the
    /// curvature they came with, when less was known and probabilities were more even, so that variances come out
    /// too small, here by up to a third, and modes a part of a standard deviation (0.42 with three classes) away.
    #[test]
    fn rows_taken_in_one_by_one_give_the_fit_of_all() {
        let losses = [RowLoss::Gaussian { noise_variance: 0.3 }, RowLoss::classes(2), RowLoss::classes(3)];
        for (loss, of_many) in losses.iter().zip([1e-9, 0.4, 0.4]) {
            for (count, tolerance) in [(1, 1e-6), (150, of_many)] {
                let rows = rows(loss, count);
                let d = rows.num_parameters;
                let mut online = OnlineFit::prior(d, 2.0);
                for row in 0..rows.len() {
                    let belief = online.belief(&rows, row);
                    online.absorb(&belief, &rows, row, loss, 0.7);
                }
                let energy = Energy { scale: 1.0, likelihood_weight: 0.7, prior_weight: 1.0 };
                let fit = Fit::new(&rows, &vec![1.0; count], loss, 2.0, energy, &vec![0.0; d]).unwrap();
                let distance = fit.squared_distance(&online.mean).sqrt();
                let most = if tolerance > 0.1 { 1.0 } else { tolerance };
                assert!(distance < most, "{loss:?}, {count} rows: {distance} standard deviations away");
                for (found, expected) in online.covariance.iter().zip(fit.covariance()).step_by(d + 1) {
                    let error = (found / expected - 1.0).abs();
                    assert!(error < tolerance, "{loss:?}, {count} rows: {found} instead of {expected}");
                }
            }
        }
    }
}

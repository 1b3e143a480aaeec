//! Scores of targets drawn from the model itself: their squares have the Gauss–Newton diagonal as their mean.
//!
//! With y* ~ p(· | x, θ) for each row and s = Σ ∇_θ log p(y* | x, θ), E[s sᵀ] is Fisher's information Σ Jᵀ Λ J, where J is the derivative of
//! a row's values in θ and Λ the curvature of −log p in them: for Gaussian targets JᵀJ/σ², for classes Jᵀ(diag p − p pᵀ)J. The score of a row of
//! weight w counts √w times, so that its square counts w times.

use super::known::Likelihood;
use super::model::TargetKind;
use super::rows::{Given, RowSums, TargetRows};
use super::weighed::WeighedSums;
use crate::data::Targets;
use crate::network::{OutputGradient, Rows};
use crate::random::NoiseKey;

/// Draws a target for each row of a pass and replaces its outputs by the derivative of log p(y* | x, θ).
pub(crate) struct DrawnScores<'a> {
    likelihood: Likelihood,
    own: &'a [f32],
    key: NoiseKey,
    /// A standard normal number for each target of each row, where targets are numbers.
    normals: Vec<f32>,
    sums: RowSums,
    /// What each row counts for, where it is not once; and the rows of the pass.
    weighed: Option<(&'a [f32], Rows<'a>, WeighedSums)>,
}

impl<'a> DrawnScores<'a> {
    pub(crate) fn new(likelihood: Likelihood, own: &'a [f32], num_rows: usize, key: NoiseKey) -> Self {
        let mut normals = Vec::new();
        if likelihood.kind() == TargetKind::Numbers {
            normals.resize(num_rows * likelihood.num_targets(), 0.0);
            key.fill_normal(&mut normals);
        }
        Self { likelihood, own, key, normals, sums: RowSums::default(), weighed: None }
    }

    /// The same with a weight for each of all rows, if any are given; `rows` are those of the pass.
    pub(crate) fn weighed(self, weights: Option<&'a [f32]>, rows: Rows<'a>) -> Self {
        Self { weighed: weights.map(|weights| (weights, rows, WeighedSums::default())), ..self }
    }

    fn given(&self) -> Given<'a> {
        Given { beta: 1.0, own: self.own }
    }

    /// Overwrites `gradient` with the derivative of Σ log p(y* | x, θ) in the likelihood's own parameters.
    pub(crate) fn own_gradient(&self, gradient: &mut [f32]) {
        match &self.weighed {
            None => self.likelihood.ask(|model| model.own_gradient(self.given(), &self.sums, gradient)),
            Some((_, _, sums)) => sums.write_own_gradient(gradient),
        }
    }

    fn draw(&self, first_row: usize, outputs: &[f32]) -> Targets {
        let rows = outputs.chunks_exact(self.likelihood.num_outputs()).enumerate();
        match self.likelihood.kind() {
            TargetKind::Numbers => Targets::Real(
                rows.flat_map(|(index, outputs)| {
                    let values = [outputs, self.own].concat();
                    let num_targets = self.likelihood.num_targets();
                    let normals = &self.normals[(first_row + index) * num_targets..][..num_targets];
                    let draw = move |(target, &z): (usize, &f32)| {
                        self.likelihood.number_distribution_of(target, &values, 1.0).at(f64::from(z)) as f32
                    };
                    normals.iter().enumerate().map(draw)
                })
                .collect(),
            ),
            TargetKind::Classes { .. } => Targets::Classes(
                rows.map(|(index, row)| draw_class(row, self.key.uniform((first_row + index) as u32))).collect(),
            ),
        }
    }
}

/// The class at the share `uniform` of softmax(logits).
fn draw_class(logits: &[f32], uniform: f64) -> u32 {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let weight = |logit: &f32| f64::from(logit - largest).exp();
    let mut left = uniform * logits.iter().map(weight).sum::<f64>();
    let found = logits.iter().position(|logit| {
        left -= weight(logit);
        left < 0.0
    });
    found.unwrap_or(logits.len() - 1) as u32
}

impl OutputGradient for DrawnScores<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        let targets = self.draw(first_row, outputs);
        let num_targets = self.likelihood.num_targets();
        let rows = TargetRows { targets: &targets, rows: Rows::All, first_row: 0, num_targets, target: 0 };
        let given = self.given();
        match &mut self.weighed {
            None => self.likelihood.ask(|model| model.differentiate(rows, given, outputs, &mut self.sums)),
            Some((weights, of_pass, sums)) => {
                let place = |row: usize| of_pass.listed().map_or(row, |listed| listed[row] as usize);
                let weight = |index: usize| f64::from(weights[place(first_row + index)]).sqrt();
                sums.differentiate(self.likelihood, rows, given, outputs, weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const KEY: NoiseKey = NoiseKey { seed: 3, purpose: Purpose::Curvature, chain: 0, step: 0 };
    const ROWS: usize = 40_000;

    /// Scores of many equal rows: their mean is 0 and their second moments Λ. A moment over 40 000 rows has a standard error of at
    /// most 1.5 % of Λ's largest entry; the seed is fixed, the band five of them.
    fn second_moments(likelihood: Likelihood, outputs: &[f32], own: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let mut all = outputs.repeat(ROWS);
        DrawnScores::new(likelihood, own, ROWS, KEY).differentiate(0, &mut all);
        let k = outputs.len();
        let (mut means, mut moments) = (vec![0.0; k], vec![0.0; k * k]);
        for score in all.chunks_exact(k) {
            for i in 0..k {
                means[i] += f64::from(score[i]) / ROWS as f64;
                for j in 0..k {
                    moments[i * k + j] += f64::from(score[i] * score[j]) / ROWS as f64;
                }
            }
        }
        (means, moments)
    }

    #[test]
    fn squares_are_the_curvature_in_the_outputs() {
        let (_, moments) = second_moments(Likelihood::Gaussian { noise_variance: 0.04 }, &[0.7], &[]);
        assert!((moments[0] * 0.04 - 1.0).abs() < 0.05, "{moments:?}");
        let (_, moments) = second_moments(Likelihood::LearnedGaussian, &[0.7], &[0.04f32.ln()]);
        assert!((moments[0] * 0.04 - 1.0).abs() < 0.05, "{moments:?}");
        // Student-t: (ν + 1)/(ν + 3) of a Gaussian's; Poisson: the mean.
        let (_, moments) = second_moments(Likelihood::StudentT, &[0.7], &[0.04f32.ln()]);
        assert!((moments[0] * 0.04 * 7.0 / 5.0 - 1.0).abs() < 0.05, "{moments:?}");
        let (_, moments) = second_moments(Likelihood::Poisson { log_mean: 3f64.ln() }, &[0.0], &[]);
        assert!((moments[0] / 3.0 - 1.0).abs() < 0.05, "{moments:?}");
        let (_, moments) = second_moments(Likelihood::VaryingGaussian, &[0.7, 0.0], &[]);
        for (found, expected) in moments.iter().zip([1.0, 0.0, 0.0, 0.5]) {
            assert!((found - expected).abs() < 0.05, "{moments:?}");
        }
        let logits = [0.5f32, -1.0, 0.2];
        let (means, moments) = second_moments(Likelihood::Categorical { num_classes: 3 }, &logits, &[]);
        let total: f64 = logits.iter().map(|&z| f64::from(z).exp()).sum();
        let p = logits.map(|z| f64::from(z).exp() / total);
        for i in 0..3 {
            assert!(means[i].abs() < 0.0125, "{means:?}");
            for j in 0..3 {
                let expected = f64::from(u8::from(i == j)) * p[i] - p[i] * p[j];
                assert!((moments[i * 3 + j] - expected).abs() < 0.0125, "{i}, {j}: {moments:?}");
            }
        }
    }
}

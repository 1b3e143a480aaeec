//! −log p(y|outputs) of one row with its gradient and curvature in the outputs, in f64.
//!
//! ```text
//! numbers   ½ s (y − f)²/σ² − ½ log(s/2πσ²)          classes   −log softmax(s C f)_y
//! ```
//! s is the power of the tempered model. Softmax does not feel a number added to all its logits, so that one direction of every
//! k of them is the prior's alone. Here k logits are C f, C an orthonormal basis (k × (k − 1)) of what softmax does feel: the same model,
//! under an isotropic prior the same posterior, and every output counts.

/// The answer of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    Number(f64),
    Class(usize),
}

/// The kind of answers and what is known of their noise.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowLoss {
    Gaussian {
        noise_variance: f64,
    },
    Classes {
        num_classes: usize,
        /// C, row-major.
        contrasts: Vec<f64>,
    },
}

/// A loss with its first two derivatives in the outputs.
pub(super) struct LossTerms {
    pub value: f64,
    pub gradient: Vec<f64>,
    /// Row-major.
    pub curvature: Vec<f64>,
}

impl RowLoss {
    /// Classes, with Helmert's contrasts: each against the mean of those before it.
    pub fn classes(num_classes: usize) -> Self {
        let width = num_classes - 1;
        let mut contrasts = vec![0.0; num_classes * width];
        for column in 0..width {
            let before = (column + 1) as f64;
            let size = (before * (before + 1.0)).sqrt();
            (0..=column).for_each(|class| contrasts[class * width + column] = 1.0 / size);
            contrasts[(column + 1) * width + column] = -before / size;
        }
        Self::Classes { num_classes, contrasts }
    }

    /// σ² of numbers; NaN for classes, which have none.
    pub fn noise_variance(&self) -> f64 {
        match *self {
            Self::Gaussian { noise_variance } => noise_variance,
            Self::Classes { .. } => f64::NAN,
        }
    }

    /// Outputs of a row.
    pub fn num_outputs(&self) -> usize {
        match self {
            Self::Gaussian { .. } => 1,
            Self::Classes { num_classes, .. } => num_classes - 1,
        }
    }

    /// Whether the loss is a quadratic, so that one Newton step ends at the minimum.
    pub fn is_quadratic(&self) -> bool {
        matches!(self, Self::Gaussian { .. })
    }

    /// One row of a last layer of k units, as weights of the outputs.
    pub fn contrasted(&self, units: &[f64]) -> Vec<f64> {
        match self {
            Self::Gaussian { .. } => units.to_vec(),
            Self::Classes { contrasts, .. } => {
                let width = self.num_outputs();
                let along =
                    |column: usize| units.iter().enumerate().map(|(c, u)| u * contrasts[c * width + column]).sum();
                (0..width).map(along).collect()
            }
        }
    }

    /// softmax(s C f); a single 1 for numbers.
    pub fn probabilities(&self, outputs: &[f64], scale: f64) -> Vec<f64> {
        let Self::Classes { contrasts, .. } = self else { return vec![1.0] };
        let logit = |row: &[f64]| scale * row.iter().zip(outputs).map(|(c, f)| c * f).sum::<f64>();
        let mut shares: Vec<f64> = contrasts.chunks_exact(outputs.len()).map(logit).collect();
        let largest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        shares.iter_mut().for_each(|share| *share = (*share - largest).exp());
        let total: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= total);
        shares
    }

    /// The loss of an answer at the power s.
    pub fn terms(&self, outputs: &[f64], answer: Answer, scale: f64) -> LossTerms {
        match (self, answer) {
            (Self::Gaussian { noise_variance }, Answer::Number(target)) => {
                let (precision, away) = (scale / noise_variance, outputs[0] - target);
                LossTerms {
                    value: 0.5 * precision * away * away - 0.5 * (precision / std::f64::consts::TAU).ln(),
                    gradient: vec![precision * away],
                    curvature: vec![precision],
                }
            }
            (Self::Classes { contrasts, .. }, Answer::Class(label)) => {
                let width = outputs.len();
                let shares = self.probabilities(outputs, scale);
                let centre = self.contrasted(&shares);
                let own = &contrasts[label * width..(label + 1) * width];
                let mut curvature = vec![0.0; width * width];
                for (row, share) in contrasts.chunks_exact(width).zip(&shares) {
                    for i in 0..width {
                        for j in 0..width {
                            curvature[i * width + j] +=
                                scale * scale * share * (row[i] - centre[i]) * (row[j] - centre[j]);
                        }
                    }
                }
                // From the logits and not from the share, which may have rounded to 0.
                let logit = |row: &[f64]| scale * row.iter().zip(outputs).map(|(c, f)| c * f).sum::<f64>();
                let largest = contrasts.chunks_exact(width).map(logit).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = contrasts.chunks_exact(width).map(|row| (logit(row) - largest).exp()).sum();
                LossTerms {
                    value: largest + total.ln() - logit(own),
                    gradient: centre.iter().zip(own).map(|(centre, own)| scale * (centre - own)).collect(),
                    curvature,
                }
            }
            _ => unreachable!("the posterior checked that likelihood and targets fit"),
        }
    }
}

/// L with A = L Lᵀ of a small matrix that may be singular; what rounding made negative counts as 0.
pub(super) fn half(matrix: &[f64], size: usize) -> Vec<f64> {
    let mut lower = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..=row {
            let dot: f64 = (0..column).map(|k| lower[row * size + k] * lower[column * size + k]).sum();
            let rest = matrix[row * size + column] - dot;
            let pivot = lower[column * size + column];
            lower[row * size + column] = match row == column {
                true => rest.max(0.0).sqrt(),
                false if pivot > 0.0 => rest / pivot,
                false => 0.0,
            };
        }
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrasts_are_orthonormal_and_sum_to_nothing() {
        let RowLoss::Classes { contrasts, .. } = RowLoss::classes(4) else { panic!("classes") };
        for a in 0..3 {
            assert!((0..4).map(|class| contrasts[class * 3 + a]).sum::<f64>().abs() < 1e-15);
            for b in 0..3 {
                let dot: f64 = (0..4).map(|class| contrasts[class * 3 + a] * contrasts[class * 3 + b]).sum();
                assert!((dot - f64::from(u8::from(a == b))).abs() < 1e-15, "{a} {b} {dot}");
            }
        }
    }

    #[test]
    fn derivatives_are_those_of_the_loss() {
        let cases = [
            (RowLoss::Gaussian { noise_variance: 0.3 }, vec![0.4], Answer::Number(-0.5)),
            (RowLoss::classes(2), vec![0.7], Answer::Class(1)),
            (RowLoss::classes(3), vec![0.7, -1.1], Answer::Class(2)),
        ];
        for (loss, outputs, answer) in cases {
            let size = outputs.len();
            for scale in [0.5, 1.0, 3.0] {
                let terms = loss.terms(&outputs, answer, scale);
                for i in 0..size {
                    let at = |step: f64| {
                        let mut moved = outputs.clone();
                        moved[i] += step;
                        loss.terms(&moved, answer, scale)
                    };
                    let (high, low) = (at(1e-5), at(-1e-5));
                    assert!(((high.value - low.value) / 2e-5 - terms.gradient[i]).abs() < 1e-8);
                    for j in 0..size {
                        let slope = (high.gradient[j] - low.gradient[j]) / 2e-5;
                        assert!((slope - terms.curvature[i * size + j]).abs() < 1e-8);
                    }
                }
                // The halves make the whole.
                let lower = half(&terms.curvature, size);
                for at in 0..size * size {
                    let product: f64 =
                        (0..size).map(|k| lower[at / size * size + k] * lower[at % size * size + k]).sum();
                    assert!((product - terms.curvature[at]).abs() < 1e-12);
                }
            }
        }
        let sure = RowLoss::classes(2).terms(&[2000.0], Answer::Class(1), 1.0);
        assert!(sure.value > 2000.0 && sure.value.is_finite(), "{}", sure.value);
    }

    /// (2, 1, 3)(2, 1, 3)ᵀ has rank one, and what is beyond it is nothing; a matrix of rank two leaves its second column.
    #[test]
    fn halves_of_singular_matrices() {
        let one = half(&[4.0, 2.0, 6.0, 2.0, 1.0, 3.0, 6.0, 3.0, 9.0], 3);
        assert_eq!(one, [2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
        // L = (2; 1, 3; −1, 0.5, 0).
        let two = half(&[4.0, 2.0, -2.0, 2.0, 10.0, 0.5, -2.0, 0.5, 1.25], 3);
        assert_eq!(two, [2.0, 0.0, 0.0, 1.0, 3.0, 0.0, -1.0, 0.5, 0.0]);
    }

    #[test]
    fn the_loss_of_a_number_is_its_negative_log_density() {
        let found = RowLoss::Gaussian { noise_variance: 0.3 }.terms(&[0.4], Answer::Number(-0.5), 2.0).value;
        let exact = 0.5 * (0.81 / 0.15 + (std::f64::consts::TAU * 0.15).ln());
        assert!((found - exact).abs() < 1e-12, "{found} {exact}");
    }
}

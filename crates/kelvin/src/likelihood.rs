//! What an output says about a target: p(y | output), its tempered form, and their gradients.
//!
//! The tempered model is p(y|x,θ)^β, normalised over y. Gaussian: N(y | μ, σ²/β). Categorical: softmax(β · logits).
//! β = 1 is the model itself.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::data::Targets;
use crate::network::{OutputGradient, Rows};

/// The model of a target given the network's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Likelihood {
    /// y ~ N(output, noise_variance): one output.
    Gaussian {
        /// σ², a variance, on the scale of the (standardised) targets.
        noise_variance: f64,
    },
    /// y ~ softmax(outputs): one output for each class.
    Categorical {
        /// How many classes.
        num_classes: usize,
    },
}

/// Why a likelihood does not fit.
#[derive(Debug, Error, PartialEq)]
pub enum LikelihoodError {
    /// σ² must be positive.
    #[error("the noise variance must be a finite number > 0, got {found}")]
    NoiseVariance {
        /// What was given.
        found: f64,
    },
    /// Targets of another kind.
    #[error("a {likelihood} likelihood needs {needs}, but the targets are {found}")]
    Targets {
        /// The likelihood's name.
        likelihood: &'static str,
        /// What it needs.
        needs: String,
        /// What was given.
        found: String,
    },
}

/// A sum over rows of log p(y | x, θ, β) and of its derivative in log β.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogLikelihood {
    /// Σ log p(y | x, θ, β), constants included.
    pub value: f64,
    /// Σ ∂ log p(y | x, θ, β) / ∂ log β.
    pub log_beta_gradient: f64,
}

impl Likelihood {
    /// Outputs a network must have.
    pub fn num_outputs(&self) -> usize {
        match *self {
            Self::Gaussian { .. } => 1,
            Self::Categorical { num_classes } => num_classes,
        }
    }

    /// Checks the settings, and that these targets are of its kind.
    pub fn check(&self, targets: &Targets) -> Result<(), LikelihoodError> {
        match (self, targets) {
            (Self::Gaussian { noise_variance }, _) if !(noise_variance.is_finite() && *noise_variance > 0.0) => {
                Err(LikelihoodError::NoiseVariance { found: *noise_variance })
            }
            (Self::Gaussian { .. }, Targets::Real(_)) => Ok(()),
            (Self::Gaussian { .. }, Targets::Classes(_)) => Err(LikelihoodError::Targets {
                likelihood: "Gaussian",
                needs: "numbers".into(),
                found: "classes".into(),
            }),
            (Self::Categorical { num_classes }, Targets::Classes(labels)) => {
                match labels.iter().find(|&&label| label as usize >= *num_classes) {
                    None => Ok(()),
                    Some(label) => Err(LikelihoodError::Targets {
                        likelihood: "categorical",
                        needs: format!("labels below {num_classes}"),
                        found: format!("not: one is {label}"),
                    }),
                }
            }
            (Self::Categorical { .. }, Targets::Real(_)) => Err(LikelihoodError::Targets {
                likelihood: "categorical",
                needs: "classes".into(),
                found: "numbers".into(),
            }),
        }
    }

    /// Σ log p(y | x, θ, β) of given outputs.
    pub fn log_likelihood(&self, outputs: &[f32], targets: &Targets, inverse_temperature: f64) -> LogLikelihood {
        let mut outputs = outputs.to_vec();
        let mut sum = LikelihoodSum::new(*self, targets, Rows::All, inverse_temperature);
        sum.differentiate(0, &mut outputs);
        sum.total()
    }

    /// log p(y | x, θ) of each row of given outputs, in f64.
    ///
    /// # Panics
    /// If the targets are of another kind.
    pub fn log_densities(&self, outputs: &[f32], targets: &Targets) -> Vec<f64> {
        match (*self, targets) {
            (Self::Gaussian { noise_variance }, Targets::Real(targets)) => {
                let constant = -0.5 * (std::f64::consts::TAU * noise_variance).ln();
                let residuals = outputs.iter().zip(targets).map(|(&mean, &target)| f64::from(target) - f64::from(mean));
                residuals.map(|residual| constant - 0.5 * residual * residual / noise_variance).collect()
            }
            (Self::Categorical { num_classes }, Targets::Classes(labels)) => {
                let of_row = |(logits, &label): (&[f32], &u32)| {
                    let largest = f64::from(logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)));
                    let total: f64 = logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
                    f64::from(logits[label as usize]) - largest - total.ln()
                };
                outputs.chunks_exact(num_classes).zip(labels).map(of_row).collect()
            }
            _ => panic!("a likelihood was given targets of another kind"),
        }
    }
}

/// Sums the log-likelihood over blocks of outputs and replaces them by its gradient.
pub(crate) struct LikelihoodSum<'a> {
    likelihood: Likelihood,
    targets: &'a Targets,
    rows: Rows<'a>,
    beta: f64,
    count: usize,
    /// Gaussian: Σ (y − μ)². Categorical: Σ log p.
    sum: f64,
    log_beta_gradient: f64,
}

impl<'a> LikelihoodSum<'a> {
    pub(crate) fn new(likelihood: Likelihood, targets: &'a Targets, rows: Rows<'a>, inverse_temperature: f64) -> Self {
        Self { likelihood, targets, rows, beta: inverse_temperature, count: 0, sum: 0.0, log_beta_gradient: 0.0 }
    }

    pub(crate) fn total(&self) -> LogLikelihood {
        match self.likelihood {
            Likelihood::Gaussian { noise_variance } => {
                let (n, precision) = (self.count as f64, self.beta / noise_variance);
                let quadratic = 0.5 * precision * self.sum;
                LogLikelihood {
                    value: 0.5 * n * (precision / std::f64::consts::TAU).ln() - quadratic,
                    log_beta_gradient: 0.5 * n - quadratic,
                }
            }
            Likelihood::Categorical { .. } => {
                LogLikelihood { value: self.sum, log_beta_gradient: self.log_beta_gradient }
            }
        }
    }

    fn gaussian(&mut self, precision: f32, targets: &[f32], first_row: usize, means: &mut [f32]) {
        let rows = self.rows;
        self.sum += crate::vector::dispatch(Residuals { rows, precision, targets, first_row, means });
        self.count += means.len();
    }

    fn categorical(&mut self, num_classes: usize, labels: &[u32], first_row: usize, logits: &mut [f32]) {
        let beta = self.beta;
        for (index, logits) in logits.chunks_exact_mut(num_classes).enumerate() {
            let row = self.rows.listed().map_or(first_row + index, |rows| rows[first_row + index] as usize);
            let label = labels[row] as usize;
            let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            let (mut total, mut weighted) = (0.0, 0.0);
            let own = f64::from(logits[label] - largest);
            for logit in &mut *logits {
                let shifted = f64::from(*logit - largest);
                let weight = (beta * shifted).exp();
                total += weight;
                weighted += weight * shifted;
                *logit = weight as f32;
            }
            self.sum += beta * own - total.ln();
            self.log_beta_gradient += beta * (own - weighted / total);
            for (class, logit) in logits.iter_mut().enumerate() {
                let probability = f64::from(*logit) / total;
                *logit = (beta * (f64::from(u8::from(class == label)) - probability)) as f32;
            }
            self.count += 1;
        }
    }
}

/// Replaces means by precision · (target − mean) and returns Σ (target − mean)².
struct Residuals<'a> {
    rows: Rows<'a>,
    precision: f32,
    targets: &'a [f32],
    first_row: usize,
    means: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Residuals<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        const LANES: usize = 16;
        let Self { rows, precision, targets, first_row, means } = self;
        let mut squares = [0.0f64; LANES];
        for (block, means) in means.chunks_mut(LANES).enumerate() {
            let first = first_row + block * LANES;
            let mut wanted = [0.0; LANES];
            match rows.listed() {
                None => wanted[..means.len()].copy_from_slice(&targets[first..first + means.len()]),
                Some(picked) => {
                    for (wanted, &row) in wanted.iter_mut().zip(&picked[first..first + means.len()]) {
                        *wanted = targets[row as usize];
                    }
                }
            }
            for ((mean, wanted), square) in means.iter_mut().zip(wanted).zip(&mut squares) {
                let difference = wanted - *mean;
                *square += f64::from(difference) * f64::from(difference);
                *mean = precision * difference;
            }
        }
        squares.iter().sum()
    }
}

impl OutputGradient for LikelihoodSum<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        match (self.likelihood, self.targets) {
            (Likelihood::Gaussian { noise_variance }, Targets::Real(targets)) => {
                self.gaussian((self.beta / noise_variance) as f32, targets, first_row, outputs);
            }
            (Likelihood::Categorical { num_classes }, Targets::Classes(labels)) => {
                self.categorical(num_classes, labels, first_row, outputs);
            }
            _ => unreachable!("checked when the posterior was built"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rows_add_up_to_the_sum() {
        let cases = [
            (Likelihood::Gaussian { noise_variance: 0.2 }, vec![0.5, -1.25], Targets::Real(vec![0.75, 2.0])),
            (
                Likelihood::Categorical { num_classes: 3 },
                vec![0.5, -1.0, 40.0, 3.0, 2.0, 1.0],
                Targets::Classes(vec![1, 0]),
            ),
        ];
        for (likelihood, outputs, targets) in cases {
            let rows = likelihood.log_densities(&outputs, &targets);
            let sum = likelihood.log_likelihood(&outputs, &targets, 1.0).value;
            assert!(rows.len() == 2 && (rows.iter().sum::<f64>() - sum).abs() < 1e-5, "{rows:?} {sum}");
        }
    }

    #[test]
    fn gaussian_gradient_in_log_beta_vanishes_at_the_closed_form() {
        let targets = Targets::Real(vec![1.0, -2.0, 0.5]);
        let outputs = [0.5, -1.0, 0.75];
        let likelihood = Likelihood::Gaussian { noise_variance: 0.01 };
        let squares = 0.25 + 1.0 + 0.0625;
        let beta = 0.01 * 3.0 / squares;
        assert!(likelihood.log_likelihood(&outputs, &targets, beta).log_beta_gradient.abs() < 1e-12);
    }

    #[test]
    fn log_beta_gradient_agrees_with_differences() {
        let cases = [
            (Likelihood::Gaussian { noise_variance: 0.1 }, Targets::Real(vec![0.1, 0.2, -0.4, 0.3, 1.0, 0.0])),
            (Likelihood::Categorical { num_classes: 3 }, Targets::Classes(vec![2, 0])),
        ];
        let outputs = [0.3, -0.4, 0.9, 1.5, -2.0, 0.1];
        for (likelihood, targets) in cases {
            let at = |log_beta: f64| likelihood.log_likelihood(&outputs, &targets, log_beta.exp());
            let slope = (at(0.7 + 1e-5).value - at(0.7 - 1e-5).value) / 2e-5;
            assert!((slope - at(0.7).log_beta_gradient).abs() < 1e-6, "{likelihood:?}");
        }
    }

    #[test]
    fn a_sure_wrong_class_stays_finite() {
        let likelihood = Likelihood::Categorical { num_classes: 2 };
        let sum = likelihood.log_likelihood(&[1000.0, 0.0], &Targets::Classes(vec![1]), 4.0);
        assert_eq!(sum.value, -4000.0);
    }

    #[test]
    fn refuses_targets_of_another_kind() {
        let error = Likelihood::Gaussian { noise_variance: 0.1 }.check(&Targets::Classes(vec![0])).unwrap_err();
        assert_eq!(error.to_string(), "a Gaussian likelihood needs numbers, but the targets are classes");
        assert!(Likelihood::Gaussian { noise_variance: 0.0 }.check(&Targets::Real(vec![])).is_err());
        assert!(Likelihood::Categorical { num_classes: 2 }.check(&Targets::Classes(vec![2])).is_err());
    }
}

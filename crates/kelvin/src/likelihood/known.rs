//! The likelihoods there are, and the questions they all answer.

use serde::{Deserialize, Serialize};

use super::categorical::Categorical;
use super::counts::Counts;
use super::gaussian::Gaussian;
use super::independent::{EachNumber, Independent};
use super::learned_gaussian::LearnedGaussian;
use super::log_normal::LogNormal;
use super::model::{LikelihoodError, LogBetaCurve, Model, TargetKind, TemperedDensity};
use super::number::NumberDistribution;
use super::power_normal::PowerNormal;
use super::student_t::StudentT;
use super::varying_gaussian::VaryingGaussian;
use super::varying_student_t::VaryingStudentT;
use crate::data::Targets;
use crate::network::Layout;

/// The model of a target given the network's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Likelihood {
    /// y ~ N(output, noise_variance): one output.
    Gaussian {
        /// σ², a variance, on the scale of the (standardised) targets.
        noise_variance: f64,
    },
    /// y ~ N(output, σ²) with log σ² a parameter under N(0, 1): one output.
    #[serde(rename = "learned_gaussian")]
    LearnedGaussian,
    /// y ~ N(first output, σ²(x)) with log σ²(x) a bounded form of the second output.
    #[serde(rename = "varying_gaussian")]
    VaryingGaussian,
    /// y ~ output + s · Student-t with four degrees of freedom, with log s² a parameter under N(0, 1): one output.
    #[serde(rename = "student_t")]
    StudentT,
    /// y ~ first output + e^{s(x)/2} · Student-t with four degrees of freedom, with s(x) a bounded form of the second output.
    #[serde(rename = "varying_student_t")]
    VaryingStudentT,
    /// Positive numbers: (log y − log_mean)/log_std ~ N(first output, σ²(x)) with log σ²(x) a bounded form of the second output.
    #[serde(rename = "log_normal")]
    LogNormal {
        /// The mean of log y over the training rows.
        log_mean: f64,
        /// Its standard deviation.
        log_std: f64,
    },
    /// Numbers that a power transform T of Yeo and Johnson makes normal: (T(y) − mean)/std ~ N(first output, σ²(x)) with log σ²(x) a bounded form of the second output.
    #[serde(rename = "power_normal")]
    PowerNormal {
        /// λ of T, between 0 and 2.
        power: f64,
        /// The mean of T(y) over the training rows.
        mean: f64,
        /// Its standard deviation.
        std: f64,
    },
    /// Counts, Poisson with the log of their mean log_mean + a bounded form of the output: one output.
    Poisson {
        /// The log of the mean of the training counts.
        log_mean: f64,
    },
    /// Counts, negative binomial with the same mean and log r a parameter under N(0, 4): one output.
    #[serde(rename = "negative_binomial")]
    NegativeBinomial {
        /// The log of the mean of the training counts.
        log_mean: f64,
    },
    /// Several numbers of a row, independent given its outputs: each has the outputs and the parameters of one.
    Independent {
        /// What each of them has.
        each: EachNumber,
        /// How many there are.
        num_targets: usize,
    },
    /// y ~ softmax(outputs): one output for each class.
    Categorical {
        /// How many classes.
        num_classes: usize,
    },
}

impl Likelihood {
    /// Asks the likelihood; the one place that knows them all.
    pub(super) fn ask<R>(&self, question: impl FnOnce(&dyn Model) -> R) -> R {
        match *self {
            Self::Gaussian { noise_variance } => question(&Gaussian { noise_variance }),
            Self::LearnedGaussian => question(&LearnedGaussian),
            Self::VaryingGaussian => question(&VaryingGaussian),
            Self::StudentT => question(&StudentT),
            Self::VaryingStudentT => question(&VaryingStudentT),
            Self::LogNormal { log_mean, log_std } => question(&LogNormal { log_mean, log_std }),
            Self::PowerNormal { power, mean, std } => question(&PowerNormal { power, mean, std }),
            Self::Poisson { log_mean } => question(&Counts { log_mean, has_size: false }),
            Self::NegativeBinomial { log_mean } => question(&Counts { log_mean, has_size: true }),
            Self::Independent { each, num_targets } => question(&Independent { each, num_targets }),
            Self::Categorical { num_classes } => question(&Categorical { num_classes }),
        }
    }

    /// The likelihood of so many targets that each have this one, independent given the outputs; of one target it is this one.
    ///
    /// # Errors
    /// If it is not for several targets, or they are too many.
    pub fn of_targets(self, num_targets: usize) -> Result<Self, LikelihoodError> {
        let each = match self {
            _ if num_targets == 1 => return Ok(self),
            Self::Gaussian { noise_variance } => EachNumber::Gaussian { noise_variance },
            Self::LearnedGaussian => EachNumber::LearnedGaussian,
            Self::VaryingGaussian => EachNumber::VaryingGaussian,
            Self::StudentT => EachNumber::StudentT,
            Self::VaryingStudentT => EachNumber::VaryingStudentT,
            _ => return Err(LikelihoodError::OneTarget { likelihood: self.ask(|model| model.name()) }),
        };
        let several = Self::Independent { each, num_targets };
        several.check_settings().map(|()| several)
    }

    /// The likelihood of one of its targets.
    pub fn of_one_target(self) -> Self {
        match self {
            Self::Independent { each: EachNumber::Gaussian { noise_variance }, .. } => {
                Self::Gaussian { noise_variance }
            }
            Self::Independent { each: EachNumber::LearnedGaussian, .. } => Self::LearnedGaussian,
            Self::Independent { each: EachNumber::VaryingGaussian, .. } => Self::VaryingGaussian,
            Self::Independent { each: EachNumber::StudentT, .. } => Self::StudentT,
            Self::Independent { each: EachNumber::VaryingStudentT, .. } => Self::VaryingStudentT,
            one => one,
        }
    }

    /// One that fits these targets, for engines that evaluate whole posteriors where a network's outputs alone are wanted.
    pub fn fitting(targets: &Targets, num_outputs: usize) -> Self {
        match targets {
            Targets::Real(_) => Self::Gaussian { noise_variance: 1.0 },
            Targets::Classes(_) => Self::Categorical { num_classes: num_outputs },
        }
    }

    /// What its targets are.
    pub fn kind(&self) -> TargetKind {
        self.ask(|model| model.kind())
    }

    /// Outputs a network must have.
    pub fn num_outputs(&self) -> usize {
        self.ask(|model| model.num_outputs())
    }

    /// Targets of a row.
    pub fn num_targets(&self) -> usize {
        self.ask(|model| model.num_targets())
    }

    /// Which of the outputs say how far targets spread: priors hold their weights closer than others.
    pub fn spread_outputs(&self) -> Vec<usize> {
        let per_target = self.num_outputs() / self.num_targets();
        let of_target = self.ask(|model| model.spread_output());
        of_target.into_iter().flat_map(|spread| (spread..self.num_outputs()).step_by(per_target)).collect()
    }

    /// So many rows of targets that nobody will look at: for rows whose outputs alone are wanted.
    pub fn unknown_targets(&self, num_rows: usize) -> Targets {
        match self.kind() {
            TargetKind::Numbers => Targets::Real(vec![0.0; num_rows * self.num_targets()]),
            TargetKind::Classes { .. } => Targets::Classes(vec![0; num_rows]),
        }
    }

    /// Adds its own parameters to a layout.
    pub fn add_tensors(&self, layout: &mut Layout) {
        self.ask(|model| model.add_tensors(layout));
    }

    /// Where its own parameters start.
    pub fn initial_parameters(&self) -> Vec<f32> {
        self.ask(|model| model.initial_parameters())
    }

    /// How many parameters of its own it has.
    pub fn num_parameters(&self) -> usize {
        let mut own = Layout::default();
        self.add_tensors(&mut own);
        own.len()
    }

    /// Numbers it wants of a row: outputs of the network, then its own parameters.
    pub fn num_values(&self) -> usize {
        self.num_outputs() + self.num_parameters()
    }

    /// log p of its own parameters.
    pub(crate) fn log_prior(&self, own: &[f32]) -> f64 {
        self.ask(|model| model.log_prior(own))
    }

    /// gradient ← scale · gradient − ∇ log p of its own parameters.
    pub(crate) fn add_prior_energy_gradient(&self, own: &[f32], scale: f64, gradient: &mut [f32]) {
        self.ask(|model| model.add_prior_energy_gradient(own, scale, gradient));
    }

    /// Why a maximum of the likelihood in (θ, log β) has no β to tell, where it has none: as where θ holds a scale of the noise, which only β/σ² is
    /// felt of.
    pub fn hides_beta(&self) -> Option<&'static str> {
        self.ask(|model| model.hides_beta())
    }

    /// Whether a maximum of the likelihood in (θ, log β) has a β to tell.
    pub fn identifies_beta(&self) -> bool {
        self.hides_beta().is_none()
    }

    /// Where β must be above for p(y|x,θ)^β to have an integral: 0 for all but those with far tails.
    pub fn least_power(&self) -> f64 {
        self.ask(|model| model.least_power())
    }

    /// Whether its targets are counts, which are never standardised.
    pub fn are_counts(&self) -> bool {
        self.ask(|model| model.are_counts())
    }

    /// Whether its targets are given as they are and not standardised, since it knows their units.
    pub fn has_own_units(&self) -> bool {
        self.ask(|model| model.has_own_units())
    }

    /// σ², where targets are normal around the output with one variance that is known: what closed forms need.
    pub fn known_noise_variance(&self) -> Option<f64> {
        self.ask(|model| model.known_noise_variance())
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Where they are none that a model can have.
    pub fn check_settings(&self) -> Result<(), LikelihoodError> {
        self.ask(|model| model.check_settings())
    }

    /// Checks the settings, and that these targets are of its kind.
    ///
    /// # Errors
    /// Where one of them does not fit.
    pub fn check(&self, targets: &Targets) -> Result<(), LikelihoodError> {
        self.check_settings()?;
        let likelihood = self.ask(|model| model.name());
        let wrong = |needs: String, found: String| Err(LikelihoodError::Targets { likelihood, needs, found });
        match (self.kind(), targets) {
            (TargetKind::Numbers, Targets::Real(numbers)) if self.are_counts() => {
                let is_count = |number: &f32| *number >= 0.0 && number.is_finite() && number.fract() == 0.0;
                match numbers.iter().find(|number| !is_count(number)) {
                    None => Ok(()),
                    Some(&found) => Err(LikelihoodError::NotACount { likelihood, found }),
                }
            }
            (TargetKind::Numbers, Targets::Real(numbers)) if matches!(self, Self::LogNormal { .. }) => {
                // Nobody looks at the density of a 0: rows whose answer is not known have one.
                match numbers.iter().find(|&&number| number.is_nan() || number < 0.0) {
                    None => Ok(()),
                    Some(&found) => Err(LikelihoodError::NotPositive { found }),
                }
            }
            (TargetKind::Numbers, Targets::Real(_)) => Ok(()),
            (TargetKind::Numbers, Targets::Classes(_)) => wrong("numbers".into(), "classes".into()),
            (TargetKind::Classes { .. }, Targets::Real(_)) => wrong("classes".into(), "numbers".into()),
            (TargetKind::Classes { num_classes }, Targets::Classes(labels)) => {
                match labels.iter().find(|&&label| label as usize >= num_classes) {
                    None => Ok(()),
                    Some(label) => wrong(format!("labels below {num_classes}"), format!("not: one is {label}")),
                }
            }
        }
    }

    /// log p(y | x, θ) of each row of given values, in f64.
    ///
    /// # Panics
    /// If the targets are of another kind.
    pub fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        self.ask(|model| model.log_densities(values, targets))
    }

    /// Shows log p(y | x, θ, β) of each row and its derivative in β, in order.
    ///
    /// # Panics
    /// If the targets are of another kind.
    pub fn tempered_densities(
        &self,
        values: &[f32],
        targets: &Targets,
        inverse_temperature: f64,
        mut show: impl FnMut(TemperedDensity),
    ) {
        self.ask(|model| model.tempered_densities(values, targets, inverse_temperature, &mut show));
    }

    /// Σ log p(y | x, θ, β) with its first two derivatives in log β, in f64.
    ///
    /// # Panics
    /// If the targets are of another kind.
    pub fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        self.ask(|model| model.log_beta_curve(values, targets, log_beta))
    }

    /// The distribution of a number given the values of its row, at the power b of the tempered model: 1 or β.
    ///
    /// # Panics
    /// If its targets are classes.
    pub fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        self.number_distribution_of(0, values, power)
    }

    /// The same of one of a row's targets, counted from 0.
    ///
    /// # Panics
    /// If its targets are classes, or are fewer.
    pub fn number_distribution_of(&self, target: usize, values: &[f32], power: f64) -> NumberDistribution {
        self.ask(|model| model.number_distribution_of(target, values, power))
    }
}

#[cfg(test)]
mod tests;

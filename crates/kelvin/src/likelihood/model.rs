//! What a likelihood is asked, and what it answers with.

use thiserror::Error;

use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use crate::data::Targets;
use crate::network::Layout;

/// What targets are, and with them what is predicted: a density of numbers, or probabilities of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Numbers.
    Numbers,
    /// Labels from 0.
    Classes {
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
    /// The mean of counts must be positive.
    #[error(
        "the log of the mean count must be a finite number, got {found}: counts that are all 0 leave nothing to learn"
    )]
    MeanCount {
        /// What was given.
        found: f64,
    },
    /// The logs of positive targets must have a scale.
    #[error(
        "the logs of the targets must have a finite mean and a standard deviation > 0, got {mean} and {std}: a log-normal likelihood \
         needs positive numbers that differ"
    )]
    LogScale {
        /// The mean that was given.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// Transformed targets must have a scale.
    #[error(
        "a power transform must have a power between 0 and 2, and transformed targets a finite mean and a standard deviation > 0, got \
         {power}, {mean} and {std}: a power-normal likelihood needs numbers that differ"
    )]
    PowerScale {
        /// The power that was given.
        power: f64,
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// A target that has no logarithm.
    #[error(
        "a log-normal likelihood needs positive targets, but a target is {found}; choose model.likelihood = \
         \"varying_gaussian\""
    )]
    NotPositive {
        /// What was given.
        found: f32,
    },
    /// A target that is no count.
    #[error(
        "a {likelihood} likelihood needs counts (0, 1, 2, …), but a target is {found}; choose model.likelihood = \"learned_gaussian\""
    )]
    NotACount {
        /// The likelihood's name.
        likelihood: &'static str,
        /// What was given.
        found: f32,
    },
    /// A likelihood that only one target can have.
    #[error(
        "a {likelihood} likelihood is for one target, and several were asked for; choose \"learned_gaussian\", \
         \"varying_gaussian\", \"student_t\" or \"varying_student_t\", or learn each target by itself"
    )]
    OneTarget {
        /// The likelihood's name.
        likelihood: &'static str,
    },
    /// Too many targets, or too few.
    #[error(
        "a likelihood of several targets is for 2 to {most}, and {found} were asked for; learn some of them by themselves"
    )]
    NumTargets {
        /// How many there are.
        found: usize,
        /// How many there can be.
        most: usize,
    },
    /// Another number of targets than rows have.
    #[error("the likelihood is of {needed} targets a row, and rows have {found}")]
    TargetsOfRow {
        /// How many it is of.
        needed: usize,
        /// How many rows have.
        found: usize,
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

/// A sum over rows of log p(y | x, θ, β) with its first two derivatives in log β.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogBetaCurve {
    /// Σ log p(y | x, θ, β).
    pub value: f64,
    /// Its derivative in log β.
    pub slope: f64,
    /// Its second derivative in log β.
    pub curvature: f64,
}

/// log p(y | x, θ, β) of one row and its derivative in β (not in log β).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TemperedDensity {
    /// log p(y | x, θ, β).
    pub log_density: f64,
    /// d/dβ of it.
    pub slope: f64,
}

/// Why learned Gaussian noise has no β to tell.
pub(super) const NOISE_HIDES_BETA: &str = "the noise is learned, and the likelihood knows only β/σ²";

/// What a likelihood is asked; `values` are those of whole rows, as [`Likelihood::num_values`] counts them.
pub(super) trait Model {
    /// Its name in errors.
    fn name(&self) -> &'static str;

    /// What its targets are.
    fn kind(&self) -> TargetKind;

    /// Targets of a row.
    fn num_targets(&self) -> usize {
        1
    }

    /// Outputs a network must have.
    fn num_outputs(&self) -> usize;

    /// Checks its settings.
    fn check_settings(&self) -> Result<(), LikelihoodError> {
        Ok(())
    }

    /// Which of the outputs of a target says how far it spreads, if one does.
    fn spread_output(&self) -> Option<usize> {
        None
    }

    /// Adds its own parameters to a layout.
    fn add_tensors(&self, layout: &mut Layout) {
        let _ = layout;
    }

    /// Where its own parameters start.
    fn initial_parameters(&self) -> Vec<f32> {
        Vec::new()
    }

    /// log p of its own parameters.
    fn log_prior(&self, own: &[f32]) -> f64 {
        let _ = own;
        0.0
    }

    /// gradient ← scale · gradient − ∇ log p of its own parameters.
    fn add_prior_energy_gradient(&self, own: &[f32], scale: f64, gradient: &mut [f32]) {
        let _ = (own, scale, gradient);
    }

    /// Why a maximum of the likelihood in (θ, log β) has no β to tell, where it has none.
    fn hides_beta(&self) -> Option<&'static str> {
        None
    }

    /// Where β must be above for p(y|x,θ)^β to have an integral.
    fn least_power(&self) -> f64 {
        0.0
    }

    /// Whether its targets are counts: 0, 1, 2, … as they are.
    fn are_counts(&self) -> bool {
        false
    }

    /// Whether its targets are given as they are and not standardised, since it knows their units.
    fn has_own_units(&self) -> bool {
        self.are_counts()
    }

    /// Replaces the outputs of some rows by ∂ log p(y | x, θ, β) / ∂ outputs, and adds to `sums` what [`Model::total`] needs.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums);

    /// Σ log p(y | x, θ, β) of the rows that were differentiated.
    fn total(&self, given: Given<'_>, sums: &RowSums) -> LogLikelihood;

    /// Overwrites `gradient` with the derivative of the same sum in its own parameters.
    fn own_gradient(&self, given: Given<'_>, sums: &RowSums, gradient: &mut [f32]) {
        let _ = (given, sums, gradient);
    }

    /// log p(y | x, θ) of each row, in f64.
    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64>;

    /// Shows the tempered density of each row, in order.
    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity));

    /// Σ log p(y | x, θ, β) as a function of log β, in f64.
    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve;

    /// The distribution of a number given the values of its row, at the power b of the tempered model; asked where targets are numbers.
    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        let _ = (values, power);
        unreachable!("a {} likelihood has no numbers", self.name())
    }

    /// The same of one of several targets.
    fn number_distribution_of(&self, target: usize, values: &[f32], power: f64) -> NumberDistribution {
        let _ = target;
        self.number_distribution(values, power)
    }

    /// σ², where targets are normal around the output with one variance that is known: what closed forms need.
    fn known_noise_variance(&self) -> Option<f64> {
        None
    }
}

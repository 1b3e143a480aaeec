//! The likelihoods there are, and the questions they all answer.

use serde::{Deserialize, Serialize};

use super::categorical::Categorical;
use super::counts::Counts;
use super::gaussian::Gaussian;
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
            Self::Categorical { num_classes } => question(&Categorical { num_classes }),
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

    /// Which of the outputs says how far targets spread, if one does: priors hold its weights closer than others.
    pub fn spread_output(&self) -> Option<usize> {
        self.ask(|model| model.spread_output())
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
        self.ask(|model| model.number_distribution(values, power))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Given;
    use super::super::sum::LikelihoodSum;
    use super::*;
    use crate::network::{OutputGradient, Rows};

    /// One of each, with three rows of values and targets.
    fn all() -> Vec<(Likelihood, Vec<f32>, Targets)> {
        let numbers = || Targets::Real(vec![0.75, 2.0, -0.4]);
        let counts = || Targets::Real(vec![3.0, 0.0, 17.0]);
        vec![
            (Likelihood::Gaussian { noise_variance: 0.2 }, vec![0.5, -1.25, 0.3], numbers()),
            (Likelihood::LearnedGaussian, vec![0.5, -0.7, -1.25, -0.7, 0.3, -0.7], numbers()),
            (Likelihood::VaryingGaussian, vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0], numbers()),
            (Likelihood::StudentT, vec![0.5, -0.7, -1.25, -0.7, 0.3, -0.7], numbers()),
            (Likelihood::VaryingStudentT, vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0], numbers()),
            (
                Likelihood::LogNormal { log_mean: 0.3, log_std: 0.8 },
                vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0],
                Targets::Real(vec![0.75, 2.0, 1.6]),
            ),
            (
                Likelihood::PowerNormal { power: 0.4, mean: 0.3, std: 0.8 },
                vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0],
                numbers(),
            ),
            (
                Likelihood::PowerNormal { power: 2.0, mean: 0.3, std: 0.8 },
                vec![0.5, -0.7, 0.2, 0.9, 0.3, 0.1],
                numbers(),
            ),
            (Likelihood::Poisson { log_mean: 0.7 }, vec![0.5, -1.25, 2.3], counts()),
            (Likelihood::NegativeBinomial { log_mean: 0.7 }, vec![0.5, 0.4, -1.25, 0.4, 2.3, 0.4], counts()),
            (
                Likelihood::Categorical { num_classes: 3 },
                vec![0.5, -1.0, 40.0, 3.0, 2.0, 1.0, 0.3, -0.4, 0.9],
                Targets::Classes(vec![1, 0, 2]),
            ),
        ]
    }

    #[test]
    fn single_rows_add_up_to_the_sum() {
        for (likelihood, values, targets) in all() {
            let close = |sum: f64, rows: &[f64]| (rows.iter().sum::<f64>() - sum).abs() < 1e-5 * (1.0 + sum.abs());
            let rows = likelihood.log_densities(&values, &targets);
            let sum = likelihood.log_likelihood(&values, &targets, 1.0).value;
            assert!(rows.len() == 3 && close(sum, &rows), "{likelihood:?}: {rows:?} {sum}");
            let (mut rows, mut slopes) = (Vec::new(), Vec::new());
            likelihood.tempered_densities(&values, &targets, 2.5, |row| {
                rows.push(row.log_density);
                slopes.push(2.5 * row.slope);
            });
            let sum = likelihood.log_likelihood(&values, &targets, 2.5);
            assert!(rows.len() == 3 && close(sum.value, &rows) && close(sum.log_beta_gradient, &slopes));
            let curve = likelihood.log_beta_curve(&values, &targets, 2.5f64.ln());
            assert!(close(sum.value, &[curve.value]) && close(sum.log_beta_gradient, &[curve.slope]));
        }
    }

    #[test]
    fn derivatives_in_log_beta_agree_with_differences() {
        for (likelihood, values, targets) in all() {
            let at = |log_beta: f64| likelihood.log_likelihood(&values, &targets, log_beta.exp());
            let slope = (at(0.7 + 1e-5).value - at(0.7 - 1e-5).value) / 2e-5;
            assert!((slope - at(0.7).log_beta_gradient).abs() < 1e-6, "{likelihood:?}");
            let curve = |log_beta: f64| likelihood.log_beta_curve(&values, &targets, log_beta);
            let curvature = (curve(0.7 + 1e-5).slope - curve(0.7 - 1e-5).slope) / 2e-5;
            assert!((curvature - curve(0.7).curvature).abs() < 1e-5, "{likelihood:?}");
        }
    }

    /// Numbers: the distribution of a row is the density of its target, and has its mean and variance.
    #[test]
    fn the_distribution_of_a_number_is_that_of_its_density() {
        for (likelihood, values, targets) in all() {
            let Targets::Real(numbers) = &targets else { continue };
            let width = values.len() / numbers.len();
            let mut rows = Vec::new();
            likelihood.tempered_densities(&values, &targets, 3.0, |row| rows.push(row.log_density));
            for ((values, &target), log_density) in values.chunks_exact(width).zip(numbers).zip(rows) {
                let distribution = likelihood.number_distribution(values, 3.0);
                assert!((distribution.log_density(f64::from(target)) - log_density).abs() < 1e-10, "{likelihood:?}");
                let (below, at) = (0.066_807_201_268_858, distribution.at(-1.5));
                if likelihood.are_counts() {
                    assert!(distribution.at_most(at) >= below && distribution.at_most(at - 1.0) < below);
                    let middle = distribution.at_most(at) - 0.5 * distribution.log_density(at).exp();
                    assert!((distribution.cumulative(at) - middle).abs() < 1e-10, "{likelihood:?}");
                } else {
                    assert!((distribution.cumulative(at) - below).abs() < 1e-12, "{likelihood:?}");
                }
                assert!((distribution.cumulative(at) + distribution.above(at) - 1.0).abs() < 1e-12);
            }
        }
    }

    /// ∂/∂outputs and ∂/∂own of Σ log p^β/Z, at β = 1 and at another.
    #[test]
    fn gradients_agree_with_differences() {
        for ((likelihood, values, targets), beta) in all().into_iter().flat_map(|one| [(one.clone(), 1.0), (one, 1.7)])
        {
            let (num_outputs, num_values) = (likelihood.num_outputs(), likelihood.num_values());
            let own: Vec<f32> = values[num_outputs..num_values].to_vec();
            let outputs: Vec<f32> =
                values.chunks_exact(num_values).flat_map(|row| &row[..num_outputs]).copied().collect();
            let sum = |outputs: &[f32], own: &[f32]| {
                let given = Given { beta, own };
                let (mut outputs, mut of_own) = (outputs.to_vec(), vec![0.0; own.len()]);
                let mut sum = LikelihoodSum::new(likelihood, given, &targets, Rows::All);
                sum.differentiate(0, &mut outputs);
                sum.own_gradient(&mut of_own);
                (sum.total().value, outputs, of_own)
            };
            let (_, of_outputs, of_own) = sum(&outputs, &own);
            for (index, found) in of_outputs.iter().chain(&of_own).enumerate() {
                let at = |step: f32| {
                    let (mut outputs, mut own) = (outputs.clone(), own.clone());
                    *outputs.iter_mut().chain(&mut own).nth(index).unwrap() += step;
                    sum(&outputs, &own).0
                };
                // Fourth order, with steps that f32 has exactly.
                let step = 0.015_625;
                let slope =
                    (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * f64::from(step));
                let error = (slope - f64::from(*found)).abs();
                assert!(error < 2e-3 * (1.0 + slope.abs()), "{likelihood:?}, β = {beta}, {index}: {slope} {found}");
            }
        }
    }

    #[test]
    fn parameters_of_its_own_have_names_starts_and_a_prior() {
        for (likelihood, values, _) in all() {
            assert_eq!(values.len(), 3 * likelihood.num_values(), "{likelihood:?}");
            let own = likelihood.initial_parameters();
            assert_eq!(own.len(), likelihood.num_parameters());
            for index in 0..own.len() {
                let at = |step: f32| {
                    let mut moved: Vec<f32> = own.iter().map(|value| value + 0.7).collect();
                    moved[index] += step;
                    moved
                };
                let mut gradient = vec![2.0; own.len()];
                likelihood.add_prior_energy_gradient(&at(0.0), -1.5, &mut gradient);
                let slope = (likelihood.log_prior(&at(0.125)) - likelihood.log_prior(&at(-0.125))) / 0.25;
                assert!((f64::from(gradient[index]) - (-3.0 - slope)).abs() < 1e-3, "{likelihood:?}");
            }
        }
    }

    #[test]
    fn refuses_targets_of_another_kind() {
        let error = Likelihood::Gaussian { noise_variance: 0.1 }.check(&Targets::Classes(vec![0])).unwrap_err();
        assert_eq!(error.to_string(), "a Gaussian likelihood needs numbers, but the targets are classes");
        assert!(Likelihood::Gaussian { noise_variance: 0.0 }.check(&Targets::Real(vec![])).is_err());
        assert!(Likelihood::Categorical { num_classes: 2 }.check(&Targets::Classes(vec![2])).is_err());
        let poisson = Likelihood::Poisson { log_mean: 0.0 };
        let error = poisson.check(&Targets::Real(vec![1.0, 0.5])).unwrap_err().to_string();
        assert!(error.contains("Poisson likelihood needs counts") && error.contains("a target is 0.5"), "{error}");
        assert!(Likelihood::NegativeBinomial { log_mean: f64::NEG_INFINITY }.check_settings().is_err());
        for (likelihood, _, targets) in all() {
            assert!(
                likelihood.check(&targets).is_ok() && likelihood.check(&likelihood.kind().unknown_targets(2)).is_ok()
            );
        }
    }

    /// p^b falls as |y|^{−b (ν + 1)}, which has an integral where b (ν + 1) > 1; all others fall faster than any power.
    #[test]
    fn tails_decide_which_powers_have_an_integral() {
        for (likelihood, values, _) in all() {
            let width = likelihood.num_values();
            if likelihood.kind() != TargetKind::Numbers || likelihood.are_counts() || likelihood.has_own_units() {
                assert_eq!(likelihood.least_power(), 0.0, "{likelihood:?}");
                continue;
            }
            let tail = likelihood.number_distribution(&values[..width], 1.0);
            let falls = (tail.log_density(1e60) - tail.log_density(1e30)) / (30.0 * std::f64::consts::LN_10);
            let expected = if falls < -1e3 { 0.0 } else { -1.0 / falls };
            assert!((likelihood.least_power() - expected).abs() < 1e-6, "{likelihood:?}: {expected}");
        }
    }

    /// The output that says how far targets spread moves the scale and not the middle; only those with one have it.
    #[test]
    fn the_output_of_the_spread_spreads() {
        for (likelihood, values, _) in all() {
            let width = likelihood.num_values();
            let Some(output) = likelihood.spread_output() else {
                let name = likelihood.ask(|model| model.name());
                assert!(!name.contains("varying") && name != "log-normal", "{likelihood:?}");
                continue;
            };
            let mut wider = values[..width].to_vec();
            wider[output] += 1.0;
            let [narrow, wide] = [&values[..width], &wider].map(|values| likelihood.number_distribution(values, 1.0));
            assert!(wide.scale() > 1.5 * narrow.scale(), "{likelihood:?}");
            assert!(
                (wide.at(0.0) - narrow.at(0.0)).abs() < 1e-9,
                "{likelihood:?}: {} {}",
                wide.at(0.0),
                narrow.at(0.0)
            );
        }
    }

    /// What holds a scale of its own hides β, and says what it is that hides it.
    #[test]
    fn scales_of_the_noise_hide_beta() {
        for (likelihood, _, _) in all() {
            let has_scale = likelihood.spread_output().is_some() || likelihood.num_parameters() > 0;
            assert_eq!(likelihood.identifies_beta(), !has_scale, "{likelihood:?}");
            let why = likelihood.hides_beta().unwrap_or("β of noise");
            assert!(why.contains('β') || why.contains("noise") || why.contains("scale"), "{likelihood:?}: {why}");
        }
    }

    #[test]
    fn names_and_units_are_those_people_read_of() {
        let names: Vec<&str> = all().iter().map(|(likelihood, _, _)| likelihood.ask(|model| model.name())).collect();
        let expected = [
            "Gaussian",
            "Gaussian",
            "Gaussian with varying noise",
            "Student-t",
            "Student-t with varying scale",
            "log-normal",
            "Poisson",
            "negative binomial",
            "categorical",
        ];
        assert_eq!(names, expected);
        let own: Vec<bool> = all().iter().map(|(likelihood, _, _)| likelihood.has_own_units()).collect();
        assert_eq!(
            own,
            [false, false, false, false, false, true, true, true, false],
            "counts and logs know their units"
        );
    }

    /// The energy of its own parameters is −log p of them: gradients are differences, added to a scaled one.
    #[test]
    fn own_parameters_have_the_gradient_of_their_prior() {
        for (likelihood, _, _) in all() {
            let own: Vec<f32> = (0..likelihood.num_parameters()).map(|index| 0.7 - 0.2 * index as f32).collect();
            let mut gradient = vec![1.5f32; own.len()];
            likelihood.add_prior_energy_gradient(&own, 2.0, &mut gradient);
            for index in 0..own.len() {
                let at = |step: f32| {
                    let mut moved = own.clone();
                    moved[index] += step;
                    likelihood.log_prior(&moved)
                };
                let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
                assert!(
                    (f64::from(gradient[index]) - (3.0 - slope)).abs() < 1e-4,
                    "{likelihood:?}: {gradient:?} {slope}"
                );
            }
            if own.is_empty() {
                assert_eq!(likelihood.log_prior(&own), 0.0, "{likelihood:?}");
            }
            assert_eq!(likelihood.initial_parameters().len(), own.len(), "{likelihood:?}");
            assert!(likelihood.initial_parameters().iter().all(|value| *value == 0.0), "{likelihood:?}");
        }
    }
}

//! From settings to the likelihood of the targets at hand.

use super::experiment::{Settings, TaskSetting};
use super::likelihood::LikelihoodName;
use super::model::ModelSettings;
use crate::error::ExperimentError;
use kelvin::data::{Dataset, Target};
use kelvin::likelihood::{Likelihood, YeoJohnson};

impl Settings {
    /// The likelihood in force for the targets of a table, each of which has what [`ModelSettings::build_likelihood`] gives; negative binomial for counts
    /// where none is named.
    ///
    /// # Errors
    /// If the one that is named is not for such targets, or not for so many.
    pub fn build_likelihood(&self, table: &Dataset, train: &[usize]) -> Result<Likelihood, ExperimentError> {
        let counts = (self.data.task == TaskSetting::Counts).then_some(LikelihoodName::NegativeBinomial);
        let likelihood = self.model.likelihood.or(counts);
        let model = ModelSettings { likelihood, ..self.model.clone() };
        let num_targets = table.num_targets();
        if let Some(name) = likelihood.filter(|name| num_targets > 1 && name.is_of_numbers() && !name.is_of_several()) {
            let several = LikelihoodName::OF_SEVERAL.map(|name| format!("\"{}\"", name.name())).join(", ");
            let reason = format!(
                "\"{}\" is for one target, and {num_targets} are to be predicted; choose one of {several}, or learn each target in a run of its own",
                name.name()
            );
            return Err(ExperimentError::DoesNotApply { key: "model.likelihood", reason: reason.into() });
        }
        let one = model.build_likelihood(&table.target, train)?;
        let of_targets = one.of_targets(num_targets);
        of_targets
            .map_err(|error| ExperimentError::DoesNotApply { key: "data.target", reason: error.to_string().into() })
    }
}

impl ModelSettings {
    /// The likelihood in force for a target: the one that is named, else Gaussian with the variance `noise_variance` for numbers and categorical
    /// for classes. Counts are predicted relative to the mean of the training rows, logarithms and powers to their mean and standard deviation.
    ///
    /// # Errors
    /// If the one that is named is not for such targets.
    pub fn build_likelihood(&self, target: &Target, train: &[usize]) -> Result<Likelihood, ExperimentError> {
        self.check_kind(matches!(target, Target::Real(_)))?;
        let numbers = match target {
            Target::Real(numbers) => numbers,
            Target::Classes { names, .. } => return Ok(Likelihood::Categorical { num_classes: names.len() }),
        };
        let name = self.likelihood.unwrap_or(LikelihoodName::Gaussian);
        Ok(match name {
            LikelihoodName::LearnedGaussian => Likelihood::LearnedGaussian,
            LikelihoodName::VaryingGaussian => Likelihood::VaryingGaussian,
            LikelihoodName::LogNormal => log_normal(numbers, train)?,
            LikelihoodName::PowerNormal => power_normal(numbers, train),
            LikelihoodName::StudentT => Likelihood::StudentT,
            LikelihoodName::VaryingStudentT => Likelihood::VaryingStudentT,
            LikelihoodName::Poisson => Likelihood::Poisson { log_mean: log_mean_count(name, numbers, train)? },
            LikelihoodName::NegativeBinomial => {
                Likelihood::NegativeBinomial { log_mean: log_mean_count(name, numbers, train)? }
            }
            LikelihoodName::Gaussian | LikelihoodName::Categorical => {
                Likelihood::Gaussian { noise_variance: self.noise_variance }
            }
        })
    }

    /// Refuses a likelihood of numbers for classes, and the other way round.
    pub(crate) fn check_kind(&self, are_numbers: bool) -> Result<(), ExperimentError> {
        match self.likelihood {
            Some(name) if name.is_of_numbers() != are_numbers => {
                let (name, needs, found, task) = match are_numbers {
                    true => (name.name(), "classes", "numbers", "classification"),
                    false => (name.name(), "numbers", "classes", "regression"),
                };
                let reason = format!(
                    "\"{name}\" is for {needs}, and the target was taken for {found}; leave it out, or set data.task = \"{task}\""
                );
                Err(ExperimentError::DoesNotApply { key: "model.likelihood", reason: reason.into() })
            }
            _ => Ok(()),
        }
    }
}

/// The log of the mean of the training rows, all of which are to be counts.
fn log_mean_count(name: LikelihoodName, numbers: &[f64], train: &[usize]) -> Result<f64, ExperimentError> {
    if let Some(found) = numbers.iter().find(|&&number| number < 0.0 || number.fract() != 0.0) {
        let reason = format!(
            "\"{}\" is for counts (0, 1, 2, …), and a target is {found}; choose \"learned_gaussian\"",
            name.name()
        );
        return Err(ExperimentError::DoesNotApply { key: "model.likelihood", reason: reason.into() });
    }
    Ok((train.iter().map(|&row| numbers[row]).sum::<f64>() / train.len() as f64).ln())
}

/// That of the logarithms of the training rows.
fn log_normal(numbers: &[f64], train: &[usize]) -> Result<Likelihood, ExperimentError> {
    if let Some(found) = numbers.iter().find(|&&number| number <= 0.0) {
        let reason = format!(
            "\"log_normal\" is for positive numbers, and a target is {found}; choose \"varying_gaussian\", or leave such rows out"
        );
        return Err(ExperimentError::DoesNotApply { key: "model.likelihood", reason: reason.into() });
    }
    let logs = || train.iter().map(|&row| numbers[row].ln());
    let log_mean = logs().sum::<f64>() / train.len() as f64;
    let variance = logs().map(|log| (log - log_mean).powi(2)).sum::<f64>() / train.len() as f64;
    Ok(Likelihood::LogNormal { log_mean, log_std: variance.sqrt() })
}

/// That of the power which suits the training rows best; their targets are standardised before.
fn power_normal(numbers: &[f64], train: &[usize]) -> Likelihood {
    let of_train: Vec<f64> = train.iter().map(|&row| numbers[row]).collect();
    let standardised = standardised(&of_train);
    let transform = YeoJohnson::most_likely(&standardised);
    let (mean, variance) = transform.moments(&standardised);
    Likelihood::PowerNormal { power: transform.power(), mean, std: variance.sqrt() }
}

/// Numbers less their mean, in standard deviations.
pub(crate) fn standardised(numbers: &[f64]) -> Vec<f64> {
    let (mean, variance) = YeoJohnson::IDENTITY.moments(numbers);
    numbers.iter().map(|number| (number - mean) / variance.sqrt()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::preset;

    fn numbers() -> Target {
        Target::Real(vec![0.0, 1.0, 3.0])
    }

    fn classes() -> Target {
        Target::Classes { labels: vec![0, 1], names: vec!["no".into(), "yes".into()] }
    }

    fn named(likelihood: Option<LikelihoodName>) -> ModelSettings {
        ModelSettings { likelihood, noise_variance: 0.25, ..ModelSettings::default() }
    }

    #[test]
    fn without_a_name_targets_decide() {
        let built = |target: &Target| named(None).build_likelihood(target, &[0, 1]).unwrap();
        assert_eq!(built(&numbers()), Likelihood::Gaussian { noise_variance: 0.25 });
        assert_eq!(built(&classes()), Likelihood::Categorical { num_classes: 2 });
    }

    #[test]
    fn names_are_built_for_their_targets_and_refused_for_others() {
        let learned = named(Some(LikelihoodName::LearnedGaussian));
        assert_eq!(learned.build_likelihood(&numbers(), &[0, 1]).unwrap(), Likelihood::LearnedGaussian);
        let error = learned.build_likelihood(&classes(), &[0, 1]).unwrap_err().to_string();
        for phrase in
            ["model.likelihood does not apply", "\"learned_gaussian\" is for numbers", "data.task = \"regression\""]
        {
            assert!(error.contains(phrase), "{error}");
        }
        let error =
            named(Some(LikelihoodName::Categorical)).build_likelihood(&numbers(), &[0, 1]).unwrap_err().to_string();
        assert!(error.contains("\"categorical\" is for classes"), "{error}");
        assert!(named(Some(LikelihoodName::Categorical)).build_likelihood(&classes(), &[0, 1]).is_ok());
    }

    #[test]
    fn logarithms_are_measured_on_training_rows_and_need_positive_targets() {
        let log_normal = named(Some(LikelihoodName::LogNormal));
        let prices = Target::Real(vec![1.0, 4.0f64.exp(), 50.0]);
        let built = log_normal.build_likelihood(&prices, &[0, 1]).unwrap();
        assert_eq!(built, Likelihood::LogNormal { log_mean: 2.0, log_std: 2.0 });
        let error = log_normal.build_likelihood(&numbers(), &[1, 2]).unwrap_err().to_string();
        assert!(error.contains("a target is 0") && error.contains("varying_gaussian"), "{error}");
    }

    /// Targets whose standardised form has a normal power, in the training rows; others have no say.
    #[test]
    fn powers_are_those_of_training_rows() {
        let skewed = YeoJohnson::new(0.3).unwrap();
        let normal = (0..1000).map(|i| kelvin::quantile::normal_quantile((f64::from(i) + 0.5) / 1000.0));
        let mut numbers: Vec<f64> = normal.map(|z| 70.0 + 20.0 * skewed.inverse(0.8 * z)).collect();
        numbers.extend([1e9; 50]);
        let train: Vec<usize> = (0..1000).collect();
        let power_normal = named(Some(LikelihoodName::PowerNormal));
        let built = power_normal.build_likelihood(&Target::Real(numbers), &train).unwrap();
        let Likelihood::PowerNormal { power, mean, std } = built else { panic!("{built:?}") };
        assert!((power - 0.3).abs() < 0.15 && mean.abs() < 0.3 && (0.6..1.0).contains(&std), "{built:?}");
        let same = power_normal.build_likelihood(&Target::Real(vec![2.0; 5]), &[0, 1, 2]).unwrap();
        assert!(same.check_settings().is_err(), "{same:?}");
    }

    #[test]
    fn counts_are_predicted_relative_to_the_mean_of_training_rows() {
        let poisson = named(Some(LikelihoodName::Poisson)).build_likelihood(&numbers(), &[1, 2]).unwrap();
        assert_eq!(poisson, Likelihood::Poisson { log_mean: 2f64.ln() });
        let mut settings = preset("concrete").unwrap().settings();
        settings.data.task = TaskSetting::Counts;
        let table = Dataset::from_arrays("t", &["x"], &[0.0, 1.0, 2.0], "y", numbers()).unwrap();
        let built = |settings: &Settings| settings.build_likelihood(&table, &[1, 2]).unwrap();
        assert_eq!(built(&settings), Likelihood::NegativeBinomial { log_mean: 2f64.ln() });
        settings.model.likelihood = Some(LikelihoodName::Poisson);
        assert_eq!(built(&settings), Likelihood::Poisson { log_mean: 2f64.ln() });
        // Targets whose mean is negative, so that its log is no number, are told for what they are.
        let poisson = named(Some(LikelihoodName::Poisson));
        let error = poisson.build_likelihood(&Target::Real(vec![2.0, -4.0, 1.5]), &[0, 1]).unwrap_err().to_string();
        assert!(error.contains("\"poisson\" is for counts") && error.contains("a target is -4"), "{error}");
    }
}

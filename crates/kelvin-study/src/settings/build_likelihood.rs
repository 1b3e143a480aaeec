//! From settings to the likelihood of the targets at hand.

use super::experiment::{Settings, TaskSetting};
use super::likelihood::LikelihoodName;
use super::model::ModelSettings;
use crate::error::ExperimentError;
use kelvin::data::Target;
use kelvin::likelihood::Likelihood;

impl Settings {
    /// The likelihood in force for a target, as [`ModelSettings::build_likelihood`]; negative binomial for counts where none is named.
    ///
    /// # Errors
    /// If the one that is named is not for such targets.
    pub fn build_likelihood(&self, target: &Target, train: &[usize]) -> Result<Likelihood, ExperimentError> {
        let counts = (self.data.task == TaskSetting::Counts).then_some(LikelihoodName::NegativeBinomial);
        let likelihood = self.model.likelihood.or(counts);
        ModelSettings { likelihood, ..self.model.clone() }.build_likelihood(target, train)
    }
}

impl ModelSettings {
    /// The likelihood in force for a target: the one that is named, else Gaussian with the variance `noise_variance` for numbers and categorical
    /// for classes. Counts are predicted relative to the mean of the training rows.
    ///
    /// # Errors
    /// If the one that is named is not for such targets.
    pub fn build_likelihood(&self, target: &Target, train: &[usize]) -> Result<Likelihood, ExperimentError> {
        self.check_kind(matches!(target, Target::Real(_)))?;
        let numbers = match target {
            Target::Real(numbers) => numbers,
            Target::Classes { names, .. } => return Ok(Likelihood::Categorical { num_classes: names.len() }),
        };
        let log_mean = || (train.iter().map(|&row| numbers[row]).sum::<f64>() / train.len() as f64).ln();
        Ok(match self.likelihood.unwrap_or(LikelihoodName::Gaussian) {
            LikelihoodName::LearnedGaussian => Likelihood::LearnedGaussian,
            LikelihoodName::VaryingGaussian => Likelihood::VaryingGaussian,
            LikelihoodName::StudentT => Likelihood::StudentT,
            LikelihoodName::Poisson => Likelihood::Poisson { log_mean: log_mean() },
            LikelihoodName::NegativeBinomial => Likelihood::NegativeBinomial { log_mean: log_mean() },
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
    fn counts_are_predicted_relative_to_the_mean_of_training_rows() {
        let poisson = named(Some(LikelihoodName::Poisson)).build_likelihood(&numbers(), &[1, 2]).unwrap();
        assert_eq!(poisson, Likelihood::Poisson { log_mean: 2f64.ln() });
        let mut settings = preset("concrete").unwrap().settings();
        settings.data.task = TaskSetting::Counts;
        let built = |settings: &Settings| settings.build_likelihood(&numbers(), &[1, 2]).unwrap();
        assert_eq!(built(&settings), Likelihood::NegativeBinomial { log_mean: 2f64.ln() });
        settings.model.likelihood = Some(LikelihoodName::Poisson);
        assert_eq!(built(&settings), Likelihood::Poisson { log_mean: 2f64.ln() });
    }
}

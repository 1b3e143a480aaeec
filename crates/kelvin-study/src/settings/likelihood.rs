//! The likelihood as a setting: its name.

use serde::{Deserialize, Serialize};

/// A likelihood with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LikelihoodName {
    /// Numbers around the output, with the variance σ² that `noise_variance` says.
    Gaussian,
    /// Numbers around the output, with a variance σ² that is learned with the weights.
    LearnedGaussian,
    /// Numbers around the first output, with a variance σ²(x) that a second output says.
    VaryingGaussian,
    /// Positive numbers whose logarithm is normal around the first output, with a variance σ²(x) that a second output says.
    LogNormal,
    /// Skewed numbers that a power transform makes normal around the first output, with a variance σ²(x) that a second output says.
    PowerNormal,
    /// Numbers around the output with far tails: Student-t with four degrees of freedom, of a scale that is learned with the weights.
    StudentT,
    /// Numbers around the first output with far tails, of a scale that a second output says: Student-t with four degrees of freedom.
    VaryingStudentT,
    /// Counts (0, 1, 2, …) whose variance is their mean.
    Poisson,
    /// Counts whose variance is larger than their mean by as much as is learned with the weights.
    NegativeBinomial,
    /// One of the classes.
    Categorical,
}

impl LikelihoodName {
    /// Those whose noise is learned and that each of several targets can have, the simplest first.
    pub const OF_SEVERAL: [Self; 4] =
        [Self::LearnedGaussian, Self::VaryingGaussian, Self::StudentT, Self::VaryingStudentT];

    /// Whether each of several targets can have it.
    pub fn is_of_several(self) -> bool {
        self == Self::Gaussian || Self::OF_SEVERAL.contains(&self)
    }

    /// Whether it is of numbers; of classes otherwise.
    pub fn is_of_numbers(self) -> bool {
        self != Self::Categorical
    }

    /// What people see in tables.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Gaussian => "constant noise, given",
            Self::LearnedGaussian => "constant noise",
            Self::VaryingGaussian => "noise that depends on the row",
            Self::LogNormal => "noise in proportion, that depends on the row",
            Self::PowerNormal => "noise of a power, that depends on the row",
            Self::StudentT => "noise with far tails",
            Self::VaryingStudentT => "noise with far tails that depends on the row",
            Self::Poisson => "Poisson counts",
            Self::NegativeBinomial => "negative binomial counts",
            Self::Categorical => "classes",
        }
    }

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::LearnedGaussian => "learned_gaussian",
            Self::VaryingGaussian => "varying_gaussian",
            Self::LogNormal => "log_normal",
            Self::PowerNormal => "power_normal",
            Self::StudentT => "student_t",
            Self::VaryingStudentT => "varying_student_t",
            Self::Poisson => "poisson",
            Self::NegativeBinomial => "negative_binomial",
            Self::Categorical => "categorical",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_files_are_those_in_errors() {
        for name in [
            LikelihoodName::Gaussian,
            LikelihoodName::LearnedGaussian,
            LikelihoodName::VaryingGaussian,
            LikelihoodName::LogNormal,
            LikelihoodName::PowerNormal,
            LikelihoodName::StudentT,
            LikelihoodName::VaryingStudentT,
            LikelihoodName::Poisson,
            LikelihoodName::NegativeBinomial,
            LikelihoodName::Categorical,
        ] {
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{}\"", name.name()));
        }
    }
}

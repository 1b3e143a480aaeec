//! The prediction that ignores its inputs: class frequencies, or for each target a normal with its mean and variance.

use crate::data::Targets;
use crate::likelihood::{Likelihood, NumberDistribution, TargetKind};

/// What training targets say of any row.
#[derive(Clone, Debug, PartialEq)]
pub enum BaseRate {
    /// The log frequency of each class, each counted once more than it occurs: a class that is missing is not impossible.
    Classes(Vec<f64>),
    /// For each target of a row, numbers with the mean and variance of the training targets.
    Numbers(Vec<NumberDistribution>),
}

impl BaseRate {
    /// Of the targets of training rows, which fit the likelihood. None without rows, or of numbers that are all equal.
    pub fn of(training: &Targets, likelihood: Likelihood) -> Option<Self> {
        match (training, likelihood.kind()) {
            (Targets::Classes(labels), TargetKind::Classes { num_classes }) => {
                let mut counts = vec![1.0; num_classes];
                for &label in labels {
                    *counts.get_mut(label as usize)? += 1.0;
                }
                let total: f64 = counts.iter().sum();
                (!labels.is_empty()).then(|| Self::Classes(counts.iter().map(|count| (count / total).ln()).collect()))
            }
            (Targets::Real(values), TargetKind::Numbers) => {
                let num_targets = likelihood.num_targets();
                let of_target = |target: usize| {
                    let values = || values.iter().skip(target).step_by(num_targets).map(|&value| f64::from(value));
                    let count = values().count() as f64;
                    let mean = values().sum::<f64>() / count;
                    let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
                    (variance > 0.0).then(|| NumberDistribution::normal(mean, variance))
                };
                (0..num_targets).map(of_target).collect::<Option<_>>().map(Self::Numbers)
            }
            _ => None,
        }
    }

    /// The log density of each row's targets; none where these are of the other kind.
    pub fn log_densities(&self, targets: &Targets) -> Option<Vec<f64>> {
        match (self, targets) {
            (Self::Classes(logs), Targets::Classes(labels)) => {
                labels.iter().map(|&label| logs.get(label as usize).copied()).collect()
            }
            (Self::Numbers(normals), Targets::Real(values)) => {
                let of_row = |row: &[f32]| {
                    row.iter().zip(normals).map(|(&value, normal)| normal.log_density(f64::from(value))).sum()
                };
                Some(values.chunks_exact(normals.len()).map(of_row).collect())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: Likelihood = Likelihood::LearnedGaussian;

    /// Three of class 0, one of class 1, none of class 2: 4/7, 2/7, 1/7.
    #[test]
    fn classes_by_hand() {
        let rate =
            BaseRate::of(&Targets::Classes(vec![0, 1, 0, 0]), Likelihood::Categorical { num_classes: 3 }).unwrap();
        let found = rate.log_densities(&Targets::Classes(vec![2, 0, 1])).unwrap();
        for (found, expected) in found.iter().zip([1.0, 4.0, 2.0]) {
            assert!((found - (expected / 7.0f64).ln()).abs() < 1e-15, "{found}");
        }
        assert_eq!(rate.log_densities(&Targets::Real(vec![0.0])), None);
        assert_eq!(BaseRate::of(&Targets::Classes(vec![]), Likelihood::Categorical { num_classes: 2 }), None);
    }

    /// Mean 2 and variance 4 of 0 and 4: log N(4 | 2, 4) = −½ log 8π − ½.
    #[test]
    fn numbers_by_hand() {
        let rate = BaseRate::of(&Targets::Real(vec![0.0, 4.0]), NUMBERS).unwrap();
        let found = rate.log_densities(&Targets::Real(vec![4.0])).unwrap()[0];
        assert!((found + 0.5 * (8.0 * std::f64::consts::PI).ln() + 0.5).abs() < 1e-14, "{found}");
        assert_eq!(BaseRate::of(&Targets::Real(vec![1.0, 1.0]), NUMBERS), None);
        assert_eq!(BaseRate::of(&Targets::Real(vec![]), NUMBERS), None);
    }

    /// Of two targets the log densities add up, each with the mean and variance of its own column.
    #[test]
    fn several_targets_add_up() {
        let several = NUMBERS.of_targets(2).unwrap();
        let rate = BaseRate::of(&Targets::Real(vec![0.0, 10.0, 4.0, 30.0]), several).unwrap();
        let found = rate.log_densities(&Targets::Real(vec![4.0, 10.0, 0.0, 20.0])).unwrap();
        let normal = |mean, variance, at| NumberDistribution::normal(mean, variance).log_density(at);
        assert_eq!(
            found,
            [normal(2.0, 4.0, 4.0) + normal(20.0, 100.0, 10.0), normal(2.0, 4.0, 0.0) + normal(20.0, 100.0, 20.0)]
        );
        assert_eq!(BaseRate::of(&Targets::Real(vec![0.0, 10.0, 4.0, 10.0]), several), None, "one never varies");
    }
}

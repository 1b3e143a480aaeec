//! The prediction that ignores its inputs: class frequencies, or a normal with the mean and variance of the targets.

use crate::data::Targets;
use crate::likelihood::NumberDistribution;

/// What training targets say of any row.
#[derive(Clone, Debug, PartialEq)]
pub enum BaseRate {
    /// The log frequency of each class, each counted once more than it occurs: a class that is missing is not impossible.
    Classes(Vec<f64>),
    /// Numbers with the mean and variance of the training targets.
    Numbers(NumberDistribution),
}

impl BaseRate {
    /// Of the targets of training rows; `num_classes` is 0 for numbers. None without rows, or of numbers that are all equal.
    pub fn of(training: &Targets, num_classes: usize) -> Option<Self> {
        match training {
            Targets::Classes(labels) => {
                let mut counts = vec![1.0; num_classes];
                for &label in labels {
                    *counts.get_mut(label as usize)? += 1.0;
                }
                let total: f64 = counts.iter().sum();
                (!labels.is_empty()).then(|| Self::Classes(counts.iter().map(|count| (count / total).ln()).collect()))
            }
            Targets::Real(values) => {
                let count = values.len() as f64;
                let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
                let variance = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
                (variance > 0.0).then(|| Self::Numbers(NumberDistribution::normal(mean, variance)))
            }
        }
    }

    /// The log density of each target; none where these are of the other kind.
    pub fn log_densities(&self, targets: &Targets) -> Option<Vec<f64>> {
        match (self, targets) {
            (Self::Classes(logs), Targets::Classes(labels)) => {
                labels.iter().map(|&label| logs.get(label as usize).copied()).collect()
            }
            (Self::Numbers(normal), Targets::Real(values)) => {
                Some(values.iter().map(|&value| normal.log_density(f64::from(value))).collect())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of class 0, one of class 1, none of class 2: 4/7, 2/7, 1/7.
    #[test]
    fn classes_by_hand() {
        let rate = BaseRate::of(&Targets::Classes(vec![0, 1, 0, 0]), 3).unwrap();
        let found = rate.log_densities(&Targets::Classes(vec![2, 0, 1])).unwrap();
        for (found, expected) in found.iter().zip([1.0, 4.0, 2.0]) {
            assert!((found - (expected / 7.0f64).ln()).abs() < 1e-15, "{found}");
        }
        assert_eq!(rate.log_densities(&Targets::Real(vec![0.0])), None);
        assert_eq!(BaseRate::of(&Targets::Classes(vec![]), 2), None);
    }

    /// Mean 2 and variance 4 of 0 and 4: log N(4 | 2, 4) = −½ log 8π − ½.
    #[test]
    fn numbers_by_hand() {
        let rate = BaseRate::of(&Targets::Real(vec![0.0, 4.0]), 0).unwrap();
        let found = rate.log_densities(&Targets::Real(vec![4.0])).unwrap()[0];
        assert!((found + 0.5 * (8.0 * std::f64::consts::PI).ln() + 0.5).abs() < 1e-14, "{found}");
        assert_eq!(BaseRate::of(&Targets::Real(vec![1.0, 1.0]), 0), None);
        assert_eq!(BaseRate::of(&Targets::Real(vec![]), 0), None);
    }
}

//! The logarithm of a mean of densities, fed one log density at a time.

/// A running log (1/S) Σ_s exp(a_s), in memory that does not grow with S.
///
/// With A = max a_s it holds A and Σ_s exp(a_s − A), so that densities far below the smallest f64 survive. A value
/// of −∞ (density zero) counts as a draw and adds nothing; the mean of none but zeros is −∞.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogMeanExp {
    largest: f64,
    scaled_sum: f64,
    count: u64,
}

impl Default for LogMeanExp {
    fn default() -> Self {
        Self::new()
    }
}

impl LogMeanExp {
    /// The mean of nothing yet.
    pub fn new() -> Self {
        // Not −∞, whose difference with itself is no number.
        Self { largest: f64::MIN, scaled_sum: 0.0, count: 0 }
    }

    /// Counts one more log value.
    pub fn add(&mut self, log_value: f64) {
        self.count += 1;
        if log_value > self.largest {
            self.scaled_sum = self.scaled_sum * (self.largest - log_value).exp() + 1.0;
            self.largest = log_value;
        } else if log_value == self.largest {
            self.scaled_sum += 1.0; // apart from the next case for +∞, where the difference is not a number
        } else {
            self.scaled_sum += (log_value - self.largest).exp();
        }
    }

    /// Counts all values of another.
    pub fn merge(&mut self, other: &Self) {
        let largest = self.largest.max(other.largest);
        let share = |part: &Self| match part.largest == largest {
            true => part.scaled_sum,
            false => part.scaled_sum * (part.largest - largest).exp(),
        };
        *self = Self { largest, scaled_sum: share(self) + share(other), count: self.count + other.count };
    }

    /// What it holds, for [`LogMeanExp::from_parts`].
    pub(super) fn parts(&self) -> [f64; 3] {
        [self.largest, self.scaled_sum, self.count as f64]
    }

    pub(super) fn from_parts([largest, scaled_sum, count]: [f64; 3]) -> Self {
        Self { largest, scaled_sum, count: count as u64 }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The log of the mean, or `None` before the first value.
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.largest + (self.scaled_sum / self.count as f64).ln())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[f64]) -> f64 {
        let mut mean = LogMeanExp::new();
        values.iter().for_each(|&value| mean.add(value));
        mean.value().unwrap()
    }

    #[test]
    fn parts_come_together_wherever_they_are_cut() {
        let values = [-700.0, 3.0, f64::NEG_INFINITY, 2.5, -1e4, 3.0];
        for cut in 0..=values.len() {
            let mut halves = [LogMeanExp::new(), LogMeanExp::new()];
            values.iter().enumerate().for_each(|(i, &value)| halves[usize::from(i >= cut)].add(value));
            let [mut first, second] = halves;
            first.merge(&second);
            assert!((first.value().unwrap() - of(&values)).abs() < 1e-14, "{cut}");
            assert_eq!((first.count(), LogMeanExp::from_parts(first.parts())), (6, first));
        }
    }

    #[test]
    fn the_mean_of_nothing_is_none() {
        assert_eq!(LogMeanExp::new().value(), None);
    }

    #[test]
    fn one_value_comes_back_unchanged() {
        for value in [0.0, -1e300, 3.5, -745.2, f64::NEG_INFINITY, f64::INFINITY] {
            assert_eq!(of(&[value]), value);
        }
    }

    #[test]
    fn hand_worked_means() {
        assert!((of(&[1f64.ln(), 3f64.ln()]) - 2f64.ln()).abs() < 1e-15);
        assert!((of(&[-5000.0, -5000.0 + 3f64.ln()]) - (-5000.0 + 2f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn zeros_count_and_add_nothing() {
        let none = f64::NEG_INFINITY;
        assert_eq!(of(&[none, none, none]), none);
        for order in [[none, -2000.0], [-2000.0, none]] {
            assert!((of(&order) - (-2000.0 - 2f64.ln())).abs() < 1e-12);
        }
    }

    #[test]
    fn infinite_and_broken_values_are_not_hidden() {
        assert_eq!(of(&[0.0, f64::INFINITY, f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(of(&[0.0, f64::NAN, 1.0]).is_nan());
        assert!(of(&[f64::NAN, 1.0]).is_nan());
    }

    #[test]
    fn the_largest_may_come_last() {
        let rising: Vec<f64> = (0..1000).map(|s| -1e6 + 1e3 * f64::from(s)).collect();
        assert!((of(&rising) - (-1e3 - 1000f64.ln())).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn lies_between_the_ends_and_moves_with_a_shift(
            values in prop::collection::vec(-50.0..50.0f64, 1..30), shift in -1e4..1e4f64,
        ) {
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
            let mean = of(&values);
            prop_assert!(low - 1e-12 <= mean && mean <= high + 1e-12);
            let shifted: Vec<f64> = values.iter().map(|value| value + shift).collect();
            prop_assert!((of(&shifted) - mean - shift).abs() < 1e-9);
        }
    }
}

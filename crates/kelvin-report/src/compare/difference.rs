//! The difference of two means with its standard error: paired on the same points, unpaired on others, over repetitions.

use serde::Serialize;

/// A difference that is this many standard errors away from 0 counts as seen; by chance one in twenty does.
const SEEN: f64 = 2.0;

/// A difference of two means, first minus second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The difference of the two means.
    pub mean: f64,
    /// Over test points, and over repetitions where both have several.
    pub standard_error: f64,
    /// The standard error over test points alone.
    pub standard_error_over_points: f64,
    /// The standard error over repetitions alone; none if both sides have one repetition.
    pub standard_error_over_repetitions: Option<f64>,
}

impl Difference {
    /// Whether it is at least two standard errors away from 0.
    pub(crate) fn is_seen(&self) -> bool {
        self.in_standard_errors().abs() >= SEEN
    }

    /// The difference in standard errors: infinite if the error is 0 and the difference is not, 0 if the difference is 0.
    pub fn in_standard_errors(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.mean / self.standard_error }
    }
}

/// A score at each test point, of each repetition; a run is one repetition.
pub(crate) type Scores = Vec<Vec<f64>>;

/// What two sets of scores have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pairing {
    /// Whether both have the same test points, in the same order.
    pub points: bool,
    /// Whether repetitions of the same number begin with the same random numbers.
    pub repetitions: bool,
}

/// The difference of mean scores. Points and repetitions are two samples, drawn apart; their errors add in squares.
///
/// Where repetitions begin with the same random numbers, those that both have count, from the first on. Where one side has a
/// single one, it is as far from its mean as those of the other.
///
/// `None` without points, and where a score is not finite: such a mean has no error.
pub(crate) fn difference(first: &Scores, second: &Scores, pairing: Pairing) -> Option<Difference> {
    let shared = if pairing.repetitions { first.len().min(second.len()) } else { usize::MAX };
    let (first, second) = (&first[..shared.min(first.len())], &second[..shared.min(second.len())]);
    let (a, b) = (over_repetitions(first)?, over_repetitions(second)?);
    if a.iter().chain(&b).any(|score| !score.is_finite()) {
        return None;
    }
    let mean = mean_of(&a) - mean_of(&b);
    let over_points = if pairing.points {
        error_of_mean(&a.iter().zip(&b).map(|(a, b)| a - b).collect::<Vec<_>>())
    } else {
        error_of_mean(&a).hypot(error_of_mean(&b))
    };
    let (means_a, means_b): (Vec<f64>, Vec<f64>) =
        (first.iter().map(|scores| mean_of(scores)).collect(), second.iter().map(|scores| mean_of(scores)).collect());
    let over_repetitions = match (means_a.len(), means_b.len()) {
        (1, 1) => None,
        _ if pairing.repetitions => {
            Some(error_of_mean(&means_a.iter().zip(&means_b).map(|(a, b)| a - b).collect::<Vec<_>>()))
        }
        (1, count) => Some(error_of_mean(&means_b) * (1.0 + count as f64).sqrt()),
        (count, 1) => Some(error_of_mean(&means_a) * (1.0 + count as f64).sqrt()),
        _ => Some(error_of_mean(&means_a).hypot(error_of_mean(&means_b))),
    };
    Some(Difference {
        mean,
        standard_error: over_points.hypot(over_repetitions.unwrap_or(0.0)),
        standard_error_over_points: over_points,
        standard_error_over_repetitions: over_repetitions,
    })
}

/// The mean over repetitions at each point.
fn over_repetitions(scores: &[Vec<f64>]) -> Option<Vec<f64>> {
    let num_points = scores.first().map_or(0, Vec::len);
    if num_points == 0 || scores.iter().any(|repetition| repetition.len() != num_points) {
        return None;
    }
    Some((0..num_points).map(|point| scores.iter().map(|own| own[point]).sum::<f64>() / scores.len() as f64).collect())
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of the mean, sd/√n; infinite for one value.
fn error_of_mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let centre = mean_of(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    if values.len() > 1 { (squares / (n - 1.0) / n).sqrt() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRED: Pairing = Pairing { points: true, repetitions: true };

    #[test]
    fn worked_by_hand() {
        // Differences 1, 2, 3, 2: mean 2, variance 2/3, error √(2/3/4) = √(1/6).
        let (first, second) = (vec![vec![2.0, 4.0, 6.0, 8.0]], vec![vec![1.0, 2.0, 3.0, 6.0]]);
        let found = difference(&first, &second, PAIRED).unwrap();
        assert_eq!(found.mean, 2.0);
        assert!((found.standard_error - (1.0_f64 / 6.0).sqrt()).abs() < 1e-15);
        assert!((found.in_standard_errors() - 2.0 * 6.0_f64.sqrt()).abs() < 1e-12 && found.is_seen());
        assert_eq!(found.standard_error_over_repetitions, None);
        // Unpaired: variances 20/3 and 14/3, each over 4.
        let apart = difference(&first, &second, Pairing { points: false, ..PAIRED }).unwrap();
        assert!((apart.standard_error - (34.0_f64 / 12.0).sqrt()).abs() < 1e-15 && !apart.is_seen());
    }

    #[test]
    fn right_and_wrong_answers_as_mcnemar_has_them() {
        // Of 100 points the first alone is right on 9, the second alone on 1.
        let first: Vec<f64> = (0..100).map(|point| f64::from(u8::from(point < 89))).collect();
        let second: Vec<f64> =
            (0..100).map(|point| f64::from(u8::from(!(79..88).contains(&point) && point < 90))).collect();
        let found = difference(&vec![first], &vec![second], PAIRED).unwrap();
        let (b, c, n) = (9.0, 1.0, 100.0_f64);
        let expected = ((b + c) - (b - c) * (b - c) / n).sqrt() / n * (n / (n - 1.0)).sqrt();
        assert!((found.mean - (b - c) / n).abs() < 1e-15);
        assert!((found.standard_error - expected).abs() < 1e-15, "{} {expected}", found.standard_error);
    }

    #[test]
    fn repetitions_add_their_own_doubt() {
        // Means of the repetitions: 1 and 3 against 0 and 1; paired 1 and 2, so 1.5 ± 0.5.
        let (first, second) = (vec![vec![0.0, 2.0], vec![2.0, 4.0]], vec![vec![0.0, 0.0], vec![1.0, 1.0]]);
        let found = difference(&first, &second, PAIRED).unwrap();
        assert_eq!((found.mean, found.standard_error_over_repetitions), (1.5, Some(0.5)));
        // At the points 1 and 3 against ½ and ½: differences ½ and 2½, error 1.
        assert_eq!(found.standard_error_over_points, 1.0);
        assert_eq!(found.standard_error, 1.25_f64.sqrt());
        let apart = difference(&first, &second, Pairing { repetitions: false, ..PAIRED }).unwrap();
        assert_eq!(apart.standard_error_over_repetitions, Some(1.0_f64.hypot(0.5)));
    }

    #[test]
    fn repetitions_of_one_side_alone_count_as_doubt() {
        let (two, one) = (vec![vec![0.0, 2.0], vec![2.0, 4.0]], vec![vec![0.0, 2.0]]);
        for found in [difference(&two, &one, PAIRED).unwrap(), difference(&one, &two, PAIRED).unwrap()] {
            assert_eq!(
                (found.mean, found.standard_error_over_repetitions),
                (0.0, None),
                "the first of both is the same"
            );
        }
        // Means 1 and 3: their standard deviation √2, of a mean of two and of a single one √(2/2 + 2).
        let apart = Pairing { repetitions: false, ..PAIRED };
        for (found, mean) in [(difference(&two, &one, apart), 1.0), (difference(&one, &two, apart), -1.0)] {
            let found = found.unwrap();
            assert_eq!(found.mean, mean);
            assert!((found.standard_error_over_repetitions.unwrap() - 3.0_f64.sqrt()).abs() < 1e-15);
        }
    }

    #[test]
    fn what_has_no_error_is_said() {
        let same = vec![vec![1.0, 2.0, 3.0]];
        let none = difference(&same, &same, PAIRED).unwrap();
        assert_eq!((none.mean, none.standard_error, none.in_standard_errors(), none.is_seen()), (0.0, 0.0, 0.0, false));
        assert_eq!(difference(&vec![vec![f64::NEG_INFINITY, 1.0]], &vec![vec![0.0, 1.0]], PAIRED), None);
        assert_eq!(difference(&vec![], &same, PAIRED), None);
        let one = difference(&vec![vec![1.0]], &vec![vec![0.0]], PAIRED).unwrap();
        assert!(one.standard_error.is_infinite() && !one.is_seen());
    }
}

//! AUROC, AUPR and FPR95: how well a score separates out-of-distribution rows from test rows.

/// How well a score separates out-of-distribution rows, which should score high, from test rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// Area under the ROC curve: the probability that a random out-of-distribution row scores higher than a random test row, where ties count one
    /// half. With n test rows, m others and R the sum of the others' ranks among all (tied scores share their mean rank):
    /// ```text
    /// auroc = (R − m(m + 1)/2) / (n m)
    /// ```
    pub auroc: f64,
    /// Area under the curve of precision against recall, with out-of-distribution rows as the positives: the mean over them of the precision of a
    /// threshold at their score (average precision, no interpolation). A score that knows nothing has m/(n + m).
    pub aupr: f64,
    /// Share of test rows that are flagged by the highest threshold that flags at least 95 % of the out-of-distribution rows; a row is flagged where it
    /// scores as high as the threshold or higher.
    pub fpr95: f64,
}

impl Separation {
    /// Of these scores; `None` where a side is empty or has a score that is not a number.
    pub fn of(test: &[f64], out_of_distribution: &[f64]) -> Option<Self> {
        let (num_test, num_other) = (test.len(), out_of_distribution.len());
        let others = out_of_distribution.iter().map(|&score| (score, true));
        let mut scores: Vec<(f64, bool)> = test.iter().map(|&score| (score, false)).chain(others).collect();
        if num_test == 0 || num_other == 0 || scores.iter().any(|(score, _)| score.is_nan()) {
            return None;
        }
        scores.sort_unstable_by(|(left, _), (right, _)| left.total_cmp(right));
        let (mut num_below, mut others_below) = (0, 0);
        let (mut rank_sum, mut precision_sum, mut fpr95) = (0.0, 0.0, 1.0);
        for tied in scores.chunk_by(|(left, _), (right, _)| left == right) {
            let tied_others = tied.iter().filter(|(_, is_other)| *is_other).count();
            let mean_rank = num_below as f64 + (tied.len() + 1) as f64 / 2.0;
            rank_sum += mean_rank * tied_others as f64;
            // What a threshold at this score flags.
            let (flagged, flagged_others) = (scores.len() - num_below, num_other - others_below);
            precision_sum += tied_others as f64 * flagged_others as f64 / flagged as f64;
            // 95 % is 19 of 20, in whole numbers.
            if 20 * flagged_others >= 19 * num_other {
                fpr95 = (flagged - flagged_others) as f64 / num_test as f64;
            }
            num_below += tied.len();
            others_below += tied_others;
        }
        let (n, m) = (num_test as f64, num_other as f64);
        Some(Self { auroc: (rank_sum - m * (m + 1.0) / 2.0) / (n * m), aupr: precision_sum / m, fpr95 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(test: &[f64], other: &[f64]) -> (f64, f64, f64) {
        let Separation { auroc, aupr, fpr95 } = Separation::of(test, other).unwrap();
        (auroc, aupr, fpr95)
    }

    /// Of the 6 pairs (1, 2), (1, 3), (2, 2), (2, 3), (4, 2), (4, 3) three are won, one is a tie. A threshold at 3 flags 4 and one of the others
    /// (precision 1/2), one at 2 flags 2 and 4 and both others (precision 1/2), and 2 of 3 test rows with them.
    #[test]
    fn hand_worked_with_a_tie() {
        assert_eq!(of(&[1.0, 2.0, 4.0], &[2.0, 3.0]), (3.5 / 6.0, 0.5, 2.0 / 3.0));
    }

    /// Thresholds at 9, 7 and 5 have precisions 1/1, 2/3 and 3/5; at 5 the test rows 8 and 6 are flagged, 2 of 4.
    #[test]
    fn hand_worked_without_ties() {
        let (auroc, aupr, fpr95) = of(&[8.0, 6.0, 2.0, 1.0], &[9.0, 7.0, 5.0]);
        assert_eq!((auroc, fpr95), (9.0 / 12.0, 0.5));
        assert!((aupr - (1.0 + 2.0 / 3.0 + 3.0 / 5.0) / 3.0).abs() < 1e-15, "{aupr}");
    }

    #[test]
    fn perfect_reversed_and_blind() {
        assert_eq!(of(&[0.1, 0.2], &[0.3, f64::INFINITY]), (1.0, 1.0, 0.0));
        // Thresholds at 0.2 and 0.1 flag all three test rows, with one and two of the others.
        let (auroc, aupr, fpr95) = of(&[0.3, 0.4, 0.5], &[0.1, 0.2]);
        assert_eq!((auroc, fpr95), (0.0, 1.0));
        assert!((aupr - (1.0 / 4.0 + 2.0 / 5.0) / 2.0).abs() < 1e-15, "{aupr}");
        assert_eq!(of(&[7.0; 5], &[7.0; 3]), (0.5, 3.0 / 8.0, 1.0));
        assert_eq!(of(&[0.0], &[-0.0]).0, 0.5);
    }

    /// Of twenty others one may be missed, of nineteen none.
    #[test]
    fn ninety_five_percent_is_nineteen_of_twenty() {
        let others: Vec<f64> = (0..20).map(|at| if at == 0 { -1.0 } else { 2.0 }).collect();
        assert_eq!(of(&[0.0, 0.0, 3.0], &others).2, 1.0 / 3.0);
        assert_eq!(of(&[0.0, 0.0, 3.0], &others[..19]).2, 1.0);
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(Separation::of(&[], &[1.0]), None);
        assert_eq!(Separation::of(&[1.0], &[]), None);
        assert_eq!(Separation::of(&[1.0, f64::NAN], &[1.0]), None);
        assert_eq!(Separation::of(&[1.0], &[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn agrees_with_counting(test in prop::collection::vec(0..12i32, 1..40), others in prop::collection::vec(0..12i32, 1..40)) {
            let scores = |counts: &[i32]| counts.iter().map(|&count| f64::from(count)).collect::<Vec<_>>();
            let found = Separation::of(&scores(&test), &scores(&others)).unwrap();

            let pairs = test.iter().flat_map(|inlier| others.iter().map(move |other| other.cmp(inlier)));
            let won: f64 = pairs.map(|order| match order {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 1.0,
            }).sum();
            let expected = won / (test.len() * others.len()) as f64;
            prop_assert!((found.auroc - expected).abs() < 1e-12, "{found:?} {expected}");

            let flagged = |rows: &[i32], threshold: i32| rows.iter().filter(|row| **row >= threshold).count() as f64;
            let precision = |threshold: i32| {
                flagged(&others, threshold) / (flagged(&others, threshold) + flagged(&test, threshold))
            };
            let expected = others.iter().map(|&other| precision(other)).sum::<f64>() / others.len() as f64;
            prop_assert!((found.aupr - expected).abs() < 1e-12, "{found:?} {expected}");

            let threshold = (0..12).rev().find(|&at| flagged(&others, at) * 100.0 >= 95.0 * others.len() as f64).unwrap();
            prop_assert_eq!(found.fpr95, flagged(&test, threshold) / test.len() as f64);
        }
    }
}

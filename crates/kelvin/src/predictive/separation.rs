//! How well a score tells strangers from the familiar: the area under the ROC curve.

/// The probability that a random outlier scores higher than a random familiar point; ties count one half.
///
/// With n familiar points, m outliers and R the sum of the outliers' ranks among all (tied scores share their mean rank):
/// ```text
/// auroc = (R − m(m + 1)/2) / (n m)
/// ```
/// `None` where a side is empty or has a score that is not a number.
pub fn auroc(in_distribution: &[f64], out_of_distribution: &[f64]) -> Option<f64> {
    let (num_inliers, num_outliers) = (in_distribution.len() as f64, out_of_distribution.len() as f64);
    let inliers = in_distribution.iter().map(|&score| (score, false));
    let mut scores: Vec<(f64, bool)> = inliers.chain(out_of_distribution.iter().map(|&score| (score, true))).collect();
    if in_distribution.is_empty() || out_of_distribution.is_empty() || scores.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }
    scores.sort_unstable_by(|(left, _), (right, _)| left.total_cmp(right));
    let (mut num_before, mut rank_sum) = (0.0, 0.0);
    for tied in scores.chunk_by(|(left, _), (right, _)| left == right) {
        let mean_rank = num_before + (tied.len() + 1) as f64 / 2.0;
        rank_sum += mean_rank * tied.iter().filter(|(_, is_outlier)| *is_outlier).count() as f64;
        num_before += tied.len() as f64;
    }
    Some((rank_sum - num_outliers * (num_outliers + 1.0) / 2.0) / (num_inliers * num_outliers))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of the 6 pairs (1, 2), (1, 3), (2, 2), (2, 3), (4, 2), (4, 3) three are won, one is a tie.
    #[test]
    fn hand_worked_with_a_tie() {
        assert_eq!(auroc(&[1.0, 2.0, 4.0], &[2.0, 3.0]), Some(3.5 / 6.0));
    }

    #[test]
    fn perfect_reversed_and_blind() {
        assert_eq!(auroc(&[0.1, 0.2], &[0.3, f64::INFINITY]), Some(1.0));
        assert_eq!(auroc(&[0.3, 0.4, 0.5], &[0.1, 0.2]), Some(0.0));
        assert_eq!(auroc(&[7.0; 5], &[7.0; 3]), Some(0.5));
        assert_eq!(auroc(&[0.0], &[-0.0]), Some(0.5));
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(auroc(&[], &[1.0]), None);
        assert_eq!(auroc(&[1.0], &[]), None);
        assert_eq!(auroc(&[1.0, f64::NAN], &[1.0]), None);
        assert_eq!(auroc(&[1.0], &[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn agrees_with_counting_pairs(inliers in prop::collection::vec(0..12i32, 1..40),
                                      outliers in prop::collection::vec(0..12i32, 1..40)) {
            let pairs = inliers.iter().flat_map(|inlier| outliers.iter().map(move |outlier| outlier.cmp(inlier)));
            let won: f64 = pairs.map(|order| match order {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 1.0,
            }).sum();
            let expected = won / (inliers.len() * outliers.len()) as f64;
            let scores = |counts: &[i32]| counts.iter().map(|&count| f64::from(count)).collect::<Vec<_>>();
            let found = auroc(&scores(&inliers), &scores(&outliers)).unwrap();
            prop_assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}

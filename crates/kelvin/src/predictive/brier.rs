//! The Brier score of class probabilities, and what it is made of.

/// brier = uncertainty − resolution + reliability + remainder, grouped by predicted class.
///
/// With p_i the probabilities and o_i the one-hot label of point i, k(i) its predicted class, w_k the share of
/// points predicted k, d_k their label frequencies, p̄ the label frequencies of all:
/// ```text
/// brier       = mean_i |p_i − o_i|²              reliability = mean_i |d_k(i) − p_i|²
/// uncertainty = 1 − |p̄|²                         remainder   = −2 mean_i (o_i − d_k(i))·p_i
/// resolution  = Σ_k w_k |p̄ − d_k|²
/// ```
/// The remainder vanishes where all points of one predicted class share one p; with a network they do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrierScore {
    /// The score itself.
    pub total: f64,
    /// The score of always predicting p̄.
    pub uncertainty: f64,
    /// How far the predicted classes tell labels apart.
    pub resolution: f64,
    /// How far the probabilities are from the frequencies of their group.
    pub reliability: f64,
    /// What the three leave over.
    pub remainder: f64,
}

impl BrierScore {
    /// The score of `probabilities` (row-major, `num_classes` to a point), whose largest is `predicted`.
    ///
    /// # Panics
    /// If there are no points, if the lists do not have the same ones, or if a class is not below `num_classes`.
    pub fn new(probabilities: &[f64], predicted: &[u32], labels: &[u32], num_classes: usize) -> Self {
        assert!(!labels.is_empty(), "a score needs at least one point");
        assert_eq!(predicted.len(), labels.len(), "one predicted class and one label for each point");
        assert_eq!(probabilities.len(), labels.len() * num_classes, "{num_classes} probabilities for each point");
        let num_points = labels.len() as f64;
        let classes = |(&group, &label): (&u32, &u32)| (group as usize, label as usize);

        let mut group_sizes = vec![0.0; num_classes];
        let mut overall = vec![0.0; num_classes];
        let mut within = vec![0.0; num_classes * num_classes]; // row k becomes d_k
        for (group, label) in predicted.iter().zip(labels).map(classes) {
            group_sizes[group] += 1.0;
            overall[label] += 1.0 / num_points;
            within[group * num_classes + label] += 1.0;
        }
        let mut resolution = 0.0;
        for (frequencies, &size) in
            within.chunks_exact_mut(num_classes).zip(&group_sizes).filter(|(_, size)| **size > 0.0)
        {
            frequencies.iter_mut().for_each(|count| *count /= size);
            resolution += size / num_points * squared_distance(&overall, frequencies);
        }

        let (mut total, mut reliability, mut remainder) = (0.0, 0.0, 0.0);
        for (row, (group, label)) in
            probabilities.chunks_exact(num_classes).zip(predicted.iter().zip(labels).map(classes))
        {
            let frequencies = &within[group * num_classes..][..num_classes];
            let dot = |left: &[f64]| left.iter().zip(row).map(|(a, b)| a * b).sum::<f64>();
            total += dot(row) - 2.0 * row[label] + 1.0;
            reliability += squared_distance(frequencies, row);
            remainder -= 2.0 * (row[label] - dot(frequencies));
        }
        Self {
            total: total / num_points,
            uncertainty: 1.0 - overall.iter().map(|share| share * share).sum::<f64>(),
            resolution,
            reliability: reliability / num_points,
            remainder: remainder / num_points,
        }
    }
}

fn squared_distance(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two classes; points (0.8, 0.2) and (0.6, 0.4) predicted 0 with labels 0 and 1, (0.3, 0.7) predicted 1, label 1.
    /// total = (.08 + .72 + .18)/3; p̄ = (1/3, 2/3), d₀ = (1/2, 1/2), d₁ = (0, 1);
    /// uncertainty = 4/9; resolution = 2/3·(2/36) + 1/3·(2/9) = 1/9; reliability = (.18 + .02 + .18)/3;
    /// remainder = −2((.8 − .5) + (.4 − .5) + 0)/3 = −.4/3.
    #[test]
    fn three_hand_worked_points() {
        let score = BrierScore::new(&[0.8, 0.2, 0.6, 0.4, 0.3, 0.7], &[0, 0, 1], &[0, 1, 1], 2);
        let expected = [0.98 / 3.0, 4.0 / 9.0, 1.0 / 9.0, 0.38 / 3.0, -0.4 / 3.0];
        let found = [score.total, score.uncertainty, score.resolution, score.reliability, score.remainder];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15, "{score:?}");
        }
    }

    #[test]
    fn certain_and_right_scores_nothing() {
        let score = BrierScore::new(&[1.0, 0.0, 0.0, 1.0], &[0, 1], &[0, 1], 2);
        let expected = BrierScore { total: 0.0, uncertainty: 0.5, resolution: 0.5, reliability: 0.0, remainder: 0.0 };
        assert_eq!(score, expected);
    }

    proptest! {
        #[test]
        fn the_parts_add_up(points in prop::collection::vec((prop::array::uniform4(0.001..1.0f64), 0..4u32), 1..60)) {
            let (mut probabilities, mut predicted, mut labels) = (vec![], vec![], vec![]);
            for (weights, label) in points {
                let sum: f64 = weights.iter().sum();
                let largest = (0..4).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap();
                probabilities.extend(weights.map(|weight| weight / sum));
                predicted.push(largest as u32);
                labels.push(label);
            }
            let score = BrierScore::new(&probabilities, &predicted, &labels, 4);
            let sum = score.uncertainty - score.resolution + score.reliability + score.remainder;
            prop_assert!((score.total - sum).abs() < 1e-12, "{score:?}");
        }
    }
}

//! Whether stated probabilities come true: reliability of class probabilities, coverage of regression intervals.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::error::{PredictiveError, level};

/// The nominal coverages over which a regression's calibration error is averaged.
pub const COVERAGE_LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The equal bin of [0, 1] in which a probability falls: min(⌊bins · p⌋, bins − 1).
fn equal_bin(probability: f64, num_bins: usize) -> usize {
    ((num_bins as f64 * probability) as usize).min(num_bins - 1)
}

fn check_probabilities(what: &'static str, values: &[f64]) -> Result<(), PredictiveError> {
    match values.iter().position(|value| !(0.0..=1.0).contains(value)) {
        Some(index) => Err(PredictiveError::NotAProbability { what, index, value: values[index] }),
        None if values.is_empty() => Err(PredictiveError::NoPoints),
        None => Ok(()),
    }
}

/// Probability integral transforms F_i(y_i) of held-out targets; uniform on \[0, 1\] if the predictive is right.
#[derive(Clone, Debug, PartialEq)]
pub struct PitValues(Vec<f64>);

impl PitValues {
    /// Takes one value for each held-out point.
    pub fn new(values: Vec<f64>) -> Result<Self, PredictiveError> {
        check_probabilities("PIT value", &values)?;
        Ok(Self(values))
    }

    /// The values, point by point.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Share of targets inside their central predictive interval of the given level q.
    ///
    /// A target lies between the (1−q)/2 and 1−(1−q)/2 quantiles exactly if its PIT value lies between these two
    /// numbers, so no quantile is needed.
    pub fn coverage(&self, nominal: f64) -> Result<f64, PredictiveError> {
        Ok(self.share_inside(level("a coverage level", nominal)?))
    }

    /// As [`coverage`](Self::coverage), for levels known to be good.
    pub(super) fn share_inside(&self, nominal: f64) -> f64 {
        let inside = self.0.iter().filter(|&value| (value - 0.5).abs() <= 0.5 * nominal).count();
        inside as f64 / self.0.len() as f64
    }

    /// The mean over [`COVERAGE_LEVELS`] of |nominal − observed coverage|: 0 is calibrated; 0.5 is a predictive
    /// without any spread that always misses, or one so wide that all targets sit at its centre.
    pub fn calibration_error(&self) -> f64 {
        let off: f64 = COVERAGE_LEVELS.iter().map(|&nominal| (nominal - self.share_inside(nominal)).abs()).sum();
        off / COVERAGE_LEVELS.len() as f64
    }

    /// The level of central intervals at which the share of targets inside is furthest from the level, and that share:
    /// Kolmogorov's distance of 2|PIT − ½| from a uniform distribution.
    pub fn worst_interval(&self) -> (f64, f64) {
        worst_level(self.0.iter().map(|value| 2.0 * (value - 0.5).abs()).collect())
    }

    /// The level of quantiles at which the share of targets below is furthest from the level, and that share.
    pub fn worst_quantile(&self) -> (f64, f64) {
        worst_level(self.0.clone())
    }

    /// How many values fall in each of `num_bins` equal bins: flat if calibrated, a U if too narrow, a hump if too
    /// wide.
    pub fn histogram(&self, num_bins: NonZeroUsize) -> Vec<usize> {
        let mut counts = vec![0; num_bins.get()];
        self.0.iter().for_each(|&value| counts[equal_bin(value, num_bins.get())] += 1);
        counts
    }
}

/// Where the share of values at or below a level, or only below it, is furthest from the level, and the share there.
fn worst_level(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let shares = values.iter().zip(0u32..).flat_map(|(&level, before)| {
        let before = f64::from(before);
        [(level, before / count), (level, (before + 1.0) / count)]
    });
    let gap = |&(level, share): &(f64, f64)| (share - level).abs();
    shares.max_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or((0.0, 0.0))
}

/// One bar of a reliability diagram: the points whose confidence lies in \[lower, upper), the last bin closed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Smallest confidence of the bin.
    pub lower: f64,
    /// Largest confidence of the bin.
    pub upper: f64,
    /// How many points fall in it.
    pub num_points: usize,
    /// The mean confidence of these points; `None` without points.
    pub mean_confidence: Option<f64>,
    /// The share of these points that were classified rightly; `None` without points.
    pub accuracy: Option<f64>,
}

impl ReliabilityBin {
    /// |accuracy − mean confidence|, 0 without points.
    pub fn gap(&self) -> f64 {
        self.accuracy.zip(self.mean_confidence).map_or(0.0, |(accuracy, confidence)| (accuracy - confidence).abs())
    }
}

/// Accuracy against confidence (the largest probability), in equal bins of confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityDiagram {
    /// The bins, from confidence 0 to confidence 1.
    pub bins: Vec<ReliabilityBin>,
}

impl ReliabilityDiagram {
    /// Sorts points into bins by their confidence; `correct` says which were classified rightly.
    ///
    /// # Panics
    /// If the two lists differ in length.
    pub fn new(confidences: &[f64], correct: &[bool], num_bins: NonZeroUsize) -> Result<Self, PredictiveError> {
        assert_eq!(confidences.len(), correct.len(), "one confidence and one verdict for each point");
        check_probabilities("confidence", confidences)?;
        let mut sums = vec![(0, 0.0, 0); num_bins.get()];
        for (&confidence, &correct) in confidences.iter().zip(correct) {
            let (num_points, confidence_sum, num_correct) = &mut sums[equal_bin(confidence, num_bins.get())];
            *num_points += 1;
            *confidence_sum += confidence;
            *num_correct += usize::from(correct);
        }
        let width = 1.0 / num_bins.get() as f64;
        let bin = |(index, &(num_points, confidence_sum, num_correct)): (usize, &(usize, f64, usize))| ReliabilityBin {
            lower: index as f64 * width,
            upper: (index + 1) as f64 * width,
            num_points,
            mean_confidence: (num_points > 0).then(|| confidence_sum / num_points as f64),
            accuracy: (num_points > 0).then(|| num_correct as f64 / num_points as f64),
        };
        Ok(Self { bins: sums.iter().enumerate().map(bin).collect() })
    }

    /// ECE = Σ_bins (share of points) · |accuracy − mean confidence|.
    pub fn expected_calibration_error(&self) -> f64 {
        let num_points: usize = self.bins.iter().map(|bin| bin.num_points).sum();
        self.bins.iter().map(|bin| bin.num_points as f64 * bin.gap()).sum::<f64>() / num_points as f64
    }

    /// The gap of the worst bin.
    pub fn maximum_calibration_error(&self) -> f64 {
        self.bins.iter().map(ReliabilityBin::gap).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: NonZeroUsize = NonZeroUsize::new(10).unwrap();

    /// Bin 5 holds .52 (right) and .58 (wrong): |1/2 − .55| = .05; bin 9 holds .91, .97 (right) and 1.0 (wrong):
    /// |2/3 − .96| = .29333; bin 7 holds .75 (right): .25. ECE = (2·.05 + 3·.29333 + .25)/6 = .205.
    #[test]
    fn six_hand_worked_points() {
        let confidences = [0.52, 0.58, 0.91, 0.97, 1.0, 0.75];
        let correct = [true, false, true, true, false, true];
        let diagram = ReliabilityDiagram::new(&confidences, &correct, TEN).unwrap();
        assert!((diagram.expected_calibration_error() - 0.205).abs() < 1e-15);
        assert!((diagram.maximum_calibration_error() - (0.96 - 2.0 / 3.0)).abs() < 1e-15);
        let counts: Vec<usize> = diagram.bins.iter().map(|bin| bin.num_points).collect();
        assert_eq!(counts, [0, 0, 0, 0, 0, 2, 0, 1, 0, 3]);
        assert_eq!((diagram.bins[9].upper, diagram.bins[7].accuracy, diagram.bins[0].accuracy), (1.0, Some(1.0), None));
    }

    /// Quarters are exact in binary, so these lie on the borders of four bins: each belongs to the bin above, and 1 to the last.
    /// ECE = (1·|1 − .25| + 2·|½ − .5625| + 2·|½ − .875|)/5 = .325.
    #[test]
    fn a_border_belongs_to_the_bin_above_it() {
        const FOUR: NonZeroUsize = NonZeroUsize::new(4).unwrap();
        let (confidences, correct) = ([0.25, 0.625, 0.5, 0.75, 1.0], [true, false, true, false, true]);
        let diagram = ReliabilityDiagram::new(&confidences, &correct, FOUR).unwrap();
        let counts: Vec<usize> = diagram.bins.iter().map(|bin| bin.num_points).collect();
        assert_eq!(counts, [0, 1, 2, 2]);
        assert_eq!((diagram.bins[1].mean_confidence, diagram.bins[2].mean_confidence), (Some(0.25), Some(0.5625)));
        let expected = (0.75 + 2.0 * 0.0625 + 2.0 * 0.375) / 5.0;
        assert!((diagram.expected_calibration_error() - expected).abs() < 1e-15);
        let borders = PitValues::new(vec![0.0, 0.25, 0.5, 0.75, 1.0]).unwrap();
        assert_eq!(borders.histogram(FOUR), [1, 1, 1, 2]);
    }

    #[test]
    fn confidences_must_be_probabilities() {
        assert_eq!(ReliabilityDiagram::new(&[], &[], TEN), Err(PredictiveError::NoPoints));
        let error = ReliabilityDiagram::new(&[0.5, 1.5], &[true; 2], TEN).unwrap_err();
        assert_eq!(error.to_string(), "confidence 1 is 1.5, which is not a probability; they must lie in [0, 1]");
        assert!(PitValues::new(vec![f64::NAN]).is_err());
    }

    #[test]
    fn evenly_spread_values_are_calibrated() {
        let even = PitValues::new((0..1000).map(|i| (f64::from(i) + 0.5) / 1000.0).collect()).unwrap();
        assert!(even.calibration_error() < 1e-12);
        assert!((even.coverage(0.95).unwrap() - 0.95).abs() < 1e-12);
        assert_eq!(even.histogram(TEN), [100; 10]);
    }

    #[test]
    fn too_narrow_and_too_wide_are_both_seen() {
        let narrow = PitValues::new(vec![0.0, 1.0, 0.0, 1.0]).unwrap();
        assert!((narrow.calibration_error() - 0.5).abs() < 1e-15);
        assert_eq!(narrow.histogram(TEN), [2, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        let wide = PitValues::new(vec![0.5; 3]).unwrap();
        assert_eq!(wide.coverage(0.1), Ok(1.0));
        assert!((wide.calibration_error() - 0.5).abs() < 1e-15);
        assert!(wide.coverage(1.0).is_err());
    }

    /// PIT .4, .45, .5, .55, .9: |2 PIT − 1| is .2, .1, 0, .1, .8, so that four of five lie within the 20 % intervals. Below the 40 %
    /// quantile lies none.
    #[test]
    fn the_worst_levels_by_hand() {
        let close = |(level, share): (f64, f64), (expected, of): (f64, f64)| {
            assert!((level - expected).abs() < 1e-12 && (share - of).abs() < 1e-12, "{level} {share}");
        };
        let humped = PitValues::new(vec![0.9, 0.4, 0.55, 0.45, 0.5]).unwrap();
        close(humped.worst_interval(), (0.2, 0.8));
        close(humped.worst_quantile(), (0.4, 0.0));
        let narrow = PitValues::new(vec![0.0, 1.0, 0.0, 1.0]).unwrap();
        close(narrow.worst_interval(), (1.0, 0.0));
        // A predictive that is too high everywhere: all targets lie in its lower half.
        let high = PitValues::new(vec![0.1, 0.2, 0.3, 0.4, 0.5]).unwrap();
        close(high.worst_quantile(), (0.5, 1.0));
    }

    #[test]
    fn the_ends_of_an_interval_belong_to_it() {
        let ends = PitValues::new(vec![0.25, 0.75, 0.24, 0.76]).unwrap();
        assert_eq!(ends.coverage(0.5), Ok(0.5));
    }

    #[test]
    fn bins_lie_side_by_side_from_nothing_to_all() {
        let diagram = ReliabilityDiagram::new(&[0.3], &[true], NonZeroUsize::new(4).unwrap()).unwrap();
        let ends: Vec<(f64, f64)> = diagram.bins.iter().map(|bin| (bin.lower, bin.upper)).collect();
        assert_eq!(ends, [(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)]);
        // Nothing is said of bins without points.
        let said: Vec<bool> = diagram.bins.iter().map(|bin| bin.accuracy.is_some()).collect();
        assert_eq!(said, [false, true, false, false]);
        assert!(diagram.bins.iter().all(|bin| bin.accuracy.is_some() == bin.mean_confidence.is_some()));
    }
}

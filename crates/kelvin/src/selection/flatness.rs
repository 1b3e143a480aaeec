//! All β that validation rows cannot tell from the best of a grid.
//!
//! ```text
//! mean_i d_i ≤ sd(d_i)/√m,   d_i = log p̂_best(y_i|x_i) − log p̂_β(y_i|x_i)
//! ```
//! The standard error is that of the difference, row by row: rows that are hard at every β are hard in both and cancel, so that it
//! is far sharper than the error of either LPD alone.

use super::selector::{BetaInterval, IntervalMeaning};

/// The run of β around the best whose LPD is within one paired standard error of it; between the last β inside and the first
/// outside the border is interpolated in log β. None of fewer than two β, or of rows that are not finite.
pub fn flat_interval(points: &[(f64, &[f64])]) -> Option<BetaInterval> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let best = (0..points.len()).rev().max_by(|&a, &b| mean(points[a].1).total_cmp(&mean(points[b].1)))?;
    let best_values = points[best].1;
    if points.len() < 2 || best_values.len() < 2 || !mean(best_values).is_finite() {
        return None;
    }
    let border = |others: &mut dyn Iterator<Item = usize>| {
        let mut inside = (points[best].0.ln(), None);
        for index in others {
            let (log_beta, (loss, error)) = (points[index].0.ln(), paired_loss(best_values, points[index].1));
            let excess = loss - error;
            if excess > 0.0 || excess.is_nan() {
                let share = match inside.1 {
                    // Away from the best the loss grows like a square and its error like a line.
                    None => error / loss,
                    Some(before) => before / (before - excess),
                };
                let share = if share.is_finite() { share } else { 0.0 };
                return (inside.0 + share * (log_beta - inside.0)).exp();
            }
            inside = (log_beta, Some(excess));
        }
        inside.0.exp()
    };
    let (low, high) = (border(&mut (0..best).rev()), border(&mut (best + 1..points.len())));
    Some(BetaInterval { low, high, meaning: IntervalMeaning::Flat })
}

/// By how much the mean of `values` lies below that of `best`, row by row, and the standard error of that.
pub(super) fn paired_loss(best: &[f64], values: &[f64]) -> (f64, f64) {
    let differences: Vec<f64> = best.iter().zip(values).map(|(best, value)| best - value).collect();
    let count = differences.len() as f64;
    let centre = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|d| (d - centre).powi(2)).sum::<f64>() / (count - 1.0);
    (centre, (variance / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows a ± δ: mean a, standard error |δ| of the difference.
    fn rows(mean: f64, error: f64) -> [f64; 2] {
        [mean - error, mean + error]
    }

    #[test]
    fn borders_lie_where_the_loss_passes_its_error() {
        let (worse, near, best, far) = (rows(-1.0, 0.5), rows(-0.1, 0.4), rows(0.0, 0.0), rows(-0.6, 0.2));
        let points = [(1.0, &worse[..]), (2.0, &near), (4.0, &best), (8.0, &far)];
        let interval = flat_interval(&points).unwrap();
        // Below: excess −0.3 at β = 2 and +0.5 at β = 1. Above: a loss of 0.6 with error 0.2, so a third of the way to β = 8.
        let low = 2f64.powf(1.0 - 0.3 / 0.8);
        assert!((interval.low - low).abs() < 1e-12, "{interval:?}");
        assert!((interval.high - 4.0 * 2f64.cbrt()).abs() < 1e-12);
        assert_eq!(interval.meaning, IntervalMeaning::Flat);
    }

    #[test]
    fn common_hardness_cancels() {
        // The rows differ wildly among themselves; the difference between β does not.
        let (a, b) = ([-100.0, 3.0, 0.0, -7.0], [-100.1, 2.9, -0.1, -7.1]);
        let interval = flat_interval(&[(1.0, &a), (3.0, &b)]).unwrap();
        assert!((interval.high - 1.0).abs() < 1e-9, "{interval:?}");
        assert_eq!(flat_interval(&[(1.0, &a)]), None);
    }

    #[test]
    fn a_flat_curve_reaches_the_ends() {
        let (a, b, c) = (rows(0.0, 0.0), rows(-0.1, 0.3), rows(-0.1, 0.3));
        let interval = flat_interval(&[(0.1, &b), (1.0, &a), (10.0, &c)]).unwrap();
        assert!((interval.low - 0.1).abs() < 1e-12 && (interval.high - 10.0).abs() < 1e-12);
    }

    #[test]
    fn the_best_has_the_largest_mean() {
        // Sums of 3 and 4, whose remainders by the number of rows are the other way round.
        let (low, high) = ([1.5, 1.5], [2.0, 2.0]);
        let interval = flat_interval(&[(1.0, &low), (2.0, &high)]).unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 2.0));
    }
}

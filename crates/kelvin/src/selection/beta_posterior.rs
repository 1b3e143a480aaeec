//! What validation rows say about β: p(β | validation) ∝ p(β) Π_i p̂_β(y_i|x_i), on a grid.
//!
//! Each β is a model of its own, and the rows, which no chain has seen, judge them by Bayes' rule. The log of the product is known
//! at the points of the grid and interpolated as [`Curve`] does. The prior is flat in log β over the grid, or normal in log β. Sums
//! over many rows are sharp: an interval narrower than the grid's spacing rests on the interpolation, and says that the grid is
//! coarse rather than that β is known so well.

use super::curve::Curve;
use super::selector::{BetaInterval, IntervalMeaning};

/// Places between the ends of the grid.
const NUM_CELLS: usize = 4000;

/// The density of log β given the validation rows.
#[derive(Clone, Debug, PartialEq)]
pub struct BetaPosterior {
    low: f64,
    width: f64,
    /// Cumulative probability at the end of each cell.
    cumulative: Vec<f64>,
}

/// A normal prior on log β.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogBetaPrior {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub std: f64,
}

impl BetaPosterior {
    /// From β with the log densities of all validation rows; flat in log β without a prior. None of fewer than two β.
    pub fn new(points: &[(f64, &[f64])], prior: Option<LogBetaPrior>) -> Option<Self> {
        let curve = Curve::new(points.iter().map(|(beta, rows)| (*beta, rows.iter().sum::<f64>())))?;
        let grid = curve.inverse_temperatures();
        let (low, high) = (grid.first()?.ln(), grid.last()?.ln());
        if low >= high {
            return None;
        }
        let width = (high - low) / NUM_CELLS as f64;
        let log_density = |cell: usize| {
            let log_beta = low + (cell as f64 + 0.5) * width;
            let from_prior = prior.map_or(0.0, |prior| -0.5 * ((log_beta - prior.mean) / prior.std).powi(2));
            curve.score(log_beta) + from_prior
        };
        let logs: Vec<f64> = (0..NUM_CELLS).map(log_density).collect();
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = logs
            .iter()
            .map(|log| {
                sum += (log - largest).exp();
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|up_to| *up_to /= sum);
        Some(Self { low, width, cumulative })
    }

    /// The β below which lies this probability.
    pub fn quantile(&self, probability: f64) -> f64 {
        let cell = self.cumulative.partition_point(|up_to| *up_to < probability).min(self.cumulative.len() - 1);
        let before = if cell == 0 { 0.0 } else { self.cumulative[cell - 1] };
        let share = (probability - before) / (self.cumulative[cell] - before);
        (self.low + (cell as f64 + share.clamp(0.0, 1.0)) * self.width).exp()
    }

    /// The central interval of this probability.
    pub fn interval(&self, probability: f64) -> BetaInterval {
        let tail = 0.5 * (1.0 - probability);
        BetaInterval {
            low: self.quantile(tail),
            high: self.quantile(1.0 - tail),
            meaning: IntervalMeaning::Credible { probability },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row whose log density is a parabola in log β makes log β normal.
    #[test]
    fn a_parabola_gives_a_normal_distribution() {
        let (mean, std) = (0.4, 0.2);
        let row = |beta: f64| [-0.5 * ((beta.ln() - mean) / std).powi(2)];
        let betas = [0.5, 1.5, 4.0].map(|beta| (beta, row(beta)));
        let points: Vec<(f64, &[f64])> = betas.iter().map(|(beta, rows)| (*beta, &rows[..])).collect();
        let posterior = BetaPosterior::new(&points, None).unwrap();
        assert!((posterior.quantile(0.5).ln() - mean).abs() < 1e-3);
        let interval = posterior.interval(0.9);
        assert!((interval.low.ln() - (mean - 1.6449 * std)).abs() < 1e-3, "{interval:?}");
        assert!((interval.high.ln() - (mean + 1.6449 * std)).abs() < 1e-3);
        // With a prior of the same width: half-way between, and narrower by √2.
        let prior = LogBetaPrior { mean: 0.0, std };
        let both = BetaPosterior::new(&points, Some(prior)).unwrap();
        assert!((both.quantile(0.5).ln() - 0.2).abs() < 2e-3, "{}", both.quantile(0.5).ln());
        let upper = 0.2 + 1.6449 * std / 2f64.sqrt();
        assert!((both.interval(0.9).high.ln() - upper).abs() < 2e-3);
    }

    #[test]
    fn rows_that_say_nothing_leave_the_prior() {
        let (a, b) = ([0.0, -1.0], [-1.0, 0.0]);
        let posterior = BetaPosterior::new(&[(0.1, &a), (10.0, &b)], None).unwrap();
        assert!((posterior.quantile(0.5) - 1.0).abs() < 1e-9);
        assert!((posterior.quantile(0.25).log10() + 0.5).abs() < 1e-9);
        assert_eq!(BetaPosterior::new(&[(0.1, &a)], None), None);
    }

    /// Scores that say nothing leave a normal prior of log β wherever it lies within the grid.
    #[test]
    fn flat_scores_leave_the_prior() {
        for mean in [-0.7, 0.0, 0.4] {
            let flat = [0.0, 0.0];
            let points: Vec<(f64, &[f64])> = [1e-3, 1e3].iter().map(|beta| (*beta, &flat[..])).collect();
            let posterior = BetaPosterior::new(&points, Some(LogBetaPrior { mean, std: 0.3 })).unwrap();
            assert!((posterior.quantile(0.5).ln() - mean).abs() < 1e-3, "{mean}: {}", posterior.quantile(0.5).ln());
            let high = mean + 1.6449 * 0.3;
            assert!((posterior.interval(0.9).high.ln() - high).abs() < 1e-3, "{mean}");
        }
    }

    /// Only differences of densities count, however small the densities are.
    #[test]
    fn a_constant_changes_nothing() {
        let at = |constant: f64| {
            let (a, b, c) = ([constant], [constant + 2.0], [constant + 1.0]);
            let points = [(0.1, &a[..]), (1.0, &b), (10.0, &c)];
            BetaPosterior::new(&points, None).unwrap().quantile(0.3)
        };
        for constant in [-4096.0, 4096.0] {
            assert!((at(constant) / at(0.0) - 1.0).abs() < 1e-9, "{constant}");
        }
    }
}

//! What each draw of a chain predicts at a few validation rows: enough to tell how many independent draws it is worth.

use kelvin::data::Targets;
use kelvin::diagnostics::{bulk_ess, rhat};
use kelvin::likelihood::{Likelihood, TargetKind};
use rayon::prelude::*;

/// Rows that are watched: predictions of every draw are kept at these alone.
const MOST_ROWS: usize = 64;
/// R̂ and ESS of fewer draws a chain are mostly chance.
const FEWEST_DRAWS: usize = 20;

/// The mean of each target given θ, or the probability of the true class, of every draw at the watched rows, draw by draw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatchedRows {
    likelihood: Likelihood,
    rows: Vec<usize>,
    targets: Targets,
    predictions: Vec<f64>,
}

impl WatchedRows {
    /// Evenly spaced rows of these targets, and no draws yet.
    pub fn new(likelihood: Likelihood, targets: &Targets) -> Self {
        let num_rows = match targets {
            Targets::Real(numbers) => numbers.len() / likelihood.num_targets(),
            Targets::Classes(labels) => labels.len(),
        };
        let count = num_rows.min(MOST_ROWS);
        let rows = (0..count).map(|index| index * num_rows / count).collect();
        Self { likelihood, rows, targets: targets.clone(), predictions: Vec::new() }
    }

    /// Counts a draw, given the likelihood's values at all rows.
    pub fn add_draw(&mut self, outputs: &[f32]) {
        match self.likelihood.kind() {
            TargetKind::Numbers => {
                let width = self.likelihood.num_values();
                let values = |row: usize| &outputs[row * width..(row + 1) * width];
                let targets = 0..self.likelihood.num_targets();
                let mean = |row: usize, target| self.likelihood.number_distribution_of(target, values(row), 1.0).mean();
                let means = |&row: &usize| targets.clone().map(move |target| mean(row, target));
                self.predictions.extend(self.rows.iter().flat_map(means));
            }
            TargetKind::Classes { .. } => {
                let densities = self.likelihood.log_densities(outputs, &self.targets);
                self.predictions.extend(self.rows.iter().map(|&row| densities[row].exp()));
            }
        }
    }

    /// All numbers, for [`WatchedRows::restore`].
    pub fn state(&self) -> Vec<f64> {
        self.predictions.clone()
    }

    /// Takes up what was stored; `None` where it does not fit.
    pub fn restore(&mut self, state: &[f64]) -> Option<()> {
        self.predictions = state.to_vec();
        self.predictions.len().is_multiple_of(self.num_points().max(1)).then_some(())
    }

    /// Predictions of a draw.
    fn num_points(&self) -> usize {
        self.rows.len() * self.likelihood.num_targets()
    }

    fn series(&self, place: usize) -> Vec<f64> {
        self.predictions.iter().skip(place).step_by(self.num_points().max(1)).copied().collect()
    }
}

/// Effective sample size and R̂ of predictions over the watched rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EffectivePredictions {
    pub median: f64,
    pub low: f64,
    pub median_rhat: f64,
    pub worst_rhat: f64,
}

impl EffectivePredictions {
    /// Of chains of the same length; none of fewer than twenty draws, or where no prediction varies.
    pub fn of(chains: &[&WatchedRows]) -> Option<Self> {
        let first = chains.first()?;
        let (num_points, len) = (first.num_points(), first.predictions.len());
        if len < FEWEST_DRAWS * num_points || chains.iter().any(|chain| chain.predictions.len() != len) {
            return None;
        }
        let found: Vec<(f64, f64)> = (0..num_points)
            .into_par_iter()
            .filter_map(|place| {
                let series: Vec<Vec<f64>> = chains.iter().map(|chain| chain.series(place)).collect();
                Some((bulk_ess(&series).ok()?, rhat(&series).ok()?))
            })
            .collect();
        let sorted = |value: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = found.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (effective, disagreement) = (sorted(|(ess, _)| *ess), sorted(|(_, rhat)| *rhat));
        Some(Self {
            median: *effective.get(effective.len() / 2)?,
            low: effective[effective.len() / 20],
            median_rhat: disagreement[disagreement.len() / 2],
            worst_rhat: *disagreement.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(num_rows: usize, draws: impl Iterator<Item = f32>) -> WatchedRows {
        let targets = Targets::Real(vec![0.0; num_rows]);
        let mut watched = WatchedRows::new(Likelihood::Gaussian { noise_variance: 1.0 }, &targets);
        draws.for_each(|value| watched.add_draw(&vec![value; num_rows]));
        watched
    }

    /// Numbers without any order, as good as independent.
    fn noise(chain: u32, draw: u32) -> f32 {
        let key = kelvin::random::NoiseKey {
            seed: 1,
            purpose: kelvin::random::Purpose::StepNoise,
            chain,
            step: u64::from(draw),
        };
        key.uniform(0) as f32
    }

    #[test]
    fn independent_draws_count_fully_and_repeated_ones_do_not() {
        let own = [0, 1].map(|chain| watched(3, (0..200).map(move |draw| noise(chain, draw))));
        let found = EffectivePredictions::of(&[&own[0], &own[1]]).unwrap();
        assert!((250.0..550.0).contains(&found.median) && found.worst_rhat < 1.03, "{found:?}");
        let slow = [0, 1].map(|chain| watched(3, (0..200).map(move |draw| noise(chain, draw / 10))));
        let found = EffectivePredictions::of(&[&slow[0], &slow[1]]).unwrap();
        assert!((20.0..80.0).contains(&found.median), "{found:?}");
        let apart = [0, 1].map(|chain| watched(3, (0..200).map(move |draw| noise(chain, draw) + 3.0 * chain as f32)));
        assert!(EffectivePredictions::of(&[&apart[0], &apart[1]]).unwrap().median_rhat > 1.5);
        assert_eq!(EffectivePredictions::of(&[&watched(3, (0..19).map(|draw| noise(0, draw)))]), None);
    }

    #[test]
    fn few_rows_of_many_are_watched_and_restored() {
        let mut many = watched(1000, (0..3).map(|draw| draw as f32));
        assert_eq!((many.rows.len(), many.rows[1], many.predictions.len()), (64, 15, 192));
        let state = many.state();
        assert!(many.restore(&state).is_some() && many.restore(&state[1..]).is_none());
        assert_eq!(watched(5, std::iter::empty()).rows, [0, 1, 2, 3, 4]);
    }
}

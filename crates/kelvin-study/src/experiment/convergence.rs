//! How well the chains of one temperature know their predictions: effective sample size, R̂ and Monte-Carlo error between chains.
//!
//! ```text
//! Monte-Carlo error   jackknife over C chains: √((C − 1)/C Σ (LPD without chain c − their mean)²)
//! bias of few draws   LPD of all chains − mean LPD of halves of them: what twice as many draws would still gain, and about what all of them lack
//! ```
//! The error over rows is another one (`findings/cross_validation.rs`): no number of draws makes it smaller.

use kelvin::predictive::{ByModel, Predictive, PredictiveError, PredictiveModel};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::experiment::running_scores::RunningScores;
use crate::experiment::watched_rows::{EffectivePredictions, WatchedRows};
use crate::settings::StoppingSettings;

/// How well predictions are known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Bulk effective sample size of predictions at the median watched row, over all chains; none of too few draws.
    pub effective_median: Option<f64>,
    /// The same at the row that is worse than all but 5 % of them.
    pub effective_low: Option<f64>,
    /// Rank-normalised split-R̂ of predictions at the median watched row.
    pub median_rhat: Option<f64>,
    /// The same at the worst row.
    pub worst_rhat: Option<f64>,
    /// Monte-Carlo standard error of the validation LPD, between chains; none of a single chain.
    pub lpd_error: Option<ByModel<f64>>,
    /// How much larger the validation LPD of all chains is than that of halves of them; none of fewer than two chains.
    pub few_draws_bias: Option<ByModel<f64>>,
}

impl Convergence {
    /// Of chains at one temperature, which have kept equally many draws.
    ///
    /// # Errors
    /// Where a chain has no draws.
    pub(crate) fn of(chains: &[&RunningScores]) -> Result<Self, PredictiveError> {
        let watched: Vec<&WatchedRows> = chains.iter().map(|scores| &scores.watched).collect();
        let effective = EffectivePredictions::of(&watched);
        let validation: Vec<&Predictive> = chains.iter().map(|scores| &scores.predictives.validation).collect();
        let has_several = validation.len() > 1;
        Ok(Self {
            effective_median: effective.map(|found| found.median),
            effective_low: effective.map(|found| found.low),
            median_rhat: effective.map(|found| found.median_rhat),
            worst_rhat: effective.map(|found| found.worst_rhat),
            lpd_error: if has_several { Some(lpd_error(&validation)?) } else { None },
            few_draws_bias: if has_several { Some(few_draws_bias(&validation)?) } else { None },
        })
    }

    /// The targets that were not reached, in words with what was found; none if all were.
    pub fn missed(&self, targets: &StoppingSettings) -> Vec<String> {
        let mut missed = Vec::new();
        let number = |found: Option<f64>| found.map_or("too few draws to tell".into(), |found| format!("{found:.0}"));
        let mut at_least = |what: &str, found: Option<f64>, target: f64| {
            if found.is_none_or(|found| found < target) {
                missed.push(format!("{what} {} of {target:.0}", number(found)));
            }
        };
        at_least("effective predictions (median row)", self.effective_median, targets.effective_median);
        at_least("effective predictions (5 % of rows)", self.effective_low, targets.effective_low);
        if let Some(rhat) = self.worst_rhat.filter(|&rhat| rhat.is_nan() || rhat > targets.worst_rhat) {
            missed.push(format!("R̂ of predictions (worst row) {rhat:.3}, wanted {}", targets.worst_rhat));
        }
        if let Some(error) = self.lpd_error {
            let error = error.standard.max(error.tempered);
            if error.is_nan() || error > targets.lpd_error {
                missed.push(format!("Monte-Carlo error of LPD {error:.3}, wanted {}", targets.lpd_error));
            }
        }
        missed
    }

    /// How many times as many draws would reach all targets: effective sample sizes grow with their number, errors shrink with its
    /// root, and R̂ − 1 with the number itself once chains have met. A tenth more at least, since less may change nothing.
    pub fn draws_wanted(&self, targets: &StoppingSettings) -> Option<f64> {
        let mut factor =
            (targets.effective_median / self.effective_median?).max(targets.effective_low / self.effective_low?);
        if let Some(rhat) = self.worst_rhat {
            factor = factor.max((rhat - 1.0) / (targets.worst_rhat - 1.0));
        }
        if let Some(error) = self.lpd_error {
            factor = factor.max((error.standard.max(error.tempered) / targets.lpd_error).powi(2));
        }
        Some(factor).filter(|factor| factor.is_finite()).map(|factor| factor.max(1.1))
    }
}

/// The LPD of some chains pooled.
fn pooled_lpd<'p>(mut chains: impl Iterator<Item = &'p Predictive>) -> Result<ByModel<f64>, PredictiveError> {
    let mut pooled = chains.next().ok_or(PredictiveError::NoDraws)?.clone();
    chains.try_for_each(|other| pooled.merge(other))?;
    pooled.lpd()
}

/// The jackknife standard error of a statistic, from its values with each part left out.
pub(crate) fn jackknife(left_out: &[f64]) -> f64 {
    let count = left_out.len() as f64;
    let mean = left_out.iter().sum::<f64>() / count;
    let squares: f64 = left_out.iter().map(|value| (value - mean).powi(2)).sum();
    ((count - 1.0) / count * squares).sqrt()
}

/// The jackknife standard error of the pooled LPD of several chains, between them.
pub(crate) fn lpd_error(chains: &[&Predictive]) -> Result<ByModel<f64>, PredictiveError> {
    let without = |left_out: usize| {
        pooled_lpd(chains.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, chain)| *chain))
    };
    let values: Vec<ByModel<f64>> = (0..chains.len()).into_par_iter().map(without).collect::<Result<_, _>>()?;
    Ok(ByModel::from_fn(|model| jackknife(&values.iter().map(|lpd| *lpd.get(model)).collect::<Vec<_>>())))
}

/// Over halves made of neighbouring chains, in a circle, so that each chain counts as often.
fn few_draws_bias(chains: &[&Predictive]) -> Result<ByModel<f64>, PredictiveError> {
    let (count, half) = (chains.len(), chains.len() / 2);
    let all = pooled_lpd(chains.iter().copied())?;
    let mut sums = ByModel { standard: 0.0, tempered: 0.0 };
    let of_half = |first: usize| pooled_lpd((first..first + half.max(1)).map(|index| chains[index % count]));
    let halves: Vec<ByModel<f64>> = (0..count).into_par_iter().map(of_half).collect::<Result<_, _>>()?;
    for lpd in halves {
        sums.standard += lpd.standard / count as f64;
        sums.tempered += lpd.tempered / count as f64;
    }
    Ok(ByModel::from_fn(|model: PredictiveModel| all.get(model) - sums.get(model)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(effective: f64, error: f64) -> Convergence {
        Convergence {
            effective_median: Some(effective),
            effective_low: Some(effective / 2.0),
            median_rhat: Some(1.01),
            worst_rhat: Some(1.02),
            lpd_error: Some(ByModel { standard: error, tempered: error / 2.0 }),
            few_draws_bias: None,
        }
    }

    #[test]
    fn targets_are_missed_by_name_with_what_it_would_take() {
        let targets = StoppingSettings::default();
        assert!(reached(400.0, 0.02).missed(&targets).is_empty());
        let short = reached(100.0, 0.06);
        assert_eq!(
            short.missed(&targets),
            [
                "effective predictions (median row) 100 of 400",
                "effective predictions (5 % of rows) 50 of 100",
                "Monte-Carlo error of LPD 0.060, wanted 0.02"
            ]
        );
        assert!((short.draws_wanted(&targets).unwrap() - 9.0).abs() < 1e-12);
        assert_eq!(reached(399.0, 0.02).draws_wanted(&targets), Some(1.1), "not 1.0 times as many");
        let apart = Convergence { worst_rhat: Some(1.6), ..reached(400.0, 0.02) };
        assert_eq!(apart.missed(&targets), ["R̂ of predictions (worst row) 1.600, wanted 1.05"]);
        assert!((apart.draws_wanted(&targets).unwrap() - 12.0).abs() < 1e-9);
        let none = Convergence { effective_median: None, ..reached(400.0, 0.0) };
        assert!(none.missed(&targets)[0].contains("too few draws"));
        assert_eq!(none.draws_wanted(&targets), None);
    }

    /// Of a mean of four numbers the jackknife is the standard error: here √(Σ(x − x̄)²/(4·3)).
    #[test]
    fn the_jackknife_of_a_mean_is_its_standard_error() {
        let values = [1.0, 2.0, 4.0, 9.0];
        let without: Vec<f64> = values.iter().map(|value| (16.0 - value) / 3.0).collect();
        assert!((jackknife(&without) - (38.0_f64 / 12.0).sqrt()).abs() < 1e-12);
    }
}

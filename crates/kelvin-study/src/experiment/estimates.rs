//! What chains at one temperature estimate, each number with its Monte-Carlo error, and how two samplers of it compare.
//!
//! Errors are between chains: of U the standard error of the chains' means, of scores the jackknife that leaves out one chain at a time, which also
//! says what pooling few draws does to them. With four chains an error has three degrees of freedom: it is itself uncertain by two fifths.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::experiment::convergence::jackknife;
use crate::experiment::prepared::Experiment;
use crate::experiment::sampling::SampledChain;
use crate::number::{fixed, significant};
use kelvin::diagnostics::{bulk_ess, mean_mcse, number_or_nan, rhat};
use kelvin::potential::Potential;
use kelvin::predictive::{ByModel, Predictive, Scores, predictions_by_row};

/// A difference of so many standard errors is one. With the six degrees of freedom of four chains on each side chance reaches it once in 42 times.
const SEEN: f64 = 3.0;
/// Differences that matter: of U as a share of ½dT (U itself has an arbitrary zero), of an LPD in nats, of an MSE as a share, of an accuracy.
const ENERGY_SHARE: f64 = 0.02;
const LPD_NATS: f64 = 0.02;
const MSE_SHARE: f64 = 0.05;
const ACCURACY: f64 = 0.01;

/// A number with its Monte-Carlo standard error; NaN where there is one chain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its standard error.
    #[serde(deserialize_with = "number_or_nan")]
    pub error: f64,
}

impl Estimate {
    /// The mean of independent values.
    fn mean(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|x| (x - value).powi(2)).sum::<f64>();
        Self { value, error: (squares / (count * (count - 1.0))).sqrt() }
    }

    /// Of a statistic of all chains and of all but each.
    fn jackknife(value: f64, without: &[f64]) -> (Self, f64) {
        let count = without.len() as f64;
        let mean = without.iter().sum::<f64>() / count;
        let error = if without.len() > 1 { jackknife(without) } else { f64::NAN };
        (Self { value, error }, (count - 1.0) * (mean - value))
    }
}

/// "12.3 ± 0.4".
impl fmt::Display for Estimate {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.error.is_finite() || self.error == 0.0 {
            return write!(to, "{}", significant(self.value, 4));
        }
        let digits = (1.0 - self.error.log10().floor()).clamp(0.0, 9.0) as usize;
        write!(to, "{} ± {}", fixed(self.value, digits), fixed(self.error, digits))
    }
}

/// How predictions of test rows mix: of each draw the mean of y or, for classes, the probability of the true one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionMixing {
    /// R̂ at the median row.
    pub median_rhat: f64,
    /// R̂ at the worst row.
    pub worst_rhat: f64,
    /// Bulk ESS of all chains together at the median row.
    pub median_ess: f64,
    /// The same at the row that a twentieth of rows are below.
    pub low_ess: f64,
}

/// What the chains of one sampler at one inverse temperature estimate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplerEstimates {
    /// Chains that it is from.
    pub num_chains: usize,
    /// Draws of all of them.
    pub num_draws: usize,
    /// Mean U, with the error between chains.
    pub potential_energy: Estimate,
    /// ½dT: what U has from heat where it is a quadratic, and the measure of its differences.
    pub thermal_energy: f64,
    /// The error of mean U by the effective number of draws; too small where chains do not mix.
    #[serde(deserialize_with = "number_or_nan")]
    pub energy_error_by_ess: f64,
    /// R̂ of U.
    pub energy_rhat: Option<f64>,
    /// Bulk ESS of U.
    pub energy_ess: Option<f64>,
    /// Test LPD of all draws pooled, with the jackknife's error.
    pub lpd: ByModel<Estimate>,
    /// How much lower the LPD is than that of endlessly many draws, by the jackknife: a negative number.
    pub lpd_bias: ByModel<f64>,
    /// Test MSE or accuracy.
    pub point_metric: Estimate,
    /// Whether the point metric is an accuracy.
    pub is_accuracy: bool,
    /// None of draws that are not stored, or fewer than twenty a chain.
    pub predictions: Option<PredictionMixing>,
}

impl SamplerEstimates {
    /// From chains at `inverse_temperature` that kept draws.
    ///
    /// # Errors
    /// Where there is no chain, or draws cannot be read or evaluated.
    pub fn of_chains(
        experiment: &Experiment,
        inverse_temperature: f64,
        chains: &[&SampledChain],
    ) -> Result<Self, ExperimentError> {
        let energies: Vec<&[f64]> = chains.iter().map(|chain| &chain.draws.potential_energy[..]).collect();
        let means: Vec<f64> = energies.iter().map(|chain| chain.iter().sum::<f64>() / chain.len() as f64).collect();
        let pooled = |left_out: Option<usize>| -> Result<Predictive, ExperimentError> {
            let (likelihood, targets) = (experiment.problem.likelihood, experiment.test.targets());
            let mut pooled = Predictive::new(likelihood, targets, inverse_temperature)?;
            for (_, chain) in chains.iter().enumerate().filter(|(index, _)| Some(*index) != left_out) {
                pooled.merge(&chain.scores.predictives.test)?;
            }
            Ok(pooled)
        };
        let scores = pooled(None)?.scores()?;
        let mut without = Vec::new();
        for index in (0..chains.len()).filter(|_| chains.len() > 1) {
            without.push(pooled(Some(index))?.scores()?);
        }
        let jackknife =
            |of: &dyn Fn(&Scores) -> f64| Estimate::jackknife(of(&scores), &without.iter().map(of).collect::<Vec<_>>());
        let lpd = ByModel::from_fn(|model| jackknife(&|scores| *scores.lpd().get(model)));
        Ok(Self {
            num_chains: chains.len(),
            num_draws: energies.iter().map(|chain| chain.len()).sum(),
            potential_energy: Estimate::mean(&means),
            thermal_energy: 0.5
                * experiment.posterior.dim() as f64
                * experiment.sampler_temperature(inverse_temperature)?,
            energy_error_by_ess: mean_mcse(&energies).unwrap_or(f64::NAN),
            energy_rhat: rhat(&energies).ok(),
            energy_ess: bulk_ess(&energies).ok(),
            lpd: ByModel::from_fn(|model| lpd.get(model).0),
            lpd_bias: ByModel::from_fn(|model| lpd.get(model).1),
            point_metric: jackknife(&|scores| scores.point_metric()).0,
            is_accuracy: scores.larger_point_metric_is_better(),
            predictions: prediction_mixing(experiment, chains)?,
        })
    }
}

fn prediction_mixing(
    experiment: &Experiment,
    chains: &[&SampledChain],
) -> Result<Option<PredictionMixing>, ExperimentError> {
    if chains.iter().any(|chain| !chain.draws.are_stored()) {
        return Ok(None);
    }
    let draws: Vec<_> = chains.iter().map(|chain| &chain.draws).collect();
    let likelihood = experiment.problem.likelihood;
    let rows: Option<Vec<Vec<Vec<f64>>>> =
        predictions_by_row::<ExperimentError>(&*experiment.engine, likelihood, &experiment.test, &draws)?;
    let Some(rows) = rows else { return Ok(None) };
    let mut disagreement: Vec<f64> = rows.iter().filter_map(|row| rhat(row).ok()).collect();
    let mut effective: Vec<f64> = rows.iter().filter_map(|row| bulk_ess(row).ok()).collect();
    disagreement.sort_by(f64::total_cmp);
    effective.sort_by(f64::total_cmp);
    let (Some(&worst_rhat), Some(&low_ess)) = (disagreement.last(), effective.get(effective.len() / 20)) else {
        return Ok(None);
    };
    let (median_rhat, median_ess) = (disagreement[disagreement.len() / 2], effective[effective.len() / 2]);
    Ok(Some(PredictionMixing { median_rhat, worst_rhat, median_ess, low_ess }))
}

/// Whether two estimates of one number agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// No difference beyond three errors, or none that matters, and errors small enough to see one that does.
    Agree,
    /// A difference that matters, beyond three errors.
    Differ,
    /// No difference beyond three errors, but errors so large that one that matters could hide.
    CannotTell,
}

/// The difference of two samplers in one number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The sampler's minus the exact one's, with the error of both together.
    pub difference: Estimate,
    /// The difference that matters; of LPDs it includes what pooling unequally few draws explains.
    pub tolerance: f64,
    /// What follows.
    pub agreement: Agreement,
}

impl Compared {
    fn new(fast: Estimate, exact: Estimate, tolerance: f64) -> Self {
        let difference = Estimate { value: fast.value - exact.value, error: fast.error.hypot(exact.error) };
        let size = difference.value.abs();
        let agreement = match difference.error {
            error if size > tolerance && size > SEEN * error => Agreement::Differ,
            error if error <= tolerance => Agreement::Agree,
            _ => Agreement::CannotTell,
        };
        Self { difference, tolerance, agreement }
    }
}

/// A sampler beside an exact one, number by number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplerComparison {
    /// Mean U: 2 % of ½dT matter.
    pub potential_energy: Compared,
    /// Test LPD: 0.02 nats matter.
    pub lpd: ByModel<Compared>,
    /// Test MSE, of which 5 % matter, or accuracy, of which 0.01 matters.
    pub point_metric: Compared,
}

impl SamplerComparison {
    /// Of estimates at the same inverse temperature.
    pub fn new(fast: &SamplerEstimates, exact: &SamplerEstimates) -> Self {
        let metric = exact.point_metric;
        let matters = if exact.is_accuracy { ACCURACY } else { MSE_SHARE * metric.value };
        Self {
            potential_energy: Compared::new(
                fast.potential_energy,
                exact.potential_energy,
                ENERGY_SHARE * exact.thermal_energy,
            ),
            lpd: ByModel::from_fn(|model| {
                let from_few_draws = (fast.lpd_bias.get(model) - exact.lpd_bias.get(model)).abs();
                let tolerance = LPD_NATS + if from_few_draws.is_finite() { from_few_draws } else { 0.0 };
                Compared::new(*fast.lpd.get(model), *exact.lpd.get(model), tolerance)
            }),
            point_metric: Compared::new(fast.point_metric, metric, matters),
        }
    }

    fn named(&self, is_accuracy: bool) -> [(&'static str, Compared); 4] {
        let metric = if is_accuracy { "accuracy" } else { "MSE" };
        [
            ("U", self.potential_energy),
            ("SM LPD", self.lpd.standard),
            ("TM LPD", self.lpd.tempered),
            (metric, self.point_metric),
        ]
    }

    /// What a person is told.
    pub fn sentence(&self, is_accuracy: bool) -> String {
        let of = |agreement: Agreement| {
            let named = self.named(is_accuracy).into_iter().filter(move |(_, found)| found.agreement == agreement);
            let text = |(name, found): (&str, Compared)| format!("{name} ({})", found.difference);
            named.map(text).collect::<Vec<_>>().join(", ")
        };
        let (apart, unknown) = (of(Agreement::Differ), of(Agreement::CannotTell));
        let lead = match (apart.is_empty(), unknown.is_empty()) {
            (false, _) => format!("differs from exact HMC in {apart}"),
            (true, false) => "shows no difference from exact HMC beyond its errors".into(),
            (true, true) => "agrees with exact HMC in U, SM LPD, TM LPD and the point metric".into(),
        };
        match unknown.is_empty() {
            true => lead,
            false => format!("{lead}; errors are too large to tell in {unknown}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, error: f64) -> Estimate {
        Estimate { value, error }
    }

    #[test]
    fn a_mean_and_a_jackknife_by_hand() {
        let mean = Estimate::mean(&[1.0, 2.0, 6.0]);
        assert_eq!(mean.value, 3.0);
        assert!((mean.error - (14.0_f64 / 6.0).sqrt()).abs() < 1e-12);
        // The jackknife of a mean is its standard error, and sees no bias.
        let (jackknife, bias) = Estimate::jackknife(3.0, &[4.0, 3.5, 1.5]);
        assert!((jackknife.error - mean.error).abs() < 1e-12 && bias.abs() < 1e-12);
        assert!(Estimate::mean(&[1.0]).error.is_nan());
    }

    #[test]
    fn numbers_are_written_to_two_digits_of_their_error() {
        assert_eq!(estimate(1234.56, 12.3).to_string(), "1235 ± 12");
        assert_eq!(estimate(-0.15678, 0.0123).to_string(), "−0.157 ± 0.012");
        assert_eq!(estimate(0.5, f64::NAN).to_string(), "0.5");
    }

    #[test]
    fn differences_agree_differ_or_cannot_be_told() {
        let of = |value, error| Compared::new(estimate(value, error), estimate(0.0, 0.0), 0.02).agreement;
        assert_eq!(of(0.01, 0.01), Agreement::Agree);
        assert_eq!(of(0.01, 0.001), Agreement::Agree, "seen, but it does not matter");
        assert_eq!(of(0.04, 0.015), Agreement::Agree, "not beyond three errors");
        assert_eq!(of(-0.04, 0.01), Agreement::Differ);
        assert_eq!(of(0.04, 0.03), Agreement::CannotTell);
        assert_eq!(of(0.0, f64::NAN), Agreement::CannotTell);
    }

    #[test]
    fn the_sentence_names_what_differs_and_what_is_unknown() {
        let compared = |value, error| Compared::new(estimate(value, error), estimate(0.0, 0.0), 0.02);
        let good = compared(0.0, 0.01);
        let all = SamplerComparison {
            potential_energy: good,
            lpd: ByModel { standard: good, tempered: good },
            point_metric: good,
        };
        assert_eq!(all.sentence(false), "agrees with exact HMC in U, SM LPD, TM LPD and the point metric");
        let other = SamplerComparison { potential_energy: compared(0.5, 0.1), point_metric: compared(0.0, 0.1), ..all };
        assert_eq!(
            other.sentence(false),
            "differs from exact HMC in U (0.50 ± 0.10); errors are too large to tell in MSE (0.00 ± 0.10)"
        );
    }
}

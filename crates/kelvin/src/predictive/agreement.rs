//! Whether chains predict the same at held-out rows: R̂ of predictions, row by row.
//!
//! Chains of a network rarely agree in their weights, or in their energies, and need not: what is used of them is what they
//! predict. Of each draw s and row i this looks at the mean of y_i given θ_s or, for classes, at the probability of the true class.

use rayon::prelude::*;

use super::outputs::for_each_output;
use crate::diagnostics::rhat;
use crate::draws::{Draws, DrawsError};
use crate::held_out::HeldOut;
use crate::likelihood::{Likelihood, TargetKind};
use crate::sampler::{Engine, EngineError};

/// R̂ of fewer draws a chain is mostly chance.
const FEWEST_DRAWS: usize = 20;
/// Predictions that are in memory at a time: 32 MiB.
const MOST_PREDICTIONS: usize = 4 << 20;

/// Rank-normalised split-R̂ of predictions over held-out rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionAgreement {
    /// At the median row.
    pub median_rhat: f64,
    /// At the worst row.
    pub worst_rhat: f64,
    /// Rows whose predictions vary, and so have an R̂.
    pub num_rows: usize,
}

impl PredictionAgreement {
    /// Of the draws of several chains; none of chains of unequal length or fewer than twenty draws. Of many rows the first are looked
    /// at: as many as fit into memory with all their draws.
    ///
    /// # Errors
    /// Where draws cannot be read or evaluated.
    pub fn of_draws<E: From<EngineError> + From<DrawsError>>(
        engine: &dyn Engine,
        likelihood: Likelihood,
        held_out: &HeldOut,
        chains: &[&Draws],
    ) -> Result<Option<Self>, E> {
        let rows = predictions_by_row::<E>(engine, likelihood, held_out, chains)?;
        Ok(rows.and_then(|rows| Self::of_rows(&rows)))
    }

    /// Of the predictions of each row, chain by chain; rows at which all draws predict the same have no R̂, and nothing is left of
    /// none.
    fn of_rows(rows: &[Vec<Vec<f64>>]) -> Option<Self> {
        let mut found: Vec<f64> = rows.par_iter().filter_map(|chains| rhat(chains).ok()).collect();
        found.sort_by(f64::total_cmp);
        let (middle, num_rows) = (found.len() / 2, found.len());
        let worst_rhat = *found.last()?;
        let median_rhat =
            if num_rows.is_multiple_of(2) { found[middle - 1].midpoint(found[middle]) } else { found[middle] };
        Some(Self { median_rhat, worst_rhat, num_rows })
    }
}

/// What each draw predicts for each target of each row, or of its true class: of point i and chain c, one number for each draw. None of chains of unequal length or fewer than twenty
/// draws. Of many rows the first are looked at: as many as fit into memory with all their draws.
///
/// # Errors
/// Where draws cannot be read or evaluated.
pub fn predictions_by_row<E: From<EngineError> + From<DrawsError>>(
    engine: &dyn Engine,
    likelihood: Likelihood,
    held_out: &HeldOut,
    chains: &[&Draws],
) -> Result<Option<Vec<Vec<Vec<f64>>>>, E> {
    let num_draws = chains.first().map_or(0, |draws| draws.len());
    if num_draws < FEWEST_DRAWS || chains.iter().any(|draws| draws.len() != num_draws) {
        return Ok(None);
    }
    let num_targets = likelihood.num_targets();
    let num_points = num_targets * held_out.num_rows();
    let num_rows = num_points.min((MOST_PREDICTIONS / (num_draws * chains.len())).max(1));
    let width = likelihood.num_values();
    let mut rows = vec![vec![Vec::with_capacity(num_draws); chains.len()]; num_rows];
    for (chain, draws) in chains.iter().enumerate() {
        for_each_output(engine, held_out, draws, |outputs| {
            let predictions: Vec<f64> = match likelihood.kind() {
                TargetKind::Numbers => {
                    let mean = |point: usize| {
                        let values = &outputs[point / num_targets * width..][..width];
                        likelihood.number_distribution_of(point % num_targets, values, 1.0).mean()
                    };
                    (0..num_rows).map(mean).collect()
                }
                TargetKind::Classes { .. } => {
                    likelihood.log_densities(&outputs, held_out.targets()).into_iter().map(f64::exp).collect()
                }
            };
            rows.iter_mut().zip(predictions).for_each(|(row, prediction)| row[chain].push(prediction));
            Ok::<(), E>(())
        })?;
    }
    Ok(Some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Examples, Targets};
    use crate::draws::Measurements;
    use crate::network::{Network, Weights};
    use crate::sampler::CpuEngine;

    const MEASURED: Measurements =
        Measurements { potential_energy: 0.0, configurational_temperature: 1.0, kinetic_temperature: None };

    /// The same in every chain, in another order.
    fn noise(chain: usize, draw: usize) -> f32 {
        ((draw * 37 + chain * 11) % 101) as f32 / 101.0
    }

    /// A chain of y = w x + b with w as given and b = 0.
    fn chain(num_draws: usize, weight: impl Fn(usize) -> f32) -> Draws {
        let mut draws = Draws::in_memory(2);
        for draw in 0..num_draws {
            let parameters = [weight(draw), 0.0];
            draws.push(Weights { parameters: &parameters, statistics: &[] }, MEASURED).unwrap();
        }
        draws
    }

    /// Rows x = 1, x = 0 (where all draws predict the same) and x = −2.
    fn agreement(chains: &[&Draws]) -> Option<PredictionAgreement> {
        let inputs = vec![1.0, 0.0, -2.0].into();
        let examples = Examples { inputs, num_features: 1, targets: Targets::Real(vec![0.0; 3]) };
        let held_out = HeldOut::new(&Network::dense(1, &[], 1).unwrap(), &examples);
        let likelihood = Likelihood::Gaussian { noise_variance: 1.0 };
        PredictionAgreement::of_draws::<BothErrors>(&CpuEngine, likelihood, &held_out, chains).unwrap()
    }

    #[derive(Debug)]
    struct BothErrors;

    impl From<EngineError> for BothErrors {
        fn from(_: EngineError) -> Self {
            Self
        }
    }

    impl From<DrawsError> for BothErrors {
        fn from(_: DrawsError) -> Self {
            Self
        }
    }

    #[test]
    fn chains_that_predict_alike_and_apart() {
        let alike = [chain(101, |draw| noise(0, draw)), chain(101, |draw| noise(1, draw))];
        let found = agreement(&[&alike[0], &alike[1]]).unwrap();
        assert!(found.num_rows == 2 && found.worst_rhat < 1.02, "{found:?}");
        let apart = chain(101, |draw| noise(1, draw) + 1.0);
        let found = agreement(&[&alike[0], &apart]).unwrap();
        assert!(found.median_rhat > 1.5, "{found:?}");
    }

    #[test]
    fn too_few_draws_and_unequal_chains_say_nothing() {
        let of = |num_draws| chain(num_draws, |draw| noise(0, draw));
        assert_eq!(agreement(&[]), None);
        assert_eq!(agreement(&[&of(19), &of(19)]), None);
        assert!(agreement(&[&of(20), &of(20)]).is_some());
        assert_eq!(agreement(&[&of(20), &of(21)]), None);
        assert_eq!(agreement(&[&chain(20, |_| 0.5)]), None, "nothing varies");
    }

    #[test]
    fn the_median_is_of_rows_and_the_worst_the_largest() {
        let row = |apart: f64| {
            let of = |chain: usize| (0..30).map(|draw| f64::from(noise(chain, draw)) + apart * chain as f64).collect();
            vec![of(0), of(1)]
        };
        let each = |apart| rhat(&row(apart)).unwrap();
        let found = PredictionAgreement::of_rows(&[row(2.0), row(0.0), row(0.5)]).unwrap();
        assert_eq!((found.median_rhat, found.worst_rhat, found.num_rows), (each(0.5), each(2.0), 3));
        let even = PredictionAgreement::of_rows(&[row(2.0), row(0.0)]).unwrap();
        assert_eq!(even.median_rhat, 0.5 * (each(0.0) + each(2.0)));
    }
}

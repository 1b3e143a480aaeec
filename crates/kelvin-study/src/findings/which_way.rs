//! Which way β should move from the β of some chains for a larger LPD: the slope of Lemma B with its standard error.

use kelvin::draws::Draws;
use kelvin::potential::Potential;
use kelvin::predictive::ByModel;
use kelvin::selection::{Direction, HeldOutDraws, Laboratory, LpdSlope, SelectionError};
use serde::{Deserialize, Serialize};

/// Log joints vary by √(d/2)/β over draws, and slopes of larger networks drown in it; looking at all draws again has its price too.
const MOST_PARAMETERS: usize = 10_000;

/// d LPD/dβ on the validation rows, at the β of some chains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhichWay {
    /// d LPD/dβ, in nats.
    pub slope: f64,
    /// Its standard error, over finite chains and finite validation rows together; none if draws are too few to tell.
    pub standard_error: Option<f64>,
    /// Median over rows of the effective sample size of the importance weights.
    pub weights_ess: f64,
    /// Draws of all chains together.
    pub num_draws: usize,
    /// Whether β should grow, fall, or stay.
    pub direction: Direction,
}

impl WhichWay {
    fn of(found: &LpdSlope) -> Self {
        Self {
            slope: found.slope,
            standard_error: Some(found.standard_error()).filter(|error| error.is_finite()),
            weights_ess: found.weights_ess,
            num_draws: found.num_draws,
            direction: found.direction(),
        }
    }
}

/// The slopes of both models; none for large networks, and if draws are missing or have no finite densities.
///
/// # Errors
/// If draws cannot be read or evaluated.
pub fn which_way(
    laboratory: &dyn Laboratory,
    beta: f64,
    draws: &[&Draws],
) -> Result<Option<ByModel<WhichWay>>, SelectionError> {
    let can_tell = laboratory.posterior().dim() <= MOST_PARAMETERS && draws.iter().all(|draws| draws.are_stored());
    if !can_tell || draws.is_empty() {
        return Ok(None);
    }
    let held_out = HeldOutDraws::new(laboratory, laboratory.validation(), beta, draws.iter().copied())?;
    let slope = |model| LpdSlope::new(beta, &held_out.densities(model, beta)).as_ref().map(WhichWay::of);
    let found = ByModel::from_fn(slope);
    Ok(found.standard.zip(found.tempered).map(|(standard, tempered)| ByModel { standard, tempered }))
}

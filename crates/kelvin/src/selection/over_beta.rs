//! How fits and calibrations move with β: what is computed once, and where a share first passes its border.

use super::error::SelectionError;
use crate::temperature::Tempering;

/// β beyond these ends is not looked at.
pub(super) const ENDS: (f64, f64) = (1e-6, 1e6);
/// Halvings of the range: log β is then known to 1e-10.
const NUM_HALVINGS: usize = 40;

/// Something made of fits, as β moves: made once where β scales prior and likelihood alike (the mode stays, and covariances are those at
/// β = 1 divided by β), and anew for each β where the prior stays as it is.
pub(super) struct OverBeta<T, F> {
    tempering: Tempering,
    once: Option<T>,
    make: F,
}

impl<T, F: FnMut(f64) -> Result<T, SelectionError>> OverBeta<T, F> {
    /// `make` is given the weight of the likelihood.
    pub fn new(tempering: Tempering, make: F) -> Self {
        Self { tempering, once: None, make }
    }

    /// What was made for β, and what its covariances are still to be divided by.
    pub fn at<R>(&mut self, inverse_temperature: f64, look: impl FnOnce(&T, f64) -> R) -> Result<R, SelectionError> {
        match (self.tempering, &self.once) {
            (Tempering::Likelihood, _) => Ok(look(&(self.make)(inverse_temperature)?, 1.0)),
            (Tempering::Posterior, Some(made)) => Ok(look(made, inverse_temperature)),
            (Tempering::Posterior, None) => {
                let made = (self.make)(1.0)?;
                Ok(look(self.once.insert(made), inverse_temperature))
            }
        }
    }
}

/// How often something is made while [`first_enough`] looks for its β.
pub(super) fn times_made(tempering: Tempering) -> f64 {
    match tempering {
        Tempering::Posterior => 1.0,
        Tempering::Likelihood => NUM_HALVINGS as f64 + 2.0,
    }
}

/// The β between [`ENDS`] at which `is_enough` first holds, going from small to large, by halving in log β; none where it
/// holds nowhere or everywhere.
pub(super) fn first_enough(
    mut is_enough: impl FnMut(f64) -> Result<bool, SelectionError>,
) -> Result<Option<f64>, SelectionError> {
    if is_enough(ENDS.0)? || !is_enough(ENDS.1)? {
        return Ok(None);
    }
    let (mut low, mut high) = (ENDS.0.ln(), ENDS.1.ln());
    for _ in 0..NUM_HALVINGS {
        let middle = 0.5 * (low + high);
        if is_enough(middle.exp())? { high = middle } else { low = middle }
    }
    Ok(Some((0.5 * (low + high)).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_first_that_is_enough() {
        let found = first_enough(|beta| Ok(beta * beta >= 4.0)).unwrap().unwrap();
        assert!((found - 2.0).abs() < 1e-9);
        assert!(first_enough(|_| Ok(true)).unwrap().is_none());
        assert!(first_enough(|_| Ok(false)).unwrap().is_none());
    }

    #[test]
    fn what_beta_only_scales_is_made_once() {
        for (tempering, expected) in [(Tempering::Posterior, (1, 0.5)), (Tempering::Likelihood, (2, 0.25))] {
            let mut times = 0;
            let mut variance = OverBeta::new(tempering, |weight: f64| {
                times += 1;
                Ok(1.0 / weight.powi(2))
            });
            variance.at(4.0, |unit, power| unit / power).unwrap();
            let found = variance.at(2.0, |unit, power| unit / power).unwrap();
            assert_eq!((times, found), expected);
        }
    }
}

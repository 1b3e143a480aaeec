//! When a measured number becomes a warning.

use super::warning::{Reading, Warning};

/// The borders beyond which a result is called doubtful; a measured NaN is always doubtful.
///
/// The defaults of temperature and R̂ are what the paper's own runs keep to; those of heating, effective draws, the
/// spread of β̂ and unsteady rows are a matter of judgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Largest |measured β / target β − 1|. Healthy chains stay within 1–5 %.
    pub relative_temperature_error: f64,
    /// Largest kinetic temperature over all steps, relative to what the discretisation should show.
    pub heating: f64,
    /// Smallest bulk ESS of the kept draws.
    pub effective_draws: f64,
    /// Largest R̂ of the potential energy; up to 4 is usual here.
    pub rhat: f64,
    /// Largest ratio of the largest to the smallest β̂ over seeds.
    pub beta_ratio: f64,
    /// Largest share of training rows whose log density varies too much for WAIC.
    pub unsteady_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            relative_temperature_error: 0.05,
            heating: 1.25,
            effective_draws: 20.0,
            rhat: 4.0,
            beta_ratio: 3.0,
            unsteady_share: 0.05,
        }
    }
}

impl Limits {
    /// Compares a measured inverse temperature with the one asked for.
    pub fn check_temperature(&self, label: &str, target_beta: f64, measured_beta: f64, at: Reading) -> Option<Warning> {
        let within = (measured_beta / target_beta - 1.0).abs() <= self.relative_temperature_error;
        (!within).then(|| Warning::MeasuredTemperatureOff { label: label.into(), target_beta, measured_beta, at })
    }

    /// Compares the mean kinetic temperature over all steps with the one the discretisation should show.
    pub fn check_heating(&self, label: &str, measured_temperature: f64, discretised_target: f64) -> Option<Warning> {
        let heating = measured_temperature / discretised_target;
        let cool = heating <= self.heating;
        (!cool).then(|| Warning::StepSizeTooLarge { label: label.into(), heating })
    }

    /// Asks whether the kept draws are worth enough independent ones.
    pub fn check_effective_draws(&self, label: &str, bulk_ess: f64, num_draws: usize) -> Option<Warning> {
        let enough = bulk_ess >= self.effective_draws;
        (!enough).then(|| Warning::FewEffectiveDraws { label: label.into(), bulk_ess, num_draws })
    }

    /// Asks whether the chains agree as far as chains of a neural network do.
    pub fn check_agreement(&self, label: &str, rhat: f64) -> Option<Warning> {
        let agree = rhat <= self.rhat;
        (!agree).then(|| Warning::ChainsDisagree { label: label.into(), rhat })
    }

    /// Asks whether WAIC's correction holds: it is the first term of a series in how log densities vary over draws.
    pub fn check_unsteady_rows(&self, label: &str, share: f64) -> Option<Warning> {
        let steady = share <= self.unsteady_share;
        (!steady).then(|| Warning::UnsteadyRows { label: label.into(), share })
    }

    /// Asks whether the seeds chose about the same inverse temperature.
    pub fn check_seeds(&self, betas: &[f64]) -> Option<Warning> {
        let largest = betas.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = betas.iter().copied().fold(f64::INFINITY, f64::min);
        let alike = betas.iter().all(|beta| !beta.is_nan()) && largest <= self.beta_ratio * smallest;
        (!alike).then(|| Warning::BetaUnstableOverSeeds { betas: betas.to_vec() })
    }

    /// Asks whether the chosen inverse temperature lies inside the grid; a grid of one has no inside to leave.
    pub fn check_grid(&self, grid: &[f64], beta: f64, metric: &str) -> Option<Warning> {
        let inside = grid.iter().any(|&other| other < beta) && grid.iter().any(|&other| other > beta);
        (grid.len() > 1 && !inside).then(|| Warning::BetaAtGridEdge { beta, metric: metric.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_of_the_checked_recipe() {
        let limits = Limits::default();
        let at = Reading::CycleEnds;
        for (target, measured, off) in [(1.0, 0.996, false), (100.0, 99.0, false), (1000.0, 917.0, true)] {
            assert_eq!(limits.check_temperature("energy", target, measured, at).is_some(), off, "{target}");
        }
        assert!(limits.check_temperature("broken", 1.0, f64::NAN, at).is_some());
        assert!(limits.check_heating("naval", 3.0, 1.0).is_some());
        assert!(limits.check_heating("naval", 1.0101, 1.0101).is_none());
    }

    #[test]
    fn draws_chains_seeds_and_grids() {
        let limits = Limits::default();
        assert!(limits.check_effective_draws("a", 8.0, 100).is_some());
        assert!(limits.check_effective_draws("a", 80.0, 100).is_none());
        assert!(limits.check_agreement("a", 3.9).is_none());
        assert!(limits.check_agreement("a", f64::INFINITY).is_some());
        assert!(limits.check_seeds(&[7.4, 4.9, 7.9, 4.1, 4.6]).is_none());
        assert!(limits.check_seeds(&[21.0, 3.5, 3.4, 3.5, 20.0]).is_some());
        assert!(limits.check_seeds(&[]).is_none());
        assert!(limits.check_seeds(&[1.0, f64::NAN]).is_some());
        assert!(limits.check_agreement("a", f64::NAN).is_some());
        assert!(limits.check_grid(&[0.1, 1.0, 10.0], 10.0, "MSE").is_some());
        assert!(limits.check_grid(&[0.1, 1.0, 10.0], 1.0, "MSE").is_none());
        assert!(limits.check_grid(&[1.0], 1.0, "MSE").is_none());
        assert!(limits.check_unsteady_rows("a", 0.04).is_none());
        assert!(limits.check_unsteady_rows("a", 0.06).is_some());
    }
}

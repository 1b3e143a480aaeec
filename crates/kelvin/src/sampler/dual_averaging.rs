//! Dual averaging: finds the step size at which a share δ of trajectories is accepted.
//!
//! ```text
//! H̄ ← (1 − 1/(t + 10)) H̄ + (δ − α)/(t + 10);    log h = μ − √t/0.05 H̄;    log h̄ ← t^{−3/4} log h + (1 − t^{−3/4}) log h̄
//! ```
//! with α the probability with which trajectory t = 1, 2, … was accepted. h is what the warm-up runs with and h̄, its weighted mean, what is used from then
//! on. Hoffman & Gelman 2014, "The No-U-Turn sampler", with their constants; μ is the logarithm of the first guess itself, not of ten times it,
//! since 1/√λmax is a good one.

/// t₀: steadies the first trajectories.
const OFFSET: f64 = 10.0;
/// γ: pulls towards the first guess.
const SHRINKAGE: f64 = 0.05;
/// κ: how fast early step sizes are forgotten.
const FORGETTING: f64 = 0.75;

/// What dual averaging remembers, as numbers of a chain's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DualAveraging {
    /// log h of the next trajectory.
    pub log_step: f64,
    /// log h̄.
    pub log_step_mean: f64,
    /// H̄.
    pub shortfall: f64,
}

impl DualAveraging {
    /// Before the first trajectory.
    pub fn new(first_guess: f64) -> Self {
        Self { log_step: first_guess.ln(), log_step_mean: first_guess.ln(), shortfall: 0.0 }
    }

    /// Counts trajectory t, counted from 1, that was accepted with probability α.
    pub fn count(&mut self, t: u64, acceptance: f64, target: f64, first_guess: f64) {
        let t = t as f64;
        let weight = 1.0 / (t + OFFSET);
        self.shortfall = (1.0 - weight) * self.shortfall + weight * (target - acceptance);
        self.log_step = first_guess.ln() - t.sqrt() / SHRINKAGE * self.shortfall;
        let weight = t.powf(-FORGETTING);
        self.log_step_mean = weight * self.log_step + (1.0 - weight) * self.log_step_mean;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where α falls from 1 as e^{−h}, α = 0.8 is at h = −ln 0.8, wherever the search begins.
    #[test]
    fn finds_the_step_size_of_the_asked_acceptance() {
        for first_guess in [1e-2, 0.2, 5.0] {
            let mut averaging = DualAveraging::new(first_guess);
            for t in 1..=2000 {
                averaging.count(t, (-averaging.log_step.exp()).exp(), 0.8, first_guess);
            }
            let found = averaging.log_step_mean.exp();
            assert!((found / -0.8_f64.ln() - 1.0).abs() < 0.02, "{found} from {first_guess}");
        }
    }
}

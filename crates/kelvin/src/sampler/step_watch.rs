//! Lowers the step size of a chain that has warmed up, where it comes to places that curve far more than those it warmed up in.
//!
//! ```text
//! every 512 steps:    h √λmax > 1.5 a   ⇒   h = a / √λmax          a: the share that the warm-up ends with (`Potential::step_share`)
//! ```
//! Where scales are part of the position (log σ² of the noise, widths of weights) a chain may wander for a hundred thousand steps before it has seen its
//! sharpest places; a step beyond 2/√λmax blows up there: on 120 rows of y = x² + 0.1 noise one chain in two was thrown from log σ² = −5 to +3 … +70
//! and took hundreds of steps to come back, over and over. With this watch none of 128 was. A step is never made longer, so that each chain comes
//! to rest at one step size. Where curvature is bounded by the prior nothing is watched: `Potential::curvature_grows`.

use super::adapted::LookScratch;
use super::chain::Chain;
use super::rule::{Scratch, StepName};
use super::warm_up::WarmUp;
use crate::network::Mode;
use crate::potential::{Batch, Potential};
use crate::random::Purpose;

/// Steps between two looks.
const EVERY: u64 = 512;
/// How far h√λmax may grow beyond the share that it began with.
const GROWTH: f64 = 1.5;

impl WarmUp {
    /// Rounds of power iteration of a look at a step size in use.
    pub(super) const ROUNDS_OF_WATCH: usize = 3;

    /// Whether the step size of a chain that has warmed up is looked at before this step.
    pub(super) fn watches_at(&self, step: u64) -> bool {
        step >= self.num_steps.max(1) && step.is_multiple_of(EVERY)
    }

    /// Compares the step size with the curvature where the chain is.
    pub(super) fn watch<P: Potential>(
        &self,
        potential: &P,
        name: &StepName,
        likelihood_weight: f64,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) {
        let Scratch { layout, rows, work, look, .. } = scratch;
        let look = look.get_or_insert_with(|| Box::new(LookScratch::new(layout)));
        let rows = name.batches.rows(name.seed, Purpose::Preconditioner, chain.id, chain.state.step, rows);
        let batch = Batch { rows, likelihood_weight, mode: Mode::Training };
        let state = &mut chain.state;
        let (position, direction, rounds) = (&state.position, &mut state.adapted.direction, Self::ROUNDS_OF_WATCH);
        let latest = look.largest.find(potential, position, batch, layout, &state.mass, rounds, direction, work);
        self.keep_within(latest, potential.step_share(), chain);
    }

    /// Makes the step size this share of 1/√λmax where it has come to be too large for it.
    pub(super) fn keep_within(&self, latest: f64, share: f64, chain: &mut Chain) {
        let found = &mut chain.state.adapted;
        if latest.is_finite() && found.step_size * latest.sqrt() > GROWTH * share {
            found.step_size = share / latest.sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Layout;
    use crate::temperature::Temperature;

    #[test]
    fn a_step_is_only_ever_made_shorter() {
        let warm_up = WarmUp { num_steps: 1000, friction: None };
        let mut chain = Chain::new(0, Temperature::new(1.0).unwrap(), vec![0.0; 3], &Layout::flat(3));
        chain.state.adapted.step_size = 0.1;
        // h√λ = 1.04 of at most 1.05, then 1.06; a flat place and one without a number change nothing.
        let mut after = |latest: f64| {
            warm_up.keep_within(latest, 0.7, &mut chain);
            chain.state.adapted.step_size
        };
        assert_eq!(after(10.4 * 10.4), 0.1);
        assert!((after(10.6 * 10.6) - 0.7 / 10.6).abs() < 1e-12);
        assert!([1e-3, 0.0, f64::NAN, f64::INFINITY].iter().all(|&latest| (after(latest) - 0.7 / 10.6).abs() < 1e-12));
    }

    #[test]
    fn steps_are_watched_from_the_end_of_the_warm_up() {
        let watched = |num_steps| {
            let warm_up = WarmUp { num_steps, friction: None };
            (0..2000).filter(|&step| warm_up.watches_at(step)).collect::<Vec<u64>>()
        };
        assert_eq!(watched(600), [1024, 1536]);
        // The first step of a chain without warm-up is looked at in any case.
        assert_eq!(watched(0), [512, 1024, 1536]);
    }
}

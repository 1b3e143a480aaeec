//! A population of chains spread over threads: one loop for every potential and every rule.
//!
//! Chains share nothing and name their random numbers, so results do not depend on the number of threads.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::batches::Batches;
use super::chain::{Chain, Divergence};
use super::rule::{Rule, Scratch, StepName};
use crate::potential::Potential;

/// The most steps between two reports of progress.
const REPORT_EVERY: u64 = 256;
/// Where steps are slow, the time after which progress is reported. Nothing but reports depends on the clock.
const REPORT_AFTER: Duration = Duration::from_millis(200);

/// Which states are kept: after `burn_in` steps, every `every`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Steps before the first cycle.
    pub burn_in: u64,
    /// Steps from one kept state to the next, at least 1.
    pub every: u64,
}

impl Keep {
    /// Whether the state after `steps` steps is kept.
    pub fn is_kept(&self, steps: u64) -> bool {
        steps > self.burn_in && (steps - self.burn_in).is_multiple_of(self.every)
    }
}

/// What a population is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Names all randomness.
    pub seed: u64,
    /// How epochs are cut.
    pub batches: Batches,
    /// Steps each chain is to have done in the end.
    pub num_steps: u64,
    /// Which states are shown to the observer.
    pub keep: Keep,
}

/// What is known of a draw as soon as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawReading {
    /// U(θ).
    pub potential_energy: f64,
    /// T̂; none for samplers without momentum.
    pub kinetic_temperature: Option<f64>,
    /// Validation LPD of all draws of the chain so far under the standard model.
    pub validation_lpd_standard: f64,
    /// The same under the tempered model.
    pub validation_lpd_tempered: f64,
}

/// Watches a population; called from the threads that move it.
pub trait Observer: Sync {
    /// Chain `index` was found where it had done so many steps before; said once, before it moves.
    fn resumed(&self, index: usize, steps: u64) {
        let _ = (index, steps);
    }

    /// Chain `index` takes its first step now.
    fn started(&self, index: usize) {
        let _ = index;
    }

    /// These chains, each with its index, reached a state to keep, at the same moment: one where each has a thread of its
    /// own, many where they move together, so that they can be measured together.
    fn kept(&self, kept: &[(usize, &Chain)]) {
        let _ = kept;
    }

    /// What was measured at the draw that chain `index` has just kept.
    fn measured(&self, index: usize, reading: &DrawReading) {
        let _ = (index, reading);
    }

    /// Chain `index` left the finite numbers at this step; said when a population pauses, each time anew.
    fn diverged(&self, index: usize, step: u64) {
        let _ = (index, step);
    }

    /// Chain `index` has seen enough and moves no more, perhaps before its longest length.
    fn ended(&self, index: usize) {
        let _ = index;
    }

    /// Chain `index` did so many more steps, perhaps none yet; `Break` stops it soon after, where going on later gives the
    /// same numbers. How many at a time depends on the clock. Chains that move together are asked one after the other, in
    /// order, on one thread.
    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        let _ = (index, steps);
        ControlFlow::Continue(())
    }
}

/// A function of the kept states is an observer.
impl<F: Fn(usize, &Chain) + Sync> Observer for F {
    fn kept(&self, kept: &[(usize, &Chain)]) {
        kept.iter().for_each(|&(index, chain)| self(index, chain));
    }
}

/// Watches nothing.
pub struct Silent;

impl Observer for Silent {}

/// Moves every chain to `plan.num_steps`; a chain that diverges stops and says so, the others go on.
pub fn run_population<P: Potential>(
    potential: &P,
    rule: &impl Rule<P>,
    plan: &Plan,
    chains: &mut [Chain],
    observer: &(impl Observer + ?Sized),
) {
    let is_done = |chain: &Chain| chain.is_done(plan.num_steps);
    // Threads that no chain needs are spread over the batches of those there are.
    let num_moving = chains.iter().filter(|chain| !is_done(chain)).count();
    let has_threads_to_spare = num_moving < rayon::current_num_threads();
    chains.par_iter_mut().enumerate().with_max_len(1).for_each(|(index, chain)| {
        if is_done(chain) {
            return;
        }
        let scratch = Scratch::new(potential, has_threads_to_spare);
        run_chain(potential, rule, plan, index, chain, scratch, observer);
    });
}

fn run_chain<P: Potential>(
    potential: &P,
    rule: &impl Rule<P>,
    plan: &Plan,
    index: usize,
    chain: &mut Chain,
    mut scratch: Scratch<P::Workspace>,
    observer: &(impl Observer + ?Sized),
) {
    let name = StepName { seed: plan.seed, batches: plan.batches };
    let measured = rule.has_momentum_temperature();
    let mut unreported = 0;
    if chain.state.statistics.is_empty() {
        chain.state.statistics = potential.initial_statistics();
    }
    observer.started(index);
    if observer.advanced(index, 0).is_break() {
        return;
    }
    let mut reported = Instant::now();
    while chain.state.step < plan.num_steps && chain.divergence.is_none() {
        let step = chain.state.step;
        // A rule notices a bad position by its gradient, one step later; a state that others see cannot wait for that.
        let is_seen = plan.keep.is_kept(step + 1) || step + 1 == plan.num_steps;
        match rule.step(potential, &name, chain, &mut scratch) {
            Ok(()) if is_seen && !chain.state.is_finite() => chain.divergence = Some(Divergence { step }),
            Ok(()) => chain.state.step += 1,
            Err(divergence) => chain.divergence = Some(divergence),
        }
        let steps = chain.state.step;
        unreported += 1;
        if chain.divergence.is_none() && steps > plan.keep.burn_in {
            let kept = plan.keep.is_kept(steps);
            if measured {
                // Readings have the layout's shape and were checked to be finite by the rule.
                let _ = chain.kinetic_all.record(&scratch.kinetic);
                if kept {
                    let _ = chain.kinetic_kept.record(&scratch.kinetic);
                }
            }
            if kept {
                observer.kept(&[(index, &*chain)]);
            }
        }
        if unreported == REPORT_EVERY || steps == plan.num_steps || reported.elapsed() >= REPORT_AFTER {
            if observer.advanced(index, unreported).is_break() {
                return;
            }
            (unreported, reported) = (0, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_cycles_after_burn_in_are_kept() {
        let keep = Keep { burn_in: 4, every: 3 };
        assert_eq!((0..=13).filter(|&steps| keep.is_kept(steps)).collect::<Vec<_>>(), [7, 10, 13]);
        let all = Keep { burn_in: 0, every: 1 };
        assert!(!all.is_kept(0) && all.is_kept(1), "the start is no state that was reached");
    }
}

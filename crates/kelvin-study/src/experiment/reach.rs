//! How far the chains of one temperature go: burn-in until U has no trend, then draws until predictions are known well enough.
//!
//! Lengths double in burn-in and grow by half in sampling, up to `sampler.epochs`; burn-in takes at most a third of it. What is decided depends on
//! the chains alone, at the ends of these lengths, so the same run ends at the same steps each time, also after it was stopped and resumed.

use kelvin::diagnostics::Trend;
use kelvin::sampler::Chain;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::experiment::convergence::Convergence;
use crate::experiment::population::Sampled;
use crate::experiment::running_scores::RunningScores;

/// Draws that a chain keeps before predictions are first looked at.
const FIRST_DRAWS: u64 = 50;

/// Where chains are to stop and look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// Steps of the burn-in.
    pub burn_in: u64,
    /// Steps in all: as many as the burn-in while its end is not decided.
    pub num_steps: u64,
}

impl Sampled<'_> {
    /// Where the chains are to stop first.
    pub fn reach(&self) -> Reach {
        Reach { burn_in: self.plan.keep.burn_in, num_steps: self.plan.num_steps }
    }

    /// Makes the chains stop there.
    pub fn set_reach(&mut self, reach: Reach) {
        (self.plan.keep.burn_in, self.plan.num_steps) = (reach.burn_in, reach.num_steps);
        if let Some(warm_up) = &mut self.rule.warm_up {
            warm_up.num_steps = reach.burn_in;
        }
    }

    /// Chains that stop and look, where the settings say when they have seen enough: at the end of their burn-in first.
    pub fn look_on_the_way(&mut self) {
        if self.experiment.settings.stopping.is_some() {
            self.plan.num_steps = self.plan.keep.burn_in;
        }
    }

    /// Where to go next, once all chains have reached what was set; none where they have seen enough, or are as long as they may be.
    pub fn next_reach(&mut self) -> Result<Option<Reach>, ExperimentError> {
        let Some(targets) = self.experiment.settings.stopping else { return Ok(None) };
        let longest = self.experiment.sampler_steps()?;
        let (Reach { burn_in, num_steps }, every) = (self.reach(), self.plan.keep.every);
        let with_draws = |draws: u64| Some(Reach { burn_in, num_steps: burn_in + every * draws });
        let most_draws = (longest - burn_in) / every;
        if num_steps == burn_in {
            if 6 * burn_in <= longest && self.rule.warm_up.is_some() && !has_settled(&self.chains) {
                for chain in &mut self.chains {
                    chain.state.adapted.thin_energies();
                }
                return Ok(Some(Reach { burn_in: 2 * burn_in, num_steps: 2 * burn_in }));
            }
            return Ok(with_draws(FIRST_DRAWS.min(most_draws)));
        }
        let draws = (num_steps - burn_in) / every;
        if draws >= most_draws || self.sound_scores().is_empty() {
            return Ok(None);
        }
        let found = Convergence::of(&self.sound_scores())?;
        Ok(if found.missed(&targets).is_empty() {
            None
        } else {
            with_draws((draws * 3 / 2).max(draws + 1).min(most_draws))
        })
    }

    fn sound_scores(&self) -> Vec<&RunningScores> {
        let both = self.chains.iter().zip(&self.scores);
        both.filter(|(chain, scores)| chain.divergence.is_none() && scores.failed_at.is_none())
            .map(|(_, scores)| scores)
            .collect()
    }
}

/// Whether the mean U of the chains, over the second half of their burn-in, has no trend that can be seen, and enough was seen to tell.
fn has_settled(chains: &[Chain]) -> bool {
    let sound: Vec<&[f64]> = chains
        .iter()
        .filter(|chain| chain.divergence.is_none())
        .map(|chain| &chain.state.adapted.energies[..])
        .collect();
    energy_trend(&sound).is_some_and(|trend| trend.can_tell() && !trend.is_clear())
}

/// How the mean of several series of energies moves over its second half.
pub(crate) fn energy_trend(energies: &[&[f64]]) -> Option<Trend> {
    let len = energies.iter().map(|series| series.len()).min()?;
    let mean = |index: usize| energies.iter().map(|series| series[index]).sum::<f64>() / energies.len() as f64;
    Trend::of(&(len / 2..len).map(mean).collect::<Vec<f64>>())
}

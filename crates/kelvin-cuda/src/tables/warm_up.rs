//! What chains that adapt do between launches: look at the curvature where they are and note U, on the host, by the CPU engine's own code.
//!
//! A look is eight gradients of a chain, some 120 times in a warm-up; an energy is one, at most 256 times. Chains are spread over threads;
//! `NOTES.md` says what that should take.

use kelvin::network::Workspace;
use kelvin::potential::Posterior;
use kelvin::sampler::{Chain, Langevin, Motion, Plan, Scratch, StepName, WarmUp};
use rayon::prelude::*;

/// The host's part of a population's warm-up.
pub(super) struct HostWarmUp<'a> {
    rule: &'a Langevin,
    /// Its fixed length, and when it looks.
    pub of: WarmUp,
    posterior: Posterior,
    name: StepName,
    /// Of each chain, made when it is first needed: a scratch remembers the order in which its chain visits rows.
    scratch: Vec<Option<Scratch<Workspace>>>,
}

impl<'a> HostWarmUp<'a> {
    /// For a population of so many chains; `None` where they do not adapt.
    pub fn new(
        motion: Motion<'a>,
        plan: &Plan,
        num_chains: usize,
        posterior: impl FnOnce() -> Posterior,
    ) -> Option<Self> {
        let Motion::Sample(rule) = motion else { return None };
        Some(Self {
            rule,
            of: rule.warm_up?,
            posterior: posterior(),
            name: StepName { seed: plan.seed, batches: plan.batches },
            scratch: std::iter::repeat_with(|| None).take(num_chains).collect(),
        })
    }

    /// New masses and step sizes of these chains, from the curvature where they are; momenta keep their kinetic energy.
    pub fn look(&mut self, indices: &[usize], chains: &mut [Chain]) {
        let (rule, of) = (self.rule, self.of);
        self.for_each(indices, chains, |posterior, name, chain, scratch| {
            let likelihood_weight = Motion::Sample(rule).likelihood_weight(&name.batches, chain);
            let temperature = rule.tempering.sampler_temperature(chain.temperature);
            of.look(posterior, name, likelihood_weight, temperature, chain, scratch);
        });
    }

    /// Notes U of these chains, where it is to be known of the state that `step` steps led to.
    pub fn note_energies(&mut self, step: u64, indices: &[usize], chains: &mut [Chain]) {
        if self.of.notes_energy_at(step) {
            let rule = self.rule;
            self.for_each(indices, chains, |posterior, name, chain, scratch| {
                rule.note_energy(posterior, name, step, chain, scratch);
            });
        }
    }

    fn for_each(
        &mut self,
        indices: &[usize],
        chains: &mut [Chain],
        act: impl Fn(&Posterior, &StepName, &mut Chain, &mut Scratch<Workspace>) + Sync,
    ) {
        let (posterior, name) = (&self.posterior, &self.name);
        let all = chains.par_iter_mut().zip(&mut self.scratch).enumerate().with_max_len(1);
        all.filter(|(index, _)| indices.contains(index)).for_each(|(_, (chain, scratch))| {
            act(posterior, name, chain, scratch.get_or_insert_with(|| Scratch::new(posterior, false)));
        });
    }
}

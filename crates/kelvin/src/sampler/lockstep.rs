//! Chains that step together on an energy that is asked for all of them at once, and that may fail: a model on another device or in another
//! language.
//!
//! Rules, random numbers and warm-up are those of `run_population` with the same sampler: so are the chains, bit by bit, where the energy of a
//! chain does not depend on the others.

use std::ops::ControlFlow;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::batched_potential::BatchedPotential;
use super::chain::{Chain, Divergence};
use super::langevin::Langevin;
use super::lockstep_look::LockstepLook;
use super::population::Keep;
use crate::network::Layout;
use crate::random::{NoiseKey, Purpose};
use crate::vector::{clip_factor, sum_of_squares};

/// Numbers in all positions from which on chains are spread over threads; below, waking them takes longer than the work.
const FEWEST_NUMBERS_TO_SPREAD: usize = 1 << 15;

/// How far chains are to go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LockstepPlan {
    /// Names all randomness.
    pub seed: u64,
    /// Steps each chain is to have done in the end.
    pub num_steps: u64,
    /// Which states are kept.
    pub keep: Keep,
}

/// Watches chains that step together.
pub trait LockstepObserver<E> {
    /// All chains reached a state to keep, with the energies there.
    fn kept(&mut self, chains: &[Chain], energies: &[f64]);

    /// All chains have done so many steps; `Break` stops them there.
    ///
    /// # Errors
    /// Whatever stops the chains.
    fn stepped(&mut self, steps: u64) -> Result<ControlFlow<()>, E>;
}

/// Positions, gradients and energies of all chains, and where each chain's numbers go in a step.
struct Batch {
    positions: Vec<f32>,
    gradients: Vec<f32>,
    energies: Vec<f64>,
    /// Where diverged chains are evaluated, so that their numbers do no harm.
    safe: Vec<f32>,
    workers: Vec<Worker>,
    /// The step whose gradients these are, where the next can begin with them.
    gradients_of: Option<u64>,
}

struct Worker {
    noise: Vec<f32>,
    kinetic: Vec<f64>,
    norm: f64,
    is_finite: bool,
}

impl Batch {
    fn new(chains: &[Chain], layout: &Layout) -> Self {
        let (count, dim) = (chains.len(), layout.len());
        let worker =
            || Worker { noise: vec![0.0; dim], kinetic: vec![0.0; layout.tensors().len()], norm: 0.0, is_finite: true };
        Self {
            positions: vec![0.0; count * dim],
            gradients: vec![0.0; count * dim],
            energies: vec![0.0; count],
            safe: chains.iter().flat_map(|chain| chain.state.position.iter().copied()).collect(),
            workers: (0..count).map(|_| worker()).collect(),
            gradients_of: None,
        }
    }

    fn evaluate<P: BatchedPotential>(
        &mut self,
        potential: &mut P,
        step: u64,
        chains: &[Chain],
    ) -> Result<(), P::Error> {
        let dim = potential.layout().len();
        for ((to, safe), chain) in self.positions.chunks_exact_mut(dim).zip(self.safe.chunks_exact(dim)).zip(chains) {
            to.copy_from_slice(if chain.divergence.is_none() { &chain.state.position } else { safe });
        }
        potential.evaluate(step, &self.positions, &mut self.gradients, &mut self.energies)?;
        for (worker, gradient) in self.workers.iter_mut().zip(self.gradients.chunks_exact(dim)) {
            worker.norm = sum_of_squares(gradient).sqrt();
        }
        Ok(())
    }

    /// Does something with each chain that still moves, its gradient and its worker.
    fn each(
        &mut self,
        pool: Option<&ThreadPool>,
        dim: usize,
        chains: &mut [Chain],
        work: impl Fn(&mut Chain, &[f32], &mut Worker) + Sync,
    ) {
        let gradients = self.gradients.chunks_exact(dim);
        let work = |((chain, gradient), worker): ((&mut Chain, &[f32]), &mut Worker)| {
            if chain.divergence.is_none() {
                work(chain, gradient, worker);
            }
        };
        match pool.filter(|_| chains.len() * dim >= FEWEST_NUMBERS_TO_SPREAD) {
            None => chains.iter_mut().zip(gradients).zip(&mut self.workers).for_each(work),
            Some(pool) => pool.install(|| {
                let gradients = self.gradients.par_chunks_exact(dim);
                chains.par_iter_mut().zip(gradients).zip(&mut self.workers).for_each(work);
            }),
        }
    }
}

/// Moves all chains to `plan.num_steps` at temperatures of their own; one that diverges stays where it is, the others go on. They have to be at the same
/// step. The tempered posterior is the target (`Tempering::Posterior`): what the likelihood is, the energy does not say. `pool` has the threads over which
/// large positions are spread.
///
/// # Errors
/// Whatever the energy or the observer fails with.
///
/// # Panics
/// If a chain is at another step than the others, or a position has another length than the layout.
pub fn run_lockstep<P: BatchedPotential>(
    potential: &mut P,
    rule: &Langevin,
    plan: &LockstepPlan,
    chains: &mut [Chain],
    pool: Option<&ThreadPool>,
    observer: &mut impl LockstepObserver<P::Error>,
) -> Result<(), P::Error> {
    let layout = potential.layout().clone();
    let (dim, first) = (layout.len(), chains.first().map_or(0, |chain| chain.state.step));
    assert!(chains.iter().all(|chain| chain.state.step == first && chain.state.position.len() == dim));
    let mut batch = Batch::new(chains, &layout);
    let mut look: Option<LockstepLook> = None;
    for step in first..plan.num_steps {
        if chains.iter().all(|chain| chain.divergence.is_some()) {
            return Ok(());
        }
        if let Some(warm_up) = rule.warm_up.filter(|warm_up| warm_up.looks_at(step)) {
            let look = look.get_or_insert_with(|| LockstepLook::new(chains.len(), &layout));
            look.look(&warm_up, potential, plan.seed, step, chains)?;
        } else if let Some(warm_up) = rule.warm_up.filter(|warm_up| warm_up.watches_at(step)) {
            let look = look.get_or_insert_with(|| LockstepLook::new(chains.len(), &layout));
            look.watch(&warm_up, potential, step, chains)?;
        }
        step_together(potential, rule, plan, step, &layout, chains, pool, &mut batch)?;
        let steps = step + 1;
        if steps > plan.keep.burn_in {
            let is_kept = plan.keep.is_kept(steps);
            if is_kept && batch.gradients_of != Some(steps) {
                batch.evaluate(potential, steps, chains)?;
                batch.gradients_of = Some(steps);
            }
            if rule.integrator.has_momentum_temperature() {
                for (chain, worker) in
                    chains.iter_mut().zip(&batch.workers).filter(|(chain, _)| chain.divergence.is_none())
                {
                    // Readings have the layout's shape and were checked to be finite.
                    let _ = chain.kinetic_all.record(&worker.kinetic);
                    if is_kept {
                        let _ = chain.kinetic_kept.record(&worker.kinetic);
                    }
                }
            }
            if is_kept {
                observer.kept(chains, &batch.energies);
            }
        }
        if observer.stepped(steps)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// One step of all chains: `Langevin::step` for each, with gradients evaluated together.
#[expect(clippy::too_many_arguments, reason = "a step is a function of exactly these")]
fn step_together<P: BatchedPotential>(
    potential: &mut P,
    rule: &Langevin,
    plan: &LockstepPlan,
    step: u64,
    layout: &Layout,
    chains: &mut [Chain],
    pool: Option<&ThreadPool>,
    batch: &mut Batch,
) -> Result<(), P::Error> {
    let kicks_at_both_ends = rule.integrator.kicks_at_both_ends();
    let notes_energy = |step: u64| rule.warm_up.is_some_and(|warm_up| warm_up.notes_energy_at(step));
    let note = |chains: &mut [Chain], batch: &Batch| {
        for (chain, &energy) in chains.iter_mut().zip(&batch.energies) {
            chain.state.adapted.energies.push(energy);
        }
    };
    if batch.gradients_of.take() != Some(step) {
        batch.evaluate(potential, step, chains)?;
        if (!kicks_at_both_ends || step == 0) && notes_energy(step) {
            note(chains, batch);
        }
    }
    let (integrator, num_examples) = (rule.integrator, 1);
    let conditions = |chain: &Chain| {
        let temperature = rule.tempering.sampler_temperature(chain.temperature);
        match &rule.warm_up {
            None => rule.conditions(step, num_examples, temperature),
            Some(warm_up) => {
                let scaled = rule.temperature_scale.at(step) * temperature;
                warm_up.conditions(step, &chain.state.adapted, temperature, scaled)
            }
        }
    };
    let clip = |norm: f64| clip_factor(norm, rule.clip_norm);
    batch.each(pool, layout.len(), chains, |chain, gradient, worker| {
        let at = conditions(chain);
        if at.temperature > 0.0 {
            let key = NoiseKey { seed: plan.seed, purpose: Purpose::StepNoise, chain: chain.id, step };
            key.fill_normal(&mut worker.noise);
        } else {
            worker.noise.fill(0.0);
        }
        let (state, kinetic) = (&mut chain.state, &mut worker.kinetic);
        integrator.advance(&at, clip(worker.norm), layout, gradient, &worker.noise, state, kinetic);
        worker.is_finite = worker.norm.is_finite();
    });
    if kicks_at_both_ends {
        batch.evaluate(potential, step + 1, chains)?;
        batch.gradients_of = Some(step + 1);
        if notes_energy(step + 1) {
            note(chains, batch);
        }
        batch.each(pool, layout.len(), chains, |chain, gradient, worker| {
            let at = conditions(chain);
            integrator.close(&at, clip(worker.norm), layout, gradient, &mut chain.state, &mut worker.kinetic);
            worker.is_finite &= worker.norm.is_finite();
        });
    }
    let is_seen = plan.keep.is_kept(step + 1) || step + 1 == plan.num_steps;
    for (chain, worker) in chains.iter_mut().zip(&batch.workers).filter(|(chain, _)| chain.divergence.is_none()) {
        let is_finite = worker.is_finite && worker.kinetic.iter().all(|kinetic| kinetic.is_finite());
        if is_finite && (!is_seen || chain.state.is_finite()) {
            chain.state.step += 1;
        } else {
            chain.divergence = Some(Divergence { step });
        }
    }
    Ok(())
}

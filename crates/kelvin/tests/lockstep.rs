//! Chains that step together are the chains that step alone, bit by bit; an energy that fails ends them with its error.

use std::ops::ControlFlow;
use std::sync::Mutex;

use kelvin::network::{Layout, Role};
use kelvin::potential::{Batch, Potential};
use kelvin::sampler::{
    BatchedPotential, Batches, Chain, Integrator, Keep, Langevin, LockstepObserver, LockstepPlan, Plan, WarmUp,
    run_lockstep, run_population,
};
use kelvin::temperature::Temperature;

/// U = Σ k θ²/2 + Σ θ⁴/40, with another k for each number, in two tensors.
struct Valley {
    layout: Layout,
    fails_at: Option<u64>,
}

impl Valley {
    fn new() -> Self {
        let mut layout = Layout::default();
        layout.push("soft", Role::Position, &[3]);
        layout.push("stiff", Role::Position, &[2, 2]);
        Self { layout, fails_at: None }
    }

    fn energy(position: &[f32], gradient: &mut [f32]) -> f64 {
        let mut energy = 0.0;
        for (index, (&theta, to)) in position.iter().zip(gradient).enumerate() {
            let k = if index < 3 { 1.0 } else { 30.0 + index as f32 };
            *to = k * theta + theta.powi(3) / 10.0;
            energy += f64::from(k * theta * theta / 2.0 + theta.powi(4) / 40.0);
        }
        energy
    }
}

impl Potential for Valley {
    type Workspace = ();

    fn dim(&self) -> usize {
        self.layout.len()
    }

    fn evaluate(&self, position: &[f32], _: Batch<'_>, gradient: &mut [f32], (): &mut ()) -> f64 {
        Self::energy(position, gradient)
    }

    fn workspace(&self) {}

    fn layout(&self) -> Layout {
        self.layout.clone()
    }
}

impl BatchedPotential for Valley {
    type Error = String;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn evaluate(
        &mut self,
        step: u64,
        positions: &[f32],
        gradients: &mut [f32],
        energies: &mut [f64],
    ) -> Result<(), String> {
        if self.fails_at == Some(step) {
            return Err(format!("no energy at step {step}"));
        }
        let dim = self.layout.len();
        let rows = positions.chunks_exact(dim).zip(gradients.chunks_exact_mut(dim)).zip(energies);
        rows.for_each(|((position, gradient), energy)| *energy = Self::energy(position, gradient));
        Ok(())
    }
}

#[derive(Default)]
struct Kept {
    positions: Vec<Vec<Vec<f32>>>,
    energies: Vec<Vec<f64>>,
    stop_after: Option<u64>,
}

impl<E> LockstepObserver<E> for Kept {
    fn kept(&mut self, chains: &[Chain], energies: &[f64]) {
        self.positions.push(chains.iter().map(|chain| chain.state.position.clone()).collect());
        self.energies.push(energies.to_vec());
    }

    fn stepped(&mut self, steps: u64) -> Result<ControlFlow<()>, E> {
        Ok(if self.stop_after == Some(steps) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

fn chains(valley: &Valley) -> Vec<Chain> {
    let at = |id: u32| Temperature::new(if id == 1 { 0.2 } else { 1.0 }).unwrap();
    let start = |id: u32| (0..7).map(|i| (i as f32 - 3.0) * 0.3 + id as f32 * 0.1).collect();
    (0..3).map(|id| Chain::new(id, at(id), start(id), &valley.layout)).collect()
}

fn samplers() -> Vec<(&'static str, Langevin)> {
    let warm = |integrator| Langevin {
        warm_up: Some(WarmUp { num_steps: 60, friction: None }),
        ..Langevin::new(integrator, 1e-3, 0.9)
    };
    vec![
        ("sghmc", Langevin::new(Integrator::Sghmc, 1e-3, 0.9)),
        ("sgld", Langevin::new(Integrator::Sgld, 1e-3, 0.9)),
        ("sgnht", Langevin::new(Integrator::Sgnht, 1e-3, 0.9)),
        ("baoab, clipped", Langevin { clip_norm: 3.0, ..Langevin::new(Integrator::Baoab, 1e-3, 0.9) }),
        ("baoab, warm-up", warm(Integrator::Baoab)),
        ("mclmc, warm-up", warm(Integrator::Mclmc)),
    ]
}

const KEEP: Keep = Keep { burn_in: 60, every: 4 };

#[test]
fn chains_together_are_the_chains_alone() {
    for (name, rule) in samplers() {
        let mut valley = Valley::new();
        let mut alone = chains(&valley);
        let plan = Plan { seed: 5, batches: Batches::full(1), num_steps: 100, keep: KEEP };
        let kept = Mutex::new(vec![Vec::new(); 3]);
        run_population(&valley, &rule, &plan, &mut alone, &|index: usize, chain: &Chain| {
            kept.lock().unwrap()[index].push(chain.state.position.clone());
        });
        let kept = kept.into_inner().unwrap();

        let mut together = chains(&valley);
        let mut seen = Kept::default();
        let plan = LockstepPlan { seed: 5, num_steps: 100, keep: KEEP };
        run_lockstep(&mut valley, &rule, &plan, &mut together, None, &mut seen).unwrap();
        assert_eq!(seen.positions.len(), 10, "{name}");
        for (index, (alone, together)) in alone.iter().zip(&together).enumerate() {
            assert_eq!(alone.state, together.state, "{name}, chain {index}");
            assert_eq!(alone.kinetic_kept.mean(), together.kinetic_kept.mean(), "{name}");
            assert_eq!(alone.kinetic_all.mean(), together.kinetic_all.mean(), "{name}");
            let of_chain: Vec<_> = seen.positions.iter().map(|chains| chains[index].clone()).collect();
            assert_eq!(kept[index], of_chain, "{name}, chain {index}");
            for (position, energies) in of_chain.iter().zip(&seen.energies) {
                let mut gradient = [0.0; 7];
                assert_eq!(Valley::energy(position, &mut gradient), energies[index], "{name}: the energy of the draw");
            }
        }
    }
}

/// A step that no longer fits, in place of a valley that narrows.
#[test]
fn steps_that_became_too_long_are_shortened_together_as_alone() {
    for (name, rule) in samplers().into_iter().filter(|(_, rule)| rule.warm_up.is_some()) {
        let mut valley = Valley::new();
        let (mut alone, mut together) = (chains(&valley), chains(&valley));
        let mut found = Vec::new();
        for num_steps in [500, 520] {
            let plan = Plan { seed: 5, batches: Batches::full(1), num_steps, keep: KEEP };
            run_population(&valley, &rule, &plan, &mut alone, &|_: usize, _: &Chain| {});
            let plan = LockstepPlan { seed: 5, num_steps, keep: KEEP };
            run_lockstep(&mut valley, &rule, &plan, &mut together, None, &mut Kept::default()).unwrap();
            assert!(alone.iter().zip(&together).all(|(alone, together)| alone.state == together.state), "{name}");
            found = alone.iter().map(|chain| chain.state.adapted.step_size).collect();
            alone.iter_mut().chain(&mut together).for_each(|chain| chain.state.adapted.step_size *= 1.8);
        }
        for (shortened, chain) in found.iter().zip(&alone) {
            let fitting = chain.state.adapted.largest.sqrt().recip();
            assert!((0.9..1.1).contains(&(shortened / fitting)), "{name}: {shortened} where {fitting} fits");
        }
    }
}

#[test]
fn they_go_on_where_they_were_stopped() {
    for (name, rule) in samplers() {
        let mut valley = Valley::new();
        let plan = LockstepPlan { seed: 5, num_steps: 100, keep: KEEP };
        let mut whole = chains(&valley);
        run_lockstep(&mut valley, &rule, &plan, &mut whole, None, &mut Kept::default()).unwrap();
        let mut cut = chains(&valley);
        for stop_after in [Some(33), Some(71), None] {
            let mut seen = Kept { stop_after, ..Kept::default() };
            run_lockstep(&mut valley, &rule, &plan, &mut cut, None, &mut seen).unwrap();
        }
        let states = |chains: &[Chain]| chains.iter().map(|chain| chain.state.clone()).collect::<Vec<_>>();
        assert_eq!(states(&whole), states(&cut), "{name}");
    }
}

#[test]
fn an_energy_that_fails_ends_the_run_with_its_error() {
    let mut valley = Valley { fails_at: Some(17), ..Valley::new() };
    let plan = LockstepPlan { seed: 5, num_steps: 100, keep: KEEP };
    let mut together = chains(&valley);
    let rule = Langevin::new(Integrator::Baoab, 1e-3, 0.9);
    let error = run_lockstep(&mut valley, &rule, &plan, &mut together, None, &mut Kept::default()).unwrap_err();
    assert_eq!((error.as_str(), together[0].state.step), ("no energy at step 17", 16));
}

#[test]
fn a_chain_that_diverges_leaves_the_others_alone() {
    let mut valley = Valley::new();
    let plan = LockstepPlan { seed: 5, num_steps: 100, keep: KEEP };
    // Beyond leapfrog's limit for the stiff numbers of a chain that starts there.
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let mut quiet = chains(&valley);
    run_lockstep(&mut valley, &rule, &plan, &mut quiet, None, &mut Kept::default()).unwrap();
    let mut wild = chains(&valley);
    wild[1].state.position = vec![1e9; 7];
    run_lockstep(&mut valley, &rule, &plan, &mut wild, None, &mut Kept::default()).unwrap();
    assert!(wild[1].divergence.is_some() && wild[0].divergence.is_none());
    assert_eq!((&wild[0].state, &wild[2].state), (&quiet[0].state, &quiet[2].state));
}

/// U = 0 everywhere; notes the steps that it is asked at.
struct Flat {
    layout: Layout,
    asked: Vec<u64>,
}

impl BatchedPotential for Flat {
    type Error = String;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn evaluate(&mut self, step: u64, _: &[f32], gradients: &mut [f32], energies: &mut [f64]) -> Result<(), String> {
        self.asked.push(step);
        gradients.fill(0.0);
        energies.fill(0.0);
        Ok(())
    }
}

#[test]
fn each_position_is_evaluated_once() {
    for (name, rule) in samplers().into_iter().filter(|(_, rule)| rule.warm_up.is_none()) {
        let valley = Valley::new();
        let mut flat = Flat { layout: valley.layout.clone(), asked: Vec::new() };
        let plan = LockstepPlan { seed: 5, num_steps: 100, keep: KEEP };
        run_lockstep(&mut flat, &rule, &plan, &mut chains(&valley), None, &mut Kept::default()).unwrap();
        assert_eq!(flat.asked, (0..=100).collect::<Vec<u64>>(), "{name}");
    }
}

/// A direction in which nothing bends stays one.
#[test]
fn a_flat_energy_leaves_directions_finite() {
    for (name, rule) in samplers().into_iter().filter(|(_, rule)| rule.warm_up.is_some()) {
        let valley = Valley::new();
        let mut flat = Flat { layout: valley.layout.clone(), asked: Vec::new() };
        let mut chains = chains(&valley);
        let plan = LockstepPlan { seed: 5, num_steps: 3, keep: KEEP };
        run_lockstep(&mut flat, &rule, &plan, &mut chains, None, &mut Kept::default()).unwrap();
        let direction = &chains[0].state.adapted.direction;
        assert!(!direction.is_empty() && direction.iter().all(|w| w.is_finite()), "{name}: {direction:?}");
    }
}

/// A position beyond the largest number, while gradient and momentum are finite, is seen where a state is kept and at the end.
#[test]
fn a_step_that_only_its_position_betrays_does_not_count() {
    let rule = Langevin::new(Integrator::Sghmc, 1.0, 0.9);
    for (num_steps, burn_in, every, seen_at) in [(1, 50, 1, 0), (3, 50, 1, 2), (4, 0, 2, 1), (5, 1, 3, 3)] {
        let valley = Valley::new();
        let mut flat = Flat { layout: valley.layout.clone(), asked: Vec::new() };
        let mut chains = chains(&valley);
        // A step of 0.9e38 from 3e38.
        (chains[1].state.position[0], chains[1].state.momentum[0], chains[1].state.mass[0]) = (3e38, 1.0, 1e-38);
        let plan = LockstepPlan { seed: 5, num_steps, keep: Keep { burn_in, every } };
        run_lockstep(&mut flat, &rule, &plan, &mut chains, None, &mut Kept::default()).unwrap();
        let found = chains[1].divergence.map(|divergence| divergence.step);
        assert_eq!((found, chains[1].state.step), (Some(seen_at), seen_at), "{num_steps} steps, {burn_in}, {every}");
        assert!(chains[0].divergence.is_none() && chains[0].state.step == num_steps);
    }
}

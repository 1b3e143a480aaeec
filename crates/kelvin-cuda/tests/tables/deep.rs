//! Networks of two and three hidden layers on the device of the tests: the same trajectories as the CPU, whoever runs beside them.

use std::sync::Arc;

use crate::problems::{AnyRule, Problem, plan, sampler, search};
use crate::run::assert_agrees;
use crate::support::device_for_tests;
use kelvin::sampler::{Chain, ClipScope, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Plan, Silent};
use kelvin::temperature::{Schedule, Tempering};
use kelvin_cuda::TableEngine;

/// Steps that are small enough for rounding not to grow.
fn small_steps(integrator: Integrator) -> Langevin {
    Langevin { learning_rate: 2e-4, ..sampler(integrator) }
}

#[test]
fn integrators_and_searches_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::deep(140, 3, &[10, 7], None);
    for integrator in [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld, Integrator::Baoab] {
        let rule = AnyRule::Sampler(small_steps(integrator));
        assert_agrees(&format!("{integrator:?}, full"), &device, &problem, &rule, None);
        assert_agrees(&format!("{integrator:?}, batches"), &device, &problem, &rule, Some(40));
    }
    for scope in [ClipScope::All, ClipScope::Theta] {
        let rule = AnyRule::Search(search(scope));
        assert_agrees(&format!("{scope:?}, full"), &device, &problem, &rule, None);
        assert_agrees(&format!("{scope:?}, batches"), &device, &problem, &rule, Some(40));
    }
}

/// Widths that fill no tile, batches that fill no chunk and no share, classes, more layers, rows that shared memory does not hold.
#[test]
fn sizes_of_all_kinds_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let rule = AnyRule::Sampler(small_steps(Integrator::Sghmc));
    for (num_rows, inputs, hidden, num_classes, batch_size) in [
        (20, 1, &[1, 1][..], None, None),
        (97, 9, &[17, 40], None, Some(33)),
        (150, 4, &[33, 8, 20], None, None),
        (140, 5, &[20, 12], Some(3), Some(70)),
        (90, 6, &[12, 9, 9], Some(10), None),
        (150, 7, &[90, 30], None, Some(129)),
        (600, 5, &[33, 20], None, None),
        (340, 5, &[20, 20], Some(3), Some(270)),
        (2000, 100, &[8, 8], None, Some(1100)),
        (2700, 20, &[6, 6], Some(2), None),
    ] {
        let problem = Problem::deep(num_rows, inputs, hidden, num_classes);
        let what = format!("{}, {batch_size:?} of {num_rows} rows", problem.network.describe());
        assert_agrees(&what, &device, &problem, &rule, batch_size);
    }
}

#[test]
fn masses_tempering_schedules_and_clipping_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::deep(140, 4, &[12, 12], None);
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 3, ..LayerwiseMass::default() });
    for integrator in [Integrator::Sghmc, Integrator::Baoab] {
        let rule = Langevin {
            step_scale: Schedule::CosineCycle { start: 12, period: 9, value: 1.0 },
            temperature_scale: Schedule::Ramp { start: 5, end: 15, value: 1.0 },
            tempering: Tempering::Likelihood,
            clip_norm: 150.0,
            mass,
            ..small_steps(integrator)
        };
        assert_agrees(&format!("{integrator:?}"), &device, &problem, &AnyRule::Sampler(rule), Some(70));
    }
}

/// A chain runs on as many blocks as there are multiprocessors for; its bits are the same on one, two and four.
#[test]
fn bits_depend_neither_on_other_chains_nor_on_pauses() {
    let Some(device) = device_for_tests() else { return };
    for (problem, batch_size) in
        [(Problem::deep(150, 4, &[10, 9], None), None), (Problem::deep(700, 5, &[9, 9], Some(3)), Some(340))]
    {
        let engine = TableEngine::new(Arc::clone(&device), &problem.posterior()).unwrap();
        let plan = |num_steps| plan(problem.batches(batch_size), num_steps);
        let multiprocessors = device.limits().num_multiprocessors;
        for rule in [AnyRule::Sampler(small_steps(Integrator::Baoab)), AnyRule::Search(search(ClipScope::All))] {
            let run = |num_chains: u32, pause: u64| {
                let mut chains = problem.chains(num_chains);
                rule.on_device(&engine, &plan(pause), &mut chains[..1], &Silent);
                rule.on_device(&engine, &plan(14), &mut chains, &Silent);
                chains.swap_remove(0)
            };
            let alone = run(1, 0);
            assert_eq!(alone.state.step, 14);
            let others = [run(1, 0), run(1, 9), run(multiprocessors / 3, 0), run(multiprocessors / 2 + 1, 5)];
            for (other, what) in others.iter().zip(["again", "paused", "two blocks", "one block"]) {
                assert_eq!(alone.state, other.state, "{what}");
                assert_eq!(alone.kinetic_all.num_readings(), other.kinetic_all.num_readings(), "{what}");
            }
            assert_eq!(alone.kinetic_all, others[2].kinetic_all);
        }
    }
}

#[test]
fn a_chain_that_diverges_stops_alone() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::deep(140, 4, &[10, 10], None);
    let engine = TableEngine::new(device, &problem.posterior()).unwrap();
    let plan = Plan { keep: Keep { burn_in: 0, every: 8 }, ..plan(problem.batches(None), 24) };
    for (integrator, far) in
        [(Integrator::Sghmc, 1e9), (Integrator::Baoab, 1e9), (Integrator::Sghmc, 30.0), (Integrator::Baoab, 30.0)]
    {
        let rule = AnyRule::Sampler(small_steps(integrator));
        let start = || {
            let mut chains = problem.chains(3);
            chains[1].state.position.iter_mut().for_each(|theta| *theta *= far);
            chains
        };
        let (mut expected, mut found) = (start(), start());
        rule.on_cpu(&problem.posterior(), &plan, &mut expected, &Silent);
        rule.on_device(&engine, &plan, &mut found, &Silent);
        let divergences = |chains: &[Chain]| chains.iter().map(|chain| chain.divergence).collect::<Vec<_>>();
        assert!(expected[1].divergence.is_some(), "the case is worth testing");
        assert_eq!(divergences(&found), [None, expected[1].divergence, None]);
        assert_eq!((found[0].state.step, found[2].state.step), (24, 24));
    }
}

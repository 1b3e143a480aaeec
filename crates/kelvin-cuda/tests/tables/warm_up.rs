//! Chains that adapt on the device of the tests: what they find, and where it leads them, is what the CPU's chains do.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::problems::{Problem, relative_error, sampler};
use crate::support::device_for_tests;
use kelvin::sampler::{
    Chain, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Observer, Plan, Silent, WarmUp, run_population,
};
use kelvin::temperature::{Schedule, Tempering};
use kelvin_cuda::TableEngine;

const NUM_WARM_UP_STEPS: u64 = 30;

fn adaptive() -> Langevin {
    // The step of settings counts for nothing, and neither do their masses.
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
    let warm_up = Some(WarmUp { num_steps: NUM_WARM_UP_STEPS, friction: None });
    Langevin { warm_up, mass, ..sampler(Integrator::Baoab) }
}

fn plan(problem: &Problem, batch_size: Option<usize>, num_steps: u64) -> Plan {
    let keep = Keep { burn_in: NUM_WARM_UP_STEPS, every: 4 };
    Plan { seed: 3, batches: problem.batches(batch_size), num_steps, keep }
}

/// By how much a chain differs from the CPU's at most, in what it found and in where it is; what is counted must be equal.
fn disagreement(what: &str, found: &Chain, expected: &Chain) -> f64 {
    assert_eq!((found.state.step, found.divergence), (expected.state.step, expected.divergence), "{what}");
    assert_eq!(found.kinetic_all.num_readings(), expected.kinetic_all.num_readings(), "{what}");
    let (own, right) = (&found.state.adapted, &expected.state.adapted);
    assert_eq!((own.num_looks, own.energies.len()), (right.num_looks, right.energies.len()), "{what}");
    let pairs = [(&own.curvature, &right.curvature), (&own.energies, &right.energies)];
    let pairs = pairs.into_iter().chain([(&found.state.mass, &expected.state.mass)]);
    let numbers = pairs
        .flat_map(|(own, right)| own.iter().zip(right))
        .chain([(&own.step_size, &right.step_size), (&own.largest, &right.largest)]);
    let errors = numbers.map(|(own, right)| (own / right - 1.0).abs()).chain([
        relative_error(&found.state.position, &expected.state.position),
        relative_error(&found.state.momentum, &expected.state.momentum),
    ]);
    errors.fold(0.0, f64::max)
}

/// Through the warm-up and on. Rounding stays small, but for a chain where it moves a row to the other side of a ReLU: curvature then jumps by
/// about 1/n, and the step size with it.
#[test]
fn what_chains_find_and_where_it_leads_is_what_the_cpu_does() {
    let Some(device) = device_for_tests() else { return };
    let regression = Problem::regression(97, 4, 20);
    let ramp = Schedule::Ramp { start: 2, end: 12, value: 1.0 };
    for (what, problem, rule, batch_size) in [
        ("full", &regression, adaptive(), None),
        ("batches", &regression, adaptive(), Some(16)),
        ("ramp", &regression, Langevin { temperature_scale: ramp, ..adaptive() }, None),
        ("clip", &regression, Langevin { clip_norm: 150.0, ..adaptive() }, Some(32)),
        ("cold likelihood", &regression, Langevin { tempering: Tempering::Likelihood, ..adaptive() }, None),
        ("classes", &Problem::classification(80, 5, 12, 3), adaptive(), Some(20)),
        ("registers do not hold it", &Problem::regression(50, 70, 50), adaptive(), None),
        ("two hidden layers", &Problem::deep(97, 4, &[12, 8], None), adaptive(), Some(70)),
    ] {
        let posterior = problem.posterior();
        let engine = TableEngine::new(Arc::clone(&device), &posterior).unwrap();
        for num_steps in [3, NUM_WARM_UP_STEPS + 10] {
            let plan = plan(problem, batch_size, num_steps);
            let (mut expected, mut found) = (problem.chains(3), problem.chains(3));
            run_population(&posterior, &rule, &plan, &mut expected, &Silent);
            engine.sample(&rule, &plan, &mut found, &Silent).unwrap();
            let pairs = found.iter().zip(&expected);
            let mut errors: Vec<f64> = pairs.map(|(found, expected)| disagreement(what, found, expected)).collect();
            errors.sort_by(f64::total_cmp);
            assert!(errors[1] < 1e-4 && errors[2] < 0.05, "{what}, {num_steps} steps: {errors:?}");
            let sizes: Vec<f64> = found.iter().map(|chain| chain.state.adapted.step_size).collect();
            assert!(sizes.windows(2).all(|pair| pair[0] != pair[1]), "{what}: each chain has its own, {sizes:?}");
        }
    }
}

/// Stops every chain at each report.
struct Impatient;

impl Observer for Impatient {
    fn advanced(&self, _: usize, steps: u64) -> ControlFlow<()> {
        if steps > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn a_warm_up_that_is_cut_gives_the_same_bits() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(97, 4, 20);
    let engine = TableEngine::new(device, &problem.posterior()).unwrap();
    let rule = adaptive();
    for batch_size in [None, Some(16)] {
        let whole = plan(&problem, batch_size, NUM_WARM_UP_STEPS + 12);
        let run = |pauses: &[u64]| {
            let mut chains = problem.chains(3);
            // Chains may be at different steps when they go on.
            for (&num_steps, part) in pauses.iter().zip(chains.chunks_mut(1)) {
                engine.sample(&rule, &Plan { num_steps, ..whole }, part, &Silent).unwrap();
            }
            engine.sample(&rule, &whole, &mut chains, &Silent).unwrap();
            chains
        };
        let mut stopped = problem.chains(3);
        while !stopped.iter().all(|chain| chain.is_done(whole.num_steps)) {
            engine.sample(&rule, &whole, &mut stopped, &Impatient).unwrap();
        }
        let (once, again, paused) = (run(&[]), run(&[]), run(&[7, 21, 35]));
        for (((once, again), paused), stopped) in once.iter().zip(&again).zip(&paused).zip(&stopped) {
            assert!(once.divergence.is_none() && once.state.adapted.num_looks > 20);
            assert_eq!(once.state.adapted.energies.len(), NUM_WARM_UP_STEPS as usize);
            for other in [again, paused, stopped] {
                assert_eq!(once.state, other.state);
                assert_eq!(once.kinetic_all.num_readings(), other.kinetic_all.num_readings());
            }
        }
    }
}

#[test]
fn a_chain_that_diverges_while_it_warms_up_stops_alone() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(97, 4, 20);
    let posterior = problem.posterior();
    let engine = TableEngine::new(device, &posterior).unwrap();
    let (rule, plan) = (adaptive(), plan(&problem, None, NUM_WARM_UP_STEPS + 4));
    for far in [1e9, 1e18] {
        let start = || {
            let mut chains = problem.chains(3);
            chains[1].state.momentum.iter_mut().for_each(|m| *m *= far);
            chains
        };
        let (mut expected, mut found) = (start(), start());
        run_population(&posterior, &rule, &plan, &mut expected, &Silent);
        engine.sample(&rule, &plan, &mut found, &Silent).unwrap();
        let told = |chain: &Chain| {
            let adapted = &chain.state.adapted;
            (chain.divergence, chain.state.step, adapted.num_looks, adapted.energies.len())
        };
        assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected.iter().map(told).collect::<Vec<_>>());
        assert!(expected[1].divergence.is_some() && expected[0].divergence.is_none(), "the case is worth testing");
    }
}

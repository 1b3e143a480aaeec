//! Small networks on the device of the tests: the same trajectories as the CPU engine, by every rule.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crate::problems::{AnyRule, Problem, assert_near, plan, relative_error, sampler, search};
use crate::support::{device_for_tests, gpu_for_tests};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Shape};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::{IsotropicGaussian, Prior};
use kelvin::sampler::{
    AscentObjective, Chain, ChainState, ClipScope, Engine, Integrator, JointAscent, Keep, Langevin, LayerwiseMass,
    LogBeta, MassRule, Motion, Observer, Plan, PriorShare, Silent, run_population,
};
use kelvin::temperature::{Schedule, Temperature, Tempering};
use kelvin_cuda::{CudaEngine, Device, Precision, TableEngine, TableError};

/// A kept chain and its state.
type Seen = (usize, ChainState);

/// What an observer was told: the kept states, and the steps of each chain.
#[derive(Default)]
struct Told {
    kept: Mutex<Vec<Seen>>,
    steps: Mutex<Vec<u64>>,
}

impl Observer for Told {
    fn kept(&self, kept: &[(usize, &Chain)]) {
        self.kept.lock().unwrap().extend(kept.iter().map(|&(index, chain)| (index, chain.state.clone())));
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        let mut all = self.steps.lock().unwrap();
        if all.len() <= index {
            all.resize(index + 1, 0);
        }
        all[index] += steps;
        ControlFlow::Continue(())
    }
}

impl Told {
    fn sorted(self) -> (Vec<Seen>, Vec<u64>) {
        let mut kept = self.kept.into_inner().unwrap();
        kept.sort_by_key(|(index, state)| (*index, state.step));
        (kept, self.steps.into_inner().unwrap())
    }
}

/// Runs a problem on both engines and compares states, temperatures and what observers saw.
pub fn assert_agrees(
    what: &str,
    device: &Arc<dyn Device>,
    problem: &Problem,
    rule: &AnyRule,
    batch_size: Option<usize>,
) {
    let posterior = problem.posterior();
    let engine = TableEngine::new(Arc::clone(device), &posterior).unwrap();
    let plan = plan(problem.batches(batch_size), 54);
    let (mut expected, mut found) = (problem.chains(3), problem.chains(3));
    let (told_by_cpu, told) = (Told::default(), Told::default());
    rule.on_cpu(&posterior, &plan, &mut expected, &told_by_cpu);
    rule.on_device(&engine, &plan, &mut found, &told);

    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.divergence, expected.divergence, "{what}");
        assert_states_agree(what, &found.state, &expected.state);
        for (found, expected) in
            [(&found.kinetic_all, &expected.kinetic_all), (&found.kinetic_kept, &expected.kinetic_kept)]
        {
            assert_eq!(found.num_readings(), expected.num_readings(), "{what}");
            for (found, expected) in found.tensor_means().iter().zip(expected.tensor_means()) {
                assert_near(what, *found, *expected, 1e-3);
            }
        }
    }
    let ((kept, steps), (right_kept, right_steps)) = (told.sorted(), told_by_cpu.sorted());
    assert_eq!(steps, right_steps, "{what}");
    assert_eq!(kept.len(), right_kept.len(), "{what}");
    for ((index, state), (right_index, right)) in kept.iter().zip(&right_kept) {
        assert_eq!(index, right_index, "{what}");
        assert_states_agree(what, state, right);
    }
}

fn assert_states_agree(what: &str, state: &ChainState, right: &ChainState) {
    assert_eq!(state.step, right.step, "{what}");
    let error = relative_error(&state.position, &right.position);
    assert!(error < 1e-4, "{what}, position at step {}: {error:.1e}", state.step);
    let error = relative_error(&state.momentum, &right.momentum);
    assert!(error < 2e-4, "{what}, momentum at step {}: {error:.1e}", state.step);
    assert!((state.log_beta - right.log_beta).abs() < 1e-4, "{what}: {} and {}", state.log_beta, right.log_beta);
    for (mass, right) in state.mass.iter().zip(&right.mass) {
        assert_near(what, *mass, *right, 1e-4);
    }
}

/// One step without noise or retained momentum leaves m = −h g.
#[test]
fn gradients_are_those_of_the_cpu_to_f32_rounding() {
    let Some(device) = device_for_tests() else { return };
    let rule = Langevin {
        temperature_scale: Schedule::Constant { value: 0.0 },
        ..Langevin::new(Integrator::Sghmc, 1e-3, 0.0)
    };
    for problem in [
        Problem::regression(150, 8, 64),
        Problem::regression(203, 14, 64),
        Problem::regression(90, 4, 20),
        Problem::regression(60, 30, 33),
        Problem::regression(70, 2, 130),
        Problem::regression(50, 70, 50),
        Problem::classification(120, 5, 20, 3),
        Problem::classification(70, 9, 70, 12),
        Problem::deep(150, 8, &[64, 64], None),
        Problem::deep(300, 8, &[64, 64], None),
        Problem::deep(130, 20, &[100, 64], Some(3)),
        Problem::deep(37, 5, &[9, 30], None),
        Problem::deep(100, 17, &[40, 33, 20], Some(5)),
        Problem::deep(70, 3, &[200, 20], None),
    ] {
        let posterior = problem.posterior();
        let mut expected = vec![0.0; posterior.dim()];
        let mut chains = problem.chains(1);
        posterior.evaluate(&chains[0].state.position, Batch::ALL, &mut expected, &mut posterior.workspace());
        let engine = TableEngine::new(Arc::clone(&device), &posterior).unwrap();
        engine.sample(&rule, &plan(problem.batches(None), 1), &mut chains, &Silent).unwrap();
        let step_size = (1e-3 / problem.examples.len() as f64).sqrt() as f32;
        let found: Vec<f32> = chains[0].state.momentum.iter().map(|m| -m / step_size).collect();
        let error = relative_error(&found, &expected);
        assert!(error < 2e-6, "{}: {error:.1e}", problem.network.describe());
    }
}

#[test]
fn integrators_follow_the_cpu_with_full_batches() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(100, 3, 10);
    for integrator in [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld, Integrator::Baoab] {
        let rule = AnyRule::Sampler(sampler(integrator));
        assert_agrees(&format!("{integrator:?}"), &device, &problem, &rule, None);
    }
}

#[test]
fn the_shape_of_concrete_follows_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let rule = AnyRule::Sampler(sampler(Integrator::Sghmc));
    assert_agrees("8-64-1", &device, &Problem::regression(150, 8, 64), &rule, None);
}

#[test]
fn the_shape_of_naval_follows_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let rule = AnyRule::Sampler(sampler(Integrator::Sghmc));
    assert_agrees("14-64-1", &device, &Problem::regression(203, 14, 64), &rule, Some(40));
}

#[test]
fn minibatches_likelihood_tempering_schedules_and_clipping_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(97, 4, 20);
    let rule = |integrator: Integrator| Langevin {
        step_scale: Schedule::CosineCycle { start: 12, period: 9, value: 1.0 },
        temperature_scale: Schedule::Ramp { start: 5, end: 15, value: 1.0 },
        tempering: Tempering::Likelihood,
        clip_norm: 150.0,
        ..sampler(integrator)
    };
    for integrator in [Integrator::Sghmc, Integrator::Baoa, Integrator::Baoab] {
        let rule = rule(integrator);
        let run = |rule: &Langevin| {
            let mut chains = problem.chains(1);
            run_population(&problem.posterior(), rule, &plan(problem.batches(Some(16)), 54), &mut chains, &Silent);
            chains.remove(0).state.position
        };
        let unclipped = Langevin { clip_norm: f64::INFINITY, ..rule.clone() };
        assert!(relative_error(&run(&rule), &run(&unclipped)) > 1e-2, "the clip is worth testing");
        assert_agrees(&format!("{integrator:?}"), &device, &problem, &AnyRule::Sampler(rule), Some(16));
    }
}

#[test]
fn several_outputs_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::classification(120, 5, 20, 3);
    let rule = AnyRule::Sampler(sampler(Integrator::Sghmc));
    assert_agrees("full", &device, &problem, &rule, None);
    assert_agrees("batches", &device, &problem, &rule, Some(32));
    assert_agrees("search", &device, &problem, &AnyRule::Search(search(ClipScope::All)), Some(32));
}

#[test]
fn joint_ascent_follows_the_cpu_with_both_clip_scopes() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(90, 4, 20);
    for scope in [ClipScope::All, ClipScope::Theta] {
        let rule = AnyRule::Search(search(scope));
        assert_agrees(&format!("{scope:?}"), &device, &problem, &rule, Some(30));
        assert_agrees(&format!("{scope:?}, full"), &device, &problem, &rule, None);
    }
}

/// What the kernels of tables have no way for goes through those of any network.
#[test]
fn searches_with_priors_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let engine = CudaEngine::new(vec![device], Precision::Single);
    let regression = Problem::regression(90, 4, 20);
    let classes = Problem::classification(70, 5, 12, 3);
    for (problem, prior, log_beta, batch_size) in [
        (&regression, PriorShare::Once, LogBeta::Free, Some(30)),
        (&regression, PriorShare::PerDatum, LogBeta::Normal { mean: -1.0, variance: 0.01 }, None),
        (&classes, PriorShare::None, LogBeta::Frozen, Some(35)),
    ] {
        let rule = JointAscent { objective: AscentObjective { prior, log_beta }, ..search(ClipScope::All) };
        let (posterior, plan) = (problem.posterior(), plan(problem.batches(batch_size), 20));
        let (mut found, mut expected) = (problem.chains(2), problem.chains(2));
        engine.run(&posterior, Motion::Search(&rule), &plan, &mut found, &Silent).unwrap();
        run_population(&posterior, &rule, &plan, &mut expected, &Silent);
        for (found, expected) in found.iter().zip(&expected) {
            let error = relative_error(&found.state.position, &expected.state.position);
            assert!(error < 1e-4, "{:?}: {error:.1e}", rule.objective);
            assert!((found.state.log_beta - expected.state.log_beta).abs() < 1e-4, "{:?}", rule.objective);
        }
        let mut free = problem.chains(2);
        run_population(&posterior, &search(ClipScope::All), &plan, &mut free, &Silent);
        let moved = relative_error(&free[0].state.position, &expected[0].state.position)
            + (free[0].state.log_beta - expected[0].state.log_beta).abs();
        assert!(moved > 1e-3, "{:?} is worth testing: {moved:e}", rule.objective);
    }
}

#[test]
fn masses_are_estimated_as_on_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(97, 4, 20);
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 5, ..LayerwiseMass::default() });
    let rule = AnyRule::Sampler(Langevin { mass, ..sampler(Integrator::Sghmc) });
    assert_agrees("batches", &device, &problem, &rule, Some(32));

    // More batches than a launch has steps.
    let problem = Problem::regression(200, 1, 1);
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 4100, ..LayerwiseMass::default() });
    let rule = AnyRule::Sampler(Langevin { mass, ..sampler(Integrator::Sghmc) });
    assert_agrees("many batches", &device, &problem, &rule, Some(2));
}

/// Wide and narrow networks, and rows that shared memory does not hold.
#[test]
fn other_sizes_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    // Many rows make a stiff energy, where rounding grows with the step size.
    let rule = AnyRule::Sampler(Langevin { learning_rate: 2e-4, ..sampler(Integrator::Sghmc) });
    for (num_rows, inputs, hidden, batch_size) in
        [(40, 1, 1, None), (70, 2, 130, Some(33)), (60, 30, 33, None), (1700, 29, 12, None), (1700, 29, 12, Some(900))]
    {
        let problem = Problem::regression(num_rows, inputs, hidden);
        let what = format!("{inputs}-{hidden}-1, {batch_size:?} of {num_rows} rows");
        assert_agrees(&what, &device, &problem, &rule, batch_size);
    }
}

/// Networks that registers do not hold.
#[test]
fn large_networks_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let small_steps = Langevin { learning_rate: 2e-4, ..sampler(Integrator::Sghmc) };
    let rule = AnyRule::Sampler(small_steps.clone());
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
    let layerwise = AnyRule::Sampler(Langevin { mass, ..small_steps.clone() });
    let both_ends = AnyRule::Sampler(Langevin { integrator: Integrator::Baoab, mass, ..small_steps });
    let search = AnyRule::Search(search(ClipScope::All));
    let table = Problem::regression(50, 70, 50);
    let classes = Problem::classification(70, 9, 70, 12);
    for (what, problem, rule, batch_size) in [
        ("full", &table, &rule, None),
        ("batches", &table, &rule, Some(20)),
        ("masses", &table, &layerwise, Some(20)),
        ("kicks at both ends", &table, &both_ends, Some(20)),
        ("search", &table, &search, Some(20)),
        ("classes", &classes, &rule, None),
        ("search of classes", &classes, &search, Some(33)),
        ("rows in place", &Problem::regression(700, 80, 30), &rule, None),
        ("batches in place", &Problem::regression(700, 80, 30), &rule, Some(600)),
        ("kicks at both ends, in place", &Problem::regression(700, 80, 30), &both_ends, Some(300)),
    ] {
        assert_agrees(what, &device, problem, rule, batch_size);
    }
}

#[test]
fn a_run_is_the_same_each_time_and_after_a_pause() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(97, 4, 20);
    let posterior = problem.posterior();
    let engine = TableEngine::new(device, &posterior).unwrap();
    let samplers = [Integrator::Sghmc, Integrator::Baoab].map(|integrator| AnyRule::Sampler(sampler(integrator)));
    for rule in samplers.into_iter().chain([AnyRule::Search(search(ClipScope::All))]) {
        let run = |pauses: &[u64]| {
            let mut chains = problem.chains(3);
            // Chains may be at different steps when they go on.
            for (pause, part) in pauses.iter().zip(chains.chunks_mut(1)) {
                rule.on_device(&engine, &plan(problem.batches(Some(16)), *pause), part, &Silent);
            }
            rule.on_device(&engine, &plan(problem.batches(Some(16)), 50), &mut chains, &Silent);
            chains
        };
        let (once, again, paused) = (run(&[]), run(&[]), run(&[17, 30, 17]));
        for ((once, again), paused) in once.iter().zip(&again).zip(&paused) {
            assert_eq!(once.state, again.state);
            assert_eq!(once.kinetic_all, again.kinetic_all);
            assert_eq!(once.state, paused.state);
            assert_eq!(once.kinetic_all.num_readings(), paused.kinetic_all.num_readings());
        }
    }
}

#[test]
fn a_chain_that_diverges_stops_alone() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(97, 4, 20);
    let posterior = problem.posterior();
    let engine = TableEngine::new(device, &posterior).unwrap();
    let plan = Plan { keep: Keep { burn_in: 0, every: 8 }, ..plan(problem.batches(None), 40) };
    // A chain whose first gradient is no number, and one whose steps are too large, which shows after a few.
    for (integrator, far) in
        [(Integrator::Sghmc, 1e9), (Integrator::Baoab, 1e9), (Integrator::Sghmc, 30.0), (Integrator::Baoab, 30.0)]
    {
        let rule = AnyRule::Sampler(sampler(integrator));
        let start = || {
            let mut chains = problem.chains(3);
            chains[1].state.position.iter_mut().for_each(|theta| *theta *= far);
            chains
        };
        let (mut expected, mut found) = (start(), start());
        rule.on_cpu(&posterior, &plan, &mut expected, &Silent);
        rule.on_device(&engine, &plan, &mut found, &Silent);
        let divergences = |chains: &[Chain]| chains.iter().map(|chain| chain.divergence).collect::<Vec<_>>();
        assert!(expected[1].divergence.is_some(), "the case is worth testing");
        assert_eq!(divergences(&found), [None, expected[1].divergence, None]);
        assert_eq!(found[1].state.step, expected[1].state.step);
        assert_eq!(found[1].kinetic_all.num_readings(), expected[1].kinetic_all.num_readings());
        for (found, expected) in found[1].kinetic_all.tensor_means().iter().zip(expected[1].kinetic_all.tensor_means())
        {
            assert_near(&format!("{integrator} from {far}"), *found, *expected, 1e-3);
        }
        assert_eq!((found[0].state.step, found[2].state.step), (40, 40));
    }
}

#[test]
fn an_observer_can_stop_a_chain_even_before_its_first_step() {
    let Some(device) = device_for_tests() else { return };
    struct StopsTwo(Mutex<Vec<(usize, u64)>>);
    impl Observer for StopsTwo {
        fn kept(&self, kept: &[(usize, &Chain)]) {
            self.0.lock().unwrap().extend(kept.iter().map(|&(index, chain)| (index, chain.state.step)));
        }
        fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
            let stops = index == 2 || (index == 1 && steps > 0);
            if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let problem = Problem::regression(97, 4, 20);
    let engine = TableEngine::new(device, &problem.posterior()).unwrap();
    let mut chains = problem.chains(3);
    let observer = StopsTwo(Mutex::default());
    engine.sample(&sampler(Integrator::Sghmc), &plan(problem.batches(None), 40), &mut chains, &observer).unwrap();
    assert_eq!([0, 1, 2].map(|index: usize| chains[index].state.step), [40, 18, 0]);
    assert_eq!(*observer.0.lock().unwrap(), [(0, 18), (1, 18), (0, 26), (0, 34)]);
}

/// A prior that only the CPU knows.
struct OwnPrior;

impl Prior for OwnPrior {
    fn log_density(&self, _: &[f32]) -> f64 {
        0.0
    }

    fn add_energy_gradient(&self, _: &[f32], _: f64, _: &mut [f32]) {}
}

#[test]
fn what_is_not_served_is_said() {
    let Some(device) = device_for_tests() else { return };
    let problem = Problem::regression(20, 3, 5);
    let posterior = Posterior::new(&problem.network, problem.likelihood, OwnPrior, &problem.examples).unwrap();
    let refused = TableEngine::new(Arc::clone(&device), &posterior).err();
    assert!(matches!(refused, Some(TableError::Unsupported { .. })), "{refused:?}");

    let hidden = |units| [Layer::Dense { units }, Layer::Relu];
    let output = Layer::Dense { units: 1 };
    for (layers, needs) in [
        (vec![Layer::Dense { units: 4 }, Layer::Tanh, output.clone()], "one to three hidden layers with ReLU"),
        ([hidden(4), hidden(4), hidden(4), hidden(4)].concat(), "one to three hidden layers with ReLU"),
        (
            [hidden(100), hidden(100)].concat(),
            "a network that fits a multiprocessor, of at most 10000 parameters where it has several hidden layers",
        ),
    ] {
        let layers = if layers.contains(&output) { layers } else { [layers, vec![output.clone()]].concat() };
        let network = Network::new(Shape::flat(3), layers).unwrap();
        let prior = IsotropicGaussian::new(1.0).unwrap();
        let posterior = Posterior::new(&network, problem.likelihood, prior, &problem.examples).unwrap();
        let refused = TableEngine::new(Arc::clone(&device), &posterior).err().unwrap().to_string();
        let expected = format!("the GPU engine of tables does not serve {}: it needs {needs}", network.describe());
        assert_eq!(refused, expected);
    }
}

/// Σ m²/d over many steps is 2T/(1 + μ') within 5 standard errors, where the step is small and batches are full.
#[test]
fn momenta_have_the_temperature_asked_for() {
    let Some(device) = gpu_for_tests() else { return };
    const NUM_CHAINS: u32 = 64;
    let mut problem = Problem::regression(100, 3, 10);
    problem.likelihood = Likelihood::Gaussian { noise_variance: 1.0 };
    let engine = TableEngine::new(device, &problem.posterior()).unwrap();
    let layout = problem.network.layout();
    for integrator in [Integrator::Sghmc, Integrator::Baoa, Integrator::Baoab] {
        for temperature in [0.1, 1.0] {
            let rule = Langevin::new(integrator, 1e-4, 0.9);
            let start = |id: u32| {
                let position = problem.network.initial_parameters(1, id);
                Chain::new(id, Temperature::new(temperature).unwrap(), position, &layout)
            };
            let mut chains: Vec<Chain> = (0..NUM_CHAINS).map(start).collect();
            let keep = Keep { burn_in: 100_000, every: 100_000 };
            let plan = Plan { seed: 9, batches: problem.batches(None), num_steps: 200_000, keep };
            engine.sample(&rule, &plan, &mut chains, &Silent).unwrap();

            let readings: Vec<f64> = chains.iter().map(|chain| chain.kinetic_all.mean().unwrap()).collect();
            let count = readings.len() as f64;
            let mean = readings.iter().sum::<f64>() / count;
            let variance = readings.iter().map(|reading| (reading - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let expected = rule.kinetic_target(1.0, temperature);
            let z = (mean - expected) / (variance / count).sqrt();
            assert!(z.abs() < 5.0, "{integrator:?} at T = {temperature}: {mean} instead of {expected}, z = {z:.1}");
        }
    }
}

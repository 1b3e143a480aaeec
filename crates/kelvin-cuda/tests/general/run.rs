//! Chains of image networks on the device move as on the CPU, whatever the groups and waves, and go on bit for bit.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crate::networks::{examples, parameters, posterior, relative_error, resnet};
use crate::support::device_for_tests;
use kelvin::data::Augmentation;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Role, Rows, Shape};
use kelvin::potential::Posterior;
use kelvin::prior::{GaussianFreeNorms, IsotropicGaussian, Prior};
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ChainState, ClipScope, Integrator, JointAscent, Keep, Langevin, LayerwiseMass,
    LogBeta, MassRule, Observer, Plan, PriorShare, Silent, run_population,
};
use kelvin::temperature::{Schedule, Temperature, Tempering};
use kelvin_cuda::{Device, GeneralEngine, Precision};

const NUM_IMAGES: usize = 20;

fn plain_network() -> Network {
    let layers = vec![
        Layer::Conv { filters: 3, kernel: 3, stride: 2, groups: 1 },
        Layer::Relu,
        Layer::FILTER_RESPONSE_NORM,
        Layer::Dense { units: 3 },
    ];
    Network::new(Shape::image(5, 4, 1), layers).unwrap()
}

fn network_with_norm() -> Network {
    let conv = Layer::Conv { filters: 2, kernel: 3, stride: 2, groups: 1 };
    let layers = vec![conv, Layer::BATCH_NORM, Layer::Relu, Layer::Dense { units: 3 }];
    Network::new(Shape::image(4, 4, 1), layers).unwrap()
}

fn chains(network: &Network, count: u32) -> Vec<Chain> {
    let temperature = |id: u32| Temperature::new([1.0, 0.3, 0.0][id as usize % 3]).unwrap();
    (0..count).map(|id| Chain::new(id, temperature(id), parameters(network, id), &network.layout())).collect()
}

fn plan(num_steps: u64, strength: f64) -> Plan {
    let batches = Batches::new(NUM_IMAGES, Some(6)).unwrap().augmented(Augmentation::new(strength).unwrap());
    Plan { seed: 3, batches, num_steps, keep: Keep { burn_in: 4, every: 3 } }
}

fn rule(integrator: Integrator) -> Langevin {
    Langevin {
        step_scale: Schedule::CosineCycle { start: 4, period: 3, value: 1.0 },
        temperature_scale: Schedule::Ramp { start: 1, end: 3, value: 1.0 },
        clip_norm: 40.0,
        ..Langevin::new(integrator, 1e-3, 0.9)
    }
}

/// Remembers the states that were kept, and counts steps.
#[derive(Default)]
struct Remember {
    kept: Mutex<Vec<(usize, ChainState)>>,
    steps: Mutex<Vec<(usize, u64)>>,
    started: Mutex<Vec<usize>>,
}

impl Observer for Remember {
    fn started(&self, index: usize) {
        self.started.lock().unwrap().push(index);
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        self.kept.lock().unwrap().extend(kept.iter().map(|&(index, chain)| (index, chain.state.clone())));
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        self.steps.lock().unwrap().push((index, steps));
        ControlFlow::Continue(())
    }
}

impl Remember {
    fn of(&self, index: usize) -> Vec<ChainState> {
        let kept = self.kept.lock().unwrap();
        kept.iter().filter(|(of, _)| *of == index).map(|(_, state)| state.clone()).collect()
    }

    fn steps_of(&self, index: usize) -> u64 {
        self.steps.lock().unwrap().iter().filter(|(of, _)| *of == index).map(|(_, steps)| steps).sum()
    }
}

fn assert_near(what: &str, found: &[f32], wanted: &[f32], tolerance: f64) {
    let error = relative_error(found, wanted);
    assert!(error < tolerance, "{what} off by {error:e}");
}

fn assert_same_course(what: &str, found: (&[Chain], &Remember), wanted: (&[Chain], &Remember), tolerance: f64) {
    for (index, (a, b)) in found.0.iter().zip(wanted.0).enumerate() {
        let (kept, wanted_kept) = (found.1.of(index), wanted.1.of(index));
        assert_eq!(kept.len(), wanted_kept.len(), "{what}: kept states of chain {index}");
        for (a, b) in kept.iter().zip(&wanted_kept).chain([(&a.state, &b.state)]) {
            assert_eq!(a.step, b.step, "{what}");
            assert_near(&format!("{what}: position"), &a.position, &b.position, tolerance);
            assert_near(&format!("{what}: momentum"), &a.momentum, &b.momentum, 10.0 * tolerance);
            if !b.statistics.is_empty() {
                assert_near(&format!("{what}: statistics"), &a.statistics, &b.statistics, tolerance);
            }
            for (a, b) in a.mass.iter().zip(&b.mass) {
                assert!((a / b - 1.0).abs() < tolerance, "{what}: mass {a}, not {b}");
            }
            assert!((a.log_beta - b.log_beta).abs() < 10.0 * tolerance, "{what}: log β");
        }
        assert_eq!(a.divergence, b.divergence);
        for (a, b) in [(&a.kinetic_all, &b.kinetic_all), (&a.kinetic_kept, &b.kinetic_kept)] {
            assert_eq!(a.num_readings(), b.num_readings(), "{what}: readings");
            for (a, b) in a.tensor_means().iter().zip(b.tensor_means()) {
                assert!((a - b).abs() <= 1e2 * tolerance * b.abs().max(1e-6), "{what}: kinetic {a}, not {b}");
            }
        }
        assert_eq!(found.1.steps_of(index), wanted.1.steps_of(index), "{what}: steps reported");
    }
    let (mut found, mut wanted) = (found.1.started.lock().unwrap().clone(), wanted.1.started.lock().unwrap().clone());
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{what}: who started");
}

fn engine(device: &Arc<dyn Device>, posterior: &Posterior, group: usize, wave: usize) -> GeneralEngine {
    GeneralEngine::new(device.clone(), posterior, Precision::Single).unwrap().with_sizes(group, wave)
}

#[test]
fn samplers_take_the_steps_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for (network, num_steps) in [(plain_network(), 30), (resnet(), 9)] {
        let examples = examples(&network, NUM_IMAGES, true);
        let posterior = posterior(&network, &examples);
        let engine = engine(&device, &posterior, 2, 3);
        for integrator in [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld] {
            for tempering in [Tempering::Posterior, Tempering::Likelihood] {
                let mut rule = Langevin { tempering, ..rule(integrator) };
                let (mut found, mut wanted) = (chains(&network, 3), chains(&network, 3));
                if tempering == Tempering::Likelihood {
                    for chain in found.iter_mut().chain(&mut wanted) {
                        chain.temperature = Temperature::new(0.5).unwrap();
                    }
                    rule.clip_norm = f64::INFINITY;
                }
                let plan = plan(num_steps, 0.5);
                let (on_device, on_cpu) = (Remember::default(), Remember::default());
                engine.sample(&rule, &plan, &mut found, &on_device).unwrap();
                run_population(&posterior, &rule, &plan, &mut wanted, &on_cpu);
                let what = format!("{integrator:?} {tempering:?}");
                assert_same_course(&what, (&found, &on_device), (&wanted, &on_cpu), 1e-4);
            }
        }
    }
}

/// Sampling with and without masses, and the ascent of a posterior: scales and offsets are not pulled to 0.
#[test]
fn norms_without_a_prior_move_as_on_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let network = network_with_norm();
    let examples = examples(&network, NUM_IMAGES, true);
    let likelihood = Likelihood::Categorical { num_classes: network.num_outputs() };
    // So narrow that all else is pulled hard.
    let of = |prior: Box<dyn Prior>| {
        Posterior::with_evaluator(&network, network.general_evaluator(), likelihood, prior, &examples).unwrap()
    };
    let posterior = of(Box::new(GaussianFreeNorms::new(0.01, &network.layout()).unwrap()));
    let engine = engine(&device, &posterior, 2, 3);
    let masses = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
    for mass in [MassRule::Fixed, masses] {
        let rule = Langevin { mass, ..rule(Integrator::Sghmc) };
        let sampled_on_cpu = |posterior: &Posterior| {
            let (mut chains, remember) = (chains(&network, 3), Remember::default());
            run_population(posterior, &rule, &plan(12, 0.0), &mut chains, &remember);
            (chains, remember)
        };
        let (wanted, on_cpu) = sampled_on_cpu(&posterior);
        let (mut found, on_device) = (chains(&network, 3), Remember::default());
        engine.sample(&rule, &plan(12, 0.0), &mut found, &on_device).unwrap();
        assert_same_course("norms without a prior", (&found, &on_device), (&wanted, &on_cpu), 1e-4);
        let (gaussian, _) = sampled_on_cpu(&of(Box::new(IsotropicGaussian::new(0.01).unwrap())));
        let scale = network.layout().tensors().iter().find(|tensor| tensor.role == Role::Scale).unwrap().range.clone();
        let apart = relative_error(&gaussian[2].state.position[scale.clone()], &wanted[2].state.position[scale]);
        assert!(apart > 5e-4, "a prior on scales would not have been noticed: {apart:e}");
    }
    let rule = JointAscent {
        objective: AscentObjective { prior: PriorShare::Once, log_beta: LogBeta::Free },
        learning_rate: Schedule::Constant { value: 1e-4 },
        momentum: 0.9,
        weight_decay: 0.0,
        clip_norm: 1e3,
        clip_scope: ClipScope::All,
    };
    let (mut found, mut wanted) = (chains(&network, 2), chains(&network, 2));
    let (on_device, on_cpu) = (Remember::default(), Remember::default());
    engine.search(&rule, &plan(4, 0.0), &mut found, &on_device).unwrap();
    run_population(&posterior, &rule, &plan(4, 0.0), &mut wanted, &on_cpu);
    assert_same_course("ascent without a prior on norms", (&found, &on_device), (&wanted, &on_cpu), 1e-4);
}

#[test]
fn layerwise_masses_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let network = resnet();
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let engine = engine(&device, &posterior, 2, 4);
    let half = GeneralEngine::new(device.clone(), &posterior, Precision::Half).unwrap();
    // With the larger floor masses know how large gradients are, not only their ratios.
    for (training_mode, floor) in [(false, 0.1), (true, 1e-3), (false, 1e-7)] {
        let estimate = LayerwiseMass { num_batches: 4, training_mode, floor };
        let rule = Langevin { mass: MassRule::Layerwise(estimate), ..rule(Integrator::Sghmc) };
        let sampled = |engine: &GeneralEngine| {
            let (mut chains, remember) = (chains(&network, 3), Remember::default());
            engine.sample(&rule, &plan(7, 0.5), &mut chains, &remember).unwrap();
            (chains, remember)
        };
        let (mut wanted, on_cpu) = (chains(&network, 3), Remember::default());
        run_population(&posterior, &rule, &plan(7, 0.5), &mut wanted, &on_cpu);
        assert!(wanted[0].state.mass.iter().any(|&mass| mass > 2.0));
        let (found, on_device) = sampled(&engine);
        assert_same_course("masses", (&found, &on_device), (&wanted, &on_cpu), 1e-4);
        for (found, wanted) in sampled(&half).0.iter().zip(&wanted) {
            for (a, b) in found.state.mass.iter().zip(&wanted.state.mass) {
                assert!((a / b - 1.0).abs() < 0.1, "mass {a}, not {b}, in bf16");
            }
        }
    }
}

#[test]
fn the_joint_ascent_takes_the_steps_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for network in [plain_network(), resnet()] {
        let examples = examples(&network, NUM_IMAGES, false);
        let posterior = posterior(&network, &examples);
        let engine = engine(&device, &posterior, 2, 2);
        let free = AscentObjective::default();
        let with_prior = |prior, log_beta| AscentObjective { prior, log_beta };
        for (clip_scope, objective) in [
            (ClipScope::All, free),
            (ClipScope::Theta, free),
            (ClipScope::All, with_prior(PriorShare::Once, LogBeta::Free)),
            (ClipScope::Theta, with_prior(PriorShare::PerDatum, LogBeta::Normal { mean: 0.7, variance: 0.04 })),
            (ClipScope::All, with_prior(PriorShare::None, LogBeta::Normal { mean: -0.5, variance: 0.01 })),
            (ClipScope::All, with_prior(PriorShare::Once, LogBeta::Frozen)),
        ] {
            let rule = JointAscent {
                objective,
                learning_rate: Schedule::Constant { value: 1e-3 },
                momentum: 0.9,
                weight_decay: 0.1,
                clip_norm: 20.0,
                clip_scope,
            };
            let (mut found, mut wanted) = (chains(&network, 3), chains(&network, 3));
            let (on_device, on_cpu) = (Remember::default(), Remember::default());
            engine.search(&rule, &plan(4, 0.0), &mut found, &on_device).unwrap();
            run_population(&posterior, &rule, &plan(4, 0.0), &mut wanted, &on_cpu);
            assert_eq!(found[0].state.log_beta == 0.0, objective.log_beta == LogBeta::Frozen);
            assert_same_course(
                &format!("{clip_scope:?}, {objective:?}"),
                (&found, &on_device),
                (&wanted, &on_cpu),
                1e-4,
            );
        }
    }
}

/// All rows at every step: batches of 128 to batch norm, the last of which leaves its statistics.
#[test]
fn full_batches_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let network = network_with_norm();
    let examples = examples(&network, 140, true);
    let posterior = posterior(&network, &examples);
    let plan = Plan { seed: 1, batches: Batches::full(140), num_steps: 4, keep: Keep { burn_in: 0, every: 2 } };
    let mass = MassRule::Layerwise(LayerwiseMass::default());
    let rule = Langevin { mass, ..Langevin::new(Integrator::Sghmc, 1e-3, 0.9) };
    let (mut found, mut wanted) = (chains(&network, 2), chains(&network, 2));
    let (on_device, on_cpu) = (Remember::default(), Remember::default());
    engine(&device, &posterior, 2, 2).sample(&rule, &plan, &mut found, &on_device).unwrap();
    run_population(&posterior, &rule, &plan, &mut wanted, &on_cpu);
    assert_same_course("full batches", (&found, &on_device), (&wanted, &on_cpu), 1e-4);
}

/// Layers whose products warpgroups take, where a device has them; batches do not fill the tiles.
fn wide_network() -> Network {
    let conv = || Layer::Conv { filters: 32, kernel: 3, stride: 1, groups: 1 };
    let residual = Layer::Residual { body: vec![conv(), Layer::BATCH_NORM], shortcut: vec![] };
    let mut layers = vec![conv(), Layer::BATCH_NORM, Layer::Relu, residual, Layer::Relu];
    layers.extend([Layer::GlobalAvgPool, Layer::Dense { units: 3 }]);
    Network::new(Shape::image(8, 8, 1), layers).unwrap()
}

/// Chains that were stopped at different steps, in other groups and waves, end where they would have.
#[test]
fn groups_waves_and_stops_change_no_bit() {
    let Some(device) = device_for_tests() else { return };
    for (network, precision) in
        [(resnet(), Precision::Single), (resnet(), Precision::Half), (wide_network(), Precision::Half)]
    {
        let examples = examples(&network, NUM_IMAGES, true);
        let posterior = posterior(&network, &examples);
        let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
        let rule = Langevin { mass, ..rule(Integrator::Sghmc) };
        let engine = |group: usize, wave: usize| {
            GeneralEngine::new(device.clone(), &posterior, precision).unwrap().with_sizes(group, wave)
        };
        let mut whole = chains(&network, 3);
        engine(3, 3).sample(&rule, &plan(9, 1.0), &mut whole, &Silent).unwrap();
        let mut stopped = chains(&network, 3);
        engine(2, 2).sample(&rule, &plan(5, 1.0), &mut stopped[..1], &Silent).unwrap();
        engine(1, 3).sample(&rule, &plan(2, 1.0), &mut stopped[1..2], &Silent).unwrap();
        let mut one_by_one = stopped.clone();
        engine(3, 3).sample(&rule, &plan(9, 1.0), &mut stopped, &Silent).unwrap();
        engine(1, 1).sample(&rule, &plan(9, 1.0), &mut one_by_one, &Silent).unwrap();
        for ((whole, stopped), alone) in whole.iter().zip(&stopped).zip(&one_by_one) {
            assert_eq!(whole.state, stopped.state, "{precision:?}");
            assert_eq!(whole.state, alone.state, "{precision:?}");
            let (found, wanted) = (stopped.kinetic_all.mean().unwrap(), whole.kinetic_all.mean().unwrap());
            assert!((found - wanted).abs() < 1e-9 * wanted.abs().max(1e-9), "{found} {wanted}");
        }
    }
}

/// Stops chain 0 before its first step and chain 1 after its first steps.
struct StopTwo;

impl Observer for StopTwo {
    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        let stops = index == 0 || (index == 1 && steps > 0);
        if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn a_chain_that_is_told_to_stop_can_go_on_later() {
    let Some(device) = device_for_tests() else { return };
    let network = plain_network();
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let (engine, rule) = (engine(&device, &posterior, 3, 3), rule(Integrator::Baoa));
    let mut whole = chains(&network, 3);
    engine.sample(&rule, &plan(10, 0.0), &mut whole, &Silent).unwrap();
    let mut stopped = chains(&network, 3);
    engine.sample(&rule, &plan(10, 0.0), &mut stopped, &StopTwo).unwrap();
    assert_eq!([0, 1, 2].map(|index: usize| stopped[index].state.step), [0, 7, 10]);
    assert_eq!(stopped[0].state, chains(&network, 1)[0].state);
    assert!(stopped[1].divergence.is_none());
    engine.sample(&rule, &plan(10, 0.0), &mut stopped, &Silent).unwrap();
    assert!(stopped.iter().zip(&whole).all(|(stopped, whole)| stopped.state == whole.state));
}

/// Observers evaluate draws on the engine that shows them.
#[test]
fn draws_are_evaluated_while_chains_wait() {
    let Some(device) = device_for_tests() else { return };
    let network = plain_network();
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let engine = engine(&device, &posterior, 2, 2);
    let rule = rule(Integrator::Sghmc);
    let (mut watched, mut alone) = (chains(&network, 2), chains(&network, 2));
    let energies = Mutex::new(Vec::new());
    engine
        .sample(&rule, &plan(10, 0.0), &mut watched, &|_: usize, chain: &Chain| {
            let position = &chain.state.position[..];
            let found = engine.gradients(&[position], &[1.0], &[Rows::All]).unwrap().remove(0);
            let outputs = engine.outputs(&examples, &[chain.state.weights()]).unwrap().remove(0);
            energies.lock().unwrap().push((found.0, outputs.len()));
        })
        .unwrap();
    engine.sample(&rule, &plan(10, 0.0), &mut alone, &Silent).unwrap();
    assert_eq!(energies.into_inner().unwrap().len(), 4);
    assert!(watched.iter().zip(&alone).all(|(a, b)| a.state == b.state));
}

/// Draws that another thread evaluates in the middle of a run share its memory, and wait for it.
#[test]
fn a_run_and_evaluations_beside_it_change_no_bit_of_each_other() {
    let Some(device) = device_for_tests() else { return };
    let network = network_with_norm();
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let engine = engine(&device, &posterior, 2, 2);
    let (rule, plan) = (rule(Integrator::Sghmc), plan(40, 0.0));
    let chains = || chains(&network, 2);
    let mut alone = chains();
    engine.sample(&rule, &plan, &mut alone, &Silent).unwrap();
    let (position, rows) = (&alone[0].state.position[..], [0, 1, 2, 3, 4, 5]);
    let gradient = || engine.gradients(&[position], &[1.0], &[Rows::These(&rows)]).unwrap().remove(0).1;
    let outputs = || engine.outputs(&examples, &[alone[0].state.weights()]).unwrap().remove(0);
    let statistics = || engine.batch_statistics(&[position], &[vec![Rows::These(&rows)]]).unwrap().remove(0);
    let evaluations: [(&str, &dyn Fn() -> Vec<f32>); 3] =
        [("gradient", &gradient), ("outputs", &outputs), ("statistics", &statistics)];
    for (what, evaluate) in evaluations {
        let (wanted, mut beside) = (evaluate(), chains());
        std::thread::scope(|scope| {
            let run = scope.spawn(|| engine.sample(&rule, &plan, &mut beside, &Silent).unwrap());
            while !run.is_finished() {
                assert_eq!(evaluate(), wanted, "{what}");
            }
        });
        assert!(alone.iter().zip(&beside).all(|(a, b)| a.state == b.state), "a run beside {what}");
    }
}

#[test]
fn what_was_chosen_is_said() {
    let Some(device) = device_for_tests() else { return };
    let network = plain_network();
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let plan = plan(9, 0.0);
    let all = engine(&device, &posterior, 8, 8).residence_of(&plan, 5).unwrap();
    assert_eq!((all.wave, all.group), (5, 5));
    assert!(all.describe(5).starts_with("5 chains step together, 1 MiB each"), "{}", all.describe(5));
    let few = engine(&device, &posterior, 2, 2).residence_of(&plan, 5).unwrap();
    let text = few.describe(5);
    assert!(text.starts_with("3 waves of up to 2 chains, for more do not fit; 2 chains step together"), "{text}");
}

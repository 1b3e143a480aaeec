//! Chains of image networks that leave the finite numbers stop where those of the CPU do, alone and with what they had.

use crate::networks::{examples, normals, parameters, posterior};
use crate::support::device_for_tests;
use kelvin::network::{Layer, Network, Shape};
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ClipScope, Divergence, Integrator, JointAscent, Keep, Langevin, LayerwiseMass,
    MassRule, Plan, Silent, run_population,
};
use kelvin::temperature::{Schedule, Temperature};
use kelvin_cuda::{GeneralEngine, Precision};

const NUM_IMAGES: usize = 20;

fn network() -> Network {
    let layers =
        vec![Layer::Conv { filters: 2, kernel: 3, stride: 2, groups: 1 }, Layer::Relu, Layer::Dense { units: 3 }];
    Network::new(Shape::image(4, 4, 1), layers).unwrap()
}

fn chain(id: u32) -> Chain {
    let network = network();
    let mut chain = Chain::new(id, Temperature::BAYES, parameters(&network, id), &network.layout());
    chain.state.momentum = normals(network.layout().len(), 20 + u64::from(id));
    chain
}

/// States after steps 7 and 10 are kept.
fn plan(num_steps: u64) -> Plan {
    let batches = Batches::new(NUM_IMAGES, Some(6)).unwrap();
    Plan { seed: 3, batches, num_steps, keep: Keep { burn_in: 4, every: 3 } }
}

/// How chains move.
enum Rule {
    Sample(Langevin),
    Search(JointAscent),
}

/// Runs `leaving` between two chains as they are on both engines, and returns it as the device left it; `None` without one.
fn as_on_the_cpu(leaving: Chain, rule: &Rule, num_steps: u64) -> Option<Chain> {
    let (network, plan) = (network(), plan(num_steps));
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let engine = GeneralEngine::new(device_for_tests()?, &posterior, Precision::Single).unwrap();
    let mut found = vec![chain(0), leaving, chain(2)];
    let mut wanted = found.clone();
    match rule {
        Rule::Sample(rule) => {
            engine.sample(rule, &plan, &mut found, &Silent).unwrap();
            run_population(&posterior, rule, &plan, &mut wanted, &Silent);
        }
        Rule::Search(rule) => {
            engine.search(rule, &plan, &mut found, &Silent).unwrap();
            run_population(&posterior, rule, &plan, &mut wanted, &Silent);
        }
    }
    assert!(wanted[1].divergence.is_some(), "the case is worth testing");
    let assert_near = |found: &[f64], wanted: &[f64], what: &str| {
        for (a, b) in found.iter().zip(wanted) {
            assert!((a - b).abs() <= 1e-3 * b.abs(), "{what}: {a}, not {b}");
        }
    };
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!((found.divergence, found.state.step), (wanted.divergence, wanted.state.step));
        assert_near(&found.state.mass, &wanted.state.mass, "mass");
        let (found, wanted) = (&found.kinetic_all, &wanted.kinetic_all);
        assert_eq!(found.num_readings(), wanted.num_readings());
        assert_near(found.tensor_means(), wanted.tensor_means(), "kinetic");
    }
    assert_eq!([0, 2].map(|other| found[other].state.step), [num_steps; 2]);
    Some(found.swap_remove(1))
}

#[test]
fn a_chain_that_leaves_the_numbers_stops_alone() {
    let rule = Rule::Sample(Langevin { clip_norm: 1.0, ..Langevin::new(Integrator::Sghmc, 1e4, 0.9) });
    let (mut too_fast, mut nowhere) = (chain(1), chain(1));
    too_fast.state.momentum[0] = 3e38;
    nowhere.state.position[3] = f32::NAN;
    for leaving in [too_fast, nowhere] {
        let Some(found) = as_on_the_cpu(leaving, &rule, 9) else { return };
        assert_eq!(found.divergence, Some(Divergence { step: 0 }));
    }
}

/// Momenta and gradients are numbers, but a tiny mass throws the position out of them, in a step whose state is seen.
#[test]
fn a_step_that_only_its_state_betrays_does_not_count() {
    // The state after the step is kept, or is the last.
    for (step, num_steps) in [(6, 9), (7, 8)] {
        // Nothing moves before.
        let step_scale = Schedule::Ramp { start: step - 1, end: step, value: 1.0 };
        let rule = Langevin { step_scale, ..Langevin::new(Integrator::Sghmc, 1e-3, 0.9) };
        let mut leaving = chain(1);
        leaving.state.mass[0] = 1e-60;
        let Some(found) = as_on_the_cpu(leaving, &Rule::Sample(rule), num_steps) else { return };
        assert_eq!(found.divergence, Some(Divergence { step }));
        // Steps after the burn-in that were done.
        assert_eq!(found.kinetic_all.num_readings(), step - 4);
    }
}

fn with_masses() -> Rule {
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
    Rule::Sample(Langevin { mass, ..Langevin::new(Integrator::Sghmc, 1e-3, 0.9) })
}

#[test]
fn masses_that_are_no_numbers_are_not_taken() {
    let mut leaving = chain(1);
    leaving.state.position[0] = f32::NAN;
    let Some(found) = as_on_the_cpu(leaving, &with_masses(), 9) else { return };
    assert_eq!(found.state.mass, [1.0; 4]);
}

/// The square of a momentum overflows in the first step; an epoch later, in the same round, gradients are still numbers.
#[test]
fn a_chain_that_has_left_keeps_its_masses() {
    let mut leaving = chain(1);
    leaving.state.momentum[0] = 3e19;
    let Some(found) = as_on_the_cpu(leaving, &with_masses(), 9) else { return };
    assert!(found.state.is_finite(), "else an estimate is refused anyway");
}

#[test]
fn a_search_stops_where_log_beta_leaves() {
    let rule = JointAscent {
        objective: AscentObjective::default(),
        learning_rate: Schedule::Constant { value: 1e-3 },
        momentum: 0.9,
        weight_decay: 0.1,
        clip_norm: 20.0,
        clip_scope: ClipScope::All,
    };
    let mut leaving = chain(1);
    leaving.state.log_beta_velocity = f64::INFINITY;
    let Some(found) = as_on_the_cpu(leaving, &Rule::Search(rule), 9) else { return };
    assert_eq!(found.divergence, Some(Divergence { step: 0 }));
}

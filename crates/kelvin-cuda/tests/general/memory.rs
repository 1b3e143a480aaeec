//! What the engine of images asks of a device: it keeps what serves again, and gives all back, whatever fails.

use std::sync::Arc;

use crate::networks::{examples, parameters, posterior};
use crate::support::{FAULT, WatchedDevice, device_for_tests};
use kelvin::data::Examples;
use kelvin::network::{Layer, Network, Rows, Shape, Weights};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Observer, Plan, Silent};
use kelvin::temperature::Temperature;
use kelvin_cuda::{DeviceError, GeneralEngine, Precision};

const NUM_IMAGES: usize = 8;

fn network() -> Network {
    let layers =
        vec![Layer::Conv { filters: 2, kernel: 3, stride: 2, groups: 1 }, Layer::Relu, Layer::Dense { units: 3 }];
    Network::new(Shape::image(4, 4, 1), layers).unwrap()
}

fn chains(network: &Network, count: u32) -> Vec<Chain> {
    let temperature = Temperature::new(1.0).unwrap();
    (0..count).map(|id| Chain::new(id, temperature, parameters(network, id), &network.layout())).collect()
}

fn plan(num_steps: u64) -> Plan {
    let batches = Batches::new(NUM_IMAGES, Some(4)).unwrap();
    Plan { seed: 3, batches, num_steps, keep: Keep { burn_in: 0, every: 1 } }
}

/// An engine on a watched device.
struct Watched {
    device: Arc<WatchedDevice>,
    network: Network,
    examples: Examples,
    engine: GeneralEngine,
}

fn watched() -> Option<Watched> {
    let device = WatchedDevice::new(device_for_tests()?);
    let network = network();
    let examples = examples(&network, NUM_IMAGES, true);
    let engine = GeneralEngine::new(device.clone(), &posterior(&network, &examples), Precision::Single).unwrap();
    Some(Watched { device, network, examples, engine })
}

/// Evaluates so many draws over all rows.
fn evaluate(engine: &GeneralEngine, network: &Network, num_draws: u32) {
    let positions: Vec<Vec<f32>> = (0..num_draws).map(|id| parameters(network, id)).collect();
    let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
    engine.gradients(&slices, &vec![1.0; slices.len()], &[Rows::All]).unwrap();
}

/// A use of an engine.
type Use<'a> = &'a dyn Fn(&GeneralEngine) -> Result<(), DeviceError>;

/// Every call of a device fails once, in runs and evaluations that record more than one sequence.
#[test]
fn what_fails_leaves_nothing_behind() {
    let Some(Watched { device, network, mut engine, .. }) = watched() else { return };
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 1, ..LayerwiseMass::default() });
    let rule = Langevin { mass, ..Langevin::new(Integrator::Sghmc, 1e-3, 0.9) };
    let sample = |engine: &GeneralEngine| engine.sample(&rule, &plan(1), &mut chains(&network, 3), &Silent);
    let position = parameters(&network, 0);
    let rows: Vec<u32> = (0..NUM_IMAGES as u32).collect();
    let evaluate = |engine: &GeneralEngine| {
        let batches: Vec<Rows<'_>> = rows.chunks(2).map(Rows::These).collect();
        engine.gradients(&[&position], &[1.0], &batches).map(drop)
    };
    let runs: [(&str, Use<'_>); 2] = [("sampling", &sample), ("evaluating", &evaluate)];
    for (what, run) in runs {
        let mut num_calls = 0;
        device.made();
        loop {
            // Without the memory of the run before.
            engine = engine.with_sizes(2, 3);
            device.fail_after(num_calls);
            let result = run(&engine);
            assert_eq!(device.recordings_held(), 0, "{what}: recordings that are left where call {num_calls} fails");
            if device.cancel_failure() {
                result.unwrap();
                break;
            }
            let error = result.expect_err("a fault must be told").to_string();
            assert!(error.contains(FAULT), "{what}: {error}");
            num_calls += 1;
        }
        assert!(device.made().1 > 0, "{what}: nothing was recorded in {num_calls} calls");
    }
    drop(engine);
    assert_eq!(device.bytes_held(), 0);
}

/// Runs of few chains and evaluations of many draws take turns, within a run as well; each finds its memory again.
#[test]
fn runs_and_evaluations_find_their_memory_again() {
    let Some(Watched { device, network, examples, engine }) = watched() else { return };
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let positions: Vec<Vec<f32>> = (0..10).map(|id| parameters(&network, id)).collect();
    let evaluate = || {
        let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
        engine.gradients(&slices, &[1.0; 10], &[Rows::All]).unwrap();
        let weights = slices.iter().map(|parameters| Weights { parameters, statistics: &[] });
        engine.outputs(&examples, &weights.collect::<Vec<_>>()).unwrap();
    };
    let sample = |observer: &dyn Observer| {
        let mut chains = chains(&network, 3);
        engine.sample(&rule, &plan(2), &mut chains, observer).unwrap();
        chains
    };
    let engine_alone = device.bytes_held();
    device.made();
    let alone = sample(&Silent);
    let (first_run, for_run) = (device.made(), device.bytes_held() - engine_alone);
    let watched = sample(&|_: usize, _: &Chain| evaluate());
    assert!(watched.iter().zip(&alone).all(|(a, b)| a.state == b.state));
    let held = device.bytes_held();
    assert!(held > engine_alone + for_run, "ten draws take more than three chains");
    for _ in 0..2 {
        device.made();
        sample(&Silent);
        assert_eq!(
            (device.made(), device.bytes_held()),
            ((first_run.0 - for_run, 1), held),
            "a run makes its wave alone"
        );
        evaluate();
        assert_eq!(device.bytes_held(), held);
    }
}

/// What is kept from before and serves again is not free.
#[test]
fn waves_fit_beside_memory_that_is_kept() {
    let Some(Watched { device, network, engine, .. }) = watched() else { return };
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let (begun, full) = (device.bytes_held(), Plan { batches: Batches::full(NUM_IMAGES), ..plan(1) });
    engine.sample(&rule, &full, &mut chains(&network, 16), &Silent).unwrap();
    let kept = device.bytes_held() - begun;
    let chain_bytes = engine.residence_of(&plan(1), 1).unwrap().chain_bytes;
    device.leave_free(4 * chain_bytes);
    assert!(kept > chain_bytes, "else there is nothing to see");
    let chosen = engine.residence_of(&plan(1), 16).unwrap();
    assert!(chosen.wave < 4, "{chosen:?}");
    let mut sampled = chains(&network, 16);
    engine.sample(&rule, &plan(1), &mut sampled, &Silent).unwrap();
    assert!(sampled.iter().all(|chain| chain.state.step == 1));
}

/// Two memories are kept: of those that a third finds too small the largest stays.
#[test]
fn the_smallest_memory_makes_room() {
    let Some(Watched { device, network, examples, .. }) = watched() else { return };
    let posterior = posterior(&network, &examples);
    let held_after = |evaluations: &[u32]| {
        let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Single).unwrap();
        let begun = device.bytes_held();
        evaluations.iter().for_each(|&num_draws| evaluate(&engine, &network, num_draws));
        device.bytes_held() - begun
    };
    let [few, many, more] = [4, 16, 18].map(|num_draws| held_after(&[num_draws]));
    assert!(few < many && many < more, "{few} {many} {more}");
    assert_eq!(held_after(&[16, 4]), many, "what serves is used");
    assert_eq!(held_after(&[4, 16]), few + many);
    assert_eq!(held_after(&[4, 16, 18]), many + more);
}

/// All draws would fit together in the stead of a run's memory, but the run still uses it.
#[test]
fn evaluations_within_a_run_fit_beside_its_memory() {
    let Some(Watched { device, network, engine, .. }) = watched() else { return };
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let begun = device.bytes_held();
    engine.sample(&rule, &plan(1), &mut chains(&network, 16), &Silent).unwrap();
    let of_lane = (device.bytes_held() - begun) / 2;
    let watch = |index: usize, _: &Chain| {
        if index == 0 {
            device.leave_free(of_lane * 5 / 4);
            evaluate(&engine, &network, 16);
        }
    };
    let mut sampled = chains(&network, 16);
    engine.sample(&rule, &plan(1), &mut sampled, &watch).unwrap();
    assert!(sampled.iter().all(|chain| chain.state.step == 1));
}

/// Outputs add nothing up, so that passes may have any size: that of the memory with the most images that is there.
#[test]
fn outputs_are_found_in_the_memory_that_is_kept() {
    let Some(Watched { device, network, examples, engine }) = watched() else { return };
    let positions = [0, 1].map(|id| parameters(&network, id));
    let weights = positions.each_ref().map(|parameters| Weights { parameters, statistics: &[] });
    let found = |engine: &GeneralEngine| {
        device.launched();
        let outputs = engine.outputs(&examples, &weights).unwrap();
        (outputs, device.launched())
    };
    let fresh = GeneralEngine::new(device.clone(), &posterior(&network, &examples), Precision::Single).unwrap();
    let (wanted, of_one_pass) = found(&fresh);
    drop(fresh);

    // Of half of the rows.
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    engine.sample(&rule, &plan(1), &mut chains(&network, 6), &Silent).unwrap();
    let held = device.bytes_held();
    assert_eq!(found(&engine), (wanted.clone(), 2 * of_one_pass));
    assert_eq!(device.bytes_held(), held);

    // Of all of them.
    evaluate(&engine, &network, 2);
    assert_eq!(found(&engine), (wanted, of_one_pass));
}

#[test]
fn a_tenth_of_the_memory_is_left_to_others() {
    let Some(Watched { device, network, engine, .. }) = watched() else { return };
    let chain_bytes = engine.residence_of(&plan(1), 1).unwrap().chain_bytes;
    let free = 300 * chain_bytes;
    device.leave_free(free);
    let chosen = engine.residence_of(&plan(1), 1000).unwrap();
    let (taken, most) = (chosen.wave * chain_bytes + chosen.group_bytes, free / 10 * 9);
    assert!(taken <= most && taken + chain_bytes > most, "{taken} bytes of {most}");

    // Draws are evaluated beside a run, so that a group takes more than the memory that stays.
    let (rule, begun) = (Langevin::new(Integrator::Sghmc, 1e-3, 0.9), device.bytes_held());
    engine.sample(&rule, &plan(1), &mut chains(&network, chosen.group as u32), &Silent).unwrap();
    let positions = chosen.group * network.layout().len() * size_of::<f32>();
    assert!(chosen.group_bytes >= device.bytes_held() - begun + positions, "{chosen:?}");
}

#[test]
fn passes_have_512_images_or_more_of_a_small_network() {
    let Some(device) = device_for_tests() else { return };
    let conv = Layer::Conv { filters: 4, kernel: 3, stride: 1, groups: 1 };
    let large = Network::new(Shape::image(16, 16, 1), vec![conv, Layer::Relu, Layer::Dense { units: 3 }]).unwrap();
    for (network, most) in [(network(), 600), (large, 512)] {
        let examples = examples(&network, 600, true);
        let posterior = posterior(&network, &examples);
        let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Single).unwrap();
        for (batch_size, num_images) in [(None, most), (Some(590), most.min(590)), (Some(500), 500)] {
            let plan = Plan { batches: Batches::new(600, batch_size).unwrap(), ..plan(1) };
            assert_eq!(engine.residence_of(&plan, 2), engine.residence(2, num_images), "{batch_size:?}");
        }
    }
}

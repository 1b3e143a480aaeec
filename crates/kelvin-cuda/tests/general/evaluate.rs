//! Outputs, gradients and statistics on the device are those of the CPU, for every operation.

use crate::networks::{examples, networks, parameters, posterior, relative_error, statistics};
use crate::support::device_for_tests;
use kelvin::data::{Augmentation, Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Mode, Network, Rows, Shape, Weights};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, Silent};
use kelvin::temperature::Temperature;
use kelvin_cuda::{GeneralEngine, Precision};

/// Compares two gradients tensor by tensor, against a share of the norm of all where a tensor has (nearly) none.
fn assert_gradient(what: &str, network: &Network, found: &[f32], wanted: &[f32], tolerance: f64, share: f64) {
    let norm = |values: &[f32]| values.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
    for tensor in network.layout().tensors() {
        let (found, of_tensor) = (&found[tensor.range.clone()], &wanted[tensor.range.clone()]);
        let difference: Vec<f32> = found.iter().zip(of_tensor).map(|(a, b)| a - b).collect();
        let error = norm(&difference) / norm(of_tensor).max(share * norm(wanted));
        assert!(error < tolerance, "{what}: {} off by {error:e}", tensor.name);
    }
}

#[test]
fn gradients_of_every_operation_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for (name, network) in networks() {
        let examples = examples(&network, 40, name.contains("batch"));
        let posterior = posterior(&network, &examples);
        let statistics = statistics(&network);
        let positions: Vec<Vec<f32>> = (0..3).map(|chain| parameters(&network, chain)).collect();
        let likelihood_weights = [1.0, 2.5, 0.5];
        let listed: Vec<u32> = (0..40).map(|row| row * 7 % 40).collect();
        let key = NoiseKey { seed: 1, purpose: Purpose::Augmentation, chain: 2, step: 3 };
        let augmentation = Augmentation::new(0.7).unwrap();
        for augmented in [false, true] {
            // Rounding to bf16 switches a ReLU here and there: more images, and small tensors are judged by the whole.
            let cases = [(Precision::Single, 7, 1e-5, 0.1), (Precision::Half, 40, 1e-1, 1.0)];
            for (precision, num_rows, tolerance, share) in cases {
                let rows = &listed[..num_rows];
                let rows = if augmented { Rows::Augmented { rows, augmentation, key } } else { Rows::These(rows) };
                let engine = GeneralEngine::new(device.clone(), &posterior, precision).unwrap().with_sizes(2, 2);
                let weights: Vec<Weights<'_>> =
                    positions.iter().map(|parameters| Weights { parameters, statistics: &statistics }).collect();
                let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
                for inference in [false, true] {
                    let (mode, found) = if inference {
                        let found = engine.gradients_with_statistics(&weights, &likelihood_weights, &[rows]);
                        (Mode::Inference(&statistics), found.unwrap())
                    } else {
                        (Mode::Training, engine.gradients(&slices, &likelihood_weights, &[rows]).unwrap())
                    };
                    for ((position, weight), (sum, found)) in positions.iter().zip(likelihood_weights).zip(&found) {
                        let mut wanted = vec![0.0; posterior.dim()];
                        let batch = Batch { rows, likelihood_weight: weight, mode };
                        let energy = posterior.evaluate(position, batch, &mut wanted, &mut posterior.workspace());
                        let what = format!("{name}, {precision:?}, inference {inference}");
                        assert_gradient(&what, &network, found, &wanted, tolerance, share);
                        let found = -posterior.log_prior(position) - weight * sum;
                        assert!((found / energy - 1.0).abs() < tolerance, "{what}: energy {found}, not {energy}");
                    }
                }
            }
        }
    }
}

#[test]
fn outputs_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for (name, network) in networks() {
        let (train, held_out) = (examples(&network, 5, true), examples(&network, 9, name.contains("pools")));
        let posterior = posterior(&network, &train);
        let statistics = statistics(&network);
        let positions: Vec<Vec<f32>> = (0..3).map(|chain| parameters(&network, chain)).collect();
        let weights: Vec<Weights<'_>> =
            positions.iter().map(|parameters| Weights { parameters, statistics: &statistics }).collect();
        for (precision, tolerance) in [(Precision::Single, 1e-5), (Precision::Half, 2e-2)] {
            let engine = GeneralEngine::new(device.clone(), &posterior, precision).unwrap().with_sizes(2, 2);
            let found = engine.outputs(&held_out, &weights).unwrap();
            let evaluator = network.general_evaluator();
            let inputs = evaluator.prepare(&held_out.inputs);
            for (&weights, found) in weights.iter().zip(&found) {
                let mut wanted = vec![0.0; 9 * network.num_outputs()];
                evaluator.outputs(weights, &inputs, Rows::All, &mut wanted, &mut evaluator.workspace());
                let error = relative_error(found, &wanted);
                assert!(error < tolerance, "{name}, {precision:?}: outputs off by {error:e}");
            }
        }
    }
}

/// Batches after batches, all rows (which batch norm sees as batches of 128), and none at all.
#[test]
fn gradients_over_several_batches_add_up() {
    let Some(device) = device_for_tests() else { return };
    let layers = vec![
        Layer::Conv { filters: 3, kernel: 3, stride: 2, groups: 1 },
        Layer::BATCH_NORM,
        Layer::Relu,
        Layer::Dense { units: 3 },
    ];
    let network = Network::new(Shape::image(4, 4, 1), layers).unwrap();
    let examples = examples(&network, 150, false);
    let posterior = posterior(&network, &examples);
    let engine = GeneralEngine::new(device, &posterior, Precision::Single).unwrap();
    let position = parameters(&network, 0);
    let rows: Vec<u32> = (0..150).collect();
    let batches: Vec<Rows<'_>> = rows.chunks(11).map(Rows::These).collect();
    for batches in [&batches[..], &[Rows::All], &[]] {
        let found = engine.gradients(&[&position], &[1.5], batches).unwrap().remove(0);
        let mut wanted = vec![0.0; posterior.dim()];
        let work = &mut posterior.workspace();
        let sum = posterior.gradient_over_batches(&position, batches.iter().copied(), 1.5, &mut wanted, work);
        assert!((found.0 - sum).abs() <= 1e-6 * sum.abs(), "{} instead of {sum}", found.0);
        let error = relative_error(&found.1, &wanted);
        assert!(error < 1e-5, "{} batches: off by {error:e}", batches.len());
    }
}

/// Rows are cut into passes in one way, whatever memory there is from before.
#[test]
fn what_was_done_before_changes_no_bit_of_a_gradient() {
    let Some(device) = device_for_tests() else { return };
    let layers =
        vec![Layer::Conv { filters: 3, kernel: 3, stride: 2, groups: 1 }, Layer::Relu, Layer::Dense { units: 3 }];
    let network = Network::new(Shape::image(4, 4, 1), layers).unwrap();
    let examples = examples(&network, 300, false);
    let posterior = posterior(&network, &examples);
    let position = parameters(&network, 0);
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let after_batches_of = |sizes: &[usize]| {
        let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Single).unwrap();
        for &size in sizes {
            let batches = Batches::new(300, Some(size)).unwrap();
            let plan = Plan { seed: 1, batches, num_steps: 1, keep: Keep { burn_in: 0, every: 1 } };
            let chain = Chain::new(0, Temperature::BAYES, position.clone(), &network.layout());
            engine.sample(&rule, &plan, &mut [chain], &Silent).unwrap();
        }
        engine.gradients(&[&position], &[1.0], &[Rows::All]).unwrap()
    };
    let fresh = after_batches_of(&[]);
    assert_eq!(after_batches_of(&[10]), fresh);
    assert_eq!(after_batches_of(&[10, 290]), fresh);
}

#[test]
fn a_gaussian_likelihood_is_that_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let layers =
        vec![Layer::Conv { filters: 2, kernel: 3, stride: 1, groups: 1 }, Layer::Relu, Layer::Dense { units: 1 }];
    let network = Network::new(Shape::image(3, 4, 1), layers).unwrap();
    let Examples { inputs, num_features, .. } = examples(&network, 300, false);
    let examples = Examples { inputs, num_features, targets: Targets::Real(crate::networks::normals(300, 7)) };
    let prior = IsotropicGaussian::new(0.3).unwrap();
    let likelihood = Likelihood::Gaussian { noise_variance: 0.2 };
    let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
    let engine = GeneralEngine::new(device, &posterior, Precision::Single).unwrap();
    let position = parameters(&network, 0);
    let (sum, found) = engine.gradients(&[&position], &[1.0], &[Rows::All]).unwrap().remove(0);
    let mut wanted = vec![0.0; posterior.dim()];
    let energy = posterior.evaluate(&position, Batch::ALL, &mut wanted, &mut posterior.workspace());
    assert!(relative_error(&found, &wanted) < 1e-5);
    assert!(((-posterior.log_prior(&position) - sum) / energy - 1.0).abs() < 1e-6);
}

/// The plain average of the batches' means and variances, each chain with batches of its own.
#[test]
fn statistics_are_averages_over_batches() {
    let Some(device) = device_for_tests() else { return };
    let network = crate::networks::resnet();
    let examples = examples(&network, 24, true);
    let posterior = posterior(&network, &examples);
    let engine = GeneralEngine::new(device, &posterior, Precision::Single).unwrap().with_sizes(2, 2);
    let positions: Vec<Vec<f32>> = (0..3).map(|chain| parameters(&network, chain)).collect();
    let rows: Vec<Vec<u32>> = (0..3).map(|chain| (0..24).map(|row| (row * 5 + chain) % 24).collect()).collect();
    let batches: Vec<Vec<Rows<'_>>> = rows.iter().map(|rows| rows.chunks(8).map(Rows::These).collect()).collect();
    let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
    let found = engine.batch_statistics(&slices, &batches).unwrap();
    for ((position, batches), found) in positions.iter().zip(&batches).zip(&found) {
        let mut sums = vec![0.0; found.len()];
        let (mut gradient, mut work) = (vec![0.0; posterior.dim()], posterior.workspace());
        for &rows in batches {
            let batch = Batch { rows, likelihood_weight: 1.0, mode: Mode::Training };
            posterior.evaluate(position, batch, &mut gradient, &mut work);
            let mut moved = vec![0.0; found.len()];
            posterior.update_statistics(&work, &mut moved);
            // From zero, a step of momentum 0.99 goes a hundredth of the way; that of the library's ResNets a tenth.
            sums.iter_mut().zip(&moved).for_each(|(sum, &moved)| *sum += moved);
        }
        let share = 1.0 - network.program().norms[0].momentum as f32;
        let wanted: Vec<f32> = sums.iter().map(|sum| sum / share / batches.len() as f32).collect();
        assert!(relative_error(found, &wanted) < 1e-5);
    }
}

#[test]
fn an_engine_says_what_it_chose() {
    let Some(device) = device_for_tests() else { return };
    let network = crate::networks::resnet();
    let examples = examples(&network, 12, true);
    let posterior = posterior(&network, &examples);
    let engine = GeneralEngine::new(device, &posterior, Precision::Half).unwrap();
    let chosen = engine.residence(3, 8).unwrap();
    assert_eq!((chosen.group, chosen.wave), (3, 3));
    // A chain's position and momentum in f32, its copy in bf16, and what the device knows of it.
    assert!((10 * posterior.dim()..14 * posterior.dim()).contains(&(chosen.chain_bytes - 512 * 24)));
    let chosen = engine.with_sizes(4, 6).residence(10, 8).unwrap();
    assert_eq!((chosen.group, chosen.wave), (4, 6));
}

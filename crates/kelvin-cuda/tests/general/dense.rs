//! Dense networks of any widths: outputs, gradients and chains on the device are those of the CPU, in both precisions.

use kelvin::network::{Mode, Network, Rows, Weights};
use kelvin::potential::{Batch, Potential};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, Silent, run_population};
use kelvin::temperature::Temperature;
use kelvin_cuda::{GeneralEngine, Precision};

use crate::networks::{examples, parameters, posterior, relative_error};
use crate::support::device_for_tests;

/// Widths that are multiples of nothing and of all that kernels copy at a time; the first and last layers as products and not.
fn dense_networks() -> Vec<Network> {
    let widths: [(usize, &[usize], usize); 5] =
        [(13, &[37, 50], 100), (8, &[64, 64], 3), (30, &[128, 100], 40), (200, &[70], 4), (5, &[9, 36, 35, 66], 3)];
    widths.map(|(inputs, hidden, outputs)| Network::dense(inputs, hidden, outputs).unwrap()).to_vec()
}

#[test]
fn gradients_and_outputs_of_dense_networks_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for (number, network) in dense_networks().iter().enumerate() {
        let examples = examples(network, 90, number % 2 == 0);
        let posterior = posterior(network, &examples);
        let positions: Vec<Vec<f32>> = (0..3).map(|chain| parameters(network, chain)).collect();
        let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
        let listed: Vec<u32> = (0..70).map(|row| row * 7 % 90).collect();
        let rows = Rows::These(&listed);
        for (precision, tolerance) in [(Precision::Single, 3e-6), (Precision::Half, 6e-2)] {
            let engine = GeneralEngine::new(device.clone(), &posterior, precision).unwrap().with_sizes(2, 2);
            let found = engine.gradients(&slices, &[1.0, 2.5, 0.5], &[rows]).unwrap();
            let weights: Vec<Weights<'_>> =
                slices.iter().map(|parameters| Weights { parameters, statistics: &[] }).collect();
            let outputs = engine.outputs(&examples, &weights).unwrap();
            for ((chain, weight), (_, found)) in [1.0, 2.5, 0.5].into_iter().enumerate().zip(&found) {
                let mut wanted = vec![0.0; posterior.dim()];
                let batch = Batch { rows, likelihood_weight: weight, mode: Mode::Training };
                posterior.evaluate(slices[chain], batch, &mut wanted, &mut posterior.workspace());
                let evaluator = posterior.evaluator();
                let inputs = evaluator.prepare(&examples.inputs);
                let mut expected = vec![0.0; 90 * network.num_outputs()];
                evaluator.outputs(weights[chain], &inputs, Rows::All, &mut expected, &mut evaluator.workspace());
                let error = [relative_error(found, &wanted), relative_error(&outputs[chain], &expected)];
                let what = format!("{}, {precision:?}", network.describe());
                eprintln!("{what}: gradient off by {:.1e}, outputs by {:.1e}", error[0], error[1]);
                assert!(error.iter().all(|error| *error < tolerance), "{what}: gradient and outputs off by {error:?}");
            }
        }
    }
}

/// Batches that a weight gradient is summed over in parts, the last of them short, and several passes.
#[test]
fn chains_of_dense_networks_move_as_on_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for (network, num_rows, batch_size) in
        [(Network::dense(8, &[64, 64], 3).unwrap(), 290, None), (Network::dense(6, &[40], 35).unwrap(), 300, Some(261))]
    {
        let examples = examples(&network, num_rows, false);
        let posterior = posterior(&network, &examples);
        let rule = Langevin::new(Integrator::Sghmc, 1e-4, 0.9);
        let batches = Batches::new(num_rows, batch_size).unwrap();
        let plan = Plan { seed: 3, batches, num_steps: 4, keep: Keep { burn_in: 1, every: 1 } };
        let chains = || -> Vec<Chain> {
            let chain = |id| Chain::new(id, Temperature::BAYES, parameters(&network, id), &network.layout());
            (0..3).map(chain).collect()
        };
        let (mut found, mut wanted) = (chains(), chains());
        run_population(&posterior, &rule, &plan, &mut wanted, &Silent);
        let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Single).unwrap().with_sizes(2, 3);
        engine.sample(&rule, &plan, &mut found, &Silent).unwrap();
        for (found, wanted) in found.iter().zip(&wanted) {
            let error = relative_error(&found.state.momentum, &wanted.state.momentum);
            assert!(error < 1e-5, "{}: momenta off by {error:e}", network.describe());
        }
    }
}

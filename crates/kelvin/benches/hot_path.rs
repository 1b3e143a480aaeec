//! The parts of a chain-step, timed one by one: `cargo bench -p kelvin`; the fastest column is the one to compare.

use divan::{Bencher, black_box};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Mode, Network, OutputGradient, Rows};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Permutation, Purpose};
use kelvin::sampler::{ChainState, Integrator};

fn main() {
    divan::main();
}

const KEY: NoiseKey = NoiseKey { seed: 1, purpose: Purpose::StepNoise, chain: 0, step: 0 };

/// (inputs, rows, batch) of the paper's tables.
const SHAPES: [(usize, usize, usize); 2] = [(8, 824, 824), (14, 9547, 128)];

fn examples(num_features: usize, rows: usize) -> Examples {
    let mut inputs = vec![0.0; num_features * rows];
    KEY.fill_normal(&mut inputs);
    let targets = inputs.chunks_exact(num_features).map(|row| row[0] + 0.5 * row[1].abs()).collect();
    Examples { inputs: inputs.into(), num_features, targets: Targets::Real(targets) }
}

fn gradient(bencher: Bencher<'_, '_>, shape: (usize, usize, usize), general: bool) {
    let (inputs, rows, batch) = shape;
    let network = Network::dense(inputs, &[64], 1).expect("a network");
    let examples = examples(inputs, rows);
    let evaluator = if general { network.general_evaluator() } else { network.evaluator() };
    let (likelihood, prior) =
        (Likelihood::Gaussian { noise_variance: 0.1 }, IsotropicGaussian::new(0.1).expect("a prior"));
    let posterior = Posterior::with_evaluator(&network, evaluator, likelihood, prior, &examples).expect("a posterior");
    let position = network.initial_parameters(0, 0);
    let picked: Vec<u32> = (0..batch as u32).map(|i| i * 73 % rows as u32).collect();
    let which = if batch == rows { Rows::All } else { Rows::These(&picked) };
    let (mut slope, mut work) = (vec![0.0; position.len()], posterior.workspace());
    let batch = Batch { rows: which, likelihood_weight: rows as f64 / batch as f64, mode: Mode::Training };
    bencher.bench_local(|| posterior.evaluate(black_box(&position), batch, &mut slope, &mut work));
}

#[divan::bench(args = SHAPES)]
fn gradient_fused(bencher: Bencher<'_, '_>, shape: (usize, usize, usize)) {
    gradient(bencher, shape, false);
}

#[divan::bench(args = SHAPES)]
fn gradient_general(bencher: Bencher<'_, '_>, shape: (usize, usize, usize)) {
    gradient(bencher, shape, true);
}

/// Leaves the outputs as their own gradient, so that only the network is timed.
struct HalfSquares;

impl OutputGradient for HalfSquares {
    fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
}

/// A whole pass of 8-64-`outputs` over 824 rows, without a likelihood.
fn network_gradient(bencher: Bencher<'_, '_>, outputs: usize, general: bool) {
    let network = Network::dense(8, &[64], outputs).expect("a network");
    let evaluator = if general { network.general_evaluator() } else { network.evaluator() };
    let (inputs, mut work) = (evaluator.prepare(&examples(8, 824).inputs), evaluator.workspace());
    let position = network.initial_parameters(0, 0);
    let mut slope = vec![0.0; position.len()];
    bencher.bench_local(|| {
        evaluator.gradient(
            black_box(&position),
            &inputs,
            Rows::All,
            Mode::Training,
            &mut HalfSquares,
            &mut slope,
            &mut work,
        );
    });
}

#[divan::bench(args = [1, 3, 10])]
fn network_fused(bencher: Bencher<'_, '_>, outputs: usize) {
    network_gradient(bencher, outputs, false);
}

#[divan::bench(args = [1, 3, 10])]
fn network_general(bencher: Bencher<'_, '_>, outputs: usize) {
    network_gradient(bencher, outputs, true);
}

#[divan::bench(args = [641, 1025])]
fn noise(bencher: Bencher<'_, '_>, len: usize) {
    let mut out = vec![0.0; len];
    bencher.bench_local(|| black_box(KEY).fill_normal(&mut out));
}

#[divan::bench]
fn rows_of_a_batch(bencher: Bencher<'_, '_>) {
    let order = Permutation::new(1, Purpose::BatchOrder, 0, 0, 9547);
    let mut rows = vec![0; 128];
    bencher.bench_local(|| order.fill(black_box(256), &mut rows));
}

#[divan::bench(args = [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld])]
fn update(bencher: Bencher<'_, '_>, integrator: Integrator) {
    let network = Network::dense(14, &[64], 1).expect("a network");
    let layout = network.layout();
    let mut state = ChainState::at_rest(network.initial_parameters(0, 0), &layout);
    let (gradient, mut noise) = (vec![0.01; layout.len()], vec![0.0; layout.len()]);
    KEY.fill_normal(&mut noise);
    let at = integrator.conditions(1e-4, 0.98, 9547, 1.0, 1.0);
    let mut kinetic = vec![0.0; layout.tensors().len()];
    bencher.bench_local(|| integrator.advance(&at, 1.0, &layout, &gradient, &noise, &mut state, &mut kinetic));
}

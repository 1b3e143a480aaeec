//! A prior whose scales are learned, integrated out: its posterior by quadrature.

use std::sync::Mutex;

use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::{LearnedScales, ScaleGroups};
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::Temperature;

use crate::known_posterior::{Reading, check_with_twin};

const NUM_ROWS: usize = 12;
const NOISE_VARIANCE: f64 = 2.0;
const PRIOR_VARIANCE: f64 = 0.3;

/// Few rows of y = 0.8 x₁ − ½ x₂ + noise: the prior has a say.
fn rows() -> Examples {
    let mut numbers = vec![0.0; NUM_ROWS * 3];
    NoiseKey { seed: 5, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut numbers);
    let (inputs, noise) = numbers.split_at(NUM_ROWS * 2);
    let targets = inputs.chunks_exact(2).zip(noise).map(|(x, e)| 0.8 * x[0] - 0.5 * x[1] + 1.2 * e).collect();
    Examples { inputs: inputs.to_vec().into(), num_features: 2, targets: Targets::Real(targets) }
}

/// E w₁, Var w₁ and E ½ log(w₁² + w₂²) under exp(−U/T), y = w·x + b + N(0, σ²), by a sum over a grid of (w₁, w₂) and b.
fn expectations(examples: &Examples, temperature: f64) -> [f64; 3] {
    let Targets::Real(targets) = &examples.targets else { unreachable!() };
    let inputs = examples.inputs.numbers();
    let mut products = [[0.0; 4]; 4];
    for (x, &y) in inputs.chunks_exact(2).zip(targets) {
        let row = [f64::from(x[0]), f64::from(x[1]), 1.0, f64::from(y)];
        for i in 0..4 {
            for j in 0..4 {
                products[i][j] += row[i] * row[j];
            }
        }
    }
    const STEP: f64 = 0.06;
    let cells = -80..80;
    let mut sums = [0.0; 4];
    for (i, j, k) in cells.clone().flat_map(|i| cells.clone().flat_map(move |j| (-80..80).map(move |k| (i, j, k)))) {
        let at = [i, j, k].map(|cell: i32| (f64::from(cell) + 0.5) * STEP);
        let v = [at[0], at[1], at[2], -1.0];
        let squares: f64 = (0..4).map(|i| (0..4).map(|j| v[i] * products[i][j] * v[j]).sum::<f64>()).sum();
        let kernel = at[0] * at[0] + at[1] * at[1];
        // a = 1; two weights of fan-in 2, one bias.
        let prior = 2.0 * (PRIOR_VARIANCE + kernel).ln() + 1.5 * (PRIOR_VARIANCE + 0.5 * at[2] * at[2]).ln();
        let weight = (-(0.5 * squares / NOISE_VARIANCE + prior) / temperature).exp();
        let of = [1.0, at[0], at[0] * at[0], 0.5 * kernel.ln()];
        sums.iter_mut().zip(of).for_each(|(sum, of)| *sum += weight * of);
    }
    let [mean, square, size] = [sums[1], sums[2], sums[3]].map(|sum| sum / sums[0]);
    [mean, square - mean * mean, size]
}

/// BAOA has the exact law of a quadratic; what is left of a small step is far below a standard error.
#[test]
fn weights_have_their_known_posterior_at_two_temperatures() {
    let examples = rows();
    let network = Network::dense(2, &[], 1).unwrap();
    let prior = LearnedScales::new(&network, PRIOR_VARIANCE, ScaleGroups::default()).unwrap();
    let likelihood = Likelihood::Gaussian { noise_variance: NOISE_VARIANCE };
    let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
    let rule = Langevin::new(Integrator::Baoa, 0.04, 0.9);
    for temperature in [0.3, 1.0] {
        let expected = expectations(&examples, temperature);
        check_with_twin(&format!("T = {temperature}"), temperature, |actual| {
            const CHAINS: u32 = 256;
            let temperature = Temperature::new(actual).unwrap();
            let start = |id| Chain::new(id, temperature, posterior.initial_position(1, id), &posterior.layout());
            let mut chains: Vec<Chain> = (0..CHAINS).map(start).collect();
            let keep = Keep { burn_in: 1000, every: 4 };
            let batches = Batches::full(NUM_ROWS);
            let plan = Plan { seed: actual.to_bits(), batches, num_steps: keep.burn_in + 1000 * keep.every, keep };
            let sums = Mutex::new([(); 3].map(|()| vec![0.0; CHAINS as usize]));
            run_population(&posterior, &rule, &plan, &mut chains, &|index: usize, chain: &Chain| {
                let [w1, w2] = [0, 1].map(|at| f64::from(chain.state.position[at]));
                let numbers = [w1, (w1 - expected[0]).powi(2), 0.5 * (w1 * w1 + w2 * w2).ln()];
                let mut sums = sums.lock().unwrap();
                sums.iter_mut().zip(numbers).for_each(|(sums, number)| sums[index] += number / 1000.0);
            });
            assert!(chains.iter().all(|chain| chain.divergence.is_none()));
            let names = ["mean weight", "variance of a weight", "mean log size of the kernel"];
            let readings = names.into_iter().zip(sums.into_inner().unwrap()).zip(expected);
            readings.map(|((what, averages), expected)| Reading { what: what.into(), averages, expected }).collect()
        });
    }
}

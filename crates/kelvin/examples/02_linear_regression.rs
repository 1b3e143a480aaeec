//! Samples a Bayesian linear regression at three temperatures and puts the draws beside the closed form.
//!
//! `cargo run --release -p kelvin --example 02_linear_regression`

use std::sync::Mutex;

use kelvin::data::{Examples, Targets};
use kelvin::exact::LinearRegression;
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::Temperature;

const NOISE_VARIANCE: f64 = 0.25;
const PRIOR_VARIANCE: f64 = 1.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // y = 1 + 2x + noise.
    let mut noise = vec![0.0; 30];
    NoiseKey { seed: 1, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut noise);
    let inputs: Vec<f32> = (0..30).map(|row| row as f32 / 15.0 - 1.0).collect();
    let targets: Vec<f32> = inputs.iter().zip(&noise).map(|(x, e)| 1.0 + 2.0 * x + 0.5 * e).collect();

    // The closed form: the intercept is the weight of a second feature that is always 1.
    let design: Vec<f64> = inputs.iter().flat_map(|&x| [f64::from(x), 1.0]).collect();
    let answers: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
    let exact = LinearRegression::new(&design, &answers, 2, NOISE_VARIANCE, PRIOR_VARIANCE)?;

    // The same model as a network without hidden layers.
    let examples = Examples { inputs: inputs.into(), num_features: 1, targets: Targets::Real(targets) };
    let network = Network::dense(1, &[], 1)?;
    let likelihood = Likelihood::Gaussian { noise_variance: NOISE_VARIANCE };
    let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(PRIOR_VARIANCE)?, &examples)?;
    let sampler = Langevin::new(Integrator::Baoa, 0.02, 0.9);
    let keep = Keep { burn_in: 500, every: 5 };
    let plan = Plan { seed: 2, batches: Batches::full(examples.len()), num_steps: 10_500, keep };

    println!("{:>12} {:>22} {:>22} {:>22}", "", "slope", "intercept", "std of the slope");
    println!(
        "{:>12} {:>11}{:>11} {:>11}{:>11} {:>11}{:>11}",
        "temperature", "exact", "found", "exact", "found", "exact", "found"
    );
    for temperature in [0.3, 1.0, 3.0] {
        let at = Temperature::new(temperature)?;
        let start = |id| Chain::new(id, at, network.initial_parameters(3, id), &posterior.layout());
        let mut chains: Vec<Chain> = (0..16).map(start).collect();
        let sums = Mutex::new([0.0f64; 4]); // slope, intercept, slope², number of draws
        run_population(&posterior, &sampler, &plan, &mut chains, &|_: usize, chain: &Chain| {
            let [slope, intercept] = [0, 1].map(|i| f64::from(chain.state.position[i]));
            let mut sums = sums.lock().expect("no panic elsewhere");
            for (sum, value) in sums.iter_mut().zip([slope, intercept, slope * slope, 1.0]) {
                *sum += value;
            }
        });
        let [slope, intercept, square, count] = sums.into_inner()?;
        let (slope, intercept) = (slope / count, intercept / count);
        let std = (square / count - slope * slope).sqrt();
        let (mean, exact_std) = (exact.mean(), exact.posterior_covariance(1.0 / temperature)[0].sqrt());
        println!(
            "{temperature:>12} {:>11.4}{slope:>11.4} {:>11.4}{intercept:>11.4} {exact_std:>11.4}{std:>11.4}",
            mean[0], mean[1]
        );
        assert!((slope - mean[0]).abs() < 0.1 * exact_std && (intercept - mean[1]).abs() < 0.1 * exact_std);
        assert!((std / exact_std - 1.0).abs() < 0.05);
    }
    Ok(())
}

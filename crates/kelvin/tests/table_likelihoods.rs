//! Likelihoods of tables against their known posteriors: linear models of few parameters, whose expectations are sums over a grid.

use std::sync::Mutex;

use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::Temperature;
use statrs::function::gamma::ln_gamma;

use crate::known_posterior::{Reading, check_with_twin};

const NUM_ROWS: usize = 12;
const PRIOR_VARIANCE: f64 = 0.5;
const LOG_MEAN: f64 = 0.8;
const LOG_STD: f64 = 0.9;

/// log p(y | outputs, own), written once more, by hand.
type RowDensity = fn(outputs: &[f64], own: &[f64], y: f64) -> f64;

/// What the answers of the rows are.
#[derive(Clone, Copy)]
enum Answers {
    Numbers,
    Positive,
    Skewed,
    Counts,
}

struct Case {
    likelihood: Likelihood,
    density: RowDensity,
    /// The variance of each of the likelihood's own parameters before the data.
    own_variance: f64,
    answers: Answers,
    learning_rate: f64,
    /// Steps from one draw to the next.
    every: u64,
    /// Where each parameter is summed over.
    range: fn(parameter: usize) -> (f64, f64),
}

fn bounded(output: f64) -> f64 {
    10.0 * (output / 10.0).tanh()
}

fn normal(y: f64, mean: f64, log_variance: f64) -> f64 {
    -0.5 * (log_variance + std::f64::consts::TAU.ln() + (y - mean).powi(2) * (-log_variance).exp())
}

/// Γ(5/2)/(Γ(2) √(4π)) = 3/8.
fn student_t(y: f64, centre: f64, log_square_scale: f64) -> f64 {
    let square = (y - centre).powi(2) * (-log_square_scale).exp();
    0.375f64.ln() - 0.5 * log_square_scale - 2.5 * (1.0 + square / 4.0).ln()
}

fn poisson(y: f64, log_mean: f64) -> f64 {
    y * log_mean - log_mean.exp() - ln_gamma(y + 1.0)
}

fn negative_binomial(y: f64, log_mean: f64, r: f64) -> f64 {
    let mean = log_mean.exp();
    ln_gamma(y + r) - ln_gamma(r) - ln_gamma(y + 1.0) + r * (r / (r + mean)).ln() + y * (mean / (r + mean)).ln()
}

/// The power transform of λ = ½ and its derivative.
fn root(y: f64) -> (f64, f64) {
    match y < 0.0 {
        true => ((1.0 - (1.0 - y).powf(1.5)) / 1.5, (1.0 - y).sqrt()),
        false => (2.0 * ((1.0 + y).sqrt() - 1.0), 1.0 / (1.0 + y).sqrt()),
    }
}

/// The number with this root.
fn of_root(z: f32) -> f32 {
    if z < 0.0 { 1.0 - (1.0 - 1.5 * z).powf(2.0 / 3.0) } else { (1.0 + 0.5 * z).powi(2) - 1.0 }
}

fn rows(answers: Answers) -> Examples {
    let mut numbers = vec![0.0; NUM_ROWS * 2];
    NoiseKey { seed: 6, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut numbers);
    let (inputs, noise) = numbers.split_at(NUM_ROWS);
    let answer = |(x, e): (&f32, &f32)| match answers {
        Answers::Counts => (LOG_MEAN as f32 + 0.4 * x + 0.6 * e).exp().round(),
        Answers::Numbers => 0.4 + x + 0.6 * e,
        Answers::Skewed => of_root(LOG_MEAN as f32 + LOG_STD as f32 * (0.4 + x + 0.6 * e)),
        Answers::Positive => (LOG_MEAN as f32 + LOG_STD as f32 * (0.4 + x + 0.6 * e)).exp(),
    };
    let targets = inputs.iter().zip(noise).map(answer).collect();
    Examples { inputs: inputs.to_vec().into(), num_features: 1, targets: Targets::Real(targets) }
}

impl Case {
    /// U of a linear model, the kernel before the bias, without the constants of the priors.
    fn energy(&self, examples: &Examples, theta: &[f64]) -> f64 {
        let Targets::Real(targets) = &examples.targets else { unreachable!() };
        let num_outputs = self.likelihood.num_outputs();
        let (network, own) = theta.split_at(2 * num_outputs);
        let mut outputs = [0.0; 2];
        let rows = examples.inputs.numbers();
        let log_densities = rows.iter().zip(targets).map(|(&x, &y)| {
            for (k, output) in outputs[..num_outputs].iter_mut().enumerate() {
                *output = network[k] * f64::from(x) + network[num_outputs + k];
            }
            (self.density)(&outputs, own, f64::from(y))
        });
        let of_network: f64 = network.iter().map(|w| 0.5 * w * w / PRIOR_VARIANCE).sum();
        let of_own: f64 = own.iter().map(|s| 0.5 * s * s / self.own_variance).sum();
        of_network + of_own - log_densities.sum::<f64>()
    }
}

/// E θ_i and E θ_i² for all parameters and E U under exp(−U/T), by the trapezoidal rule on so many points a side.
fn expectations(case: &Case, examples: &Examples, temperature: f64, dim: usize, points: usize) -> Vec<f64> {
    let place = |parameter: usize, cell: usize| {
        let (low, high) = (case.range)(parameter);
        low + (high - low) * (cell as f64 + 0.5) / points as f64
    };
    let (mut sums, mut total, mut at_the_ends) = (vec![0.0; 2 * dim + 1], 0.0, 0.0);
    let mut theta = vec![0.0; dim];
    for cell in 0..points.pow(dim as u32) {
        let mut rest = cell;
        let mut is_end = false;
        for (parameter, theta) in theta.iter_mut().enumerate() {
            let own = rest % points;
            (*theta, rest) = (place(parameter, own), rest / points);
            is_end |= own == 0 || own + 1 == points;
        }
        let energy = case.energy(examples, &theta);
        let weight = (-energy / temperature).exp();
        total += weight;
        at_the_ends += if is_end { weight } else { 0.0 };
        for (parameter, &value) in theta.iter().enumerate() {
            sums[2 * parameter] += weight * value;
            sums[2 * parameter + 1] += weight * value * value;
        }
        sums[2 * dim] += weight * energy;
    }
    assert!(at_the_ends < 2e-4 * total, "the grid is too small: {}", at_the_ends / total);
    sums.iter().map(|sum| sum / total).collect()
}

fn check(name: &str, case: &Case, points: usize) {
    let examples = rows(case.answers);
    let network = Network::dense(1, &[], case.likelihood.num_outputs()).unwrap();
    let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
    let posterior = Posterior::new(&network, case.likelihood, prior, &examples).unwrap();
    let dim = posterior.dim();
    let rule = Langevin::new(Integrator::Baoa, case.learning_rate, 0.9);
    for temperature in [0.4, 1.0] {
        let expected = expectations(case, &examples, temperature, dim, points);
        check_with_twin(&format!("{name}, T = {temperature}"), temperature, |actual| {
            const CHAINS: u32 = 256;
            const DRAWS: u64 = 1000;
            let temperature = Temperature::new(actual).unwrap();
            let start = |id| Chain::new(id, temperature, posterior.initial_position(1, id), &posterior.layout());
            let mut chains: Vec<Chain> = (0..CHAINS).map(start).collect();
            let keep = Keep { burn_in: 1000, every: case.every };
            let batches = Batches::full(NUM_ROWS);
            let plan = Plan { seed: actual.to_bits(), batches, num_steps: keep.burn_in + DRAWS * keep.every, keep };
            let sums = Mutex::new(vec![vec![0.0; CHAINS as usize]; 2 * dim + 1]);
            run_population(&posterior, &rule, &plan, &mut chains, &|index: usize, chain: &Chain| {
                let theta: Vec<f64> = chain.state.position.iter().map(|&value| f64::from(value)).collect();
                let energy = case.energy(&examples, &theta);
                let mut sums = sums.lock().unwrap();
                for (parameter, &value) in chain.state.position.iter().enumerate() {
                    sums[2 * parameter][index] += f64::from(value) / DRAWS as f64;
                    sums[2 * parameter + 1][index] += f64::from(value).powi(2) / DRAWS as f64;
                }
                sums[2 * dim][index] += energy / DRAWS as f64;
            });
            assert!(chains.iter().all(|chain| chain.divergence.is_none()));
            let readings = sums.into_inner().unwrap().into_iter().zip(&expected).enumerate();
            let reading = |(which, (averages, &expected))| {
                let what = match which == 2 * dim {
                    true => "mean energy".into(),
                    false => format!("{} of parameter {}", ["mean", "mean square"][which % 2], which / 2),
                };
                Reading { what, averages, expected }
            };
            readings.map(reading).collect()
        });
    }
}

#[test]
fn noise_that_varies_has_its_known_posterior() {
    let case = Case {
        likelihood: Likelihood::VaryingGaussian,
        density: |outputs, _, y| normal(y, outputs[0], bounded(outputs[1])),
        own_variance: 1.0,
        answers: Answers::Numbers,
        // Where the noise is small the energy is steep.
        learning_rate: 0.002,
        every: 16,
        range: |parameter| [(-0.4, 2.4), (-3.4, 3.4), (-1.2, 1.8), (-4.2, 2.2)][parameter],
    };
    check("varying noise", &case, 44);
}

#[test]
fn noise_in_proportion_has_its_known_posterior() {
    let case = Case {
        likelihood: Likelihood::LogNormal { log_mean: LOG_MEAN, log_std: LOG_STD },
        density: |outputs, _, y| {
            let log_variance = 6.0 * ((outputs[1] + 4.0) / 6.0).tanh() - 4.0;
            normal((y.ln() - LOG_MEAN) / LOG_STD, outputs[0], log_variance) - LOG_STD.ln() - y.ln()
        },
        own_variance: 1.0,
        answers: Answers::Positive,
        // Where the noise is small the energy is steep.
        learning_rate: 0.0005,
        every: 48,
        range: |parameter| [(-0.4, 2.4), (-3.4, 3.4), (-1.2, 1.8), (-4.2, 2.4)][parameter],
    };
    check("noise in proportion", &case, 44);
}

/// Of the same transformed answers as noise in proportion, so that the same posterior is to be found.
#[test]
fn noise_of_a_power_has_its_known_posterior() {
    let case = Case {
        likelihood: Likelihood::PowerNormal { power: 0.5, mean: LOG_MEAN, std: LOG_STD },
        density: |outputs, _, y| {
            let (root, slope) = root(y);
            let log_variance = 6.0 * ((outputs[1] + 4.0) / 6.0).tanh() - 4.0;
            normal((root - LOG_MEAN) / LOG_STD, outputs[0], log_variance) - LOG_STD.ln() + slope.ln()
        },
        own_variance: 1.0,
        answers: Answers::Skewed,
        learning_rate: 0.0005,
        every: 48,
        range: |parameter| [(-0.4, 2.4), (-3.4, 3.4), (-1.2, 1.8), (-4.2, 2.4)][parameter],
    };
    check("noise of a power", &case, 44);
}

#[test]
fn student_t_noise_has_its_known_posterior() {
    let case = Case {
        likelihood: Likelihood::StudentT,
        density: |outputs, own, y| student_t(y, outputs[0], own[0]),
        own_variance: 1.0,
        answers: Answers::Numbers,
        learning_rate: 0.02,
        every: 5,
        range: |parameter| if parameter == 2 { (-4.2, 4.2) } else { (-3.6, 3.6) },
    };
    check("Student-t noise", &case, 70);
}

#[test]
fn student_t_noise_that_varies_has_its_known_posterior() {
    let case = Case {
        likelihood: Likelihood::VaryingStudentT,
        density: |outputs, _, y| student_t(y, outputs[0], bounded(outputs[1])),
        own_variance: 1.0,
        answers: Answers::Numbers,
        learning_rate: 0.004,
        every: 16,
        range: |_| (-4.2, 4.2),
    };
    check("varying Student-t noise", &case, 54);
}

#[test]
fn counts_have_their_known_posteriors() {
    let poisson_counts = Case {
        likelihood: Likelihood::Poisson { log_mean: LOG_MEAN },
        density: |outputs, _, y| poisson(y, LOG_MEAN + bounded(outputs[0])),
        own_variance: 1.0,
        answers: Answers::Counts,
        learning_rate: 0.02,
        every: 5,
        range: |parameter| if parameter == 2 { (-8.4, 8.4) } else { (-3.6, 3.6) },
    };
    check("Poisson", &poisson_counts, 200);
    let spread = Case {
        likelihood: Likelihood::NegativeBinomial { log_mean: LOG_MEAN },
        density: |outputs, own, y| negative_binomial(y, LOG_MEAN + bounded(outputs[0]), own[0].exp()),
        own_variance: 4.0,
        ..poisson_counts
    };
    check("negative binomial", &spread, 70);
}

//! A laboratory whose chains are exact: independent draws of a linear regression's tempered posterior.

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::draws::{Draws, Measurements};
use kelvin::exact::LinearRegression;
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Network, Weights};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{AscentObjective, CpuEngine, Engine};
use kelvin::selection::{Laboratory, Prices, SampledStart, SearchedStart, SelectionError};
use kelvin::temperature::Tempering;

/// y = xᵀθ + noise, as rows of a table; the network's bias is the weight of a feature that is always 1.
pub struct LinearProblem {
    pub num_features: usize,
    pub noise_variance: f64,
    pub prior_variance: f64,
    pub train: Examples,
    pub validation: Examples,
}

/// Standard normal numbers by name.
pub fn normals(seed: u64, step: u64, count: usize) -> Vec<f64> {
    let mut numbers = vec![0.0; count];
    NoiseKey { seed, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut numbers);
    numbers.into_iter().map(f64::from).collect()
}

impl LinearProblem {
    /// Rows whose noise has the variance `true_variance`, which the model takes for `noise_variance`.
    pub fn new(seed: u64, num_features: usize, num_rows: [usize; 2], true_variance: f64, noise_variance: f64) -> Self {
        let truth = normals(seed, 0, num_features + 1);
        let rows = |step: u64, num_rows: usize| {
            let inputs: Vec<f32> = normals(seed, step, num_rows * num_features).iter().map(|&x| x as f32).collect();
            let noise = normals(seed, step + 1, num_rows);
            let target = |(row, noise): (&[f32], &f64)| {
                let mean: f64 = row.iter().zip(&truth).map(|(&x, weight)| f64::from(x) * weight).sum();
                (mean + truth[num_features] + true_variance.sqrt() * noise) as f32
            };
            let targets = inputs.chunks_exact(num_features).zip(&noise).map(target).collect();
            Examples { inputs: inputs.into(), num_features, targets: Targets::Real(targets) }
        };
        let (train, validation) = (rows(1, num_rows[0]), rows(3, num_rows[1]));
        Self { num_features, noise_variance, prior_variance: 1.0, train, validation }
    }

    /// Inputs with the constant feature, and targets.
    pub fn design(&self, examples: &Examples) -> (Vec<f64>, Vec<f64>) {
        let (Inputs::Numbers(inputs), Targets::Real(targets)) = (&examples.inputs, &examples.targets) else {
            panic!("numbers")
        };
        let row = |row: &[f32]| row.iter().map(|&x| f64::from(x)).chain([1.0]).collect::<Vec<f64>>();
        let design = inputs.chunks_exact(self.num_features).flat_map(row).collect();
        (design, targets.iter().map(|&y| f64::from(y)).collect())
    }

    pub fn exact(&self) -> LinearRegression {
        self.exact_with_noise(self.noise_variance)
    }

    /// N(y|xᵀθ, σ²)^β with the prior as it is: the posterior of a regression with noise σ²/β.
    pub fn exact_with_noise(&self, noise_variance: f64) -> LinearRegression {
        let (inputs, targets) = self.design(&self.train);
        LinearRegression::new(&inputs, &targets, self.num_features + 1, noise_variance, self.prior_variance).unwrap()
    }

    pub fn network(&self) -> Network {
        Network::dense(self.num_features, &[], 1).unwrap()
    }
}

/// The laboratory of such a problem: chains are `num_chains` lists of `num_draws` independent draws.
pub struct ConjugateLaboratory<'a> {
    problem: &'a LinearProblem,
    pub exact: LinearRegression,
    posterior: Posterior,
    validation: HeldOut,
    /// What β is the power of in the draws.
    pub tempering: Tempering,
    num_chains: u64,
    num_draws: u64,
}

impl<'a> ConjugateLaboratory<'a> {
    pub fn new(problem: &'a LinearProblem, num_chains: u64, num_draws: u64) -> Self {
        let likelihood = Likelihood::Gaussian { noise_variance: problem.noise_variance };
        let prior = IsotropicGaussian::new(problem.prior_variance).unwrap();
        let network = problem.network();
        Self {
            problem,
            exact: problem.exact(),
            posterior: Posterior::new(&network, likelihood, prior, &problem.train).unwrap(),
            validation: HeldOut::new(&network, &problem.validation),
            tempering: Tempering::Posterior,
            num_chains,
            num_draws,
        }
    }

    /// Mean validation log density in closed form.
    pub fn exact_lpd(&self, objective: kelvin::exact::Objective, beta: f64) -> f64 {
        let (inputs, targets) = self.problem.design(&self.problem.validation);
        self.exact.mean_log_density(objective, &inputs, &targets, beta).unwrap()
    }

    /// Where that is largest.
    pub fn exact_best(&self, objective: kelvin::exact::Objective) -> f64 {
        let (inputs, targets) = self.problem.design(&self.problem.validation);
        self.exact.best_inverse_temperature(objective, &inputs, &targets).unwrap().unwrap()
    }

    fn chain(&self, beta: f64, seed: u64, num_draws: u64) -> Draws {
        let dim = self.problem.num_features + 1;
        let (exact, power) = match self.tempering {
            Tempering::Posterior => (self.exact.clone(), beta),
            Tempering::Likelihood => (self.problem.exact_with_noise(self.problem.noise_variance / beta), 1.0),
        };
        let lower = cholesky(&exact.posterior_covariance(power), dim);
        let mut draws = Draws::in_memory(dim);
        let (mut gradient, mut work) = (vec![0.0; dim], self.posterior.workspace());
        for draw in 0..num_draws {
            let noise = normals(seed, draw, dim);
            let coordinate = |row: usize| {
                let moved: f64 = (0..=row).map(|column| lower[row * dim + column] * noise[column]).sum();
                (exact.mean()[row] + moved) as f32
            };
            let position: Vec<f32> = (0..dim).map(coordinate).collect();
            let potential_energy = self.posterior.evaluate(&position, Batch::ALL, &mut gradient, &mut work);
            let measured =
                Measurements { potential_energy, configurational_temperature: 1.0 / beta, kinetic_temperature: None };
            draws.push(Weights { parameters: &position, statistics: &[] }, measured).unwrap();
        }
        draws
    }
}

/// The lower triangle L with A = L Lᵀ, row-major.
pub fn cholesky(matrix: &[f64], dim: usize) -> Vec<f64> {
    let mut lower = vec![0.0; dim * dim];
    for row in 0..dim {
        for column in 0..=row {
            let dot: f64 = (0..column).map(|k| lower[row * dim + k] * lower[column * dim + k]).sum();
            let rest = matrix[row * dim + column] - dot;
            lower[row * dim + column] = if row == column { rest.sqrt() } else { rest / lower[column * dim + column] };
        }
    }
    lower
}

impl Laboratory for ConjugateLaboratory<'_> {
    fn engine(&self) -> &dyn Engine {
        &CpuEngine
    }

    fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    fn validation(&self) -> &HeldOut {
        &self.validation
    }

    fn tempering(&self) -> Tempering {
        self.tempering
    }

    fn prices(&self) -> Prices {
        Prices { search: 0.5, chain: 1.0, continued_chain: 0.5 }
    }

    fn search(&self, _: AscentObjective) -> Result<Vec<SearchedStart>, SelectionError> {
        unreachable!("tests of exact chains give β a start")
    }

    fn sample(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<SampledStart>>, SelectionError> {
        let chains = |(index, &beta): (usize, &f64)| {
            let seed = 1000 * (index as u64 + 1);
            let chain = |start: u64| SampledStart {
                start: start as u32,
                times_continued: 0,
                draws: self.chain(beta, seed + start, self.num_draws),
            };
            (0..self.num_chains).map(chain).collect()
        };
        Ok(inverse_temperatures.iter().enumerate().map(chains).collect())
    }

    fn continue_at(
        &self,
        inverse_temperature: f64,
        from: &[SampledStart],
    ) -> Result<Vec<SampledStart>, SelectionError> {
        let seed = 77_000 + (inverse_temperature * 1e3) as u64;
        let chain = |from: &SampledStart| SampledStart {
            start: from.start,
            times_continued: from.times_continued + 1,
            draws: self.chain(inverse_temperature, seed + u64::from(from.start), self.num_draws / 2),
        };
        Ok(from.iter().map(chain).collect())
    }
}

//! Made-up tables, networks for them and every rule, on either engine.

use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ClipScope, Integrator, JointAscent, Keep, Langevin, Observer, Plan, run_population,
};
use kelvin::temperature::{Schedule, Temperature};
use kelvin_cuda::TableEngine;

/// A made-up table: rows of normal numbers, targets that depend on them.
fn examples(num_rows: usize, num_features: usize, num_classes: Option<usize>) -> Examples {
    let mut inputs = vec![0.0; num_rows * num_features];
    NoiseKey { seed: 5, purpose: Purpose::Synthetic, chain: 0, step: 0 }.fill_normal(&mut inputs);
    let score = |row: &[f32]| row.iter().enumerate().map(|(j, x)| (x * (1.0 + j as f32)).sin()).sum::<f32>();
    let scores = inputs.chunks_exact(num_features).map(score);
    let targets = match num_classes {
        None => Targets::Real(scores.map(|score| 0.5 * score).collect()),
        Some(count) => Targets::Classes(scores.map(|score| (score.abs() * 2.0) as u32 % count as u32).collect()),
    };
    Examples { inputs: inputs.into(), num_features, targets }
}

/// A network with its data.
pub struct Problem {
    pub network: Network,
    pub examples: Examples,
    pub likelihood: Likelihood,
}

impl Problem {
    pub fn regression(num_rows: usize, inputs: usize, hidden: usize) -> Self {
        Self {
            network: Network::dense(inputs, &[hidden], 1).unwrap(),
            examples: examples(num_rows, inputs, None),
            likelihood: Likelihood::Gaussian { noise_variance: 0.05 },
        }
    }

    pub fn classification(num_rows: usize, inputs: usize, hidden: usize, num_classes: usize) -> Self {
        Self {
            network: Network::dense(inputs, &[hidden], num_classes).unwrap(),
            examples: examples(num_rows, inputs, Some(num_classes)),
            likelihood: Likelihood::Categorical { num_classes },
        }
    }

    /// Several hidden layers, one output or as many as classes.
    pub fn deep(num_rows: usize, inputs: usize, hidden: &[usize], num_classes: Option<usize>) -> Self {
        Self {
            network: Network::dense(inputs, hidden, num_classes.unwrap_or(1)).unwrap(),
            examples: examples(num_rows, inputs, num_classes),
            likelihood: match num_classes {
                None => Likelihood::Gaussian { noise_variance: 0.05 },
                Some(num_classes) => Likelihood::Categorical { num_classes },
            },
        }
    }

    pub fn posterior(&self) -> Posterior {
        let prior = IsotropicGaussian::new(0.5).unwrap();
        Posterior::new(&self.network, self.likelihood, prior, &self.examples).unwrap()
    }

    pub fn batches(&self, batch_size: Option<usize>) -> Batches {
        Batches::new(self.examples.len(), batch_size).unwrap()
    }

    /// Chains of several temperatures, with biases that are not zero and momenta.
    pub fn chains(&self, count: u32) -> Vec<Chain> {
        let layout = self.network.layout();
        let chain = |id: u32| {
            let temperature = Temperature::new([1.0, 0.1, 0.5][id as usize % 3]).unwrap();
            let mut position = self.network.initial_parameters(11, id);
            let mut momentum = vec![0.0; position.len()];
            NoiseKey { seed: 6, purpose: Purpose::Synthetic, chain: id, step: 0 }.fill_normal(&mut momentum);
            position.iter_mut().zip(&momentum).for_each(|(theta, m)| *theta += 0.05 * m);
            let mut chain = Chain::new(id, temperature, position, &layout);
            chain.state.momentum = momentum;
            chain.state.mass = [1.0, 2.0, 0.5, 1.5].into_iter().cycle().take(layout.tensors().len()).collect();
            chain
        };
        (0..count).map(chain).collect()
    }
}

/// Every rule there is.
#[derive(Clone, Debug)]
pub enum AnyRule {
    Sampler(Langevin),
    Search(JointAscent),
}

impl AnyRule {
    pub fn on_cpu(&self, posterior: &Posterior, plan: &Plan, chains: &mut [Chain], observer: &impl Observer) {
        match self {
            Self::Sampler(rule) => run_population(posterior, rule, plan, chains, observer),
            Self::Search(rule) => run_population(posterior, rule, plan, chains, observer),
        }
    }

    pub fn on_device(&self, engine: &TableEngine, plan: &Plan, chains: &mut [Chain], observer: &dyn Observer) {
        match self {
            Self::Sampler(rule) => engine.sample(rule, plan, chains, observer).unwrap(),
            Self::Search(rule) => engine.search(rule, plan, chains, observer).unwrap(),
        }
    }
}

pub fn sampler(integrator: Integrator) -> Langevin {
    Langevin::new(integrator, 2e-3, 0.9)
}

pub fn search(clip_scope: ClipScope) -> JointAscent {
    JointAscent {
        objective: AscentObjective::default(),
        learning_rate: Schedule::CosineDecay { value: 2e-4, total: 60 },
        momentum: 0.9,
        weight_decay: 1.0,
        clip_norm: 200.0,
        clip_scope,
    }
}

pub fn plan(batches: Batches, num_steps: u64) -> Plan {
    Plan { seed: 3, batches, num_steps, keep: Keep { burn_in: 10, every: 8 } }
}

pub fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let size: f64 = expected.iter().map(|b| f64::from(*b).powi(2)).sum();
    (difference / size).sqrt()
}

pub fn assert_near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance * expected.abs(), "{what}: {found} instead of {expected}");
}

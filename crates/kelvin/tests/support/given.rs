//! A laboratory with given rows, whose searches end where they are told and which samples no chains.

use kelvin::data::{Examples, Targets};
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{AscentObjective, CpuEngine, Engine};
use kelvin::selection::{
    Checkpoint, JointChoice, Laboratory, Prices, SampledStart, SearchedStart, SelectionError, Selector,
};
use kelvin::temperature::Tempering;

/// Rows, a network and where its searches end.
pub struct Given {
    pub network: Network,
    pub likelihood: Likelihood,
    pub prior_variance: f64,
    pub tempering: Tempering,
    pub train: Examples,
    pub validation: Examples,
    /// Positions one after another, the best first.
    pub found: Vec<f32>,
}

pub struct GivenLaboratory<'a> {
    /// What it is made of.
    pub given: &'a Given,
    /// The posterior of its rows.
    pub posterior: Posterior,
    /// The rows to choose by.
    pub validation: HeldOut,
}

impl Given {
    /// A laboratory with these rows, whose searches end there.
    pub fn laboratory(&self) -> GivenLaboratory<'_> {
        let prior = IsotropicGaussian::new(self.prior_variance).unwrap();
        let posterior = Posterior::new(&self.network, self.likelihood, prior, &self.train).unwrap();
        let validation = posterior.held_out(&self.validation);
        GivenLaboratory { given: self, posterior, validation }
    }

    /// The β that a method of generalized Bayes answers with.
    pub fn select(&self, selector: &dyn Selector) -> f64 {
        let selection = selector.select(&self.laboratory()).unwrap();
        assert!(!selection.goal.serves_lpd() && selection.cost.row_gradients > 0.0 && selection.warnings.is_empty());
        selection.inverse_temperature
    }
}

impl Laboratory for GivenLaboratory<'_> {
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
        self.given.tempering
    }

    fn prices(&self) -> Prices {
        Prices { search: 0.5, chain: 1.0, continued_chain: 0.5 }
    }

    fn search(&self, _: AscentObjective) -> Result<Vec<SearchedStart>, SelectionError> {
        assert!(!self.given.found.is_empty(), "a linear model needs no search");
        let found = |(start, position): (u32, &[f32])| {
            let checkpoint = Checkpoint { step: 1, inverse_temperature: 1.0, validation_lpd: -f64::from(start) };
            let choice = JointChoice {
                position: position.to_vec(),
                statistics: Vec::new(),
                inverse_temperature: 1.0,
                best: 0,
                path: vec![checkpoint, checkpoint],
                divergence: None,
            };
            SearchedStart { start, choice }
        };
        Ok((0..).zip(self.given.found.chunks_exact(self.posterior.dim())).map(found).collect())
    }

    fn sample(&self, _: &[f64]) -> Result<Vec<Vec<SampledStart>>, SelectionError> {
        unreachable!("these methods sample no chains")
    }

    fn continue_at(&self, _: f64, _: &[SampledStart]) -> Result<Vec<SampledStart>, SelectionError> {
        unreachable!("these methods sample no chains")
    }
}

/// Standard normal numbers.
pub fn normals(seed: u64, step: u64, count: usize) -> Vec<f32> {
    let mut numbers = vec![0.0; count];
    NoiseKey { seed, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut numbers);
    numbers
}

/// Rows whose classes follow P(0) = 1/(1 + exp(−(a + b x))), each standing `copies` times.
pub fn logistic(num_rows: usize, copies: usize, tempering: Tempering) -> Given {
    let rows = |step: u64, count: usize, copies: usize| {
        let inputs = normals(21, step, count);
        let key = NoiseKey { seed: 21, purpose: Purpose::Synthetic, chain: 1, step };
        let label = |(row, x): (usize, &f32)| {
            let first = 1.0 / (1.0 + (-(0.3 + 1.2 * f64::from(*x))).exp());
            u32::from(key.uniform(row as u32) >= first)
        };
        let labels: Vec<u32> = inputs.iter().enumerate().map(label).collect();
        Examples {
            inputs: inputs.repeat(copies).into(),
            num_features: 1,
            targets: Targets::Classes(labels.repeat(copies)),
        }
    };
    Given {
        network: Network::dense(1, &[], 2).unwrap(),
        likelihood: Likelihood::Categorical { num_classes: 2 },
        prior_variance: 2.0,
        tempering,
        train: rows(0, num_rows, copies),
        validation: rows(1, 100, 1),
        found: Vec::new(),
    }
}

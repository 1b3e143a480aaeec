//! What is kept of a chain at each draw: weights, statistics of batch norms, energy and temperatures.

use std::ops::ControlFlow;
use std::sync::Mutex;

use super::error::ExperimentError;
use super::problem::Problem;
use crate::diagnostics::configurational_temperature;
use crate::draws::Draws;
use crate::held_out::SpareWorkspaces;
use crate::network::{ImageStack, Layer, Mode, Network, Rows};
use crate::potential::{Batch, Posterior, Potential, TemperedModel};
use crate::prior::IsotropicGaussian;
use crate::random::{Permutation, Purpose};
use crate::sampler::{Chain, Observer};
use crate::temperature::Tempering;

/// U and ⟨θ, ∇U⟩/d of a draw.
pub(super) struct DrawEnergy<'a> {
    pub posterior: &'a Posterior<'a>,
    pub workspaces: &'a SpareWorkspaces,
    pub tempering: Tempering,
    /// Only the first so many training rows, scaled up to all.
    pub num_rows: Option<usize>,
}

impl DrawEnergy<'_> {
    /// U, and the configurational temperature of the energy that the sampler moves on.
    fn measure(&self, chain: &Chain) -> (f64, f64) {
        let position = &chain.state.position;
        let mut gradient = vec![0.0; position.len()];
        let weight = self.tempering.likelihood_power(chain.temperature);
        let energy = self.workspaces.lend(|_, work| match self.num_rows {
            None => {
                let batch = Batch { likelihood_weight: weight, ..Batch::ALL };
                let sampled = self.posterior.evaluate(position, batch, &mut gradient, work);
                if weight == 1.0 {
                    sampled
                } else {
                    // The energy reported is U itself, whatever the likelihood counts for in the sampler's.
                    let mut unused = vec![0.0; position.len()];
                    self.posterior.evaluate(position, Batch::ALL, &mut unused, work)
                }
            }
            Some(num_rows) => {
                let scale = self.posterior.num_examples() as f64 / num_rows as f64;
                let rows: Vec<u32> = (0..num_rows as u32).collect();
                let mut part = vec![0.0; position.len()];
                let mut sum = 0.0;
                for (index, rows) in rows.chunks(ImageStack::BATCH).enumerate() {
                    let (rows, mode) = (Rows::These(rows), Mode::Training);
                    if index == 0 {
                        // The prior counts once.
                        let batch = Batch { rows, likelihood_weight: scale * weight, mode };
                        let first = self.posterior.evaluate(position, batch, &mut gradient, work);
                        sum -= (first + self.posterior.log_prior(position)) / (scale * weight);
                    } else {
                        sum += self.posterior.tempered_gradient(position, rows, mode, 1.0, &mut part, work).value;
                        let factor = (-scale * weight) as f32;
                        gradient.iter_mut().zip(&part).for_each(|(sum, part)| *sum += factor * part);
                    }
                }
                -self.posterior.log_prior(position) - scale * sum
            }
        });
        (energy, configurational_temperature(position, &gradient).unwrap_or(f64::NAN))
    }
}

/// Means and variances of batch norms, taken anew over training batches at a draw's weights: the plain average of those
/// of each batch, over one epoch or its first hundred batches. Images are not augmented, like those to be judged on.
pub(super) struct FreshStatistics<'a> {
    /// The same network with batch norms that remember nothing: after a batch their statistics are the batch's.
    forgetful: Posterior<'a>,
    workspaces: SpareWorkspaces,
    seed: u64,
    batch_size: usize,
}

const MOST_BATCHES: usize = 100;

impl<'a> FreshStatistics<'a> {
    pub fn new(problem: &'a Problem, seed: u64, batch_size: usize) -> Result<Self, ExperimentError> {
        let layers = forgetful(problem.network.layers());
        let network = Network::new(problem.network.input(), layers)
            .map_err(|source| ExperimentError::Network { key: "model", source })?;
        let posterior = Posterior::new(&network, problem.likelihood, IsotropicGaussian::new(1.0)?, &problem.train)?;
        let workspaces = SpareWorkspaces::new(posterior.evaluator());
        Ok(Self { forgetful: posterior, workspaces, seed, batch_size })
    }

    fn at(&self, chain: &Chain) -> Vec<f32> {
        let num_examples = self.forgetful.num_examples();
        let order = Permutation::new(self.seed, Purpose::BatchOrder, chain.id, chain.state.step, num_examples);
        let num_batches = (num_examples / self.batch_size).clamp(1, MOST_BATCHES);
        let position = &chain.state.position;
        let (mut gradient, mut rows) = (vec![0.0; position.len()], vec![0; self.batch_size]);
        let mut of_batch = vec![0.0; chain.state.statistics.len()];
        let mut sums = vec![0.0; of_batch.len()];
        self.workspaces.lend(|_, work| {
            for batch in 0..num_batches {
                order.fill(batch * self.batch_size, &mut rows);
                let batch = Batch { rows: Rows::These(&rows), likelihood_weight: 1.0, mode: Mode::Training };
                self.forgetful.evaluate(position, batch, &mut gradient, work);
                self.forgetful.update_statistics(work, &mut of_batch);
                sums.iter_mut().zip(&of_batch).for_each(|(sum, &value)| *sum += f64::from(value));
            }
        });
        sums.iter().map(|sum| (sum / num_batches as f64) as f32).collect()
    }
}

fn forgetful(layers: &[Layer]) -> Vec<Layer> {
    let mut layers = layers.to_vec();
    for layer in &mut layers {
        match layer {
            Layer::BatchNorm { momentum, .. } => *momentum = 0.0,
            Layer::Residual { body, shortcut } => (*body, *shortcut) = (forgetful(body), forgetful(shortcut)),
            _ => {}
        }
    }
    layers
}

/// Watches a population and keeps its draws.
pub(super) struct KeepDraws<'a, O> {
    energy: DrawEnergy<'a>,
    fresh: Option<FreshStatistics<'a>>,
    /// Whether momenta have a temperature.
    measured: bool,
    progress: &'a O,
    draws: Vec<Mutex<Draws>>,
}

impl<'a, O> KeepDraws<'a, O> {
    pub fn new(
        energy: DrawEnergy<'a>,
        fresh: Option<FreshStatistics<'a>>,
        measured: bool,
        progress: &'a O,
        num_chains: usize,
    ) -> Self {
        let dim = energy.posterior.dim();
        let draws = (0..num_chains).map(|_| Mutex::new(Draws { dim, ..Draws::default() })).collect();
        Self { energy, fresh, measured, progress, draws }
    }

    /// The draws of each chain.
    pub fn into_draws(self) -> impl Iterator<Item = Draws> {
        self.draws.into_iter().map(|draws| draws.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl<O: Observer> Observer for KeepDraws<'_, O> {
    fn started(&self, index: usize) {
        self.progress.started(index);
    }

    fn kept(&self, index: usize, chain: &Chain) {
        let position = &chain.state.position;
        let (energy, configurational) = self.energy.measure(chain);
        let fresh = self.fresh.as_ref().map(|fresh| fresh.at(chain));
        let mut draws = self.draws[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        draws.positions.extend_from_slice(position);
        draws.statistics.extend_from_slice(fresh.as_ref().unwrap_or(&chain.state.statistics));
        draws.potential_energy.push(energy);
        draws.configurational_temperature.push(configurational);
        if self.measured {
            let layout = self.energy.posterior.layout();
            let mut squares = vec![0.0; layout.tensors().len()];
            chain.state.kinetic_squares(&layout, &mut squares);
            draws.kinetic_temperature.push(squares.iter().sum::<f64>() / position.len() as f64);
        }
        self.progress.kept(index, chain);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        self.progress.advanced(index, steps)
    }
}

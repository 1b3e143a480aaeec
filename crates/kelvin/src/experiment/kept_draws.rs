//! What is kept of a chain at each draw: weights, statistics of batch norms, energy and temperatures.

use std::ops::ControlFlow;
use std::sync::Mutex;

use super::error::ExperimentError;
use super::model_settings::for_each_batch_norm;
use super::problem::Problem;
use super::settings::SamplerSettings;
use crate::diagnostics::configurational_temperature;
use crate::draws::Draws;
use crate::held_out::SpareWorkspaces;
use crate::network::{Mode, Network, Rows};
use crate::potential::{Batch, Posterior, Potential};
use crate::prior::IsotropicGaussian;
use crate::random::{Permutation, Purpose};
use crate::sampler::{Chain, Observer};
use crate::temperature::Tempering;

/// U and ⟨θ, ∇U⟩/d of a draw, on images as they are: an augmented training set has no energy of its own.
pub(super) struct DrawEnergy<'a> {
    posterior: &'a Posterior<'a>,
    workspaces: &'a SpareWorkspaces,
    tempering: Tempering,
    rows: EnergyRows,
}

/// The training rows that energies are summed over, in their own order.
enum EnergyRows {
    All,
    /// Only the first.
    First(Vec<u32>),
    /// The first in batches of a step, each with its own statistics as in a step; the remainder is dropped as in an epoch.
    Batches(Vec<u32>, usize),
}

impl EnergyRows {
    fn new(settings: &SamplerSettings, num_examples: usize, has_batch_norm: bool) -> Self {
        let first = |count: usize| (0..count as u32).collect();
        let num_rows = settings.energy_rows.unwrap_or(num_examples);
        match (settings.batch_size.rows(), settings.energy_rows) {
            (Some(size), _) if has_batch_norm => Self::Batches(first(num_rows - num_rows % size), size),
            (_, Some(num_rows)) => Self::First(first(num_rows)),
            (_, None) => Self::All,
        }
    }

    /// How many training rows stand for all.
    fn count(&self, num_examples: usize) -> usize {
        match self {
            Self::All => num_examples,
            Self::First(rows) | Self::Batches(rows, _) => rows.len(),
        }
    }

    fn batches(&self) -> Vec<Rows<'_>> {
        match self {
            Self::All => vec![Rows::All],
            Self::First(rows) => vec![Rows::These(rows)],
            Self::Batches(rows, size) => rows.chunks_exact(*size).map(Rows::These).collect(),
        }
    }
}

impl<'a> DrawEnergy<'a> {
    pub fn new(
        posterior: &'a Posterior<'a>,
        workspaces: &'a SpareWorkspaces,
        settings: &SamplerSettings,
        has_batch_norm: bool,
    ) -> Self {
        let rows = EnergyRows::new(settings, posterior.num_examples(), has_batch_norm);
        Self { posterior, workspaces, tempering: settings.tempering, rows }
    }

    /// U, whatever the likelihood counts for in the sampler's energy, and the configurational temperature of the latter.
    fn measure(&self, chain: &Chain) -> (f64, f64) {
        let position = &chain.state.position;
        let mut gradient = vec![0.0; position.len()];
        let num_examples = self.posterior.num_examples();
        let scale = num_examples as f64 / self.rows.count(num_examples) as f64;
        let weight = scale * self.tempering.likelihood_power(chain.temperature);
        let sum = self.workspaces.lend(|_, work| {
            self.posterior.gradient_over_batches(position, self.rows.batches(), weight, &mut gradient, work)
        });
        let energy = -self.posterior.log_prior(position) - scale * sum;
        (energy, configurational_temperature(position, &gradient).unwrap_or(f64::NAN))
    }
}

/// Means and variances of batch norms, taken anew over training batches at a draw's weights: the plain average of those
/// of each batch, over one epoch or its first hundred batches. Images are not augmented, like those to be judged on.
pub(super) struct FreshStatistics<'a> {
    /// The same network with batch norms that remember nothing: after a batch their statistics are the batch's.
    forgetful: Posterior<'a>,
    /// Those of the network itself serve: they depend on shapes alone.
    workspaces: &'a SpareWorkspaces,
    seed: u64,
    batch_size: usize,
}

const MOST_BATCHES: usize = 100;

impl<'a> FreshStatistics<'a> {
    pub fn new(
        problem: &'a Problem,
        workspaces: &'a SpareWorkspaces,
        seed: u64,
        batch_size: usize,
    ) -> Result<Self, ExperimentError> {
        let mut layers = problem.network.layers().to_vec();
        for_each_batch_norm(&mut layers, &mut |momentum| *momentum = 0.0);
        let network = Network::new(problem.network.input(), layers)
            .map_err(|source| ExperimentError::Network { key: "model", source })?;
        let posterior = Posterior::new(&network, problem.likelihood, IsotropicGaussian::new(1.0)?, &problem.train)?;
        Ok(Self { forgetful: posterior, workspaces, seed, batch_size })
    }

    fn at(&self, chain: &Chain) -> Vec<f32> {
        let num_examples = self.forgetful.num_examples();
        let order = Permutation::new(self.seed, Purpose::StatisticsOrder, chain.id, chain.state.step, num_examples);
        let num_batches = (num_examples / self.batch_size).clamp(1, MOST_BATCHES);
        let position = &chain.state.position;
        let (mut gradient, mut rows) = (vec![0.0; position.len()], vec![0; self.batch_size]);
        let mut of_batch = vec![0.0; chain.state.statistics.len()];
        let mut sums = vec![0.0; of_batch.len()];
        self.workspaces.lend(|_, work| {
            for batch in 0..num_batches {
                order.fill(batch * self.batch_size, &mut rows);
                let batch = Batch { rows: Rows::These(&rows), likelihood_weight: 1.0, mode: Mode::Training };
                // The gradient goes unused: no pass in training mode stops after the way forward.
                self.forgetful.evaluate(position, batch, &mut gradient, work);
                self.forgetful.update_statistics(work, &mut of_batch);
                sums.iter_mut().zip(&of_batch).for_each(|(sum, &value)| *sum += f64::from(value));
            }
        });
        sums.iter().map(|sum| (sum / num_batches as f64) as f32).collect()
    }
}

/// Watches a population and keeps its draws.
pub(super) struct KeepDraws<'a, O> {
    energy: DrawEnergy<'a>,
    fresh: Option<FreshStatistics<'a>>,
    /// Whether momenta have a temperature.
    measured: bool,
    /// Numbers to set aside for the positions of a chain.
    num_values: usize,
    progress: &'a O,
    draws: Vec<Mutex<Draws>>,
}

/// The most numbers set aside before there is a draw, 1 GiB; beyond it room is made as draws come.
const MOST_VALUES: usize = 1 << 28;

impl<'a, O> KeepDraws<'a, O> {
    pub fn new(
        energy: DrawEnergy<'a>,
        fresh: Option<FreshStatistics<'a>>,
        measured: bool,
        progress: &'a O,
        num_chains: usize,
        num_draws: u64,
    ) -> Self {
        let dim = energy.posterior.dim();
        let num_values = usize::try_from(num_draws).unwrap_or(usize::MAX).saturating_mul(dim).min(MOST_VALUES);
        let draws = (0..num_chains).map(|_| Mutex::new(Draws { dim, ..Draws::default() })).collect();
        Self { energy, fresh, measured, num_values, progress, draws }
    }

    /// The draws of each chain.
    pub fn into_draws(self) -> impl Iterator<Item = Draws> {
        self.draws.into_iter().map(|draws| draws.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl<O: Observer> Observer for KeepDraws<'_, O> {
    fn started(&self, index: usize) {
        // Once: growing by doubling would hold up to three times what is kept.
        let mut draws = self.draws[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        draws.positions.reserve_exact(self.num_values);
        drop(draws);
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

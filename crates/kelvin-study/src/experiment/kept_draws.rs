//! What is kept of a chain at each draw: weights, statistics of batch norms, energy, temperatures, and what they predict.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};

use crate::error::ExperimentError;
use crate::experiment::prepared::Experiment;
use crate::experiment::running_scores::{RunningScores, count_draws};
use crate::settings::SamplerSettings;
use kelvin::diagnostics::configurational_temperature;
use kelvin::draws::{Draws, Measurements};
use kelvin::mutex::{into_inner, lock};
use kelvin::network::{Rows, Weights};
use kelvin::potential::{Posterior, Potential};
use kelvin::random::{Permutation, Purpose};
use kelvin::sampler::{Chain, DrawReading, Engine, EngineError, FirstFailure, Observer, evaluated_together};
use kelvin::temperature::Tempering;

/// U and ⟨θ, ∇U⟩/d of a draw, on images as they are: an augmented training set has no energy of its own.
pub(crate) struct DrawEnergy<'a> {
    engine: &'a dyn Engine,
    posterior: &'a Posterior,
    tempering: Tempering,
    rows: EnergyRows,
}

/// The training rows that energies are summed over, in their own order.
enum EnergyRows {
    All,
    /// These rows, the first ones in the order of the data.
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
        engine: &'a dyn Engine,
        posterior: &'a Posterior,
        settings: &SamplerSettings,
        has_batch_norm: bool,
    ) -> Self {
        let rows = EnergyRows::new(settings, posterior.num_examples(), has_batch_norm);
        Self { engine, posterior, tempering: settings.tempering, rows }
    }

    /// Of each chain: U, whatever the likelihood counts for in the sampler's energy, and the configurational temperature of
    /// the latter.
    fn measure(&self, chains: &[(usize, &Chain)]) -> Result<Vec<(f64, f64)>, EngineError> {
        let num_examples = self.posterior.num_examples();
        let scale = num_examples as f64 / self.rows.count(num_examples) as f64;
        let weight = |chain: &Chain| scale * self.tempering.likelihood_power(chain.temperature);
        let positions = positions(chains);
        let weights: Vec<f64> = chains.iter().map(|(_, chain)| weight(chain)).collect();
        let evaluated = self.engine.gradients(self.posterior, &positions, &weights, &self.rows.batches())?;
        let measured = positions.iter().zip(&evaluated).map(|(position, (sum, gradient))| {
            let energy = -self.posterior.log_prior(position) - scale * sum;
            (energy, configurational_temperature(position, gradient).unwrap_or(f64::NAN))
        });
        Ok(measured.collect())
    }
}

fn positions<'c>(chains: &[(usize, &'c Chain)]) -> Vec<&'c [f32]> {
    chains.iter().map(|(_, chain)| &chain.state.position[..]).collect()
}

/// Means and variances of batch norms, taken anew over training batches at a draw's weights: the plain average of those
/// of each batch, over one epoch or its first hundred batches. Images are not augmented, like those to be judged on.
pub(crate) struct FreshStatistics<'a> {
    engine: &'a dyn Engine,
    posterior: &'a Posterior,
    seed: u64,
    batch_size: usize,
}

const MOST_BATCHES: usize = 100;

impl<'a> FreshStatistics<'a> {
    pub fn new(engine: &'a dyn Engine, posterior: &'a Posterior, seed: u64, batch_size: usize) -> Self {
        Self { engine, posterior, seed, batch_size }
    }

    fn measure(&self, chains: &[(usize, &Chain)]) -> Result<Vec<Vec<f32>>, EngineError> {
        let rows: Vec<Vec<u32>> = chains.iter().map(|(_, chain)| self.rows(chain)).collect();
        let batches = rows.iter().map(|rows| rows.chunks_exact(self.batch_size).map(Rows::These).collect());
        let batches: Vec<Vec<Rows<'_>>> = batches.collect();
        self.engine.batch_statistics(self.posterior, &positions(chains), &batches)
    }

    /// The rows of a draw's batches, one batch after the other.
    fn rows(&self, chain: &Chain) -> Vec<u32> {
        let num_examples = self.posterior.num_examples();
        let order = Permutation::new(self.seed, Purpose::StatisticsOrder, chain.id, chain.state.step, num_examples);
        let num_batches = (num_examples / self.batch_size).clamp(1, MOST_BATCHES);
        let mut rows = vec![0; num_batches * self.batch_size];
        order.fill(0, &mut rows);
        rows
    }
}

/// What is kept of one chain.
pub(crate) struct Keepsake {
    pub draws: Draws,
    pub scores: RunningScores,
}

/// Watches a population, keeps its draws, and counts what they predict.
pub(crate) struct KeepDraws<'a> {
    experiment: &'a Experiment,
    energy: DrawEnergy<'a>,
    fresh: Option<FreshStatistics<'a>>,
    /// Whether momenta have a temperature.
    measured: bool,
    /// Draws to set memory aside for.
    num_draws: u64,
    progress: &'a dyn Observer,
    kept: Vec<Mutex<Keepsake>>,
    failure: FirstFailure<ExperimentError>,
}

impl<'a> KeepDraws<'a> {
    pub fn new(
        experiment: &'a Experiment,
        energy: DrawEnergy<'a>,
        fresh: Option<FreshStatistics<'a>>,
        measured: bool,
        progress: &'a dyn Observer,
        kept: Vec<Keepsake>,
        num_draws: u64,
    ) -> Self {
        let kept = kept.into_iter().map(Mutex::new).collect();
        Self { experiment, energy, fresh, measured, num_draws, progress, kept, failure: FirstFailure::default() }
    }

    /// The draws of each chain, and what they predict.
    pub fn into_parts(self) -> Result<(Vec<Draws>, Vec<RunningScores>), ExperimentError> {
        self.failure.into_result()?;
        let kept = self.kept.into_iter().map(into_inner);
        Ok(kept.map(|Keepsake { draws, scores }| (draws, scores)).unzip())
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Keepsake> {
        lock(&self.kept[index])
    }

    fn keep<'c>(&self, kept: &[(usize, &'c Chain)]) -> Result<(), ExperimentError> {
        let energies = self.energy.measure(kept)?;
        let fresh = self.fresh.as_ref().map(|fresh| fresh.measure(kept)).transpose()?;
        let weights = |place: usize, chain: &'c Chain| Weights {
            parameters: &chain.state.position,
            statistics: fresh.as_ref().map_or(&chain.state.statistics, |fresh| &fresh[place]),
        };
        let mut keepsakes: Vec<MutexGuard<'_, Keepsake>> = kept.iter().map(|(index, _)| self.lock(*index)).collect();
        let draws: Vec<(u64, Weights<'_>)> =
            kept.iter().enumerate().map(|(place, (_, chain))| (chain.state.step, weights(place, chain))).collect();
        let mut scores: Vec<&mut RunningScores> = keepsakes.iter_mut().map(|keepsake| &mut keepsake.scores).collect();
        count_draws(self.experiment, &mut scores, &draws)?;
        for ((((index, chain), (_, weights)), (energy, configurational)), keepsake) in
            kept.iter().zip(&draws).zip(energies).zip(&mut keepsakes)
        {
            let kinetic_temperature = self.measured.then(|| {
                let layout = self.energy.posterior.layout();
                let mut squares = vec![0.0; layout.tensors().len()];
                chain.state.kinetic_squares(&layout, &mut squares);
                squares.iter().sum::<f64>() / weights.parameters.len() as f64
            });
            let measured = Measurements {
                potential_energy: energy,
                configurational_temperature: configurational,
                kinetic_temperature,
            };
            keepsake.draws.push(*weights, measured)?;
            let lpd = keepsake.scores.validation_lpd.last().copied().unwrap_or_default();
            self.progress.measured(
                *index,
                &DrawReading {
                    potential_energy: energy,
                    kinetic_temperature,
                    validation_lpd_standard: lpd.standard,
                    validation_lpd_tempered: lpd.tempered,
                },
            );
        }
        Ok(())
    }
}

impl Observer for KeepDraws<'_> {
    fn started(&self, index: usize) {
        self.lock(index).draws.reserve(self.num_draws);
        self.progress.started(index);
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        for some in kept.chunks(evaluated_together(self.energy.posterior.dim())) {
            if self.failure.note(self.keep(some)).is_none() {
                return;
            }
        }
        self.progress.kept(kept);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        if self.failure.is_noted() { ControlFlow::Break(()) } else { self.progress.advanced(index, steps) }
    }
}

//! An experiment as the laboratory of selectors: its searches and chains, at the temperatures they ask for.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::ExperimentError;
use crate::experiment::chain_spec::{ChainSpec, Slot, StartingPoint};
use crate::experiment::population::Population;
use crate::experiment::prepared::Experiment;
use crate::experiment::sampling::{SampledChain, choices};
use crate::settings::{Preconditioner, Start};
use kelvin::held_out::HeldOut;
use kelvin::potential::{Posterior, Potential};
use kelvin::sampler::{AscentObjective, Engine, Observer};
use kelvin::selection::{Laboratory, Prices, SampledStart, SearchedStart, SelectionError};
use kelvin::temperature::{Schedule, Tempering};

/// A chain that is continued at another temperature has a burn-in shorter by this factor than a full chain's.
const CONTINUED_BURN_IN: u64 = 5;
/// It keeps fewer draws than a full chain, by this factor.
const CONTINUED_DRAWS: u64 = 2;

/// The results of searches, one for each start, by the objective that they maximised.
pub type Searched = Vec<(AscentObjective, Vec<SearchedStart>)>;

/// Searches and chains of an experiment, each of them from the starts of so many repetitions; no search is made twice.
pub struct ExperimentLaboratory<'e> {
    experiment: &'e Experiment,
    repetitions: Vec<u32>,
    progress: &'e dyn Observer,
    searched: RefCell<Searched>,
}

impl<'e> ExperimentLaboratory<'e> {
    /// A laboratory whose searches and chains begin at the starts of repetitions 0, 1, …, watched by `progress`.
    pub fn new(experiment: &'e Experiment, num_starts: u32, progress: &'e dyn Observer) -> Self {
        Self::remembering(experiment, num_starts, progress, Searched::new())
    }

    /// The same, with results of searches that another laboratory of the same starts has made.
    pub fn remembering(
        experiment: &'e Experiment,
        num_starts: u32,
        progress: &'e dyn Observer,
        searched: Searched,
    ) -> Self {
        Self { experiment, repetitions: (0..num_starts).collect(), progress, searched: RefCell::new(searched) }
    }

    /// The results of the searches so far.
    pub fn into_searched(self) -> Searched {
        self.searched.into_inner()
    }

    /// Whether a search with this objective has been made.
    pub fn has_searched(&self, objective: AscentObjective) -> bool {
        self.searched.borrow().iter().any(|(asked, _)| *asked == objective)
    }

    /// The result of the search from each start; searches that were made before are not made again.
    fn search_each(&self, objective: AscentObjective) -> Result<Vec<SearchedStart>, ExperimentError> {
        if let Some((_, found)) = self.searched.borrow().iter().find(|(asked, _)| *asked == objective) {
            return Ok(found.clone());
        }
        let mut population = self.experiment.searches(&self.repetitions)?;
        population.rule.objective = objective;
        population.advance(self.progress)?;
        let named = self.repetitions.iter().zip(choices(population.searches));
        let found: Vec<SearchedStart> = named.map(|(&start, choice)| SearchedStart { start, choice }).collect();
        self.searched.borrow_mut().push((objective, found.clone()));
        Ok(found)
    }

    /// Where the settings' own searches ended, for chains that start there; nothing where chains start at random.
    ///
    /// # Errors
    /// Where the engine fails.
    pub fn starts(&self) -> Result<Vec<SearchedStart>, SelectionError> {
        self.own_starts().map_err(outside)
    }

    fn own_starts(&self) -> Result<Vec<SearchedStart>, ExperimentError> {
        match self.experiment.settings.sampler.start {
            Start::Random => Ok(Vec::new()),
            Start::Search => self.search_each(self.experiment.ascent_objective()),
        }
    }

    fn spec(&self, slot: Slot, repetition: u32, inverse_temperature: f64) -> ChainSpec {
        ChainSpec {
            label: format!("β = {inverse_temperature}, chain {}", repetition + 1),
            repetition,
            slot,
            inverse_temperature,
            start: None,
        }
    }

    fn run_chains(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<SampledStart>>, ExperimentError> {
        let starts = self.own_starts()?;
        let mut specs = Vec::new();
        for (index, &beta) in inverse_temperatures.iter().enumerate() {
            for &repetition in &self.repetitions {
                let searched = starts.iter().find(|searched| searched.start == repetition);
                let start = self.experiment.start(searched.map(|searched| &searched.choice));
                specs.push(ChainSpec { start, ..self.spec(Slot::Grid(index as u32), repetition, beta) });
            }
        }
        let mut chains = self.experiment.sample(&specs, self.progress)?.into_iter();
        let of_one = |_: &f64| {
            let chains = chains.by_ref().take(self.repetitions.len());
            let named = chains.map(|SampledChain { spec, draws, .. }| SampledStart {
                start: spec.repetition,
                times_continued: 0,
                draws,
            });
            named.filter(|chain| !chain.draws.is_empty()).collect()
        };
        Ok(inverse_temperatures.iter().map(of_one).collect())
    }

    fn go_on(&self, inverse_temperature: f64, from: &[SampledStart]) -> Result<Vec<SampledStart>, ExperimentError> {
        let (mut specs, mut names) = (Vec::new(), Vec::new());
        for chain in from {
            let (repetition, times_continued) = (chain.start, chain.times_continued + 1);
            let Some(last) = chain.draws.lots(usize::MAX).last().transpose()? else { continue };
            let Some(weights) = last.iter().last() else { continue };
            let (position, statistics) = (weights.parameters.to_vec(), weights.statistics.to_vec());
            let start = Some(Arc::new(StartingPoint { position, statistics }));
            let slot = Slot::Continued(times_continued);
            specs.push(ChainSpec { start, ..self.spec(slot, repetition, inverse_temperature) });
            names.push((repetition, times_continued));
        }
        let mut population = self.experiment.sampled(&specs)?;
        let (burn_in, num_steps) = continued(population.plan.keep.burn_in, population.plan.num_steps);
        let period = population.plan.keep.every;
        population.rule.step_scale = Schedule::CosineCycle { start: burn_in, period, value: 1.0 }.checked()?;
        population.rule.temperature_scale = Schedule::Constant { value: 1.0 };
        population.plan.keep.burn_in = burn_in;
        if let Some(warm_up) = &mut population.rule.warm_up {
            warm_up.num_steps = burn_in;
        }
        population.plan.num_steps = num_steps;
        population.advance(self.progress)?;
        let named = names.into_iter().zip(population.draws);
        let named = named.map(|((start, times_continued), draws)| SampledStart { start, times_continued, draws });
        Ok(named.filter(|chain| !chain.draws.is_empty()).collect())
    }
}

/// Burn-in and steps of a continued chain, given those of a full one.
fn continued(burn_in: u64, num_steps: u64) -> (u64, u64) {
    let shorter = burn_in / CONTINUED_BURN_IN;
    (shorter, shorter + (num_steps - burn_in) / CONTINUED_DRAWS)
}

fn outside(error: ExperimentError) -> SelectionError {
    match error {
        ExperimentError::Engine(error) => error.into(),
        other => SelectionError::Laboratory(Box::new(other)),
    }
}

impl Laboratory for ExperimentLaboratory<'_> {
    fn engine(&self) -> &dyn Engine {
        &*self.experiment.engine
    }

    fn posterior(&self) -> &Posterior {
        &self.experiment.posterior
    }

    fn validation(&self) -> &HeldOut {
        &self.experiment.validation
    }

    fn tempering(&self) -> Tempering {
        self.experiment.settings.sampler.tempering
    }

    fn prices(&self) -> Prices {
        let Experiment { settings, posterior, .. } = self.experiment;
        let num_examples = posterior.num_examples();
        let rows = |size: Option<usize>, epochs: f64| {
            let batch = size.unwrap_or(num_examples);
            (num_examples / batch * batch) as f64 * epochs
        };
        let sampler = &settings.sampler;
        let masses = match sampler.preconditioner {
            Preconditioner::None => 0.0,
            Preconditioner::Layerwise => {
                (sampler.preconditioner_batches * sampler.batch_size.rows().unwrap_or(num_examples) as u64) as f64
            }
        };
        let chain = |epochs: u64| rows(sampler.batch_size.rows(), epochs as f64) + masses * epochs as f64;
        let (_, short) = continued(sampler.burn_in, sampler.epochs);
        Prices {
            search: rows(settings.selection.batch_size.rows(), settings.selection.epochs as f64),
            chain: chain(sampler.epochs),
            continued_chain: chain(short),
        }
    }

    fn search(&self, objective: AscentObjective) -> Result<Vec<SearchedStart>, SelectionError> {
        self.search_each(objective).map_err(outside)
    }

    fn sample(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<SampledStart>>, SelectionError> {
        self.run_chains(inverse_temperatures).map_err(outside)
    }

    fn continue_at(
        &self,
        inverse_temperature: f64,
        from: &[SampledStart],
    ) -> Result<Vec<SampledStart>, SelectionError> {
        self.go_on(inverse_temperature, from).map_err(outside)
    }
}

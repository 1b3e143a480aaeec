//! An experiment as the laboratory of selectors, whose searches and chains an observer is told of.

use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::ExperimentError;
use crate::experiment::{ChainSpec, Experiment, ExperimentLaboratory, Searched, Slot};
use crate::settings::Start;
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::potential::Posterior;
use kelvin::sampler::{AscentObjective, Chain, DrawReading, Engine, Observer};
use kelvin::selection::{Laboratory, Prices, SampledStart, SearchedStart, SelectionError};
use kelvin::temperature::Tempering;

use crate::folder::{Stage, Timeline};
use crate::number::significant;
use crate::study::cancel::Cancel;
use crate::study::observer::StudyObserver;
use crate::study::progress::{Member, Progress};
use crate::study::timeline;

/// Tells whatever is shown now about the population that moves now, and stops it after Ctrl-C.
pub(crate) struct Relay {
    cancel: Cancel,
    observer: Arc<dyn StudyObserver>,
    shown: RwLock<Option<Progress>>,
}

impl Relay {
    pub fn new(cancel: Cancel, observer: Arc<dyn StudyObserver>) -> Self {
        Self { cancel, observer, shown: RwLock::new(None) }
    }

    fn show(&self, next: Option<Progress>) -> Option<Progress> {
        std::mem::replace(&mut *self.shown.write().unwrap_or_else(PoisonError::into_inner), next)
    }

    fn tell(&self, what: impl Fn(&Progress)) {
        if let Some(progress) = &*self.shown.read().unwrap_or_else(PoisonError::into_inner) {
            what(progress);
        }
    }
}

impl Observer for Relay {
    fn started(&self, index: usize) {
        self.tell(|progress| progress.started(index));
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        self.tell(|progress| progress.kept(kept));
    }

    fn measured(&self, index: usize, reading: &DrawReading) {
        self.tell(|progress| progress.measured(index, reading));
    }

    fn diverged(&self, index: usize, step: u64) {
        self.tell(|progress| progress.diverged(index, step));
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        self.tell(|progress| {
            let _ = progress.advanced(index, steps);
        });
        if self.cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

pub(crate) struct WatchedLaboratory<'e> {
    experiment: &'e Experiment,
    inner: ExperimentLaboratory<'e>,
    relay: &'e Relay,
    num_starts: u32,
}

impl<'e> WatchedLaboratory<'e> {
    pub fn new(experiment: &'e Experiment, relay: &'e Relay, num_starts: u32, searched: Searched) -> Self {
        Self {
            experiment,
            inner: ExperimentLaboratory::remembering(experiment, num_starts, relay, searched),
            relay,
            num_starts,
        }
    }

    /// What was searched so far, for another laboratory of the same starts.
    pub fn into_searched(self) -> Searched {
        self.inner.into_searched()
    }

    /// Makes the searches that chains start from, to be shown as a population of its own.
    fn search_for_starts(&self) -> Result<(), SelectionError> {
        if self.experiment.settings.sampler.start == Start::Search {
            self.search(self.experiment.ascent_objective())?;
        }
        Ok(())
    }

    /// Chains at each β to be scored: from the same starts and with the same random numbers at every β, those of `kelvin run` at
    /// β̂*, so that a method's scores do not depend on which others are asked.
    pub fn sample_to_score(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<Draws>>, SelectionError> {
        let of_beta = |&beta: &f64| (0..self.num_starts).map(move |repetition| (repetition, beta));
        let chains: Vec<(u32, f64)> = inverse_temperatures.iter().flat_map(of_beta).collect();
        let mut draws = self.sample_chains(&chains)?.into_iter();
        let of_one = |_: &f64| {
            draws.by_ref().take(self.num_starts as usize).filter(|draws| !draws.is_empty()).collect::<Vec<Draws>>()
        };
        Ok(inverse_temperatures.iter().map(of_one).collect())
    }

    /// The same for single chains: the draws of each repetition at its β, none where it diverged.
    pub fn sample_chains(&self, chains: &[(u32, f64)]) -> Result<Vec<Draws>, SelectionError> {
        self.search_for_starts()?;
        let starts = self.inner.starts()?;
        let spec = |repetition: u32, inverse_temperature: f64| ChainSpec {
            label: format!("β = {}, chain {}", significant(inverse_temperature, 3), repetition + 1),
            repetition,
            slot: Slot::Chosen,
            inverse_temperature,
            start: {
                let searched = starts.iter().find(|searched| searched.start == repetition);
                self.experiment.start(searched.map(|searched| &searched.choice))
            },
        };
        let specs: Vec<ChainSpec> = chains.iter().map(|&(repetition, beta)| spec(repetition, beta)).collect();
        let members = chains.iter().map(|&(repetition, beta)| self.member(repetition, beta));
        let members = members.collect::<Result<_, _>>()?;
        let chains = self.watched(Stage::Sampling, members, self.timeline()?, || {
            self.experiment.sample(&specs, self.relay).map_err(outside)
        })?;
        Ok(chains.into_iter().map(|chain| chain.draws).collect())
    }

    /// Starts of searches, and chains at each β.
    pub fn num_starts(&self) -> u32 {
        self.num_starts
    }

    /// Runs a population with its progress shown.
    ///
    /// # Errors
    /// If the engine fails, or the population was stopped.
    fn watched<T>(
        &self,
        stage: Stage,
        members: Vec<Member>,
        timeline: Timeline,
        run: impl FnOnce() -> Result<T, SelectionError>,
    ) -> Result<T, SelectionError> {
        let progress = Progress::new(stage, members, timeline, Arc::clone(&self.relay.observer), None);
        self.relay.show(Some(progress));
        let done = run();
        let progress = self.relay.show(None);
        if self.relay.cancel.is_cancelled() {
            return Err(SelectionError::Laboratory("stopped".into()));
        }
        if let (Ok(_), Some(progress)) = (&done, progress) {
            progress.finish();
        }
        done
    }

    fn search_with<T>(&self, run: impl FnOnce() -> Result<T, SelectionError>) -> Result<T, SelectionError> {
        let timeline = timeline::of_search(self.experiment).map_err(outside)?;
        let members = (0..self.num_starts).map(Member::search).collect();
        self.watched(Stage::Choosing, members, timeline, run)
    }

    fn members(&self, inverse_temperatures: &[f64]) -> Result<Vec<Member>, SelectionError> {
        let of_beta = |&beta: &f64| (0..self.num_starts).map(move |start| (start, beta));
        inverse_temperatures.iter().flat_map(of_beta).map(|(start, beta)| self.member(start, beta)).collect()
    }

    fn member(&self, start: u32, beta: f64) -> Result<Member, SelectionError> {
        let group = format!("β = {}", significant(beta, 3));
        let sampler_temperature = Some(self.experiment.sampler_temperature(beta).map_err(outside)?);
        Ok(Member { label: format!("{group}, chain {}", start + 1), group, beta, sampler_temperature })
    }

    fn timeline(&self) -> Result<Timeline, SelectionError> {
        timeline::of_chain(self.experiment).map_err(outside)
    }
}

fn outside(error: ExperimentError) -> SelectionError {
    SelectionError::Laboratory(Box::new(error))
}

impl Laboratory for WatchedLaboratory<'_> {
    fn engine(&self) -> &dyn Engine {
        self.inner.engine()
    }

    fn posterior(&self) -> &Posterior {
        self.inner.posterior()
    }

    fn validation(&self) -> &HeldOut {
        self.inner.validation()
    }

    fn tempering(&self) -> Tempering {
        self.inner.tempering()
    }

    fn prices(&self) -> Prices {
        self.inner.prices()
    }

    fn search(&self, objective: AscentObjective) -> Result<Vec<SearchedStart>, SelectionError> {
        match self.inner.has_searched(objective) {
            true => self.inner.search(objective),
            false => self.search_with(|| self.inner.search(objective)),
        }
    }

    fn sample(&self, inverse_temperatures: &[f64]) -> Result<Vec<Vec<SampledStart>>, SelectionError> {
        self.search_for_starts()?;
        let members = self.members(inverse_temperatures)?;
        self.watched(Stage::Sampling, members, self.timeline()?, || self.inner.sample(inverse_temperatures))
    }

    fn continue_at(
        &self,
        inverse_temperature: f64,
        from: &[SampledStart],
    ) -> Result<Vec<SampledStart>, SelectionError> {
        let timeline = match self.timeline()? {
            // As much of a chain as the laboratory runs.
            Timeline::Sampling { burn_in, cycle, steps, .. } => {
                let rest = (steps - burn_in) / 2;
                Timeline::Sampling {
                    ramp_start: 0,
                    ramp_end: 0,
                    burn_in: burn_in / 5,
                    cycle,
                    steps: burn_in / 5 + rest,
                }
            }
            searching @ Timeline::Search { .. } => searching,
        };
        let members = from.iter().map(|chain| self.member(chain.start, inverse_temperature));
        let members = members.collect::<Result<_, _>>()?;
        let go_on = || self.inner.continue_at(inverse_temperature, from);
        self.watched(Stage::Sampling, members, timeline, go_on)
    }
}

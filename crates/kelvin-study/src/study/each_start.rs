//! What each start of a search chose on its own, judged by its own chain: the paper's comparison of selectors.

use crate::error::Result;
use crate::experiment::Experiment;
use crate::findings::{SEARCHING, StartChoice};
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::potential::Posterior;
use kelvin::sampler::{AscentObjective, Engine};
use kelvin::selection::{JointChoice, Laboratory, Prices, SelectionError, Selector};
use kelvin::temperature::Tempering;

use crate::study::watched_laboratory::WatchedLaboratory;

/// Asks every method that searches for the β of each start alone, and samples a chain of the same number there.
pub(crate) fn each_start(
    experiment: &Experiment,
    laboratory: &WatchedLaboratory<'_>,
    selectors: &[Box<dyn Selector>],
) -> Result<Vec<StartChoice>> {
    let mut choices: Vec<StartChoice> = Vec::new();
    for (method, _) in SEARCHING {
        let Some(selector) = selectors.iter().find(|one| one.name() == method) else { continue };
        for start in 0..laboratory.num_starts() {
            match selector.select(&OneStart { whole: laboratory, start: start as usize }) {
                Ok(found) => choices.push(StartChoice {
                    method: method.into(),
                    start: start + 1,
                    inverse_temperature: found.inverse_temperature,
                    test: None,
                }),
                Err(SelectionError::NothingFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let chains: Vec<(u32, f64)> = choices.iter().map(|one| (one.start - 1, one.inverse_temperature)).collect();
    let sampled = if chains.is_empty() { Vec::new() } else { laboratory.sample_chains(&chains)? };
    for (choice, draws) in choices.iter_mut().zip(&sampled) {
        if !draws.is_empty() {
            choice.test = Some(experiment.predictive(&experiment.test, choice.inverse_temperature, [draws])?.scores()?);
        }
    }
    Ok(choices)
}

/// A laboratory that shows the searches of one start alone; they are made for all starts at once.
struct OneStart<'l, 'e> {
    whole: &'l WatchedLaboratory<'e>,
    start: usize,
}

impl Laboratory for OneStart<'_, '_> {
    fn engine(&self) -> &dyn Engine {
        self.whole.engine()
    }

    fn posterior(&self) -> &Posterior {
        self.whole.posterior()
    }

    fn validation(&self) -> &HeldOut {
        self.whole.validation()
    }

    fn tempering(&self) -> Tempering {
        self.whole.tempering()
    }

    fn prices(&self) -> Prices {
        self.whole.prices()
    }

    fn search(&self, objective: AscentObjective) -> Result<Vec<JointChoice>, SelectionError> {
        Ok(self.whole.search(objective)?.into_iter().skip(self.start).take(1).collect())
    }

    fn sample(&self, _: &[f64]) -> Result<Vec<Vec<Draws>>, SelectionError> {
        Err(searches_only())
    }

    fn continue_at(&self, _: f64, _: &[Draws]) -> Result<Vec<Draws>, SelectionError> {
        Err(searches_only())
    }
}

fn searches_only() -> SelectionError {
    SelectionError::Laboratory("a single start has searches and no chains".into())
}

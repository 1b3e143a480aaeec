//! What each start of a search chose on its own, judged by its own chain: the paper's comparison of selectors.

use crate::error::Result;
use crate::experiment::Experiment;
use crate::findings::{SEARCHING, StartChoice};
use kelvin::held_out::HeldOut;
use kelvin::potential::Posterior;
use kelvin::sampler::{AscentObjective, Engine};
use kelvin::selection::{Laboratory, Prices, SampledStart, SearchedStart, SelectionError, Selector};
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
            match selector.select(&OneStart { whole: laboratory, start }) {
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
    start: u32,
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

    fn search(&self, objective: AscentObjective) -> Result<Vec<SearchedStart>, SelectionError> {
        Ok(self.whole.search(objective)?.into_iter().filter(|searched| searched.start == self.start).collect())
    }

    fn sample(&self, _: &[f64]) -> Result<Vec<Vec<SampledStart>>, SelectionError> {
        Err(searches_only())
    }

    fn continue_at(&self, _: f64, _: &[SampledStart]) -> Result<Vec<SampledStart>, SelectionError> {
        Err(searches_only())
    }
}

fn searches_only() -> SelectionError {
    SelectionError::Laboratory("a single start has searches and no chains".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ExperimentLaboratory;
    use std::sync::Arc;

    use crate::problem::Problem;
    use crate::settings::preset;
    use crate::study::cancel::Cancel;
    use crate::study::observer::Unobserved;
    use crate::study::watched_laboratory::Relay;
    use kelvin::sampler::Silent;
    use kelvin::selection::JointSelector;

    #[test]
    fn every_start_has_its_own_beta_and_chain_where_the_second_is_missing() {
        let mut settings = preset("concrete").unwrap().settings();
        settings.model.hidden = Some(vec![2]);
        (settings.selection.epochs, settings.selection.checkpoints) = (40, 10);
        let sampler = &mut settings.sampler;
        (sampler.ramp_start, sampler.ramp_end, sampler.burn_in, sampler.cycle, sampler.epochs) = (1, 2, 4, 2, 40);
        let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
        let experiment = Experiment::new(problem, settings).unwrap();
        let objective = AscentObjective::default();
        let mut searched = ExperimentLaboratory::new(&experiment, 4, &Silent).search(objective).unwrap();
        searched.remove(1);
        let relay = Relay::new(Cancel::default(), Arc::new(Unobserved));
        let known = vec![(objective, searched.clone())];
        let laboratory = WatchedLaboratory::new(&experiment, &relay, 4, known);
        let choices = each_start(&experiment, &laboratory, &[Box::new(JointSelector::default())]).unwrap();
        assert_eq!(choices.iter().map(|choice| choice.start).collect::<Vec<_>>(), [1, 3, 4]);
        for (choice, searched) in choices.iter().zip(&searched) {
            let beta = searched.choice.inverse_temperature;
            assert_eq!((choice.start, choice.inverse_temperature), (searched.start + 1, beta));
            let alone = laboratory.sample_chains(&[(searched.start, beta)]).unwrap();
            let scores = experiment.predictive(&experiment.test, beta, &alone).unwrap().scores().unwrap();
            assert_eq!(choice.test, Some(scores));
        }
    }
}

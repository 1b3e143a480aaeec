//! What a chain's draws predict at held-out rows, accumulated as they are kept, so that scores need no draws to be read again.

use crate::error::ExperimentError;
use crate::experiment::prepared::Experiment;
use crate::experiment::watched_rows::WatchedRows;
use kelvin::data::Corruption;
use kelvin::diagnostics::TrainingDensities;
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::network::Weights;
use kelvin::predictive::{ByModel, Predictive, PredictiveError, for_each_output};
use kelvin::sampler::evaluated_together;
use rayon::prelude::*;

/// Predictive distributions at everything an experiment holds out.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOutPredictives {
    /// At the validation rows.
    pub validation: Predictive,
    /// At the test rows.
    pub test: Predictive,
    /// At the rows of another set.
    pub out_of_distribution: Option<Predictive>,
    /// At the corrupted test images.
    pub corrupted: Vec<(Corruption, Predictive)>,
}

impl HeldOutPredictives {
    /// Of no draws yet, at this inverse temperature.
    pub fn new(experiment: &Experiment, inverse_temperature: f64) -> Result<Self, ExperimentError> {
        Self::of_sets(experiment, |held_out| {
            Ok(Predictive::new(experiment.problem.likelihood, held_out.targets(), inverse_temperature)?)
        })
    }

    /// Of the draws of one chain, read again.
    ///
    /// # Errors
    /// Where draws cannot be read, or their outputs are no numbers.
    pub fn of_draws(experiment: &Experiment, inverse_temperature: f64, draws: &Draws) -> Result<Self, ExperimentError> {
        Self::of_sets(experiment, |held_out| experiment.predictive(held_out, inverse_temperature, [draws]))
    }

    fn of_sets(
        experiment: &Experiment,
        at: impl Fn(&HeldOut) -> Result<Predictive, ExperimentError>,
    ) -> Result<Self, ExperimentError> {
        let corrupted = experiment.corrupted.iter().map(|(corruption, held_out)| Ok((*corruption, at(held_out)?)));
        Ok(Self {
            validation: at(&experiment.validation)?,
            test: at(&experiment.test)?,
            out_of_distribution: experiment.out_of_distribution.as_ref().map(&at).transpose()?,
            corrupted: corrupted.collect::<Result<_, ExperimentError>>()?,
        })
    }

    /// Counts the draws of another chain.
    pub fn merge(&mut self, other: &Self) -> Result<(), PredictiveError> {
        if self.each().count() != other.each().count() {
            return Err(PredictiveError::OtherPoints);
        }
        self.each_mut().zip(other.each()).try_for_each(|(mine, theirs)| mine.merge(theirs))
    }

    /// Validation, test, another set, corrupted test images: the order of [`sets_of`].
    fn each_mut(&mut self) -> impl Iterator<Item = &mut Predictive> {
        let corrupted = self.corrupted.iter_mut().map(|(_, predictive)| predictive);
        [&mut self.validation, &mut self.test].into_iter().chain(&mut self.out_of_distribution).chain(corrupted)
    }

    fn each(&self) -> impl Iterator<Item = &Predictive> {
        let corrupted = self.corrupted.iter().map(|(_, predictive)| predictive);
        [&self.validation, &self.test].into_iter().chain(&self.out_of_distribution).chain(corrupted)
    }
}

/// What the draws of one chain predict so far.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningScores {
    /// At the held-out rows.
    pub predictives: HeldOutPredictives,
    /// What each draw predicts at a few validation rows.
    pub(crate) watched: WatchedRows,
    /// Validation LPD of all draws up to each.
    pub validation_lpd: Vec<ByModel<f64>>,
    /// The step of the first draw whose outputs were no finite numbers: from there on nothing is counted.
    pub failed_at: Option<u64>,
    /// Densities of training rows; none where a run goes on that was begun without.
    pub training: Option<TrainingDensities>,
}

impl RunningScores {
    /// Of no draws yet.
    pub fn new(experiment: &Experiment, inverse_temperature: f64) -> Result<Self, ExperimentError> {
        let predictives = HeldOutPredictives::new(experiment, inverse_temperature)?;
        let training = Some(no_training_densities(experiment, inverse_temperature));
        let watched = WatchedRows::new(experiment.problem.likelihood, experiment.validation.targets());
        Ok(Self { predictives, watched, validation_lpd: Vec::new(), failed_at: None, training })
    }

    /// All numbers one after the other, for [`RunningScores::restore`].
    pub(crate) fn state(&self) -> Vec<Vec<f64>> {
        let lpd = self.validation_lpd.iter().flat_map(|lpd| [lpd.standard, lpd.tempered]).collect();
        let mut state = vec![self.failed_at.into_iter().map(|step| step as f64).collect(), lpd, self.watched.state()];
        state.extend(self.predictives.each().map(Predictive::state));
        state.extend(self.training.as_ref().map(TrainingDensities::state));
        state
    }

    /// What was stored, given the same scores of no draws; `None` where it does not fit.
    pub(crate) fn restore(mut self, state: &[Vec<f64>]) -> Option<Self> {
        let [failed_at, lpd, watched, predictives @ ..] = state else { return None };
        self.watched.restore(watched)?;
        self.failed_at = failed_at.first().map(|step| *step as u64);
        let pair = |pair: &[f64]| ByModel { standard: pair[0], tempered: pair[1] };
        self.validation_lpd = lpd.chunks_exact(2).map(pair).collect();
        let (predictives, training) = predictives.split_at_checked(self.predictives.each().count())?;
        self.predictives.each_mut().zip(predictives).try_for_each(|(place, state)| place.restore(state))?;
        match training {
            [] => self.training = None,
            [state] => self.training.as_mut()?.restore(state)?,
            _ => return None,
        }
        Some(self)
    }

    /// Counts a draw's outputs at the rows of one set, unless a draw before had none.
    fn count_outputs(&mut self, set: usize, step: u64, outputs: &[f32]) -> Result<(), PredictiveError> {
        let Some(predictive) = self.predictives.each_mut().nth(set).filter(|_| self.failed_at.is_none()) else {
            return Ok(());
        };
        match predictive.add_draw(outputs) {
            Err(PredictiveError::NonFiniteOutput { .. }) => {
                self.failed_at = Some(step);
                Ok(())
            }
            Ok(()) if set == 0 => {
                self.watched.add_draw(outputs);
                Ok(())
            }
            counted => counted,
        }
    }

    /// Notes the validation LPD of all draws up to now.
    fn note_lpd(&mut self) -> Result<(), PredictiveError> {
        self.validation_lpd.push(match self.failed_at {
            None => self.predictives.validation.lpd()?,
            Some(_) => ByModel { standard: f64::NAN, tempered: f64::NAN },
        });
        Ok(())
    }
}

fn no_training_densities(experiment: &Experiment, inverse_temperature: f64) -> TrainingDensities {
    let Experiment { training_sample, problem, .. } = experiment;
    TrainingDensities::new(inverse_temperature, training_sample.num_rows()).standing_for(problem.train.len())
}

/// Densities of training rows under the draws of one chain, read again.
///
/// # Errors
/// Where draws cannot be read or evaluated.
pub fn training_densities(
    experiment: &Experiment,
    inverse_temperature: f64,
    draws: &Draws,
) -> Result<TrainingDensities, ExperimentError> {
    let rows = &experiment.training_sample;
    let mut gathered = no_training_densities(experiment, inverse_temperature);
    for_each_output(&*experiment.engine, rows, draws, |outputs| {
        gathered.add_draw(&experiment.problem.likelihood.log_densities(&outputs, rows.targets()));
        Ok::<(), ExperimentError>(())
    })?;
    Ok(gathered)
}

/// Counts one draw of each of these chains at the training rows.
fn count_training_densities(
    experiment: &Experiment,
    scores: &mut [&mut RunningScores],
    draws: &[(u64, Weights<'_>)],
) -> Result<(), ExperimentError> {
    let (rows, likelihood) = (&experiment.training_sample, experiment.problem.likelihood);
    let lot = evaluated_together(rows.num_rows() * rows.num_values());
    for (scores, draws) in scores.chunks_mut(lot).zip(draws.chunks(lot)) {
        let weights: Vec<Weights<'_>> = draws.iter().map(|(_, weights)| *weights).collect();
        let outputs = experiment.engine.outputs(rows, &weights)?;
        scores.par_iter_mut().zip(&outputs).for_each(|(scores, outputs)| {
            if let Some(training) = &mut scores.training {
                training.add_draw(&likelihood.log_densities(outputs, rows.targets()));
            }
        });
    }
    Ok(())
}

/// Everything an experiment holds out, in the order of [`HeldOutPredictives`].
fn sets_of(experiment: &Experiment) -> impl Iterator<Item = &HeldOut> {
    let corrupted = experiment.corrupted.iter().map(|(_, held_out)| held_out);
    [&experiment.validation, &experiment.test].into_iter().chain(&experiment.out_of_distribution).chain(corrupted)
}

/// Counts one draw of each of these chains, at the step it was kept at; chains are counted side by side.
pub(crate) fn count_draws(
    experiment: &Experiment,
    scores: &mut [&mut RunningScores],
    draws: &[(u64, Weights<'_>)],
) -> Result<(), ExperimentError> {
    for (set, held_out) in sets_of(experiment).enumerate() {
        let num_outputs = held_out.num_rows() * held_out.num_values();
        let lot = evaluated_together(num_outputs);
        for (scores, draws) in scores.chunks_mut(lot).zip(draws.chunks(lot)) {
            let weights: Vec<Weights<'_>> = draws.iter().map(|(_, weights)| *weights).collect();
            let outputs = experiment.engine.outputs(held_out, &weights)?;
            let chains = scores.par_iter_mut().zip(draws).zip(&outputs);
            chains.try_for_each(|((scores, (step, _)), outputs)| scores.count_outputs(set, *step, outputs))?;
        }
    }
    count_training_densities(experiment, scores, draws)?;
    Ok(scores.par_iter_mut().try_for_each(|scores| scores.note_lpd())?)
}

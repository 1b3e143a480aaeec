//! Everything a run found, as results.json: tables, figures, reports, comparisons and exports are made from it alone.

use crate::error::{Context, Result, StudyError, refused};
use std::path::Path;

use crate::experiment::{AuditRow, Experiment, SampledChain};
use crate::problem::{ProblemSource, Units};
use kelvin::data::{TargetNames, one_or_several};
use kelvin::diagnostics::{
    LearningTheory, TrainingDensities, Warning, independent_readings, number_or_nan, numbers_or_nan,
};
use kelvin::likelihood::Likelihood;
use kelvin::potential::Potential;
use kelvin::predictive::ByModel;
use kelvin::selection::{Checkpoint, JointChoice};
use serde::{Deserialize, Serialize};

use crate::findings::command::RunCommand;
use crate::findings::cross_validation::CrossValidation;
use crate::findings::predicting::Predicting;
use crate::findings::row::{Method, Row};
use crate::findings::trials::Trials;
use crate::findings::which_way::WhichWay;
use crate::version::this_kelvin;

/// The format of results.json that this kelvin writes and reads.
const FORMAT: u32 = 1;
/// The name of the file of findings in a run folder.
pub const FINDINGS: &str = "results.json";

/// What a run or a sweep found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    format: u32,
    /// Which command it was.
    pub command: RunCommand,
    /// The name of the experiment, from its settings.
    pub name: String,
    /// The data, the model and their sizes.
    pub problem: ProblemFacts,
    /// How chains were sampled, and for how long.
    pub sampling: SamplingFacts,
    /// The device that moved the chains, in words.
    pub device: String,
    /// The kelvin that made it, with its commit.
    pub kelvin: String,
    /// The inverse temperatures of the grid; empty for a run without one.
    pub grid: Vec<f64>,
    /// Starts of the search: a sweep's repetitions, or a run's chains.
    pub repetitions: u32,
    /// The repetition of a sweep that was run alone, from 1: this is one piece of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_repetition: Option<u32>,
    /// β̂* of a run; a sweep has one for each repetition.
    pub beta_star: Option<f64>,
    /// The searches for β, one for each start.
    pub searches: Vec<SearchFindings>,
    /// Scores of every method at every β: the lines of the tables.
    pub rows: Vec<Row>,
    /// The sampled chains, with what was measured at each kept draw.
    pub chains: Vec<ChainFindings>,
    /// How far the repetitions of a sweep agree at each β; empty for a run.
    pub agreement: Vec<Agreement>,
    /// Which way β should move from β̂* of a run; none for large networks and sweeps, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which_way: Option<ByModel<WhichWay>>,
    /// What every model predicts at rows that it has not seen, over all folds; none where none were asked for, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_validation: Option<CrossValidation>,
    /// What was tried by short chains before anything else; empty where nothing was, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trials>,
    /// The model that predicts new rows; none for images and sweeps, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicting: Option<Predicting>,
    /// The chains beside exact ones at the same temperatures; empty where no audit was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<AuditRow>,
    /// What may be wrong with these numbers.
    pub warnings: Vec<Warning>,
}

/// The data that were learned from, and the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProblemFacts {
    /// The name of the data.
    pub data: String,
    /// Gaussian for a regression, categorical for classes.
    pub likelihood: Likelihood,
    /// The names of the columns to predict; "class" for images.
    pub target: TargetNames,
    /// Mean and standard deviation that each of a table's targets was standardised with; none for classes.
    #[serde(default, with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    pub target_units: Vec<Units>,
    /// The names of a table's features; empty for images.
    pub features: Vec<String>,
    /// Numbers that the network takes in for a row of a table, where they are not as many as features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<usize>,
    /// The classes, in the order of their labels.
    pub classes: Vec<String>,
    /// Height, width and channels of an image; none for a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// The name of another data set on which uncertainty was measured; none if none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_distribution: Option<String>,
    /// Rows that chains learn from.
    pub training_rows: usize,
    /// Rows that β is chosen on.
    pub validation_rows: usize,
    /// Rows that scores are reported on.
    pub test_rows: usize,
    /// The network in a line, as people read it.
    pub network: String,
    /// The named tensors of θ with their sizes, in order.
    pub tensors: Vec<(String, usize)>,
}

/// How chains were sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingFacts {
    /// The seed that names every random number.
    pub seed: u64,
    /// Steps of one epoch: one pass over the training rows.
    pub steps_per_epoch: u64,
    /// Steps of a chain before its first cycle.
    pub burn_in_steps: u64,
    /// Steps of a cycle; one draw is kept at the end of each.
    pub cycle_steps: u64,
    /// Steps of a search for β.
    pub search_steps: u64,
    /// γt from one draw to the next; of chains that adapted, their mean.
    pub friction_times: f64,
    /// Whether a chain's seconds are its share of the population's.
    pub chains_share_time: bool,
}

/// A search for β that has ended.
#[derive(Clone, Debug)]
pub(crate) struct FinishedSearch {
    /// Its start, from 0.
    pub repetition: u32,
    /// The best checkpoint of the search: weights and β.
    pub choice: JointChoice,
    /// Wall-clock seconds that it took.
    pub seconds: f64,
}

/// A search for β, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchFindings {
    /// The number of its start, from 0.
    pub repetition: u32,
    /// Its checkpoints in order, from the start. Older kelvins did not look at the start: theirs may be empty.
    pub path: Vec<Visit>,
    /// Index into `path` of the checkpoint with the best validation score.
    pub best: usize,
    /// The step at which it diverged; none if it did not.
    pub diverged_at: Option<u64>,
    /// Wall-clock seconds that it took.
    pub seconds: f64,
}

/// A checkpoint of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Steps that the search had made.
    pub step: u64,
    /// β at this step; NaN if it was not finite.
    #[serde(deserialize_with = "number_or_nan")]
    pub beta: f64,
    /// Mean validation log density in nats of the network at this step, under the tempered model; NaN if it was not finite.
    #[serde(deserialize_with = "number_or_nan")]
    pub validation_lpd: f64,
}

/// A sampled chain, cycle by cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainFindings {
    /// Also the name of its file of draws.
    pub name: String,
    /// What people see in tables and figures.
    pub label: String,
    /// What it was sampled for.
    pub method: Method,
    /// The number of its start, from 0.
    pub repetition: u32,
    /// The inverse temperature of its target.
    pub beta: f64,
    /// The temperature of the sampler's noise.
    pub sampler_temperature: f64,
    /// The step at which it diverged; none if it did not.
    pub diverged_at: Option<u64>,
    /// Wall-clock seconds; its share of the population's time if chains move together.
    pub seconds: f64,
    /// Steps that it made in all; none in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// The step size that it found in its warm-up; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_size: Option<f64>,
    /// U(θ) at each kept draw.
    #[serde(deserialize_with = "numbers_or_nan")]
    pub potential_energy: Vec<f64>,
    /// ⟨θ, ∇E⟩/d at each kept draw.
    #[serde(deserialize_with = "numbers_or_nan")]
    pub configurational_temperature: Vec<f64>,
    /// T̂ at each kept draw; none without momenta.
    #[serde(deserialize_with = "numbers_or_nan")]
    pub kinetic_temperature: Vec<f64>,
    /// Validation LPD of all draws up to each, under both models.
    pub validation_lpd: Vec<ByModel<Option<f64>>>,
    /// Mean kinetic temperature of each tensor at the kept draws, in the order of `ProblemFacts::tensors`.
    #[serde(default, deserialize_with = "numbers_or_nan")]
    pub tensor_temperatures: Vec<f64>,
    /// The same over all steps after burn-in.
    #[serde(default, deserialize_with = "numbers_or_nan")]
    pub tensor_temperatures_all_steps: Vec<f64>,
    /// WAIC and related quantities of its draws; none for fewer than two draws, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_theory: Option<LearningTheory>,
}

/// How far the potential energies of the repetitions at one β agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The inverse temperature that these chains share.
    pub beta: f64,
    /// Rank-normalised split-R̂; none if there are too few draws.
    pub rhat: Option<f64>,
    /// Bulk effective sample size; none if there are too few draws.
    pub bulk_ess: Option<f64>,
    /// Tail effective sample size; none if there are too few draws.
    pub tail_ess: Option<f64>,
}

impl Findings {
    /// The facts of an experiment, without anything found yet.
    pub(crate) fn of(experiment: &Experiment, command: RunCommand) -> Result<Self> {
        let settings = &experiment.settings;
        let repetitions = match command {
            RunCommand::Sweep => settings.run.repetitions,
            RunCommand::Run | RunCommand::RunGrid => settings.run.chains,
        };
        let steps_per_epoch = experiment.sampler_steps()? / settings.sampler.epochs.max(1);
        Ok(Self {
            format: FORMAT,
            command,
            name: settings.name.clone(),
            problem: ProblemFacts::of(experiment),
            sampling: SamplingFacts {
                seed: settings.run.seed,
                steps_per_epoch,
                burn_in_steps: settings.sampler.burn_in * steps_per_epoch,
                cycle_steps: settings.sampler.cycle * steps_per_epoch,
                search_steps: experiment.selection_steps()?,
                friction_times: experiment.friction_times(std::iter::empty())?,
                chains_share_time: experiment.engine.moves_chains_together(),
            },
            kelvin: this_kelvin(),
            device: experiment.engine.describe_for(&experiment.posterior),
            grid: if command == RunCommand::Run { Vec::new() } else { settings.run.grid.clone() },
            repetitions,
            only_repetition: settings.run.only_repetition.filter(|_| command == RunCommand::Sweep),
            beta_star: None,
            searches: Vec::new(),
            rows: Vec::new(),
            chains: Vec::new(),
            agreement: Vec::new(),
            which_way: None,
            cross_validation: None,
            trials: Vec::new(),
            predicting: None,
            audit: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Adds the searches for β.
    pub(crate) fn add_searches(&mut self, searches: &[FinishedSearch]) {
        let visit =
            |at: &Checkpoint| Visit { step: at.step, beta: at.inverse_temperature, validation_lpd: at.validation_lpd };
        let found = |search: &FinishedSearch| SearchFindings {
            repetition: search.repetition,
            path: search.choice.path.iter().map(visit).collect(),
            best: search.choice.best,
            diverged_at: search.choice.divergence.map(|at| at.step),
            seconds: search.seconds,
        };
        self.searches = searches.iter().map(found).collect();
    }

    /// Adds the chains, cycle by cycle.
    pub(crate) fn add_chains(&mut self, experiment: &Experiment, chains: &[SampledChain]) -> Result<()> {
        self.sampling.friction_times = experiment.friction_times(chains.iter().map(|chain| &chain.chain))?;
        for sampled in chains {
            self.chains.push(ChainFindings::of(experiment, sampled)?);
        }
        Ok(())
    }

    /// Reads results.json of a run folder.
    ///
    /// # Errors
    /// If the run is not finished, or the file is damaged or of another format.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FINDINGS);
        let bytes = std::fs::read(&path).map_err(|error| not_finished(folder, &path, &error))?;
        let damaged =
            || format!("{} is damaged; `{}` writes it again", path.display(), crate::error::resume_command(folder));
        let value: serde_json::Value = serde_json::from_slice(&bytes).with_context(damaged)?;
        let format = value["format"].as_u64();
        if format != Some(u64::from(FORMAT)) {
            let found = format.map_or("no".into(), |format| format.to_string());
            return Err(refused(format!(
                "{} has format {found}, and this kelvin knows {FORMAT}; read it with the kelvin that wrote it, or run anew",
                path.display()
            )));
        }
        serde_json::from_value(value).with_context(damaged)
    }

    /// The number of repetitions with sampled chains: the first so many, or 1 if only one repetition was run.
    pub fn sampled_repetitions(&self) -> u32 {
        let last = self.chains.iter().map(|chain| chain.repetition + 1).max().unwrap_or(0);
        if self.only_repetition.is_some() { last.min(1) } else { last }
    }

    /// "repetition 2 of 5 alone" for a sweep of which only one repetition was run; none otherwise.
    pub fn piece(&self) -> Option<String> {
        Some(format!("repetition {} of {} alone", self.only_repetition?, self.repetitions))
    }

    /// The β that each search chose, whether or not chains were sampled there.
    pub fn searched_betas(&self) -> Vec<f64> {
        self.searches.iter().filter_map(|search| Some(search.path.get(search.best)?.beta)).collect()
    }

    /// The chains behind a row: all of its temperature, or the one of its repetition.
    pub fn chains_of<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a ChainFindings> {
        self.chains.iter().filter(|chain| {
            chain.method == row.method
                && chain.beta == row.beta
                && row.repetition.is_none_or(|repetition| repetition == chain.repetition)
        })
    }

    /// The row whose predictions the report shows one by one: at β̂*, the first repetition's in a sweep.
    pub fn shown_row(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.method == self.shown_method())
    }

    /// What the chains at β̂* were sampled for: β = 1 where that is what was chosen by held-out scores, and no others were sampled.
    pub fn shown_method(&self) -> Method {
        let has = |method| self.rows.iter().any(|row| row.method == method);
        if !has(Method::Chosen) && has(Method::Bayes) { Method::Bayes } else { Method::Chosen }
    }

    /// How many independent readings the mean kinetic temperature of so many draws of a chain is worth.
    pub fn independent_readings(&self, draws: usize) -> f64 {
        independent_readings(draws, self.sampling.friction_times)
    }

    /// The step at which a chain kept this draw; draws are counted from 0. A chain that adapted kept its last draw at its last step, however long its
    /// burn-in was.
    pub fn step_of_draw(&self, chain: &ChainFindings, draw: usize) -> u64 {
        let SamplingFacts { burn_in_steps, cycle_steps, .. } = self.sampling;
        let num_draws = chain.potential_energy.len() as u64;
        let ended = chain.steps.filter(|_| chain.step_size.is_some() && chain.diverged_at.is_none());
        let burn_in = ended.map_or(burn_in_steps, |steps| steps.saturating_sub(num_draws * cycle_steps));
        burn_in + (draw as u64 + 1) * cycle_steps
    }
}

/// Why there are no results, and what to do.
fn not_finished(folder: &Path, path: &Path, error: &std::io::Error) -> StudyError {
    if error.kind() != std::io::ErrorKind::NotFound {
        return refused(format!("cannot read {}: {error}", path.display()));
    }
    if !folder.is_dir() {
        return refused(format!(
            "there is no folder {}; `kelvin run` and `kelvin sweep` print where theirs is",
            folder.display()
        ));
    }
    if folder.join("checkpoints").is_dir() {
        let command = crate::error::resume_command(folder);
        return refused(format!(
            "the run in {} is not finished: it has no {FINDINGS} yet; `{command}` goes on with it",
            folder.display()
        ));
    }
    refused(format!("{} is no run folder of kelvin: it has no {FINDINGS}", folder.display()))
}

impl ChainFindings {
    /// What was measured of a sampled chain.
    pub(crate) fn of(experiment: &Experiment, sampled: &SampledChain) -> Result<Self> {
        let SampledChain { spec, chain, draws, scores, seconds } = sampled;
        Ok(Self {
            name: spec.draws_name(),
            label: spec.label.clone(),
            method: Method::of(spec.slot),
            repetition: spec.repetition,
            beta: spec.inverse_temperature,
            sampler_temperature: experiment.sampler_temperature(spec.inverse_temperature)?,
            diverged_at: chain.divergence.map(|at| at.step),
            seconds: *seconds,
            steps: Some(chain.state.step),
            step_size: Some(chain.state.adapted.step_size).filter(|_| chain.state.adapted.num_looks > 0),
            potential_energy: draws.potential_energy.clone(),
            configurational_temperature: draws.configurational_temperature.clone(),
            kinetic_temperature: draws.kinetic_temperature.clone(),
            validation_lpd: scores.validation_lpd.iter().map(finite).collect(),
            tensor_temperatures: measured_means(&chain.kinetic_kept),
            tensor_temperatures_all_steps: measured_means(&chain.kinetic_all),
            learning_theory: scores.training.as_ref().and_then(TrainingDensities::summary),
        })
    }
}

impl ProblemFacts {
    fn of(experiment: &Experiment) -> Self {
        let problem = &experiment.problem;
        let table = problem.table();
        let shape = problem.network.input();
        Self {
            data: match &problem.source {
                ProblemSource::Table(table) => table.dataset.name.clone(),
                ProblemSource::Images(images) => images.name.clone(),
            },
            likelihood: problem.likelihood,
            target: table.map_or("class".into(), |table| table.dataset.target_names.clone()),
            target_units: problem.target_units(),
            features: table.map_or(Vec::new(), |table| table.dataset.feature_names.clone()),
            inputs: table
                .filter(|table| table.standardiser.num_inputs() != table.dataset.num_features())
                .map(|table| table.standardiser.num_inputs()),
            classes: problem.class_names().to_vec(),
            image: table.is_none().then_some([shape.height, shape.width, shape.channels]),
            out_of_distribution: problem.out_of_distribution_name().map(str::to_owned),
            training_rows: problem.train.len(),
            validation_rows: problem.validation.len(),
            test_rows: problem.test.len(),
            network: problem.network.describe(),
            tensors: {
                let layout = experiment.posterior.layout();
                layout.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.range.len())).collect()
            },
        }
    }
}

/// Means of each tensor; none where nothing was measured.
fn measured_means(kinetic: &kelvin::diagnostics::KineticTemperature) -> Vec<f64> {
    if kinetic.num_readings() == 0 { Vec::new() } else { kinetic.tensor_means().to_vec() }
}

/// Replaces numbers that are not finite by none.
fn finite(lpd: &ByModel<f64>) -> ByModel<Option<f64>> {
    ByModel::from_fn(|model| Some(*lpd.get(model)).filter(|value| value.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::predictive::Scores;

    /// results.json as an older kelvin left it: no AUROC, no learning theory, no calibration error, no temperatures of tensors.
    const OLD: &str = r#"{
        "format": 1, "command": "run", "name": "old", "device": "CPU", "kelvin": "kelvin 0.1.0",
        "problem": {
            "data": "old.csv", "likelihood": {"gaussian": {"noise_variance": 0.01}}, "target": "y", "features": ["x"], "classes": [],
            "training_rows": 8, "validation_rows": 1, "test_rows": 1, "network": "1-2-1", "tensors": [["kernel", 2]]
        },
        "sampling": {
            "seed": 1, "steps_per_epoch": 1, "burn_in_steps": 2, "cycle_steps": 2, "search_steps": 3, "friction_times": 1.0,
            "chains_share_time": false
        },
        "grid": [], "repetitions": 1, "beta_star": 0.5, "agreement": [], "warnings": [],
        "searches": [{"repetition": 0, "path": [{"step": 1, "beta": 0.5, "validation_lpd": null}], "best": 0, "diverged_at": null, "seconds": 1.0}],
        "chains": [{
            "name": "chosen-1", "label": "β = 0.5", "method": "chosen", "repetition": 0, "beta": 0.5, "sampler_temperature": 2.0,
            "diverged_at": null, "seconds": 1.0, "potential_energy": [3.0, null], "configurational_temperature": [1.0, 2.0],
            "kinetic_temperature": [], "validation_lpd": []
        }],
        "rows": [{
            "method": "chosen", "label": "β = 0.5", "repetition": null, "beta": 0.5, "num_draws": 2, "seconds": 1.0,
            "validation": {"regression": {"standard": {"lpd": -1.0, "mse": 0.25}, "tempered": {"lpd": -2.0, "mse": 0.25}}},
            "test": {"regression": {"standard": {"lpd": -1.5, "mse": null}, "tempered": {"lpd": -2.5, "mse": 0.5}}},
            "measured": {"expected_beta_over_all_steps": 0.5}
        }]
    }"#;

    #[test]
    fn results_of_an_older_kelvin_are_read_and_what_they_lack_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FINDINGS), OLD).unwrap();
        let old = Findings::read(folder.path()).unwrap();
        let Scores::Regression(test) = &old.rows[0].test else { panic!("numbers") };
        assert_eq!((test.standard.lpd, test.tempered.mse), (-1.5, 0.5));
        assert!(test.standard.mse.is_nan() && test.standard.calibration_error.is_nan());
        let measured = old.rows[0].measured.as_ref().unwrap();
        assert!(measured.configurational_beta.is_nan() && measured.rhat.is_none());
        assert!(old.chains[0].learning_theory.is_none() && old.chains[0].tensor_temperatures.is_empty());
        assert!(old.chains[0].potential_energy[1].is_nan() && old.searches[0].path[0].validation_lpd.is_nan());

        // Tables and exports are made of it, and what is missing is an empty cell.
        let scores = crate::findings::scores_file::scores_csv(&old);
        let header: Vec<&str> = scores.lines().next().unwrap().split(',').collect();
        let at = header.iter().position(|name| *name == "calibration_error_sm").unwrap();
        assert_eq!(scores.lines().nth(1).unwrap().split(',').nth(at), Some(""), "{scores}");
        assert!(scores.contains("-1.5"), "{scores}");
    }
}

//! What is tried by short chains before a run: likelihoods at β = 1, then hidden layers, then, where the likelihood learns its noise, inverse
//! temperatures.
//!
//! Each choice is sampled on the folds of the run (the first of them on larger tables, its own rows where it has none) and scored by the standard model at
//! the rows that these hold out. The simplest that is within one standard error of the best is taken: of likelihoods the first in the list, of
//! hidden layers too, of temperatures the nearest to β = 1. What it may cost is in `settings/adaptive.rs`.

use std::sync::Arc;

use kelvin::data::Split;
use kelvin::predictive::PredictiveModel;

use crate::error::{Result, refused};
use crate::experiment::{ChainGroup, ChainSpec, Experiment, SampledChain, Slot};
use crate::findings::{HeldOutModel, JudgedOn, Method, ModelKind, ModelPredictions, Trials, Tried, with_draws};
use crate::number::significant;
use crate::settings::{LikelihoodName, Settings};
use crate::study::cross_validate::{splits, standard_deviations};
use crate::study::held_out_models::{HeldOutRows, fold_predictions, of_chains, units_of};
use crate::study::stages::{Asked, Part, PartRows, Stages};

/// Inverse temperatures that are tried, the simplest first.
pub(crate) const BETAS: [f64; 6] = [1.0, 0.5, 2.0, 0.3, 3.0, 10.0];

/// A choice: a likelihood at an inverse temperature, and hidden layers in place of the settings' own.
#[derive(Clone)]
struct Choice {
    likelihood: Option<LikelihoodName>,
    hidden: Option<Vec<usize>>,
    beta: f64,
}

impl Choice {
    /// Ends the names of its checkpoints.
    fn name(&self) -> String {
        let likelihood = self.likelihood.map_or("given", LikelihoodName::name);
        let hidden = self.hidden.as_deref().map_or(String::new(), |widths| format!("-{}", joined(widths, "x")));
        format!("-try-{likelihood}{hidden}-{}", self.beta)
    }

    /// The settings of its chains.
    fn put(&self, settings: &mut Settings) {
        settings.model.likelihood = self.likelihood;
        if self.hidden.is_some() {
            settings.model.hidden = self.hidden.clone();
        }
    }
}

/// Chooses the likelihood where the settings name some to try, and makes the run's experiment one with it.
///
/// # Errors
/// If chains cannot be moved, or none of the likelihoods gives predictions.
pub(crate) fn choose_likelihood(stages: &mut Stages) -> Result<Option<Trials>> {
    let names = stages.experiment.settings.run.likelihoods.clone();
    if names.is_empty() {
        return Ok(None);
    }
    let choices: Vec<Choice> =
        names.iter().map(|&name| Choice { likelihood: Some(name), hidden: None, beta: 1.0 }).collect();
    let label = |choice: &Choice| choice.likelihood.map_or(String::new(), |name| name.in_words().to_owned());
    let (place, trials) = tried(stages, Tried::Likelihood, &choices, label)?;
    let mut settings = stages.experiment.settings.clone();
    settings.model.likelihood = Some(names[place]);
    settings.run.likelihoods.clear();
    stages.folder.write_likelihood(&settings)?;
    take_up(stages, settings)?;
    Ok(Some(trials))
}

/// Chooses hidden layers where the settings name some to try, and makes the run's experiment one with them.
///
/// # Errors
/// If chains cannot be moved, or none of the networks gives predictions.
pub(crate) fn choose_hidden(stages: &mut Stages) -> Result<Option<Trials>> {
    let Settings { run, model, .. } = &stages.experiment.settings;
    if run.hidden_layers.is_empty() {
        return Ok(None);
    }
    let of = |widths: &Vec<usize>| Choice { likelihood: model.likelihood, hidden: Some(widths.clone()), beta: 1.0 };
    let choices: Vec<Choice> = run.hidden_layers.iter().map(of).collect();
    let label = |choice: &Choice| widths_in_words(choice.hidden.as_deref().unwrap_or_default());
    let (place, trials) = tried(stages, Tried::Hidden, &choices, label)?;
    let mut settings = stages.experiment.settings.clone();
    choices[place].put(&mut settings);
    settings.run.hidden_layers.clear();
    stages.folder.write_hidden(&settings)?;
    take_up(stages, settings)?;
    Ok(Some(trials))
}

/// The run's experiment with other settings of its model.
fn take_up(stages: &mut Stages, settings: Settings) -> Result<()> {
    let own = own_split(&stages.experiment)?;
    let problem = stages.experiment.problem.divided(own, &settings)?.ok_or_else(of_tables)?;
    stages.experiment = Experiment::on(Arc::clone(&stages.experiment.engine), problem, settings)?;
    Ok(())
}

/// `64`, `64 and 64` units, or none.
fn widths_in_words(widths: &[usize]) -> String {
    match widths {
        [] => "no hidden layer".into(),
        [1] => "1 unit".into(),
        _ => format!("{} units", joined(widths, " and ")),
    }
}

fn joined(widths: &[usize], between: &str) -> String {
    widths.iter().map(usize::to_string).collect::<Vec<String>>().join(between)
}

/// Chooses β by held-out scores where the likelihood has none to tell; none where it has, or one is named, or chains have a fixed length.
///
/// # Errors
/// If chains cannot be moved, or predict nothing at any β.
pub(crate) fn choose_beta(stages: &Stages, has_chosen_hidden: bool) -> Result<Option<(f64, Trials)>> {
    let settings = &stages.experiment.settings;
    let has_one = stages.experiment.problem.likelihood.identifies_beta() || settings.selection.beta.is_some();
    if has_one || !settings.sampler.adapt {
        return Ok(None);
    }
    let likelihood = settings.model.likelihood;
    // Named after the hidden layers, as the chains at β = 1 that chose them are.
    let hidden = settings.model.hidden.clone().filter(|_| has_chosen_hidden);
    let choices: Vec<Choice> = BETAS.iter().map(|&beta| Choice { likelihood, hidden: hidden.clone(), beta }).collect();
    let label = |choice: &Choice| format!("β = {}", significant(choice.beta, 3));
    let (place, trials) = tried(stages, Tried::Beta, &choices, label)?;
    Ok(Some((BETAS[place], trials)))
}

fn of_tables() -> crate::error::StudyError {
    refused("likelihoods are tried on tables")
}

fn own_split(experiment: &Experiment) -> Result<Split> {
    Ok(experiment.problem.table().ok_or_else(of_tables)?.split.clone())
}

/// Samples every choice on every division, and puts their scores side by side.
fn tried(
    stages: &Stages,
    tried: Tried,
    choices: &[Choice],
    label: impl Fn(&Choice) -> String,
) -> Result<(usize, Trials)> {
    let main = &stages.experiment;
    let table = main.problem.table().ok_or_else(of_tables)?;
    let mut num_parameters = 0;
    for choice in choices {
        let mut settings = main.settings.clone();
        choice.put(&mut settings);
        let network = settings.model.build(main.problem.network.input(), main.problem.network.num_outputs())?;
        num_parameters = num_parameters.max(network.layout().len());
    }
    // As long for each: what the largest of the networks allows.
    let (short, num_folds) = main.settings.clone().for_trials(table.dataset.num_rows(), num_parameters);
    let folds = splits(main)?;
    let (divisions, rows, judged_on): (Vec<(PartRows, Split)>, _, _) = match folds.is_empty() {
        true => (vec![(PartRows::Own, own_split(main)?)], HeldOutRows::Validation, JudgedOn::Validation),
        false => {
            let judged_on = if main.settings.run.folds.is_some() { JudgedOn::Folds } else { JudgedOn::Splits };
            ((1..).map(PartRows::Fold).zip(folds).take(num_folds).collect(), HeldOutRows::Test, judged_on)
        }
    };
    let mut experiments = Vec::new();
    for (part, split) in &divisions {
        for choice in choices {
            let mut settings: Settings = short.clone();
            choice.put(&mut settings);
            let problem = main.problem.divided(split.clone(), &settings)?.ok_or_else(of_tables)?;
            experiments.push((*part, choice, Experiment::on(Arc::clone(&main.engine), problem, settings)?));
        }
    }
    let asked: Vec<Asked<'_>> = experiments
        .iter()
        .map(|(rows, choice, experiment)| {
            let part = Part { experiment, rows: *rows };
            let spec = |repetition| ChainSpec {
                label: part.titled(format!("{}, chain {}", label(choice), repetition - part.first_repetition() + 1)),
                repetition,
                slot: Slot::Bayes,
                inverse_temperature: choice.beta,
                start: None,
            };
            Asked { part, name: choice.name(), specs: part.repetitions().into_iter().map(spec).collect() }
        })
        .collect();
    let sampled = stages.sample_here(&asked)?;
    let mut of_divisions = Vec::new();
    for (experiments, sampled) in experiments.chunks(choices.len()).zip(sampled.chunks(choices.len())) {
        let mut models = Vec::new();
        for ((_, choice, experiment), chains) in experiments.iter().zip(sampled) {
            let mut found = predictions(experiment, choice, chains, rows, label(choice))?;
            // Likelihoods have their targets in units of their own: those of a division are compared in the first one's.
            let (first, own) = (units_of(&experiments[0].2), units_of(experiment));
            let scale: f64 = first.iter().zip(&own).map(|(first, own)| (first.std / own.std).ln()).sum();
            found.log_densities.iter_mut().for_each(|log_density| *log_density += scale);
            models.push(found);
        }
        of_divisions.push(fold_predictions(&experiments[0].2, rows, 1.0, models)?);
    }
    let stds = standard_deviations(&table.dataset);
    Trials::of(tried, &of_divisions, &stds, judged_on).ok_or_else(|| {
        refused(
            "none of the short chains that try models gave predictions that are finite numbers\n  name one with --likelihood, or look for columns with \
             extreme values",
        )
    })
}

/// What the chains of a choice predict, by the standard model; no numbers where none of them kept a draw.
fn predictions(
    experiment: &Experiment,
    choice: &Choice,
    chains: &[SampledChain],
    rows: HeldOutRows,
    label: String,
) -> Result<ModelPredictions> {
    let what = HeldOutModel {
        kind: ModelKind::Bayes,
        model: PredictiveModel::Standard,
        beta: Some(choice.beta),
        label: label.clone(),
    };
    let group = ChainGroup { label, inverse_temperature: choice.beta, chains: with_draws(chains.iter()) };
    if group.chains.is_empty() {
        let rows = rows.of(experiment).num_rows();
        let nothing = vec![f64::NAN; rows * experiment.problem.likelihood.num_targets()];
        return Ok(ModelPredictions {
            what,
            log_densities: vec![f64::NAN; rows],
            points: nothing.clone(),
            pit: nothing,
            monte_carlo_error: 0.0,
        });
    }
    let found = of_chains(Method::Bayes, &group, rows, experiment)?;
    let standard = found.into_iter().next().ok_or_else(|| refused("chains predict under no model"))?;
    Ok(ModelPredictions { what, ..standard })
}

/// How many chains trials sample, on how many divisions: for costs that are told before a run.
pub(crate) fn num_trials(settings: &Settings, learns_noise: bool) -> usize {
    let (likelihoods, networks) = (settings.run.likelihoods.len(), settings.run.hidden_layers.len());
    // The chains at β = 1 of the likelihood or the network that was chosen last are there already.
    let betas = if learns_noise { BETAS.len() - usize::from(likelihoods + networks > 0) } else { 0 };
    likelihoods + networks + betas
}

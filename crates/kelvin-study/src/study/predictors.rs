//! What a run keeps to predict with: every model of its own rows, and the one that was chosen learned once more from all rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kelvin::data::Split;
use kelvin::diagnostics::Warning;
use kelvin::draws::Draws;
use kelvin::predictive::PredictiveModel;

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::{ChainGroup, ChainSpec, Experiment, SampledChain, Slot, Weighed, network_draw};
use crate::findings::{BETA_STAR, HeldOutModel, Method, ModelKind, Predicting, with_draws};
use crate::folder::{SavedDraws, SavedForm, SavedModel, SavedPredictor, SavedRows};
use crate::number::significant;
use crate::problem::Problem;
use crate::settings::DrawsSetting;
use crate::study::held_out_models::{FinishedPart, around_network, linear_model, networks, of_weights};
use crate::study::stages::{Asked, Part, PartRows, Stages, divergence_warnings};
use crate::version::VERSION;

/// Stores the weights of every model of the run's own rows, and lists the models with the one that predicts first. Nothing where draws are not
/// stored: then there is nothing to predict with.
///
/// # Errors
/// If weights cannot be written.
pub(crate) fn saved_predictors(
    stages: &Stages,
    own: &FinishedPart<'_>,
    predicting: Option<&Predicting>,
    saved: &mut SavedModel,
) -> Result<()> {
    let experiment = own.experiment;
    if experiment.settings.sampler.draws != DrawsSetting::Stored {
        return Ok(());
    }
    let num_rows = experiment.problem.train.len();
    let predictor = |what, form| SavedPredictor { what, num_rows, on_all_rows: false, form };
    let mut found = Vec::new();
    for (method, group) in &own.groups {
        let files: Vec<String> = group.chains.iter().map(|chain| chain.spec.draws_name()).collect();
        found.extend(of_chains(*method, group.inverse_temperature, &files, num_rows));
    }
    if experiment.problem.table().is_some() {
        let store = |name: &str, draws: &Draws| -> Result<String> {
            let about = BTreeMap::from([
                ("label", name.to_owned()),
                ("seed", experiment.settings.run.seed.to_string()),
                ("version", VERSION.to_owned()),
            ]);
            let path: PathBuf = stages.folder.draws(name);
            draws.save(&path, &experiment.posterior, &about).map_err(ExperimentError::from)?;
            Ok(name.to_owned())
        };
        let mut parts = Vec::new();
        for (number, search) in (1..).zip(own.searches) {
            let file = store(&format!("network-{number}"), &network_draw(&search.choice)?)?;
            parts.push(SavedDraws { file, power: search.choice.inverse_temperature });
        }
        let beta = own.searches[own.chosen].choice.inverse_temperature;
        let [network, ensemble] = networks(parts.len());
        found.push(predictor(network, SavedForm::Draws(vec![parts[own.chosen].clone()])));
        found.push(predictor(ensemble, SavedForm::Draws(parts)));
        for (kind, draws) in of_weights(&own.baselines) {
            let name = if kind == ModelKind::Swag { "swag" } else { "laplace" };
            let file = store(name, draws)?;
            found.push(predictor(around_network(kind), SavedForm::draws(&[file], beta)));
        }
        let linear = own.baselines.linear.as_ref();
        found.extend(linear.map(|model| {
            let weights = model.weights().iter().map(|&weight| weight as f32).collect();
            let form = SavedForm::Linear { weights, noise_variances: model.noise_variances.clone() };
            predictor(linear_model(experiment.problem.likelihood.kind()), form)
        }));
    }
    let place = |what: &HeldOutModel| match predicting {
        Some(predicting) if predicting.what == *what => 0,
        Some(predicting) => 1 + predicting.candidates.iter().take_while(|candidate| candidate.what != *what).count(),
        // Of images β̂* predicts, by the model that predicts the validation rows better.
        None => usize::from(what.kind != ModelKind::Chosen) + usize::from(Some(what.model) != saved.predictive_model),
    };
    found.sort_by_key(|predictor| place(&predictor.what));
    saved.predictors = found;
    Ok(())
}

/// Chains at one temperature as models that can predict; none of a grid.
fn of_chains(method: Method, beta: f64, files: &[String], num_rows: usize) -> Vec<SavedPredictor> {
    match method {
        Method::Bayes => {
            let what = HeldOutModel {
                kind: ModelKind::Bayes,
                model: PredictiveModel::Standard,
                beta: Some(beta),
                label: "β = 1".into(),
            };
            vec![SavedPredictor { what, num_rows, on_all_rows: false, form: SavedForm::draws(files, 1.0) }]
        }
        Method::Chosen if beta == 1.0 => {
            let of = SavedPredictor::at_beta_star(PredictiveModel::Standard, beta, files, num_rows);
            vec![SavedPredictor { what: HeldOutModel { label: BETA_STAR.into(), ..of.what }, ..of }]
        }
        Method::Chosen => {
            let of = |model| SavedPredictor::at_beta_star(model, beta, files, num_rows);
            PredictiveModel::BOTH.map(of).to_vec()
        }
        Method::Grid | Method::Sgd => Vec::new(),
    }
}

/// Learns what was chosen from all rows, where the settings ask for it: chains are sampled anew, a linear model is solved. What rests on a search stays
/// as it is, since its validation rows say where it ends. Returns what should be known of the chains.
///
/// # Errors
/// If chains cannot be moved, or draws cannot be written.
pub(crate) fn learned_from_all_rows(
    stages: &Stages,
    own: &FinishedPart<'_>,
    num_folds: u32,
    predicting: &mut Predicting,
    saved: &mut SavedModel,
) -> Result<Vec<Warning>> {
    let settings = &own.experiment.settings;
    predicting.num_rows = own.experiment.problem.train.len();
    let (true, Some(table)) = (settings.run.all_rows && !saved.predictors.is_empty(), own.experiment.problem.table())
    else {
        return Ok(Vec::new());
    };
    // What is held out of the run's own rows is only watched: nothing is chosen by it any more.
    let split = Split { train: (0..table.dataset.num_rows()).collect(), ..table.split.clone() };
    let num_rows = split.train.len();
    let problem = own.experiment.problem.divided(split, settings)?.ok_or_else(|| refused("images have no folds"))?;
    let rows = SavedRows::of(&problem);
    let (forms, warnings) = match predicting.what.kind {
        ModelKind::Linear => {
            let stds = |problem: &Problem| problem.target_units().iter().map(|units| units.std).collect::<Vec<f64>>();
            let (own_stds, stds) = (stds(&own.experiment.problem), stds(&problem));
            let linear =
                own.baselines.linear.as_ref().and_then(|own| own.of_rows(Weighed::of(&problem), &own_stds, &stds));
            let Some(model) = linear else { return Ok(Vec::new()) };
            let weights = model.weights().iter().map(|&weight| weight as f32).collect();
            let form = SavedForm::Linear { weights, noise_variances: model.noise_variances };
            (vec![(predicting.what.clone(), form)], Vec::new())
        }
        ModelKind::Bayes | ModelKind::Chosen => {
            let method = if predicting.what.kind == ModelKind::Bayes { Method::Bayes } else { Method::Chosen };
            let beta = if method == Method::Bayes { 1.0 } else { saved.inverse_temperature };
            let experiment = Experiment::on(own.experiment.engine.clone(), problem, settings.clone())?;
            let part = Part { experiment: &experiment, rows: PartRows::All(num_folds) };
            let (files, warnings) = sampled(stages, part, own, method, beta)?;
            if files.is_empty() {
                return Ok(warnings);
            }
            let all = of_chains(method, beta, &files, num_rows).into_iter();
            (all.map(|predictor| (predictor.what, predictor.form)).collect(), warnings)
        }
        _ => return Ok(Vec::new()),
    };
    for (what, form) in forms {
        if let Some(place) = saved.predictors.iter_mut().find(|predictor| predictor.what == what) {
            *place = SavedPredictor { what, num_rows, on_all_rows: true, form };
        }
    }
    (saved.all_rows, predicting.num_rows) = (rows, num_rows);
    Ok(warnings)
}

/// Chains on all rows at one temperature; the names of their files of draws, and what should be known of them.
fn sampled(
    stages: &Stages,
    part: Part<'_>,
    own: &FinishedPart<'_>,
    method: Method,
    beta: f64,
) -> Result<(Vec<String>, Vec<Warning>)> {
    let slot = if method == Method::Bayes { Slot::Bayes } else { Slot::Chosen };
    let name =
        if method == Method::Bayes { "β = 1".into() } else { format!("{BETA_STAR} = {}", significant(beta, 3)) };
    let dim = part.experiment.posterior.initial_position(0, 0).len();
    let spec = |(repetition, search): (u32, &crate::findings::FinishedSearch)| {
        let start = part.experiment.start(Some(&search.choice)).filter(|start| start.position.len() == dim);
        let label = part.titled(format!("{name}, chain {}", repetition - part.first_repetition() + 1));
        ChainSpec { label, repetition, slot, inverse_temperature: beta, start }
    };
    let specs: Vec<ChainSpec> = part.repetitions().into_iter().zip(own.searches).map(spec).collect();
    let asked = Asked { part, name: format!("-{}", specs[0].group_name()), specs };
    let chains: Vec<SampledChain> = stages.sample_here(&[asked])?.pop().unwrap_or_default();
    let mut warnings = divergence_warnings(&chains);
    let with_draws = with_draws(chains.iter());
    let files = with_draws.iter().map(|chain| part.draws_name(&chain.spec)).collect();
    if !with_draws.is_empty() {
        let group = ChainGroup { label: part.titled(name), inverse_temperature: beta, chains: with_draws };
        let temperature = part.experiment.sampler_temperature(beta)?;
        let mut measured = group.measured(temperature, part.experiment.expected_inflation()?);
        measured.step_ratio = group.step_ratio(part.experiment)?;
        warnings.extend(group.warnings(part.experiment, &measured, temperature));
    }
    Ok((files, warnings))
}

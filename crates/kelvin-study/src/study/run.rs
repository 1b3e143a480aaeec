//! A run: choose β, sample at β = 1 and β̂* (and the grid where asked), score.

use kelvin::draws::Draws;
use kelvin::sampler::Silent;

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::{AuditPlan, ChainGroup, ChainSpec, Experiment, ExperimentLaboratory, SampledChain, Slot};
use crate::findings::{
    BETA_STAR, Findings, FinishedSearch, Method, ModelKind, Row, RunCommand, agreement_warning, prediction_warnings,
    which_way, with_draws,
};
use crate::folder::{MODEL, SavedModel};
use crate::number::significant;
use crate::study::cross_validate::{fold_experiments, judged};
use crate::study::held_out_models::FinishedPart;
use crate::study::observer::Note;
use crate::study::predictors::{learned_from_all_rows, saved_predictors};
use crate::study::stages::{Asked, Part, PartRows, Stages, chosen_draws, divergence_warnings, selection_warnings};
use crate::study::trials::{choose_beta, choose_hidden, choose_likelihood};

/// Carries out a run, or resumes what its folder holds.
pub(crate) fn run(stages: &mut Stages, command: RunCommand) -> Result<Findings> {
    let grid = command == RunCommand::RunGrid;
    if stages.experiment.settings.run.exact {
        let num_temperatures = 2 + if grid { stages.experiment.settings.run.grid.len() } else { 0 };
        let cost = stages.experiment.audit_cost(num_temperatures, &AuditPlan::default())?;
        stages.observer.note(&Note::AuditCost(cost));
    }
    let mut trials = Vec::from_iter(choose_likelihood(stages)?);
    let of_hidden = choose_hidden(stages)?;
    let tried_beta = choose_beta(stages, of_hidden.is_some())?;
    trials.extend(of_hidden);
    let mut folds = fold_experiments(&stages.experiment)?;
    let (searches, fold_searches) = search(stages, &folds)?;
    let choice = &searches[best_choice(&searches)?].choice;
    // A β that was named; of a likelihood that has none to tell, the one that held-out scores chose, in every fold.
    let (tried_beta, beta_trials) = tried_beta.unzip();
    trials.extend(beta_trials);
    let given = stages.experiment.settings.selection.beta.or(tried_beta);
    let beta = given.unwrap_or(choice.inverse_temperature);
    stages.tune(choice)?;
    for fold in &mut folds {
        fold.settings.sampler.learning_rate = stages.experiment.settings.sampler.learning_rate;
    }

    let mut parts = vec![(Part { experiment: &stages.experiment, rows: PartRows::Own }, &searches, beta)];
    for ((number, experiment), searches) in (1..).zip(&folds).zip(&fold_searches) {
        let beta = given.unwrap_or(searches[best_choice(searches)?].choice.inverse_temperature);
        parts.push((Part { experiment, rows: PartRows::Fold(number) }, searches, beta));
    }
    // Chains at a β̂* of 1 that was chosen so would be those at β = 1 once more.
    let wanted = Wanted { apart: tried_beta != Some(1.0), grid };
    let mut chains = sample(stages, &parts, wanted)?.into_iter();
    let (chains, fold_chains): (Vec<SampledChain>, Vec<Vec<SampledChain>>) =
        (chains.next().unwrap_or_default(), chains.collect());

    let (experiment, folder) = (&stages.experiment, &stages.folder);
    let mut findings = Findings::of(experiment, command)?;
    findings.beta_star = Some(beta);
    findings.trials = trials;
    findings.add_searches(&searches);
    findings.add_chains(experiment, &chains)?;
    findings.warnings = selection_warnings(&searches, std::iter::once(choice));
    findings.warnings.extend(divergence_warnings(&chains));
    let search_seconds = searches.iter().map(|search| search.seconds).sum();
    let (row, predictions) = Row::sgd(experiment, choice, None, search_seconds)?;
    folder.add_row(&mut findings, row, &predictions)?;
    let groups_of_run = groups(experiment, &chains, beta, wanted)?;
    let sampled_betas = groups_of_run.iter().map(|(_, group)| group.inverse_temperature);
    findings.warnings.extend(experiment.tempered_scales(sampled_betas));
    for (method, group) in &groups_of_run {
        stages.check_cancelled()?;
        let seconds = group.chains.iter().map(|chain| chain.seconds).sum();
        let (row, predictions) = Row::posterior(experiment, *method, group, None, seconds)?;
        if let Some(measured) = &row.measured {
            let temperature = experiment.sampler_temperature(group.inverse_temperature)?;
            findings.warnings.extend(group.warnings(experiment, measured, temperature));
            findings.warnings.extend(group.tensor_warning(experiment, measured)?);
        }
        findings.warnings.extend(agreement_warning(experiment, group)?);
        let is_shown = *method == wanted.shown();
        if is_shown {
            findings.warnings.extend(prediction_warnings(experiment, &row, &predictions)?);
        }
        folder.add_row(&mut findings, row, &predictions)?;
        if is_shown {
            let draws: Vec<&Draws> = group.chains.iter().map(|chain| &chain.draws).collect();
            findings.which_way = which_way(&ExperimentLaboratory::new(experiment, 0, &Silent), beta, &draws)?;
        }
    }
    let mut finished = Vec::new();
    for ((part, searches, beta), chains) in parts.iter().skip(1).zip(&fold_chains) {
        let groups = groups(part.experiment, chains, *beta, wanted)?;
        finished.push(FinishedPart::new(part.experiment, searches, best_choice(searches)?, groups, *beta)?);
    }
    let mut saved = SavedModel::of(&experiment.problem, beta, &findings, chosen_draws(&chains));
    let own = FinishedPart::new(experiment, &searches, best_choice(&searches)?, groups_of_run, beta)?;
    (findings.cross_validation, findings.predicting) = judged(&own, &finished)?;
    if experiment.settings.selection.beta.is_some() {
        // Whoever names a β wants its draws.
        findings.predicting.iter_mut().for_each(|predicting| predicting.prefer(ModelKind::Chosen));
    }
    saved_predictors(stages, &own, findings.predicting.as_ref(), &mut saved)?;
    if let Some(predicting) = &mut findings.predicting {
        let num_folds = finished.len() as u32;
        let warnings = learned_from_all_rows(stages, &own, num_folds, predicting, &mut saved)?;
        findings.warnings.extend(warnings);
    }
    if experiment.settings.run.exact {
        findings.audit = stages.audit(own.groups.into_iter().map(|(_, group)| group).collect())?;
    }
    folder.write_json(MODEL, &saved)?;
    Ok(findings)
}

/// Which temperatures are sampled beside β = 1.
#[derive(Clone, Copy)]
struct Wanted {
    /// Those at β̂*.
    apart: bool,
    /// Those of the grid.
    grid: bool,
}

impl Wanted {
    /// The chains that reports show one by one.
    fn shown(self) -> Method {
        if self.apart { Method::Chosen } else { Method::Bayes }
    }
}

/// The searches of the run's own division, and of each fold.
fn search(stages: &Stages, folds: &[Experiment]) -> Result<(Vec<FinishedSearch>, Vec<Vec<FinishedSearch>>)> {
    let experiments = std::iter::once(&stages.experiment).chain(folds);
    let rows = std::iter::once(PartRows::Own).chain((1..).map(PartRows::Fold));
    let parts = rows.zip(experiments).map(|(rows, experiment)| Part { experiment, rows });
    let asked: Vec<(Part<'_>, Vec<u32>)> = parts.map(|part| (part, part.repetitions())).collect();
    let mut found = stages.search_parts(&asked)?.into_iter();
    Ok((found.next().unwrap_or_default(), found.collect()))
}

/// The chains of each part: as one population, or one for each temperature where each decides for itself when it has seen enough.
fn sample(
    stages: &Stages,
    parts: &[(Part<'_>, &Vec<FinishedSearch>, f64)],
    wanted: Wanted,
) -> Result<Vec<Vec<SampledChain>>> {
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for (part, searches, beta) in parts {
        let specs = chain_specs(*part, searches, *beta, wanted);
        if part.experiment.settings.stopping.is_none() {
            asked.push(Asked { part: *part, name: String::new(), specs });
            continue;
        }
        for spec in specs {
            let name = format!("-{}", spec.group_name());
            match asked.iter_mut().find(|other| other.part.rows == part.rows && other.name == name) {
                Some(own) => own.specs.push(spec),
                None => asked.push(Asked { part: *part, name, specs: vec![spec] }),
            }
        }
    }
    let sampled = stages.sample_populations(&asked)?;
    let mut of_parts: Vec<Vec<SampledChain>> = parts.iter().map(|_| Vec::new()).collect();
    for (asked, chains) in asked.iter().zip(sampled) {
        of_parts[asked.part.number() as usize].extend(chains);
    }
    Ok(of_parts)
}

/// The index of the search with the best validation score over all starts.
fn best_choice(searches: &[FinishedSearch]) -> Result<usize> {
    let scores = searches.iter().map(|search| search.choice.validation_lpd()).enumerate();
    let best = scores.filter(|(_, lpd)| lpd.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(index, _)| index)
        .ok_or_else(|| refused("no search for β has a finite validation score; lower selection.learning_rate"))
}

fn chain_specs(part: Part<'_>, searches: &[FinishedSearch], beta: f64, wanted: Wanted) -> Vec<ChainSpec> {
    let mut specs = Vec::new();
    for FinishedSearch { repetition, choice, .. } in searches {
        let start = part.experiment.start(Some(choice));
        let mut push = |name: String, slot, inverse_temperature| {
            let label = part.titled(format!("{name}, chain {}", repetition - part.first_repetition() + 1));
            let (repetition, start) = (*repetition, start.clone());
            specs.push(ChainSpec { label, repetition, slot, inverse_temperature, start });
        };
        push("β = 1".into(), Slot::Bayes, 1.0);
        if wanted.apart {
            push(format!("{BETA_STAR} = {}", significant(beta, 3)), Slot::Chosen, beta);
        }
        if wanted.grid {
            for (index, &at) in part.experiment.settings.run.grid.iter().enumerate() {
                push(format!("β = {}", significant(at, 3)), Slot::Grid(index as u32), at);
            }
        }
    }
    specs
}

/// Chains by temperature, in the order of the table; a temperature without any draw is an error for β = 1 and β̂*.
fn groups<'a>(
    experiment: &Experiment,
    chains: &'a [SampledChain],
    beta: f64,
    wanted: Wanted,
) -> Result<Vec<(Method, ChainGroup<'a>)>> {
    let of_slot = |slot: Slot| with_draws(chains.iter().filter(|chain| chain.spec.slot == slot));
    let mut groups = Vec::new();
    let both = [(Method::Bayes, Slot::Bayes, 1.0, "β = 1"), (Method::Chosen, Slot::Chosen, beta, BETA_STAR)];
    for (method, slot, at, label) in both.into_iter().take(if wanted.apart { 2 } else { 1 }) {
        let chains = of_slot(slot);
        if chains.is_empty() {
            return Err(ExperimentError::SamplingDiverged {
                beta: at,
                chains: experiment.settings.run.chains as usize,
                learning_rate: experiment.settings.sampler.learning_rate,
            }
            .into());
        }
        groups.push((method, ChainGroup { label: label.into(), inverse_temperature: at, chains }));
    }
    if wanted.grid {
        for (index, &at) in experiment.settings.run.grid.iter().enumerate() {
            let chains = of_slot(Slot::Grid(index as u32));
            if !chains.is_empty() {
                let label = format!("grid β = {}", significant(at, 3));
                groups.push((Method::Grid, ChainGroup { label, inverse_temperature: at, chains }));
            }
        }
    }
    Ok(groups)
}

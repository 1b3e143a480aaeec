//! `kelvin select`: ways to choose β side by side, each judged by chains at its β on test rows.

use super::threads;
use crate::arguments::{CommonArguments, SelectArguments};
use crate::each_start::{SEARCHING, StartChoice, each_start};
use crate::interrupt::Interrupt;
use crate::output::{WrongFlags, print_result, say, wrapped};
use crate::paper_layout::{self, Layout};
use crate::paper_tables::Spread;
use crate::selection_file::{SELECTION, SelectResult, StoredSelection, open_folder};
use crate::selection_table::{
    Choice, Line, Refusal, legend_text, printed, refusals_text, selection_table, warnings_text,
};
use crate::watched_laboratory::{Relay, WatchedLaboratory};
use crate::which_way::{WhichWay, which_way, which_way_text};
use crate::{device, source};
use kelvin::experiment::{Experiment, Problem, Searched};
use kelvin::likelihood::TargetKind;
use kelvin::predictive::{ByModel, Scores};
use kelvin::sampler::{AscentObjective, EngineError};
use kelvin::selection::{
    GridSelector, JointChoice, Laboratory, MeasuredGrid, Selection, SelectionError, Selector, all_selectors,
    grid_selectors, selector,
};

/// What a practitioner wants to see first.
const USUAL: [&str; 7] = ["joint", "map", "guo", "refine-sm", "refine-tm", "grid-lpd-sm", "grid-lpd-tm"];

pub fn select(arguments: SelectArguments) -> anyhow::Result<()> {
    let SelectArguments { source, method, all, starts, each_start: each, out, seed, overrides, conduct } = arguments;
    for name in &method {
        selector(name, &[]).map_err(|error| WrongFlags(format!("--method: {error}")))?;
    }
    if each && !method.is_empty() && !method.iter().any(|name| SEARCHING.iter().any(|(known, _)| known == name)) {
        return Err(WrongFlags("--each-start is for methods that search alone: joint, map and guo".into()).into());
    }
    threads(conduct.threads)?;
    let common = CommonArguments { out: None, seed, fresh: false, overrides, conduct };
    let source = source::read(&source, &common)?;
    let (conduct, asked) = (&common.conduct, source.settings.to_toml()?);
    out.as_deref().map(open_folder).transpose()?;
    let problem = Problem::new(source.data, &source.settings)?;
    let interrupt = Interrupt::listen()?;
    let mut experiment = device::experiment(conduct.device, conduct.quiet, problem, source.settings)?;
    let starts = starts.unwrap_or(experiment.settings.run.chains);
    let quiet = conduct.quiet || conduct.json;
    let relay = Relay::new(&interrupt);
    let stopped = |error: anyhow::Error| if interrupt.has_come() { interrupt.stopped_for_good().into() } else { error };

    let searched = match source.automatic {
        true => tune(&mut experiment, &relay, starts, quiet).map_err(stopped)?,
        false => Searched::new(),
    };
    let laboratory = WatchedLaboratory::new(&experiment, &relay, starts, quiet, searched);
    let grid = &experiment.settings.run.grid;
    let is_asked = |name: &str| match method.is_empty() {
        true => all || USUAL.contains(&name),
        false => method.iter().any(|asked| asked == name),
    };
    let selectors: Vec<Box<dyn Selector>> =
        all_selectors(grid).into_iter().filter(|one| is_asked(one.name())).collect();
    let (selections, refusals) = ask(&laboratory, &selectors, grid, !method.is_empty()).map_err(stopped)?;
    let choices = judge(&experiment, &laboratory, selections).map_err(stopped)?;
    let of_starts: Vec<StartChoice> = match each {
        true => each_start(&experiment, &laboratory, &selectors).map_err(stopped)?,
        false => Vec::new(),
    };

    let name = &experiment.settings.name;
    let result = SelectResult::new(&experiment, starts, &choices, &refusals, &of_starts);
    let classes = matches!(experiment.problem.likelihood.kind(), TargetKind::Classes { .. });
    let lines: Vec<Line<'_>> = choices.iter().map(Line::from).collect();
    let table = selection_table(name, &lines, classes);
    if let Some(folder) = &out {
        result.write(folder, &asked, &table)?;
    }
    if conduct.json {
        return print_result(&format!("{}\n", serde_json::to_string(&result)?));
    }
    let (legend, refusals) = (legend_text(&lines, classes), refusals_text(&refusals));
    let joint = choices.iter().find(|choice| choice.selection.method == "joint");
    let way = joint.and_then(|joint| Some((joint.selection.inverse_temperature, joint.which_way?)));
    let way = way.map_or(String::new(), |(beta, way)| format!("\n{}", which_way_text(beta, &way)));
    print_result(&format!("{}{legend}{refusals}{way}", printed(table).to_text()))?;
    if each {
        let layout = Layout { spread: Spread::StandardDeviation, compare: false };
        let starts = paper_layout::selectors(&[&StoredSelection::of_starts(name, of_starts.clone())], layout);
        print_result(&starts.map_or(String::new(), |table| format!("\n{}", table.to_text())))?;
    }
    if let Some(folder) = &out {
        say(&format!("selection: {}\n", folder.join(SELECTION).display()));
    }
    say(&warnings_text(&choices));
    if !all && method.is_empty() && !conduct.quiet {
        let rest = all_selectors(grid).len() - selectors.len();
        let prices = laboratory.prices();
        let searches = 2.0 * f64::from(starts) * prices.search / prices.chain;
        say(&wrapped(&note_about_the_rest(rest, searches), "  "));
    }
    Ok(())
}

fn note_about_the_rest(rest: usize, searches: f64) -> String {
    format!(
        "note: --all adds {rest} methods: other criteria on the same grid for nothing, at most two more searches from every start (the \
         cost of {searches:.2} chains), and for small models methods that refit them"
    )
}

/// Finds the step size of a table's chains, as `kelvin run` does; the search it needs is not made again.
fn tune(experiment: &mut Experiment, relay: &Relay<'_>, starts: u32, quiet: bool) -> anyhow::Result<Searched> {
    let laboratory = WatchedLaboratory::new(experiment, relay, starts, quiet, Searched::new());
    let choices = laboratory.search(AscentObjective::default())?;
    let searched = laboratory.into_searched();
    let finite = choices.iter().filter(|choice| choice.validation_lpd().is_finite());
    let best = finite.max_by(|a, b| a.validation_lpd().total_cmp(&b.validation_lpd()));
    // Without one, the methods themselves say what is wrong.
    if let Some(JointChoice { position, inverse_temperature, .. }) = best {
        experiment.tune_learning_rate(position, *inverse_temperature)?;
    }
    Ok(searched)
}

/// Asks every selector; the grid is measured once. Those that do not suit are an error where they were named.
fn ask(
    laboratory: &dyn Laboratory,
    selectors: &[Box<dyn Selector>],
    grid: &[f64],
    are_named: bool,
) -> anyhow::Result<(Vec<Selection>, Vec<Refusal>)> {
    let on_grid = |name: &str| grid_selectors(grid).into_iter().find(|one| one.name() == name);
    let likelihood = laboratory.posterior().likelihood();
    let on_grid = |name: &str| on_grid(name).filter(|one| one.criterion.applies_to(likelihood));
    let mut in_order: Vec<(usize, &dyn Selector)> = selectors.iter().map(AsRef::as_ref).enumerate().collect();
    // What refuses a model does so before chains are run.
    in_order.sort_by_key(|(_, one)| (on_grid(one.name()).is_some(), one.goal().serves_lpd()));
    let mut measured: Option<MeasuredGrid> = None;
    let (mut found, mut refusals) = (Vec::new(), Vec::new());
    for (place, one) in in_order {
        let answer = match on_grid(one.name()) {
            Some(on_grid) => choose_on_grid(laboratory, &on_grid, &mut measured),
            None => one.select(laboratory),
        };
        match answer {
            Ok(selection) => found.push((place, selection)),
            Err(error) if !is_refusal(&error) => return Err(error.into()),
            Err(error) if are_named => return Err(WrongFlags(format!("--method {}: {error}", one.name())).into()),
            Err(error) => refusals.push((place, Refusal { method: one.name(), reason: reason(&error) })),
        }
    }
    found.sort_by_key(|(place, _)| *place);
    refusals.sort_by_key(|(place, _)| *place);
    let (found, refusals) = (found.into_iter().map(|(_, one)| one), refusals.into_iter().map(|(_, one)| one));
    Ok((found.collect(), refusals.collect()))
}

fn choose_on_grid(
    laboratory: &dyn Laboratory,
    selector: &GridSelector,
    measured: &mut Option<MeasuredGrid>,
) -> Result<Selection, SelectionError> {
    let measured = match measured {
        Some(measured) => measured,
        None => measured.insert(MeasuredGrid::new(laboratory, &selector.inverse_temperatures)?),
    };
    selector.choose(measured)
}

/// Whether it is the method that fails here, and not the machine.
fn is_refusal(error: &SelectionError) -> bool {
    matches!(
        error,
        SelectionError::DoesNotSuit { .. }
            | SelectionError::NothingFound { .. }
            | SelectionError::Engine(EngineError::Unsupported { .. })
    )
}

fn reason(error: &SelectionError) -> String {
    match error {
        SelectionError::DoesNotSuit { reason, .. } | SelectionError::NothingFound { reason, .. } => reason.to_string(),
        other => other.to_string(),
    }
}

/// What chains at a β predict.
struct Judged {
    beta: f64,
    /// None where no chain kept a draw.
    validation: Option<Scores>,
    test: Option<Scores>,
    which_way: Option<ByModel<WhichWay>>,
}

/// Samples once at each β that was chosen, all in one population, and scores test rows.
fn judge(
    experiment: &Experiment,
    laboratory: &WatchedLaboratory<'_>,
    selections: Vec<Selection>,
) -> anyhow::Result<Vec<Choice>> {
    let mut betas: Vec<f64> = selections.iter().map(|selection| selection.inverse_temperature).collect();
    betas.sort_by(f64::total_cmp);
    betas.dedup();
    let mut scored: Vec<Judged> = Vec::new();
    let sampled = if betas.is_empty() { Vec::new() } else { laboratory.sample_to_score(&betas)? };
    for (beta, draws) in betas.into_iter().zip(&sampled) {
        let scores = |rows| -> anyhow::Result<Option<Scores>> {
            let predictive = if draws.is_empty() { None } else { Some(experiment.predictive(rows, beta, draws)?) };
            Ok(predictive.map(|predictive| predictive.scores()).transpose()?)
        };
        scored.push(Judged {
            beta,
            validation: scores(&experiment.validation)?,
            test: scores(&experiment.test)?,
            which_way: which_way(laboratory, beta, &draws.iter().collect::<Vec<_>>())?,
        });
    }
    let judged = |selection: Selection| {
        let at = scored.iter().find(|judged| judged.beta == selection.inverse_temperature);
        let goal = selection.goal;
        Choice {
            selection,
            serves: goal.describe(),
            serves_lpd: goal.serves_lpd(),
            validation: at.and_then(|judged| judged.validation.clone()),
            test: at.and_then(|judged| judged.test.clone()),
            which_way: at.and_then(|judged| judged.which_way),
        }
    };
    Ok(selections.into_iter().map(judged).collect())
}

//! Ways to choose β side by side, each judged by chains at its β on test rows.

use std::sync::Arc;

use kelvin::predictive::{ByModel, Scores};
use kelvin::sampler::{AscentObjective, EngineError};
use kelvin::selection::{
    GridSelector, JointChoice, Laboratory, MeasuredGrid, Prices, Selection, SelectionError, Selector, all_selectors,
    grid_selectors,
};

use crate::error::{Result, StudyError};
use crate::experiment::{Experiment, Searched};
use crate::findings::{Choice, Refusal, StartChoice, WhichWay, which_way};
use crate::folder::Shard;
use crate::study::cancel::Cancel;
use crate::study::conduct::Outcome;
use crate::study::each_start::each_start;
use crate::study::observer::StudyObserver;
use crate::study::watched_laboratory::{Relay, WatchedLaboratory};

/// The methods that a practitioner wants to see first.
const USUAL: [&str; 7] = ["joint", "map", "guo", "refine-sm", "refine-tm", "grid-lpd-sm", "grid-lpd-tm"];

/// The methods of choosing β that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Those that a practitioner wants to see first.
    Usual,
    /// All there are; those that do not suit the model are told.
    All,
    /// The methods of these names; one that does not suit the model is an error.
    Named(Vec<String>),
}

impl Methods {
    /// The names of the methods, of all there are for a grid.
    pub fn names(&self, grid: &[f64]) -> Vec<&'static str> {
        all_selectors(grid).iter().map(|one| one.name()).filter(|name| self.include(name)).collect()
    }

    fn include(&self, name: &str) -> bool {
        match self {
            Self::Usual => USUAL.contains(&name),
            Self::All => true,
            Self::Named(names) => names.iter().any(|asked| asked == name),
        }
    }
}

/// A comparison of methods of choosing β. It has no folder: if it is stopped, nothing is kept.
pub struct SelectStudy {
    /// The problem, its settings, and the engine they run on.
    pub experiment: Experiment,
    /// Whether step sizes were derived from the table and want a pilot.
    pub automatic: bool,
    /// The methods to compare.
    pub methods: Methods,
    /// The shard of the methods that is asked here; all of them where there is none.
    pub shard: Option<Shard>,
    /// The number of starts of each search, and of chains at each β.
    pub num_starts: u32,
    /// Whether what each start chose on its own is scored too.
    pub each_start: bool,
    /// Who is told about progress.
    pub observer: Arc<dyn StudyObserver>,
    /// Stops the study from another thread.
    pub cancel: Cancel,
}

/// What the methods chose, with scores and costs.
pub struct Selected {
    /// The experiment, with the step size that a pilot found.
    pub experiment: Experiment,
    /// What each method chose.
    pub choices: Vec<Choice>,
    /// The methods that could not choose, with their reasons.
    pub refusals: Vec<Refusal>,
    /// What each start chose on its own; empty unless asked for.
    pub of_starts: Vec<StartChoice>,
    /// The number of methods that were not asked.
    pub num_not_asked: usize,
    /// What one search and one chain cost, in gradients.
    pub prices: Prices,
}

impl SelectStudy {
    /// Asks every method, and judges each by chains at its β.
    ///
    /// # Errors
    /// Where chains cannot be moved, or a method that was named does not suit the model.
    pub fn carry_out(self) -> Result<Outcome<Selected>> {
        let cancel = self.cancel.clone();
        match self.ask_and_judge() {
            // Whatever a population that was stopped ended with.
            Err(_) if cancel.is_cancelled() => Ok(Outcome::Stopped),
            found => found.map(Outcome::Finished),
        }
    }

    fn ask_and_judge(self) -> Result<Selected> {
        let Self { mut experiment, automatic, methods, shard, num_starts, each_start: each, observer, cancel } = self;
        let relay = Relay::new(cancel, observer);
        let searched = match automatic {
            true => tune(&mut experiment, &relay, num_starts)?,
            false => Searched::new(),
        };
        let laboratory = WatchedLaboratory::new(&experiment, &relay, num_starts, searched);
        let grid = &experiment.settings.run.grid;
        let all = all_selectors(grid);
        let num_methods = all.len();
        let mut selectors: Vec<Box<dyn Selector>> = all.into_iter().filter(|one| methods.include(one.name())).collect();
        let num_not_asked = num_methods - selectors.len();
        if let Some(shard) = shard {
            selectors = own_selectors(selectors, grid, shard);
        }
        let are_named = matches!(methods, Methods::Named(_));
        let (selections, refusals) = ask(&laboratory, &selectors, grid, are_named)?;
        let choices = judge(&experiment, &laboratory, selections)?;
        let of_starts = match each {
            true => each_start(&experiment, &laboratory, &selectors)?,
            false => Vec::new(),
        };
        let prices = laboratory.prices();
        drop(laboratory);
        Ok(Selected { experiment, choices, refusals, of_starts, num_not_asked, prices })
    }
}

/// The selectors of a shard; those on the grid stay together, since they share its chains.
fn own_selectors(selectors: Vec<Box<dyn Selector>>, grid: &[f64], shard: Shard) -> Vec<Box<dyn Selector>> {
    let on_grid: Vec<&str> = grid_selectors(grid).iter().map(Selector::name).collect();
    let (of_grid, others): (Vec<_>, Vec<_>) = selectors.into_iter().partition(|one| on_grid.contains(&one.name()));
    let mut pieces: Vec<Vec<Box<dyn Selector>>> = others.into_iter().map(|one| vec![one]).collect();
    if !of_grid.is_empty() {
        pieces.push(of_grid);
    }
    let own = shard.own(pieces.len());
    pieces.into_iter().skip(own.start).take(own.len()).flatten().collect()
}

/// Finds the step size of a table's chains, as `kelvin run` does; the search it needs is not made again.
fn tune(experiment: &mut Experiment, relay: &Relay, starts: u32) -> Result<Searched> {
    let laboratory = WatchedLaboratory::new(experiment, relay, starts, Searched::new());
    let found = laboratory.search(AscentObjective::default())?;
    let searched = laboratory.into_searched();
    let finite = found.iter().map(|one| &one.choice).filter(|choice| choice.validation_lpd().is_finite());
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
) -> Result<(Vec<Selection>, Vec<Refusal>)> {
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
            Err(error) if are_named => {
                return Err(StudyError::WrongQuestion(format!("--method {}: {error}", one.name())));
            }
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
) -> Result<Vec<Choice>> {
    let mut betas: Vec<f64> = selections.iter().map(|selection| selection.inverse_temperature).collect();
    betas.sort_by(f64::total_cmp);
    betas.dedup();
    let mut scored: Vec<Judged> = Vec::new();
    let sampled = if betas.is_empty() { Vec::new() } else { laboratory.sample_to_score(&betas)? };
    for (beta, draws) in betas.into_iter().zip(&sampled) {
        let scores = |rows| -> Result<Option<Scores>> {
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

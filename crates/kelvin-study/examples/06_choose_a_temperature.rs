//! Chooses β for one data set in several ways and puts β, its uncertainty, its cost and the test scores there side by side.
//!
//! `cargo run --release -p kelvin --example 06_choose_a_temperature [PRESET [STARTS [full]]]`

use kelvin::predictive::PredictiveModel::{Standard, Tempered};
use kelvin::predictive::Scores;
use kelvin::sampler::{PriorShare, Silent};
use kelvin::selection::{
    Criterion, GridSelector, GuoSelector, JointSelector, Laboratory, MeasuredGrid, RefineSelector, SampledStart,
    Selection, Selector,
};
use kelvin_study::experiment::{Experiment, ExperimentLaboratory};
use kelvin_study::problem::Problem;
use kelvin_study::settings::preset;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("concrete", String::as_str);
    let starts: u32 = arguments.get(1).map_or(Ok(1), |starts| starts.parse())?;
    let is_full = arguments.get(2).is_some_and(|word| word == "full");
    let settings = preset(name)?.settings();
    let data = std::env::var_os("KELVIN_DATA");
    let rows = Problem::read_dataset(&settings, data.as_deref().map(std::path::Path::new))?;
    let problem = Problem::new(rows, &settings)?;
    let settings = if is_full { settings } else { settings.quick(1) };
    let experiment = Experiment::new(problem, settings)?;
    let laboratory = ExperimentLaboratory::new(&experiment, starts, &Silent);

    println!("{:<14} {:>8} {:>24} {:>8} {:>8} {:>8}", "method", "β", "interval", "chains", "SM LPD", "TM LPD");
    let joint = JointSelector::default().select(&laboratory)?;
    show(&experiment, &laboratory, &joint)?;
    let map = JointSelector { prior: PriorShare::Once, ..JointSelector::default() };
    show(&experiment, &laboratory, &map.select(&laboratory)?)?;
    show(&experiment, &laboratory, &GuoSelector.select(&laboratory)?)?;
    for model in [Standard, Tempered] {
        let selector = RefineSelector::new(model);
        let refined = selector.refine(&laboratory, joint.inverse_temperature)?;
        for visit in &refined.visits {
            let (slope, error) = (visit.by_log_beta(), visit.inverse_temperature * visit.standard_error());
            println!(
                "  β = {:.3}: d LPD/d log β = {slope:.4} ± {error:.4} ({})",
                visit.inverse_temperature,
                visit.direction()
            );
        }
        show(&experiment, &laboratory, &selector.select(&laboratory)?)?;
    }
    let grid = &experiment.settings.run.grid;
    let measured = MeasuredGrid::new(&laboratory, grid)?;
    let mut chosen = Vec::new();
    for (criterion, model) in [
        (Criterion::Lpd, Standard),
        (Criterion::Lpd, Tempered),
        (Criterion::PointError, Standard),
        (Criterion::Coverage, Tempered),
    ] {
        if criterion.applies_to(experiment.problem.likelihood) {
            let selector = GridSelector { inverse_temperatures: grid.clone(), criterion, model };
            chosen.push(selector.choose(&measured)?);
        }
    }
    for selection in &chosen {
        show(&experiment, &laboratory, selection)?;
    }
    assert!(chosen.iter().all(|selection| selection.cost.chains > joint.cost.chains));
    Ok(())
}

/// One row of the table, with the test scores of chains at the chosen β.
fn show(experiment: &Experiment, laboratory: &ExperimentLaboratory<'_>, selection: &Selection) -> Fallible<()> {
    let beta = selection.inverse_temperature;
    let chains = laboratory.sample(&[beta])?.remove(0);
    let draws = SampledStart::draws_of(&chains);
    let scores: Scores = experiment.predictive(&experiment.test, beta, draws)?.scores()?;
    let interval = selection.intervals.last().map_or("".into(), |interval| {
        let text = format!("{:?}", interval.meaning);
        let word = text.split_whitespace().next().unwrap_or_default();
        format!("{word} {:.3}–{:.3}", interval.low, interval.high)
    });
    let (standard, tempered) = (scores.lpd().standard, scores.lpd().tempered);
    println!(
        "{:<14} {beta:>8.3} {interval:>24} {:>8.2} {standard:>8.3} {tempered:>8.3}",
        selection.method, selection.cost.chains
    );
    for warning in &selection.warnings {
        println!("  {}: {}", warning.name(), warning.seen());
    }
    Ok(())
}

//! Selectors on a small experiment: each asks its laboratory for runs and says what they cost.

use kelvin::data::Targets;
use kelvin::experiment::{Experiment, ExperimentLaboratory, Problem, Settings, preset};
use kelvin::sampler::{AscentObjective, LogBeta, PriorShare, Silent};
use kelvin::selection::{Goal, GuoSelector, IntervalMeaning, JointSelector, Laboratory, Selector};

/// Concrete with a small network and short runs.
fn settings() -> Settings {
    let mut settings = preset("concrete").unwrap().settings();
    settings.model.hidden = Some(vec![8]);
    settings.selection.epochs = 400;
    settings.selection.learning_rate = 1e-5;
    let sampler = &mut settings.sampler;
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in) = (50, 100, 200);
    (sampler.epochs, sampler.cycle) = (600, 10);
    settings
}

fn problem(settings: &Settings) -> Problem {
    Problem::new(Problem::read_dataset(settings, None).unwrap(), settings).unwrap()
}

#[test]
fn joint_ascent_is_a_selector() {
    let settings = settings();
    let problem = problem(&settings);
    let experiment = Experiment::new(&problem, settings).unwrap();
    let laboratory = ExperimentLaboratory::new(&experiment, 3, &Silent);
    let selection = JointSelector::default().select(&laboratory).unwrap();
    let choices = experiment.select(&[0, 1, 2], &Silent).unwrap();
    let best = choices.iter().flatten().max_by(|a, b| a.validation_lpd().total_cmp(&b.validation_lpd())).unwrap();
    assert_eq!(selection.inverse_temperature, best.inverse_temperature);
    assert_eq!((selection.method, selection.goal), ("joint", Goal::PlugInDensity));
    let interval = selection.intervals[0];
    assert_eq!(interval.meaning, IntervalMeaning::OverStarts { count: 3 });
    assert!((interval.low..=interval.high).contains(&selection.inverse_temperature));
    // 3 searches of 400 epochs over 824 rows; a chain has 600.
    assert_eq!(selection.cost.row_gradients, 3.0 * 400.0 * 824.0);
    assert_eq!(selection.cost.chains, 2.0);

    // A prior of variance 0.1 pulls weights in and leaves larger residuals; n of them pull n times as hard.
    let map = |prior| JointSelector { prior, ..JointSelector::default() }.select(&laboratory).unwrap();
    let (once, per_datum) = (map(PriorShare::Once), map(PriorShare::PerDatum));
    assert_eq!((once.method, per_datum.method), ("map", "map-per-datum"));
    assert!(per_datum.inverse_temperature < once.inverse_temperature);
}

#[test]
fn chains_of_the_laboratory_are_those_of_the_experiment_and_go_on_for_less() {
    let settings = settings();
    let problem = problem(&settings);
    let experiment = Experiment::new(&problem, settings).unwrap();
    let laboratory = ExperimentLaboratory::new(&experiment, 2, &Silent);
    let draws = laboratory.sample(&[1.0, 3.0]).unwrap();
    assert_eq!(
        draws.iter().map(|chains| chains.iter().map(|draws| draws.len()).sum()).collect::<Vec<usize>>(),
        [80, 80]
    );
    let later = laboratory.continue_at(3.5, &draws[1]).unwrap();
    assert_eq!(later.iter().map(|draws| draws.len()).collect::<Vec<_>>(), [20, 20]);
    let prices = laboratory.prices();
    assert_eq!(prices.continued_chain / prices.chain, 240.0 / 600.0);
    // The energy is already where it was: E U = const + d/(2β) hardly differs between 3 and 3.5.
    let mean = |draws: &[kelvin::draws::Draws]| {
        let all: Vec<f64> = draws.iter().flat_map(|draws| draws.potential_energy.clone()).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert!((mean(&later) / mean(&draws[1]) - 1.0).abs() < 0.1, "{} {}", mean(&later), mean(&draws[1]));
}

/// At plain SGD's θ̂ the validation rows alone set β̂ = σ² n / SSE.
#[test]
fn post_hoc_scaling_fits_the_validation_rows() {
    let settings = settings();
    let problem = problem(&settings);
    let experiment = Experiment::new(&problem, settings).unwrap();
    let laboratory = ExperimentLaboratory::new(&experiment, 1, &Silent);
    let selection = GuoSelector.select(&laboratory).unwrap();
    let frozen = AscentObjective { log_beta: LogBeta::Frozen, ..AscentObjective::default() };
    let choice = laboratory.search(frozen).unwrap().remove(0);
    assert_eq!(choice.inverse_temperature, 1.0);
    let Targets::Real(targets) = experiment.validation.targets() else { panic!("numbers") };
    let outputs = experiment.validation.outputs(choice.weights());
    let squares: f64 = outputs.iter().zip(targets).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    let expected = 0.01 * targets.len() as f64 / squares;
    assert!((selection.inverse_temperature / expected - 1.0).abs() < 1e-12);
    assert_eq!((selection.method, selection.cost.chains), ("guo", 400.0 / 600.0));
}

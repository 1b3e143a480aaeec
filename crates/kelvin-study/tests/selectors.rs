//! Selectors on a small experiment: each asks its laboratory for runs and says what they cost.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kelvin::data::{Examples, Targets};
use kelvin::diagnostics::Warning;
use kelvin::draws::Draws;
use kelvin::exact::LinearRegression;
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ClipScope, CpuEngine, JointAscent, Keep, LogBeta, Observer, Plan, PriorShare,
    Silent,
};
use kelvin::selection::{
    Goal, GuoSelector, IntervalMeaning, JointSelector, Laboratory, SampledStart, Search, SearchedStart, Selector,
    choose_jointly,
};
use kelvin::temperature::{Schedule, Temperature};
use kelvin_study::experiment::{Experiment, ExperimentLaboratory};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{Settings, Start, preset};

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
    let experiment = Experiment::new(problem, settings).unwrap();
    let laboratory = ExperimentLaboratory::new(&experiment, 3, &Silent);
    let selection = JointSelector::default().select(&laboratory).unwrap();
    let choices = experiment.select(&[0, 1, 2], &Silent).unwrap();
    let best = choices.iter().max_by(|a, b| a.validation_lpd().total_cmp(&b.validation_lpd())).unwrap();
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

/// β̂ of `map-per-datum` is a maximum and no end of its search. Of n log p(θ) + Σ log N(y|f, σ²/β), β = σ² n/SSE and, where f is linear,
/// θ is the ridge estimate with penalty n σ²/(β s²); the two are iterated to their fixed point.
#[test]
fn with_a_prior_for_each_row_beta_is_a_maximum() {
    let per_datum = AscentObjective { prior: PriorShare::PerDatum, ..AscentObjective::default() };
    let found = |settings: &Settings| {
        let problem = problem(settings);
        let experiment = Experiment::new(problem, settings.clone()).unwrap();
        let laboratory = ExperimentLaboratory::new(&experiment, 2, &Silent);
        let examples = experiment.posterior.examples();
        let Targets::Real(targets) = &examples.targets else { panic!("numbers") };
        let targets: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
        let row = |row: &[f32]| row.iter().map(|&x| f64::from(x)).chain([1.0]).collect::<Vec<f64>>();
        let inputs: Vec<f64> = examples.inputs.numbers().chunks_exact(8).flat_map(row).collect();
        (laboratory.search(per_datum).unwrap(), inputs, targets)
    };
    let mut settings = settings();
    settings.selection.epochs = 2000;
    settings.selection.weight_decay = 0.0;
    let (noise, prior) = (settings.model.noise_variance, settings.model.prior_variance);

    // A network with a hidden layer has its maximum at θ = 0, from every start: what it predicts there is of second order in θ, what
    // the prior takes is n θ²/(2 s²) with s² = 0.1. Standardised targets then have β̂ = σ²: the 0.01 of the noise variance.
    let (choices, _, targets) = found(&settings);
    let squares: f64 = targets.iter().map(|y| y * y).sum();
    for SearchedStart { choice, .. } in &choices {
        let (last, expected) = (choice.path.last().unwrap(), noise * targets.len() as f64 / squares);
        assert!((last.inverse_temperature / expected - 1.0).abs() < 1e-6, "{last:?} {expected}");
        assert!(choice.position.iter().all(|theta| theta.abs() < 1e-3));
    }

    settings.model.hidden = Some(Vec::new());
    let (choices, inputs, targets) = found(&settings);
    let mut beta = 1.0;
    for _ in 0..200 {
        let noise_per_row = noise * targets.len() as f64 / beta;
        let fit = LinearRegression::new(&inputs, &targets, 9, noise_per_row, prior).unwrap();
        let residual = |(x, y): (&[f64], &f64)| y - x.iter().zip(fit.mean()).map(|(x, theta)| x * theta).sum::<f64>();
        let squares: f64 = inputs.chunks_exact(9).zip(&targets).map(residual).map(|residual| residual * residual).sum();
        beta = noise * targets.len() as f64 / squares;
    }
    assert!((0.011..0.05).contains(&beta), "no longer a model that predicts the mean: {beta}");
    for SearchedStart { choice, .. } in &choices {
        let last = choice.path.last().unwrap().inverse_temperature;
        assert!((last / beta - 1.0).abs() < 1e-4, "{last} instead of {beta}");
    }
}

/// Training rows say 1, validation rows say 0, which the start predicts: whatever is learned is worse there.
#[test]
fn the_start_is_chosen_where_nothing_after_it_is_better() {
    let rows = |target: f32| Examples {
        inputs: vec![0.0; 8].into(),
        num_features: 1,
        targets: Targets::Real(vec![target; 8]),
    };
    let (train, validation) = (rows(1.0), rows(0.0));
    let network = Network::dense(1, &[], 1).unwrap();
    let likelihood = Likelihood::Gaussian { noise_variance: 1.0 };
    let prior = IsotropicGaussian::new(1.0).unwrap();
    let posterior = Posterior::new(&network, likelihood, prior, &train).unwrap();
    let rule = JointAscent {
        objective: AscentObjective::default(),
        learning_rate: Schedule::Constant { value: 1e-2 },
        momentum: 0.9,
        weight_decay: 0.0,
        clip_norm: 1e6,
        clip_scope: ClipScope::All,
    };
    let plan =
        Plan { seed: 0, batches: Batches::new(8, None).unwrap(), num_steps: 40, keep: Keep { burn_in: 0, every: 10 } };
    let chain = Chain::new(0, Temperature::new(1.0).unwrap(), vec![0.0; 2], &posterior.layout());
    let mut searches = [Search { chain, choice: None }];
    let held_out = HeldOut::new(&network, &validation);
    choose_jointly(&CpuEngine, &posterior, &rule, &plan, &mut searches, &held_out, &Silent).unwrap();
    let choice = searches[0].choice.as_ref().unwrap();
    assert_eq!(choice.path.iter().map(|visit| visit.step).collect::<Vec<_>>(), [0, 10, 20, 30, 40]);
    assert_eq!((choice.best, choice.inverse_temperature, &choice.position), (0, 1.0, &vec![0.0; 2]));
    let start = -0.5 * (2.0 * std::f64::consts::PI).ln();
    assert!((choice.validation_lpd() - start).abs() < 1e-12, "{}", choice.validation_lpd());
    assert!(choice.path[1..].iter().all(|visit| visit.validation_lpd < start));
    assert!(searches[0].chain.state.position[1] > 0.5, "it did learn the training rows");
    assert_eq!((choice.not_converged(), choice.diverged_at_once(1)), (None, None));
}

#[test]
fn a_search_that_diverges_before_it_looks_again_says_so_and_answers_its_start() {
    let mut settings = settings();
    settings.selection.learning_rate = 1e30;
    settings.selection.clip_norm = 1e30;
    let problem = problem(&settings);
    let experiment = Experiment::new(problem, settings).unwrap();
    let choices = experiment.select(&[0, 2], &Silent).unwrap();
    for (choice, repetition) in choices.iter().zip([0, 2]) {
        assert_eq!((choice.inverse_temperature, choice.best, choice.path.len()), (1.0, 0, 1));
        assert_eq!(
            choice.position,
            experiment.problem.network.initial_parameters(experiment.settings.run.seed, repetition)
        );
        assert!(choice.validation_lpd().is_finite());
        let Some(Warning::SelectionDiverged { start, step, beta }) = choice.diverged_at_once(repetition + 1) else {
            panic!("no warning of {:?}", choice.divergence)
        };
        assert_eq!((start, beta), (repetition + 1, 1.0));
        assert!(step < 20, "before its first checkpoint, at step {step}");
    }
    let selection = JointSelector::default().select(&ExperimentLaboratory::new(&experiment, 2, &Silent)).unwrap();
    assert_eq!(selection.inverse_temperature, 1.0);
    let names: Vec<&str> = selection.warnings.iter().map(Warning::name).collect();
    assert_eq!(names, ["selection diverged"; 2]);
}

#[test]
fn chains_of_the_laboratory_are_those_of_the_experiment_and_go_on_for_less() {
    let settings = settings();
    let problem = problem(&settings);
    let experiment = Experiment::new(problem, settings).unwrap();
    let laboratory = ExperimentLaboratory::new(&experiment, 2, &Silent);
    let draws = laboratory.sample(&[1.0, 3.0]).unwrap();
    assert_eq!(
        draws.iter().map(|chains| SampledStart::draws_of(chains).map(Draws::len).sum()).collect::<Vec<usize>>(),
        [80, 80]
    );
    let later = laboratory.continue_at(3.5, &draws[1]).unwrap();
    assert_eq!(SampledStart::draws_of(&later).map(Draws::len).collect::<Vec<_>>(), [20, 20]);
    let prices = laboratory.prices();
    assert_eq!(prices.continued_chain / prices.chain, 240.0 / 600.0);
    // The energy is already where it was: E U = const + d/(2β) hardly differs between 3 and 3.5.
    let mean = |chains: &[SampledStart]| {
        let all: Vec<f64> = SampledStart::draws_of(chains).flat_map(|draws| draws.potential_energy.clone()).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert!((mean(&later) / mean(&draws[1]) - 1.0).abs() < 0.1, "{} {}", mean(&later), mean(&draws[1]));
}

/// Counts searches and chains that begin.
struct Begun(AtomicUsize);

impl Observer for Begun {
    fn started(&self, _: usize) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn chains_that_start_where_searches_end_share_them_with_selectors() {
    let mut settings = settings();
    settings.sampler.start = Start::Search;
    let problem = problem(&settings);
    let experiment = Experiment::new(problem, settings).unwrap();
    let begun = Begun(AtomicUsize::new(0));
    let laboratory = ExperimentLaboratory::new(&experiment, 2, &begun);
    let count = || begun.0.load(Ordering::Relaxed);
    let own = experiment.settings.selection.ascent_objective();
    assert!(!laboratory.has_searched(own));
    let found = laboratory.search(own).unwrap();
    assert_eq!(count(), 2, "two searches");
    let draws = laboratory.sample(&[1.0]).unwrap();
    assert_eq!((count(), draws[0].len()), (4, 2), "two chains and no search");
    assert_eq!(laboratory.starts().unwrap(), found);
    assert_eq!(laboratory.search(own).unwrap(), found);
    assert_eq!(count(), 4);
    // Another objective is another search, and another laboratory can be told of all.
    let map = AscentObjective { prior: PriorShare::Once, ..own };
    laboratory.search(map).unwrap();
    assert_eq!(count(), 6);
    let next = ExperimentLaboratory::remembering(&experiment, 2, &begun, laboratory.into_searched());
    assert!(next.has_searched(map) && next.search(own).unwrap() == found);
    assert_eq!(count(), 6);
}

/// Ids of the chains that kept draws.
#[derive(Default)]
struct Ids(Mutex<BTreeSet<u32>>);

impl Ids {
    fn take(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Ids {
    fn kept(&self, kept: &[(usize, &Chain)]) {
        self.0.lock().unwrap().extend(kept.iter().map(|(_, chain)| chain.id));
    }
}

/// What a start gives does not depend on what becomes of the others.
#[test]
fn survivors_keep_their_names_where_the_second_of_four_starts_diverges() {
    let mut settings = settings();
    settings.selection.epochs = 40;
    settings.sampler.start = Start::Search;
    let problem = problem(&settings);
    let experiment = Experiment::new(problem, settings).unwrap();
    let own = experiment.settings.selection.ascent_objective();
    let whole = ExperimentLaboratory::new(&experiment, 4, &Silent);
    let mut searched = whole.search(own).unwrap();
    assert_eq!(searched.iter().map(|one| one.start).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let ids = Ids::default();
    let sampled = |searched: Vec<SearchedStart>| {
        let laboratory = ExperimentLaboratory::remembering(&experiment, 4, &ids, vec![(own, searched)]);
        let mut runs = vec![laboratory.sample(&[3.0]).unwrap().remove(0)];
        let mut ids_of_runs = vec![ids.take()];
        for beta in [3.5, 4.0] {
            runs.push(laboratory.continue_at(beta, runs.last().unwrap()).unwrap());
            ids_of_runs.push(ids.take());
        }
        (runs, ids_of_runs)
    };
    let (all, _) = sampled(searched.clone());
    let diverging = |searched: &mut Vec<SearchedStart>| searched[1].choice.position[0] = f32::NAN;
    let missing = |searched: &mut Vec<SearchedStart>| drop(searched.remove(1));
    diverging(&mut searched);
    let (survived, ids_of_runs) = sampled(searched.clone());
    for (run, (survived, all)) in survived.iter().zip(&all).enumerate() {
        assert_eq!(survived.iter().map(|chain| chain.start).collect::<Vec<_>>(), [0, 2, 3]);
        for chain in survived {
            let same = &all[chain.start as usize];
            assert_eq!((chain.start, chain.times_continued), (same.start, run as u32));
            assert_eq!(chain.draws.potential_energy, same.draws.potential_energy, "run {run}, start {}", chain.start);
        }
    }
    let distinct: BTreeSet<u32> = ids_of_runs.iter().flatten().copied().collect();
    assert_eq!((ids_of_runs.iter().map(BTreeSet::len).sum::<usize>(), distinct.len()), (9, 9), "{ids_of_runs:?}");

    // Where a search itself is missing, the other starts keep theirs.
    missing(&mut searched);
    let (without, _) = sampled(searched);
    for chain in without[0].iter().filter(|chain| chain.start != 1) {
        assert_eq!(chain.draws.potential_energy, all[0][chain.start as usize].draws.potential_energy);
    }
}

/// At plain SGD's θ̂ the validation rows alone set β̂ = σ² n / SSE.
#[test]
fn post_hoc_scaling_fits_the_validation_rows() {
    let settings = settings();
    let problem = problem(&settings);
    let experiment = Experiment::new(problem, settings).unwrap();
    let laboratory = ExperimentLaboratory::new(&experiment, 1, &Silent);
    let selection = GuoSelector.select(&laboratory).unwrap();
    let frozen = AscentObjective { log_beta: LogBeta::Frozen, ..AscentObjective::default() };
    let choice = laboratory.search(frozen).unwrap().remove(0).choice;
    assert_eq!(choice.inverse_temperature, 1.0);
    let Targets::Real(targets) = experiment.validation.targets() else { panic!("numbers") };
    let outputs = experiment.validation.outputs(choice.weights());
    let squares: f64 = outputs.iter().zip(targets).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    let expected = 0.01 * targets.len() as f64 / squares;
    assert!((selection.inverse_temperature / expected - 1.0).abs() < 1e-12);
    assert_eq!((selection.method, selection.cost.chains), ("guo", 400.0 / 600.0));
}

//! A fitted model is read from a run folder, written to another, and predicts the same; a run at a β that is given; a run in a pool of the caller's.

use std::path::Path;
use std::sync::Arc;

use kelvin::data::{Dataset, NewRows, Split, Table, Target};
use kelvin::sampler::CpuEngine;
use kelvin_study::experiment::{Experiment, automatic_settings};
use kelvin_study::findings::{Method, ModelKind, RunCommand};
use kelvin_study::folder::{FittedModel, NumberPredictions};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{DataSettings, RunSettings, Settings};
use kelvin_study::study::{FinishedStudy, Outcome, Study};

/// Forty rows of y = 2 x₁ − x₂, and settings of a second.
fn rows() -> (Dataset, Settings) {
    let x: Vec<f64> = (0..40).flat_map(|i| [(f64::from(i) * 0.618).fract(), (f64::from(i) * 0.414).fract()]).collect();
    let y = x.chunks(2).enumerate().map(|(i, x)| 2.0 * x[0] - x[1] + 0.01 * (i % 7) as f64).collect();
    let dataset = Dataset::from_arrays("plane", &["x1", "x2"], &x, "y", Target::Real(y)).unwrap();
    let data = DataSettings { source: "plane".into(), ..DataSettings::default() };
    let run = RunSettings { chains: 2, all_rows: true, ..RunSettings::default() };
    let mut settings = automatic_settings("plane", data, &dataset, run).adaptive(40, 257).with_budget(400, 32);
    (settings.run.folds, settings.selection.epochs) = (None, 200);
    (dataset, settings)
}

fn run(folder: &Path, problem: Problem, settings: Settings) -> FinishedStudy {
    let experiment = Experiment::on(Arc::new(CpuEngine), problem, settings).unwrap();
    let study = Study { folder: Some(folder.into()), ..Study::new(RunCommand::Run, experiment) };
    let Outcome::Finished(finished) = study.carry_out().unwrap() else { panic!("nobody stops it") };
    finished
}

fn predictions(model: &FittedModel) -> NumberPredictions {
    let table = Table::from_bytes("new", b"x2,x1\n0.5,0.25\n0.1,0.9\n").unwrap();
    let standardiser = model.standardiser().unwrap();
    let rows = NewRows::read(&table, &model.model().feature_names, standardiser).unwrap();
    model.numbers(&CpuEngine, &rows.inputs(standardiser).unwrap().into(), &[0.05, 0.95]).unwrap()
}

#[test]
fn a_model_is_read_written_and_predicts() {
    let (dataset, settings) = rows();
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("run"), folder.path().join("copy"));
    drop(run(&first, Problem::new(dataset, &settings).unwrap(), settings));
    let kind = Some(ModelKind::Chosen);
    let model = FittedModel::read(&first, kind).unwrap();
    let predicted = predictions(&model);
    for (row, truth) in [0.0, 1.7].into_iter().enumerate() {
        assert!((predicted.mean[row] - truth).abs() < 0.5, "{predicted:?}");
        let (noise, doubt, std) = (predicted.aleatoric[row], predicted.epistemic[row], predicted.std[row]);
        assert!((noise.hypot(doubt) - std).abs() < 1e-12 * std && noise > 0.0 && doubt > 0.0);
        assert!(predicted.quantiles[0][row] < predicted.mean[row] && predicted.mean[row] < predicted.quantiles[1][row]);
    }
    model.write(&second).unwrap();
    let again = FittedModel::read(&second, kind).unwrap();
    assert_eq!(predictions(&again), predicted);
    assert_eq!(again.files(), model.files());
    assert!(again.write(&second).unwrap_err().to_string().contains("not empty"));
    assert!(model.classes(&CpuEngine, &vec![0.0f32; 2].into()).unwrap_err().to_string().contains("predicts numbers"));
    let linear = FittedModel::read(&second, Some(ModelKind::Linear)).unwrap();
    assert_eq!(predictions(&linear).epistemic, [0.0, 0.0]);
    assert!(FittedModel::read(&second, Some(ModelKind::Grid)).unwrap_err().to_string().contains("no such model"));
    // What would predict with numbers that are none, or read what lies elsewhere, is refused as by `kelvin predict`.
    let whole: serde_json::Value = serde_json::from_slice(&std::fs::read(second.join("model.json")).unwrap()).unwrap();
    for (place, value) in [
        ("/standardiser/features/0/std", 0.into()),
        ("/feature_ranges", serde_json::json!([[0, 1], [0, 1], [0, 1]])),
        ("/draws", serde_json::json!(["../elsewhere"])),
        ("/predictors/0/form", serde_json::json!({"draws": [{"file": "../x", "power": 1}]})),
        ("/predictors/0/form", serde_json::json!({"draws": [{"file": "x", "power": -1}]})),
        ("/predictors/0/form", serde_json::json!({"linear": {"weights": [1, 2], "noise_variance": 0}})),
    ] {
        let mut model = whole.clone();
        *model.pointer_mut(place).unwrap() = value;
        std::fs::write(second.join("model.json"), model.to_string()).unwrap();
        assert!(FittedModel::read(&second, None).unwrap_err().to_string().contains("is damaged"), "{place}");
    }
    std::fs::write(second.join("model.json"), "{}").unwrap();
    assert!(FittedModel::read(&second, None).unwrap_err().to_string().contains("damaged"));
    assert!(FittedModel::read(folder.path(), None).unwrap_err().to_string().contains("no fitted model"));
}

#[test]
fn a_beta_that_is_given_is_sampled_and_predicts() {
    let (dataset, mut settings) = rows();
    settings.selection.beta = Some(7.5);
    let folder = tempfile::tempdir().unwrap();
    let done = run(folder.path(), Problem::new(dataset, &settings).unwrap(), settings);
    assert_eq!(done.findings.beta_star, Some(7.5));
    let chosen = done.findings.rows.iter().find(|row| row.method == Method::Chosen).unwrap();
    assert_eq!(chosen.beta, 7.5);
    assert_eq!(done.findings.predicting.as_ref().unwrap().what.kind, ModelKind::Chosen);
    drop(done);
    assert!(FittedModel::read(folder.path(), None).unwrap().label().starts_with("β̂*"));
}

/// Threads of the global pool do not exist in a process that was forked after it was made.
#[test]
fn a_pool_of_the_callers_does_all_the_work_and_changes_no_number() {
    let (dataset, settings) = rows();
    let folder = tempfile::tempdir().unwrap();
    let problem = || Problem::new(dataset.clone(), &settings).unwrap();
    let outside = run(&folder.path().join("outside"), problem(), settings.clone());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let inside = pool.install(|| run(&folder.path().join("inside"), problem(), settings.clone()));
    let numbers = |done: &FinishedStudy| {
        let rows = done.findings.rows.iter().map(|row| (row.beta, row.test.lpd(), row.num_draws));
        (rows.collect::<Vec<_>>(), done.findings.predicting.clone())
    };
    assert_eq!(numbers(&inside), numbers(&outside));
}

#[test]
fn a_division_may_be_the_callers() {
    let (dataset, settings) = rows();
    let split = Split { train: (0..30).collect(), val: (30..33).collect(), test: (33..40).collect() };
    let problem = Problem::of_division(dataset, split, &settings).unwrap();
    assert_eq!([problem.train.len(), problem.validation.len(), problem.test.len()], [30, 3, 7]);
}

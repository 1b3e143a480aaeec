//! What a run on one's own table chooses: the likelihood and β by short chains, the model that predicts, and all rows for it; also where it is stopped on
//! the way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kelvin::data::{Dataset, Target};
use kelvin::diagnostics::Warning;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::temperature::Tempering;
use kelvin_study::experiment::{Experiment, learning_scales, provisional_settings, suitable_likelihoods};
use kelvin_study::findings::{Findings, JudgedOn, Method, ModelKind, RunCommand, Tried};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{DataSettings, LikelihoodName, PriorName, RunSettings, Settings, TaskSetting};
use kelvin_study::study::{Cancel, Outcome, StageEnd, Study, StudyObserver};

const ROWS: usize = 240;

/// Rows of two features with y = x₁ + ½ sin(3 x₂) + noise, whose standard deviation at a row is `std(x₁)`.
fn table(std: impl Fn(f64) -> f64) -> Dataset {
    let mut numbers = vec![0.0f32; 3 * ROWS];
    NoiseKey { seed: 11, purpose: Purpose::Synthetic, chain: 0, step: 0 }.fill_normal(&mut numbers);
    let rows: Vec<[f64; 3]> = numbers.chunks_exact(3).map(|row| [row[0], row[1], row[2]].map(f64::from)).collect();
    let features: Vec<f64> = rows.iter().flat_map(|row| [row[0], row[1]]).collect();
    let y = rows.iter().map(|&[a, b, e]| a + 0.5 * (3.0 * b).sin() + std(a) * e).collect();
    Dataset::from_arrays("waves", &["x1", "x2"], &features, "y", Target::Real(y)).unwrap()
}

/// What `kelvin run --data` would do with a smaller network, three folds and short chains.
fn settings(dataset: &Dataset) -> Settings {
    let data = DataSettings { source: "waves".into(), ..DataSettings::default() };
    let run = RunSettings { all_rows: true, chains: 2, ..RunSettings::default() };
    let mut settings = learning_scales(
        provisional_settings("waves", data, dataset, run),
        &suitable_likelihoods(dataset, TaskSetting::Auto),
    );
    settings.model.hidden = Some(vec![8]);
    settings = settings.adaptive(ROWS, 60);
    settings.run.folds = Some(3);
    settings.selection.epochs = 2000;
    settings.with_budget(16_000, ROWS * 4 / 5)
}

/// Stops the study when so many stages have ended.
struct StopAfter {
    stages: AtomicUsize,
    cancel: Cancel,
}

impl StudyObserver for StopAfter {
    fn stage_ended(&self, _: &StageEnd) {
        if self.stages.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.cancel.cancel();
        }
    }
}

fn study(folder: &Path, dataset: &Dataset, stop_after: usize) -> Option<Findings> {
    study_with(folder, dataset, settings(dataset), stop_after)
}

fn study_with(folder: &Path, dataset: &Dataset, settings: Settings, stop_after: usize) -> Option<Findings> {
    carried_out(RunCommand::Run, folder, dataset, settings, stop_after)
}

fn carried_out(
    command: RunCommand,
    folder: &Path,
    dataset: &Dataset,
    settings: Settings,
    stop_after: usize,
) -> Option<Findings> {
    let experiment = Experiment::new(Problem::new(dataset.clone(), &settings).unwrap(), settings).unwrap();
    let cancel = Cancel::default();
    let mut study = Study::new(command, experiment);
    study.folder = Some(folder.to_path_buf());
    study.observer = Arc::new(StopAfter { stages: stop_after.into(), cancel: cancel.clone() });
    study.cancel = cancel;
    match study.carry_out().unwrap() {
        Outcome::Finished(done) => Some(done.findings),
        Outcome::Stopped => None,
        Outcome::PieceDone => unreachable!("it was carried out whole"),
    }
}

fn chosen_likelihood(findings: &Findings) -> &str {
    &findings.trials.iter().find(|trials| trials.of == Tried::Likelihood).unwrap().chosen
}

#[test]
fn noise_that_varies_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let findings = study(folder.path(), &table(|a| 0.1 * (1.2 * a).exp()), 0).unwrap();
    assert_eq!(chosen_likelihood(&findings), LikelihoodName::VaryingGaussian.in_words(), "{:?}", findings.trials);
    assert!(!findings.problem.likelihood.identifies_beta());
}

#[test]
fn constant_noise_and_one_are_kept_and_a_stop_on_the_way_changes_nothing() {
    let dataset = table(|_| 0.3);
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let findings = study(whole.path(), &dataset, 0).unwrap();
    assert_eq!(chosen_likelihood(&findings), LikelihoodName::LearnedGaussian.in_words(), "{:?}", findings.trials);
    let of_beta = findings.trials.iter().find(|trials| trials.of == Tried::Beta).unwrap();
    assert_eq!((of_beta.chosen.as_str(), of_beta.candidates.len()), ("β = 1", 6), "{of_beta:?}");
    // No second set of chains at β = 1.
    assert!(findings.beta_star == Some(1.0) && findings.rows.iter().all(|row| row.method != Method::Chosen));

    let predicting = findings.predicting.as_ref().unwrap();
    assert_eq!((predicting.judged_on, predicting.num_judged), (JudgedOn::Folds, ROWS));
    assert_eq!((predicting.what.kind, predicting.num_rows), (ModelKind::Bayes, ROWS), "{predicting:?}");
    assert!(predicting.candidates.iter().any(|candidate| candidate.what.kind == ModelKind::Laplace));

    // Trials of likelihoods, trials of β, searches, chains, and those on all rows: stopped after each, and those before are over at once.
    for stop_after in 1..=4 {
        assert!(study(cut.path(), &dataset, stop_after).is_none());
    }
    study(cut.path(), &dataset, 0).unwrap();
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    let same = ["model.json", "experiment.toml", "draws/all-rows-bayes-1.safetensors", "draws/swag.safetensors"];
    for name in same {
        assert_eq!(read(cut.path(), name), read(whole.path(), name), "{name}");
    }
    let toml = String::from_utf8(read(whole.path(), "experiment.toml")).unwrap();
    assert!(toml.contains("likelihood = \"learned_gaussian\"") && !toml.contains("likelihoods"), "{toml}");
}

/// Half of what the targets hold is no linear function of the features, which a network without hidden layers cannot follow.
#[test]
fn hidden_layers_are_chosen_by_rows_that_were_held_out() {
    let dataset = table(|_| 0.1);
    let mut settings = settings(&dataset);
    settings.run.likelihoods.clear();
    settings.run.hidden_layers = vec![vec![], vec![8], vec![9]];
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let findings = study_with(whole.path(), &dataset, settings.clone(), 0).unwrap();
    let trials = findings.trials.iter().find(|trials| trials.of == Tried::Hidden).unwrap();
    assert_eq!((trials.chosen.as_str(), trials.candidates.len()), ("8 units", 3), "{trials:?}");
    assert_eq!(trials.candidates.last().unwrap().what.label, "no hidden layer", "{trials:?}");
    assert_eq!(findings.trials.last().unwrap().of, Tried::Beta);

    for stop_after in 1..=2 {
        assert!(study_with(cut.path(), &dataset, settings.clone(), stop_after).is_none());
    }
    study_with(cut.path(), &dataset, settings, 0).unwrap();
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    for name in ["model.json", "experiment.toml"] {
        assert_eq!(read(cut.path(), name), read(whole.path(), name), "{name}");
    }
    let toml = String::from_utf8(read(whole.path(), "experiment.toml")).unwrap();
    assert!(toml.contains("hidden = [8]") && !toml.contains("hidden_layers"), "{toml}");
}

/// As an experiment file can ask for it.
#[test]
fn learned_scales_that_are_tempered_are_warned_of() {
    let dataset = table(|_| 0.3);
    let warned = |command, tempering, prior| {
        let mut settings = settings(&dataset).with_budget(400, ROWS * 4 / 5);
        (settings.run.folds, settings.run.all_rows) = (None, false);
        settings.run.likelihoods.clear();
        (settings.selection.beta, settings.selection.epochs) = (Some(3.0), 200);
        settings.run.grid = vec![0.5, 1.0];
        (settings.sampler.tempering, settings.model.prior) = (tempering, prior);
        let folder = tempfile::tempdir().unwrap();
        let findings = carried_out(command, folder.path(), &dataset, settings, 0).unwrap();
        findings.warnings.iter().find_map(|warning| match warning {
            Warning::LearnedScalesTempered { betas } => Some(betas.clone()),
            _ => None,
        })
    };
    let (posterior, scales) = (Tempering::Posterior, PriorName::LearnedScales);
    assert_eq!(warned(RunCommand::Run, posterior, scales), Some(vec![3.0]));
    assert_eq!(warned(RunCommand::Sweep, posterior, scales), Some(vec![0.5]));
    assert_eq!(warned(RunCommand::Run, Tempering::Likelihood, scales), None);
    assert_eq!(warned(RunCommand::Run, posterior, PriorName::Layerwise), None);
}

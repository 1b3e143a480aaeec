//! Long runs: a population that is stopped again and again ends bit by bit where one that was left alone ends, and what is
//! damaged on the way is found, said and made good.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kelvin::network::Activation;
use kelvin::sampler::{Integrator, Observer, Silent};
use kelvin::selection::JointChoice;
use kelvin_study::checkpoint::CheckpointError;
use kelvin_study::durable::{DrawFiles, Durable, Recovery};
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::{ChainSpec, Experiment, SampledChain, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{DrawsSetting, LikelihoodName, PriorName, Settings, StoppingSettings, preset};

/// A few draws of short chains; the hot one may diverge where the rate is too large.
fn settings() -> Settings {
    let mut settings = preset("concrete").unwrap().settings();
    (settings.selection.epochs, settings.selection.checkpoints) = (3000, 20);
    let sampler = &mut settings.sampler;
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in) = (100, 200, 700);
    (sampler.cycle, sampler.epochs) = (150, 2500);
    settings
}

fn specs(experiment: &Experiment) -> Vec<ChainSpec> {
    let _ = experiment;
    let spec = |repetition, slot, inverse_temperature: f64| ChainSpec {
        label: format!("β = {inverse_temperature}, chain {repetition}"),
        repetition,
        slot,
        inverse_temperature,
        start: None,
    };
    vec![spec(0, Slot::Bayes, 1.0), spec(1, Slot::Bayes, 1.0), spec(0, Slot::Chosen, 0.1)]
}

/// Stops after so many steps of all chains together, and counts all that were done.
#[derive(Default)]
struct Clockwork {
    left: AtomicU64,
    steps: AtomicU64,
    resumed: AtomicU64,
}

impl Clockwork {
    fn for_steps(left: u64) -> Self {
        Self { left: left.into(), ..Self::default() }
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl Observer for Clockwork {
    fn resumed(&self, _: usize, steps: u64) {
        self.resumed.fetch_add(steps, Ordering::Relaxed);
    }

    fn advanced(&self, _: usize, steps: u64) -> ControlFlow<()> {
        self.steps.fetch_add(steps, Ordering::Relaxed);
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(steps)));
        ControlFlow::Continue(())
    }
}

fn with_experiment(settings: Settings, test: impl FnOnce(&Experiment)) {
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    test(&Experiment::new(problem, settings).unwrap());
}

/// A folder of a run, and what was repaired in it.
struct Folder {
    folder: tempfile::TempDir,
    told: Mutex<Vec<String>>,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), told: Mutex::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn draws(&self, spec: &ChainSpec) -> PathBuf {
        self.path(&format!("{:?}-{}.safetensors", spec.slot, spec.repetition))
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// Samples for so many steps, or to the end.
    fn sample(&self, experiment: &Experiment, watch: &Clockwork) -> Result<Vec<SampledChain>, ExperimentError> {
        self.sample_these(experiment, &specs(experiment), watch)
    }

    fn sample_these(
        &self,
        experiment: &Experiment,
        specs: &[ChainSpec],
        watch: &Clockwork,
    ) -> Result<Vec<SampledChain>, ExperimentError> {
        let path = |spec: &ChainSpec| self.draws(spec);
        let about = |spec: &ChainSpec| BTreeMap::from([("label", spec.label.clone())]);
        let files = DrawFiles { path: &path, about: &about };
        let should_stop = || watch.is_over();
        let tell = |recovery: &Recovery| self.told.lock().unwrap().push(recovery.to_string());
        let durable = durable(self.folder.path(), &should_stop, &tell);
        experiment.sample_durably(specs, &files, &durable, watch)
    }

    fn select(&self, experiment: &Experiment, watch: &Clockwork) -> Result<Vec<JointChoice>, ExperimentError> {
        let should_stop = || watch.is_over();
        let tell = |recovery: &Recovery| self.told.lock().unwrap().push(recovery.to_string());
        let durable = durable(self.folder.path(), &should_stop, &tell);
        Ok(experiment.select_durably(&[0, 1, 2], &durable, watch)?.0)
    }
}

fn durable<'a>(
    folder: &'a Path,
    should_stop: &'a (dyn Fn() -> bool + Sync),
    tell: &'a (dyn Fn(&Recovery) + Sync),
) -> Durable<'a> {
    Durable {
        folder,
        identity: "this run",
        every: Duration::from_millis(3),
        should_stop,
        is_owner: &|| true,
        tell,
        suffix: "",
    }
}

fn assert_same(found: &[SampledChain], expected: &[SampledChain]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.chain.state, expected.chain.state, "{}", expected.spec.label);
        assert_eq!(found.chain.kinetic_all, expected.chain.kinetic_all);
        assert_eq!(found.chain.kinetic_kept, expected.chain.kinetic_kept);
        assert_eq!(found.chain.divergence, expected.chain.divergence);
        assert_eq!(found.draws.all().unwrap(), expected.draws.all().unwrap());
        assert_eq!(found.draws.potential_energy, expected.draws.potential_energy);
        assert_eq!(found.draws.configurational_temperature, expected.draws.configurational_temperature);
        assert_eq!(found.draws.kinetic_temperature, expected.draws.kinetic_temperature);
        assert_eq!(found.scores, expected.scores);
    }
    assert_eq!(found.len(), expected.len());
}

/// Goes on until the end, stopped after so many steps each time; how often it was stopped.
fn to_the_end(folder: &Folder, experiment: &Experiment, steps: u64) -> (Vec<SampledChain>, usize) {
    for stops in 0.. {
        match folder.sample(experiment, &Clockwork::for_steps(steps)) {
            Ok(chains) => return (chains, stops),
            Err(error) => assert!(matches!(error, ExperimentError::Interrupted), "{error}"),
        }
    }
    unreachable!()
}

#[test]
fn sampling_that_is_stopped_again_and_again_ends_the_same() {
    for &integrator in Integrator::ALL {
        for steps in if integrator == Integrator::default() { &[400, 1700][..] } else { &[1700] } {
            let sampled_by = |settings: &mut Settings| settings.sampler.integrator = integrator;
            stop_again_and_again(sampled_by, *steps);
        }
    }
}

/// Stopped also in the middle of a warm-up, which goes on with what it had found.
#[test]
fn chains_that_adapt_end_the_same() {
    stop_again_and_again(adapts, 400);
}

fn adapts(settings: &mut Settings) {
    (settings.sampler.integrator, settings.sampler.adapt) = (Integrator::Baoab, true);
}

/// θ that holds more than weights, outputs that are more than a mean, and networks that are more than layers.
#[test]
fn models_of_tables_end_the_same() {
    let learned = |settings: &mut Settings| {
        adapts(settings);
        settings.model.likelihood = Some(LikelihoodName::LearnedGaussian);
        settings.model.prior = PriorName::LearnedScales;
    };
    stop_again_and_again(learned, 1700);
    let varying = |settings: &mut Settings| {
        adapts(settings);
        settings.model.likelihood = Some(LikelihoodName::VaryingGaussian);
        (settings.model.skip, settings.model.activation) = (true, Activation::Tanh);
    };
    stop_again_and_again(varying, 1700);
}

fn stop_again_and_again(change: impl Fn(&mut Settings), steps: u64) {
    let mut settings = settings();
    change(&mut settings);
    with_experiment(settings, |experiment| {
        let alone = experiment.sample(&specs(experiment), &Silent).unwrap();
        let folder = Folder::new();
        let (chains, stops) = to_the_end(&folder, experiment, steps);
        assert!(stops > 2, "{stops}");
        assert_same(&chains, &alone);
        assert_eq!(folder.told(), [""; 0]);

        // What is finished is not run again, and what is left of the way is cleared up.
        let again = Clockwork::for_steps(u64::MAX);
        assert_same(&folder.sample(experiment, &again).unwrap(), &alone);
        assert_eq!((again.steps.into_inner(), again.resumed.into_inner()), (0, 3 * 2500));
        let mut left: Vec<_> =
            std::fs::read_dir(folder.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left.len(), 4, "{left:?}");
    });
}

/// Chains that decide together how far they go, in burn-in and in sampling, decide the same when they are stopped on the way; and where draws are
/// damaged they go back together.
#[test]
fn chains_that_stop_by_themselves_end_the_same() {
    let mut settings = settings();
    let targets = StoppingSettings { effective_median: 60.0, effective_low: 20.0, worst_rhat: 10.0, lpd_error: 0.5 };
    settings.stopping = Some(targets);
    (settings.sampler.integrator, settings.sampler.adapt) = (Integrator::Baoab, true);
    (settings.sampler.ramp_start, settings.sampler.ramp_end, settings.sampler.burn_in) = (0, 0, 256);
    (settings.sampler.cycle, settings.sampler.epochs) = (10, 9000);
    with_experiment(settings, |experiment| {
        let specs: Vec<ChainSpec> = specs(experiment)
            .into_iter()
            .map(|spec| ChainSpec { slot: Slot::Chosen, inverse_temperature: 0.1, ..spec })
            .zip(0..)
            .map(|(spec, repetition)| ChainSpec { repetition, ..spec })
            .collect();
        let alone = experiment.sample(&specs, &Silent).unwrap();
        let steps = alone[0].chain.state.step;
        let num_draws = alone[0].draws.len() as u64;
        assert!(alone.iter().all(|chain| chain.chain.state.step == steps && chain.draws.len() as u64 == num_draws));
        let burn_in = steps - 10 * num_draws;
        assert!(burn_in > 256, "burn-in was lengthened: {burn_in}");
        assert!(steps < 9000 && num_draws > 50, "sampling was lengthened, and ended early: {steps}, {num_draws}");

        let folder = Folder::new();
        let mut stops = 0;
        let chains = loop {
            match folder.sample_these(experiment, &specs, &Clockwork::for_steps(700)) {
                Ok(chains) => break chains,
                Err(error) => assert!(matches!(error, ExperimentError::Interrupted), "{error}"),
            }
            stops += 1;
        };
        assert!(stops > 3, "{stops}");
        assert_same(&chains, &alone);
        let again = Clockwork::for_steps(u64::MAX);
        assert_same(&folder.sample_these(experiment, &specs, &again).unwrap(), &alone);
        assert_eq!((again.steps.into_inner(), again.resumed.into_inner()), (0, 3 * steps));

        // Damage to the draws of one chain takes all of them back, and they end the same.
        let folder = Folder::new();
        let halfway = Clockwork::for_steps(2 * steps);
        assert!(folder.sample_these(experiment, &specs, &halfway).is_err());
        let log = std::fs::read_dir(folder.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let log = log.filter(|path| path.extension().is_some_and(|ending| ending == "draws")).min().unwrap();
        damage(&log, true);
        assert_same(&folder.sample_these(experiment, &specs, &Clockwork::for_steps(u64::MAX)).unwrap(), &alone);
        assert!(!folder.told().is_empty());
    });
}

#[test]
fn scores_accumulate_to_those_of_the_stored_draws() {
    with_experiment(settings(), |experiment| {
        let folder = Folder::new();
        let (chains, _) = to_the_end(&folder, experiment, 1700);
        for chain in &chains {
            let beta = chain.spec.inverse_temperature;
            let again = |held_out| experiment.predictive(held_out, beta, [&chain.draws]).unwrap();
            let scores = &chain.scores;
            assert_eq!(scores.predictives.test, again(&experiment.test));
            assert_eq!(scores.predictives.validation, again(&experiment.validation));
            assert_eq!(scores.validation_lpd.len(), chain.draws.len());
            assert_eq!(scores.validation_lpd.last(), Some(&again(&experiment.validation).scores().unwrap().lpd()));
        }
    });
}

/// Without a file of draws: the same chains, measurements and scores, stopped or not.
#[test]
fn draws_may_be_scored_and_not_stored() {
    let mut scored = settings();
    scored.sampler.draws = DrawsSetting::Scored;
    let mut alone = Vec::new();
    with_experiment(settings(), |experiment| alone = experiment.sample(&specs(experiment), &Silent).unwrap());
    with_experiment(scored, |experiment| {
        let folder = Folder::new();
        let (chains, stops) = to_the_end(&folder, experiment, 1700);
        assert!(stops > 2, "{stops}");
        for (found, expected) in chains.iter().zip(&alone) {
            assert_eq!((&found.chain.state, &found.scores), (&expected.chain.state, &expected.scores));
            assert_eq!(found.draws.potential_energy, expected.draws.potential_energy);
            assert_eq!(found.draws.kinetic_temperature, expected.draws.kinetic_temperature);
            assert_eq!(found.draws.len(), expected.draws.len());
            assert!(!found.draws.are_stored() && found.draws.all().is_err());
        }
        let again = Clockwork::for_steps(u64::MAX);
        assert_eq!(folder.sample(experiment, &again).unwrap()[0].scores, alone[0].scores);
        assert_eq!(again.steps.into_inner(), 0);
        let left: Vec<_> = std::fs::read_dir(folder.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["sampling.checkpoint"]);
    });
}

#[test]
fn no_work_is_done_twice() {
    with_experiment(settings(), |experiment| {
        let folder = Folder::new();
        let mut done = 0;
        loop {
            let watch = Clockwork::for_steps(900);
            let sampled = folder.sample(experiment, &watch);
            done += watch.steps.into_inner();
            if sampled.is_ok() {
                break;
            }
        }
        assert_eq!(done, 3 * 2500);
    });
}

#[test]
fn a_chain_that_diverges_diverges_at_the_same_step() {
    let mut settings = settings();
    settings.sampler.learning_rate *= 400.0;
    settings.sampler.clip_norm = 1e30;
    with_experiment(settings, |experiment| {
        let alone = experiment.sample(&specs(experiment), &Silent).unwrap();
        assert!(alone.iter().any(|chain| chain.chain.divergence.is_some()));
        let folder = Folder::new();
        let (chains, _) = to_the_end(&folder, experiment, 300);
        for (found, expected) in chains.iter().zip(&alone) {
            assert_eq!(found.chain.divergence, expected.chain.divergence);
            assert_eq!(found.draws.len(), expected.draws.len());
            assert_eq!(found.chain.kinetic_all, expected.chain.kinetic_all);
        }
    });
}

#[test]
fn a_search_that_is_stopped_chooses_the_same() {
    with_experiment(settings(), |experiment| {
        let alone = experiment.select(&[0, 1, 2], &Silent).unwrap();
        let folder = Folder::new();
        let mut stops = 0;
        let found = loop {
            match folder.select(experiment, &Clockwork::for_steps(1100)) {
                Ok(found) => break found,
                Err(error) => assert!(matches!(error, ExperimentError::Interrupted), "{error}"),
            }
            stops += 1;
        };
        assert!(stops > 2, "{stops}");
        assert_eq!(found, alone);
        let again = Clockwork::for_steps(u64::MAX);
        assert_eq!(folder.select(experiment, &again).unwrap(), alone);
        assert_eq!(again.steps.into_inner(), 0);
    });
}

/// Flips a bit in the middle of a file, or cuts it in two.
fn damage(path: &Path, cut: bool) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    if cut {
        bytes.truncate(middle)
    } else {
        bytes[middle] ^= 4
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before() {
    with_experiment(settings(), |experiment| {
        let alone = experiment.sample(&specs(experiment), &Silent).unwrap();
        for cut in [false, true] {
            let folder = Folder::new();
            assert!(folder.sample(experiment, &Clockwork::for_steps(3000)).is_err());
            assert!(folder.sample(experiment, &Clockwork::for_steps(2000)).is_err());
            damage(&folder.path("sampling.checkpoint"), cut);
            assert_same(&folder.sample(experiment, &Clockwork::for_steps(u64::MAX)).unwrap(), &alone);
            let told = folder.told();
            assert!(told.len() == 1 && told[0].contains("sampling.checkpoint is damaged"), "{told:?}");
            assert!(told[0].contains("going on from the one before"), "{told:?}");
        }
    });
}

#[test]
fn where_no_checkpoint_is_whole_all_begins_anew() {
    with_experiment(settings(), |experiment| {
        let alone = experiment.sample(&specs(experiment), &Silent).unwrap();
        let folder = Folder::new();
        assert!(folder.sample(experiment, &Clockwork::for_steps(5000)).is_err());
        damage(&folder.path("sampling.checkpoint"), false);
        damage(&folder.path("sampling.previous"), true);
        assert_same(&folder.sample(experiment, &Clockwork::for_steps(u64::MAX)).unwrap(), &alone);
        assert!(folder.told()[0].contains("this part begins anew"));
    });
}

#[test]
fn a_chain_with_damaged_draws_is_made_good() {
    with_experiment(settings(), |experiment| {
        let alone = experiment.sample(&specs(experiment), &Silent).unwrap();
        for cut in [false, true] {
            let folder = Folder::new();
            assert!(folder.sample(experiment, &Clockwork::for_steps(6000)).is_err());
            let log = std::fs::read_dir(folder.folder.path()).unwrap().map(|entry| entry.unwrap().path());
            let log = log.filter(|path| path.extension().is_some_and(|extension| extension == "draws"));
            let largest = log.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
            damage(&largest, cut);
            assert_same(&folder.sample(experiment, &Clockwork::for_steps(u64::MAX)).unwrap(), &alone);
            let told = folder.told();
            assert!(told.len() == 1 && told[0].contains("are damaged"), "{told:?}");
            assert!(told[0].contains("goes on from") || told[0].contains("begins anew"), "{told:?}");

            // The same for the finished file.
            damage(&folder.draws(&specs(experiment)[1]), cut);
            let again = Clockwork::for_steps(u64::MAX);
            assert_same(&folder.sample(experiment, &again).unwrap(), &alone);
            assert_eq!(again.steps.into_inner(), 2500, "one chain runs again");
            assert!(folder.told()[0].contains("β = 1, chain 1"));
        }
    });
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    with_experiment(settings(), |experiment| {
        let folder = Folder::new();
        assert!(folder.sample(experiment, &Clockwork::for_steps(3000)).is_err());
        let path = |spec: &ChainSpec| folder.draws(spec);
        let files = DrawFiles { path: &path, about: &|_| BTreeMap::new() };
        let other = Durable { identity: "another run", ..durable(folder.folder.path(), &|| false, &|_| {}) };
        let refused = experiment.sample_durably(&specs(experiment), &files, &other, &Silent);
        assert!(matches!(refused, Err(ExperimentError::Checkpoint(CheckpointError::OtherRun { .. }))));
    });
}

#[test]
fn a_folder_that_cannot_be_written_to_is_said() {
    with_experiment(settings(), |experiment| {
        let (path, asked) = (|_: &ChainSpec| PathBuf::from("/nowhere"), AtomicUsize::new(0));
        let files = DrawFiles { path: &path, about: &|_| BTreeMap::new() };
        let should_stop = || asked.fetch_add(1, Ordering::Relaxed) > 1_000_000;
        let nowhere = durable(Path::new("/nowhere/at/all"), &should_stop, &|_| {});
        let error = experiment.sample_durably(&specs(experiment), &files, &nowhere, &Silent).unwrap_err();
        assert!(error.to_string().contains("cannot write the draws /nowhere/at/all"), "{error}");
    });
}

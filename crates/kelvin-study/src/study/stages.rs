//! The stages that runs and sweeps share: searching for β, sampling chains with checkpoints, and the warnings of both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelvin::diagnostics::{Limits, Warning};
use kelvin::draws::DrawsError;
use kelvin::selection::JointChoice;

use crate::checkpoint::CheckpointError;
use crate::durable::{DrawFiles, Durable, Recovery};
use crate::error::{ExperimentError, Result, StudyError, resume_command};
use crate::experiment::{ChainSpec, Experiment, SampledChain, Slot};
use crate::findings::{BETA_STAR, FinishedSearch, with_draws};
use crate::folder::{RunFolder, Stage, Timeline};
use crate::number::significant;
use crate::study::cancel::Cancel;
use crate::study::observer::{Note, StudyObserver};
use crate::study::progress::{Member, Progress};
use crate::study::timeline;
use crate::version::VERSION;

/// An experiment in its folder, with the observer it reports to and the flag that stops it.
pub(crate) struct Stages {
    pub experiment: Experiment,
    pub folder: RunFolder,
    pub observer: Arc<dyn StudyObserver>,
    pub cancel: Cancel,
}

impl Stages {
    /// Searches for β from these starts, or resumes the searches that the folder holds.
    pub fn search(&self, repetitions: &[u32]) -> Result<Vec<FinishedSearch>> {
        let members = repetitions.iter().map(|&repetition| Member::search(repetition)).collect();
        let progress = self.progress(Stage::Choosing, members, timeline::of_search(&self.experiment)?);
        let (choices, seconds) = self.stored(&self.folder.record().identity_of_searches(), |durable| {
            self.experiment.select_durably(repetitions, durable, &progress)
        })?;
        progress.finish();
        if self.folder.record().wants_pilot() {
            self.folder.status().write_stage(Stage::Tuning);
        }
        let searches = repetitions.iter().zip(choices).zip(seconds);
        let finished = |((&repetition, choice), seconds)| FinishedSearch { repetition, choice, seconds };
        Ok(searches.map(finished).collect())
    }

    /// Finds the step size of chains where the settings want a pilot, from where a search ended.
    pub fn tune(&mut self, choice: &JointChoice) -> Result<()> {
        if self.folder.record().wants_pilot() {
            self.experiment.tune_learning_rate(&choice.position, choice.inverse_temperature)?;
            self.folder.write_tuned(&self.experiment.settings)?;
        }
        Ok(())
    }

    /// Samples chains, or resumes those that the folder holds; their draws are in the folder when it returns.
    pub fn sample(&self, specs: &[ChainSpec]) -> Result<Vec<SampledChain>> {
        let (experiment, folder) = (&self.experiment, &self.folder);
        if let Some(arrangement) = experiment.arrangement(specs.len())? {
            self.observer.note(&Note::Arranged { device: experiment.engine.describe(), arrangement });
        }
        let mut members = Vec::new();
        for spec in specs {
            let beta = spec.inverse_temperature;
            let group =
                if spec.slot == Slot::Chosen { BETA_STAR.into() } else { format!("β = {}", significant(beta, 3)) };
            let sampler_temperature = Some(experiment.sampler_temperature(beta)?);
            members.push(Member { label: spec.label.clone(), group, beta, sampler_temperature });
        }
        let progress = self.progress(Stage::Sampling, members, timeline::of_chain(experiment)?);
        let path = |spec: &ChainSpec| folder.draws(&spec.draws_name());
        let about = |spec: &ChainSpec| {
            BTreeMap::from([
                ("label", spec.label.clone()),
                ("beta", spec.inverse_temperature.to_string()),
                ("seed", experiment.settings.run.seed.to_string()),
                ("version", VERSION.to_owned()),
            ])
        };
        let files = DrawFiles { path: &path, about: &about };
        let chains = self.stored(&folder.record().identity_of_chains(), |durable| {
            experiment.sample_durably(specs, &files, durable, &progress)
        })?;
        progress.finish();
        folder.status().write_stage(Stage::Scoring);
        Ok(chains)
    }

    /// Fails if the study was cancelled, for places where no chains move.
    pub fn check_cancelled(&self) -> Result<(), ExperimentError> {
        if self.cancel.is_cancelled() { Err(ExperimentError::Interrupted) } else { Ok(()) }
    }

    fn progress(&self, stage: Stage, members: Vec<Member>, timeline: Timeline) -> Progress {
        let status = Arc::clone(self.folder.status());
        Progress::new(stage, members, timeline, Arc::clone(&self.observer), Some(status))
    }

    /// Runs a stage that stores its checkpoints in the folder, under a name that no other run has.
    fn stored<T>(&self, identity: &str, stage: impl FnOnce(&Durable<'_>) -> Result<T, ExperimentError>) -> Result<T> {
        let checkpoints = self.folder.checkpoints();
        let durable = Durable {
            folder: &checkpoints,
            identity,
            every: Duration::from_secs_f64(self.experiment.settings.run.checkpoint_seconds),
            should_stop: &|| self.cancel.is_cancelled(),
            tell: &|recovery: &Recovery| self.observer.note(&Note::Repaired(recovery)),
        };
        stage(&durable).map_err(|error| match error {
            ExperimentError::Engine(_)
            | ExperimentError::Draws(DrawsError::File { .. } | DrawsError::Damaged { .. })
            | ExperimentError::Checkpoint(CheckpointError::File { .. }) => could_not_go_on(error, &self.folder),
            other => other.into(),
        })
    }
}

fn could_not_go_on(error: ExperimentError, folder: &RunFolder) -> StudyError {
    let command = resume_command(folder.path());
    StudyError::Step {
        step: format!(
            "the run could not go on; what was done up to the last checkpoint is kept: `{command}` goes on from there"
        ),
        cause: Box::new(error),
    }
}

/// The names of the draws files of the chains at β̂*.
pub(crate) fn chosen_draws(chains: &[SampledChain]) -> Vec<String> {
    let stored = with_draws(chains.iter()).into_iter().filter(|chain| chain.draws.are_stored());
    let chosen = stored.filter(|chain| chain.spec.slot == Slot::Chosen);
    chosen.map(|chain| chain.spec.draws_name()).collect()
}

/// A warning for each chain whose weights or outputs became infinite or NaN, with or without draws, and for each that adapted and whose energy had
/// not settled when its warm-up ended.
pub(crate) fn chain_warnings(chains: &[SampledChain]) -> Vec<Warning> {
    let step = |chain: &SampledChain| chain.scores.failed_at.or(chain.chain.divergence.map(|at| at.step));
    let diverged = chains.iter().filter_map(|chain| Some((chain, step(chain)?)));
    let diverged = diverged.map(|(chain, step)| Warning::ChainDiverged { label: chain.spec.label.clone(), step });
    let moving = chains
        .iter()
        .filter_map(|chain| Limits::default().check_trend(&chain.spec.label, chain.chain.state.adapted.energy_trend()));
    diverged.chain(moving).collect()
}

/// What the searches say about β̂*: whether the starts agree, whether those used had converged, which failed.
pub(crate) fn selection_warnings<'a>(
    searches: &[FinishedSearch],
    used: impl Iterator<Item = &'a JointChoice>,
) -> Vec<Warning> {
    let betas: Vec<f64> = searches.iter().map(|search| search.choice.inverse_temperature).collect();
    let limits = Limits::default();
    let mut warnings: Vec<Warning> = limits.check_seeds(&betas).into_iter().collect();
    for choice in used {
        warnings.extend(choice.not_converged());
        warnings.extend(limits.check_beta(choice.inverse_temperature));
    }
    for FinishedSearch { repetition, choice, .. } in searches {
        let start = repetition + 1;
        let later = || {
            let step = choice.divergence?.step;
            Some(Warning::ChainDiverged { label: format!("the search for β from start {start}"), step })
        };
        warnings.extend(choice.diverged_at_once(start).or_else(later));
    }
    warnings
}

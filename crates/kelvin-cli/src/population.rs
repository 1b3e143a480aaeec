//! What `run` and `sweep` both do with a population: move it or go on with it, and say what it leaves in doubt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelvin::diagnostics::{Limits, Warning};
use kelvin::draws::DrawsError;
use kelvin::selection::JointChoice;
use kelvin_study::checkpoint::CheckpointError;
use kelvin_study::durable::{DrawFiles, Durable, Recovery};
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::{ChainSpec, Experiment, SampledChain, Slot};

use crate::chart::significant;
use crate::interrupt::{Interrupt, resume_command};
use crate::output::say;
use crate::progress::{Member, Progress};
use crate::row::{BETA_STAR, with_draws};
use crate::run_folder::RunFolder;
use crate::watch::screen::Show;
use crate::watch::status::{Stage, Timeline};

/// A population's results with the seconds that each search or chain took.
pub type Timed<T> = (Vec<T>, Vec<f64>);

/// Searches for β, or goes on with it.
pub fn choose(
    experiment: &Experiment,
    folder: &RunFolder,
    interrupt: &Interrupt,
    repetitions: &[u32],
    quiet: bool,
) -> anyhow::Result<Timed<JointChoice>> {
    let (settings, steps) = (&experiment.settings.selection, experiment.selection_steps()?);
    let every = (settings.epochs / settings.checkpoints).max(1) * (steps / settings.epochs.max(1)).max(1);
    let member = |repetition: &u32| Member {
        label: format!("start {}", repetition + 1),
        group: "searches".into(),
        beta: 1.0,
        sampler_temperature: None,
    };
    let members = repetitions.iter().map(member).collect();
    let timeline = Timeline::Search { every, steps };
    let status = Arc::clone(folder.status());
    let progress = Progress::new(Stage::Choosing, members, timeline, Show::on_stderr(quiet), status);
    let (choices, seconds) = stored(experiment, folder, interrupt, &progress, |durable| {
        experiment.select_durably(repetitions, durable, &progress)
    })?;
    progress.finish();
    if folder.record().wants_pilot() {
        folder.status().write_stage(Stage::Tuning);
    }
    Ok((choices, seconds))
}

/// Samples chains, or goes on with them; their draws are in the folder when it returns.
pub fn sample(
    experiment: &Experiment,
    folder: &RunFolder,
    interrupt: &Interrupt,
    specs: &[ChainSpec],
    quiet: bool,
) -> anyhow::Result<Timed<SampledChain>> {
    if !quiet && let Some(arrangement) = experiment.arrangement(specs.len())? {
        say(&format!("{}: {arrangement}\n", experiment.engine.describe()));
    }
    let settings = &experiment.settings.sampler;
    let steps = experiment.sampler_steps()?;
    let epoch = steps / settings.epochs.max(1);
    let timeline = Timeline::Sampling {
        ramp_start: settings.ramp_start * epoch,
        ramp_end: settings.ramp_end * epoch,
        burn_in: settings.burn_in * epoch,
        cycle: (settings.cycle * epoch).max(1),
        steps,
    };
    let mut members = Vec::new();
    for spec in specs {
        let beta = spec.inverse_temperature;
        let group = if spec.slot == Slot::Chosen { BETA_STAR.into() } else { format!("β = {}", significant(beta, 3)) };
        let sampler_temperature = Some(experiment.sampler_temperature(beta)?);
        members.push(Member { label: spec.label.clone(), group, beta, sampler_temperature });
    }
    let status = Arc::clone(folder.status());
    let progress = Progress::new(Stage::Sampling, members, timeline, Show::on_stderr(quiet), status);
    let path = |spec: &ChainSpec| folder.draws(&draws_name(spec));
    let about = |spec: &ChainSpec| {
        BTreeMap::from([
            ("label", spec.label.clone()),
            ("beta", spec.inverse_temperature.to_string()),
            ("seed", experiment.settings.run.seed.to_string()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ])
    };
    let files = DrawFiles { path: &path, about: &about };
    let (chains, seconds) = stored(experiment, folder, interrupt, &progress, |durable| {
        experiment.sample_durably(specs, &files, durable, &progress)
    })?;
    progress.finish();
    folder.status().write_stage(Stage::Scoring);
    Ok((chains, seconds))
}

/// Runs a stage that is stored in the folder's checkpoints on its way.
fn stored<T>(
    experiment: &Experiment,
    folder: &RunFolder,
    interrupt: &Interrupt,
    progress: &Progress,
    stage: impl FnOnce(&Durable<'_>) -> Result<T, ExperimentError>,
) -> anyhow::Result<T> {
    let (checkpoints, identity) = (folder.checkpoints(), folder.record().identity());
    let durable = Durable {
        folder: &checkpoints,
        identity: &identity,
        every: Duration::from_secs_f64(experiment.settings.run.checkpoint_seconds),
        should_stop: &|| interrupt.has_come(),
        tell: &|recovery: &Recovery| progress.say(&format!("note: {recovery}\n")),
    };
    stage(&durable).map_err(|error| match error {
        ExperimentError::Interrupted => interrupt.stopped(folder.path()).into(),
        ExperimentError::Engine(_)
        | ExperimentError::Draws(DrawsError::File { .. } | DrawsError::Damaged { .. })
        | ExperimentError::Checkpoint(CheckpointError::File { .. }) => {
            let command = resume_command(folder.path());
            anyhow::Error::new(error).context(format!(
                "the run could not go on; what was done up to the last checkpoint is kept: `{command}` goes on from there"
            ))
        }
        other => other.into(),
    })
}

/// The names of the draws files of the chains at β̂*.
pub fn chosen_draws(chains: &[SampledChain]) -> Vec<String> {
    let stored = with_draws(chains.iter()).into_iter().filter(|chain| chain.draws.are_stored());
    let chosen = stored.filter(|chain| chain.spec.slot == Slot::Chosen);
    chosen.map(|chain| draws_name(&chain.spec)).collect()
}

/// The file name of a chain's draws, without its ending.
pub fn draws_name(spec: &ChainSpec) -> String {
    let kind = match spec.slot {
        Slot::Grid(_) => format!("beta-{}", spec.inverse_temperature),
        Slot::Bayes => "bayes".into(),
        Slot::Chosen => "chosen".into(),
        Slot::Selector | Slot::Pilot | Slot::Continued(_) => "pilot".into(),
    };
    format!("{kind}-{}", spec.repetition + 1)
}

/// The chains that left the finite numbers, with or without draws, by themselves or by what their weights give.
pub fn divergence_warnings(chains: &[SampledChain]) -> Vec<Warning> {
    let step = |chain: &SampledChain| chain.scores.failed_at.or(chain.chain.divergence.map(|at| at.step));
    let diverged = chains.iter().filter_map(|chain| Some((chain, step(chain)?)));
    diverged.map(|(chain, step)| Warning::ChainDiverged { label: chain.spec.label.clone(), step }).collect()
}

/// What the searches say about β̂*: whether the starts agree, whether those used had converged, which failed.
pub fn selection_warnings<'a>(
    repetitions: &[u32],
    choices: &[JointChoice],
    used: impl Iterator<Item = &'a JointChoice>,
) -> Vec<Warning> {
    let betas: Vec<f64> = choices.iter().map(|choice| choice.inverse_temperature).collect();
    let mut warnings: Vec<Warning> = Limits::default().check_seeds(&betas).into_iter().collect();
    warnings.extend(used.filter_map(JointChoice::not_converged));
    for (repetition, choice) in repetitions.iter().zip(choices) {
        let start = repetition + 1;
        let later = || {
            let step = choice.divergence?.step;
            Some(Warning::ChainDiverged { label: format!("the search for β from start {start}"), step })
        };
        warnings.extend(choice.diverged_at_once(start).or_else(later));
    }
    warnings
}

//! The stages that runs and sweeps share: searching for β, sampling chains with checkpoints, and the warnings of both.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelvin::diagnostics::{Limits, Warning};
use kelvin::draws::DrawsError;
use kelvin::sampler::{Chain, DrawReading, Observer};
use kelvin::selection::JointChoice;

use crate::checkpoint::{CheckpointError, StoredMembers};
use crate::durable::{DrawFiles, Durable, Recovery, StoredChains};
use crate::error::{ExperimentError, Result, StudyError, refused, resume_command};
use crate::experiment::{AuditPlan, AuditRow, ChainGroup, ChainSpec, Experiment, SampledChain, Slot};
use crate::findings::{BETA_STAR, FinishedSearch, with_draws};
use crate::folder::{CHECKPOINTS, RunFolder, Shard, Stage, Timeline, chains_differ};
use crate::number::significant;
use crate::study::cancel::Cancel;
use crate::study::gather::{Sources, Wanted, WantedChain};
use crate::study::observer::{Note, StudyObserver};
use crate::study::piece::{Piece, own_chains};
use crate::study::progress::{Member, Progress};
use crate::study::sweep_chains::SweepChains;
use crate::study::timeline;
use crate::version::VERSION;

/// An experiment in its folder, with the observer it reports to and the flag that stops it.
pub(crate) struct Stages {
    pub experiment: Experiment,
    pub folder: RunFolder,
    pub piece: Piece,
    /// The folder of the study, where its searches are only read.
    pub searched_in: Option<PathBuf>,
    pub observer: Arc<dyn StudyObserver>,
    pub cancel: Cancel,
}

/// A division of the rows that a study learns from.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub experiment: &'a Experiment,
    pub rows: PartRows,
}

/// Which rows a part learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartRows {
    /// The training rows of the run.
    Own,
    /// Those of this fold or split, counted from 1.
    Fold(u32),
    /// All of them, after so many folds.
    All(u32),
}

impl Part<'_> {
    /// Its place: 0 for the run's own rows, folds from 1, all rows last.
    pub fn number(&self) -> u32 {
        match self.rows {
            PartRows::Own => 0,
            PartRows::Fold(number) => number,
            PartRows::All(num_folds) => num_folds + 1,
        }
    }

    /// Starts and chains of a part are numbered after those of the parts before, so that no two have the same random numbers.
    pub fn first_repetition(&self) -> u32 {
        self.number() * self.experiment.settings.run.chains
    }

    /// The numbers of its starts.
    pub fn repetitions(&self) -> Vec<u32> {
        (self.first_repetition()..self.first_repetition() + self.experiment.settings.run.chains).collect()
    }

    /// A label, with the rows before it.
    pub fn titled(&self, label: String) -> String {
        match self.rows {
            PartRows::Own => label,
            PartRows::Fold(number) => format!("fold {number}: {label}"),
            PartRows::All(_) => format!("all rows: {label}"),
        }
    }

    /// The name of a chain's file of draws, without the ending.
    pub fn draws_name(&self, spec: &ChainSpec) -> String {
        match self.rows {
            PartRows::All(_) => {
                format!("all-rows-{}-{}", spec.group_name(), spec.repetition - self.first_repetition() + 1)
            }
            PartRows::Own | PartRows::Fold(_) => spec.draws_name(),
        }
    }

    fn suffix(&self) -> String {
        match self.rows {
            PartRows::Own => String::new(),
            PartRows::Fold(number) => format!("-fold-{number}"),
            PartRows::All(_) => "-all-rows".into(),
        }
    }
}

/// Chains that are sampled as one population.
pub(crate) struct Asked<'a> {
    pub part: Part<'a>,
    /// Ends the names of its checkpoints.
    pub name: String,
    pub specs: Vec<ChainSpec>,
}

/// Shows chains to a progress that counts them among others.
struct Shifted<'a> {
    progress: &'a Progress,
    by: usize,
}

impl Observer for Shifted<'_> {
    fn resumed(&self, index: usize, steps: u64) {
        self.progress.resumed(self.by + index, steps);
    }

    fn started(&self, index: usize) {
        self.progress.started(self.by + index);
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        let shifted: Vec<(usize, &Chain)> = kept.iter().map(|(index, chain)| (self.by + index, *chain)).collect();
        self.progress.kept(&shifted);
    }

    fn measured(&self, index: usize, reading: &DrawReading) {
        self.progress.measured(self.by + index, reading);
    }

    fn diverged(&self, index: usize, step: u64) {
        self.progress.diverged(self.by + index, step);
    }

    fn ended(&self, index: usize) {
        self.progress.ended(self.by + index);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        self.progress.advanced(self.by + index, steps)
    }
}

/// Shows chains to a progress, and stops them where the study is cancelled.
struct Cancelled<'a> {
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Observer for Cancelled<'_> {
    fn started(&self, index: usize) {
        self.progress.started(index);
    }

    fn measured(&self, index: usize, reading: &DrawReading) {
        self.progress.measured(index, reading);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        match self.cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => self.progress.advanced(index, steps),
        }
    }
}

/// Where each of several lists begins when they follow one another.
fn firsts(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    lengths
        .scan(0, |next, length| {
            let first = *next;
            *next += length;
            Some(first)
        })
        .collect()
}

impl Stages {
    /// Searches for β from these starts, or resumes the searches that the folder holds.
    pub fn search(&self, repetitions: &[u32]) -> Result<Vec<FinishedSearch>> {
        let part = Part { experiment: &self.experiment, rows: PartRows::Own };
        let mut found = self.search_parts(&[(part, repetitions.to_vec())])?;
        Ok(found.pop().unwrap_or_default())
    }

    /// Searches for β in every part of the study, each from its starts, side by side.
    pub fn search_parts(&self, parts: &[(Part<'_>, Vec<u32>)]) -> Result<Vec<Vec<FinishedSearch>>> {
        if let Some(run) = &self.searched_in {
            let read = |(part, repetitions): &(Part<'_>, Vec<u32>)| self.read_searches(run, *part, repetitions);
            let found: Vec<Vec<FinishedSearch>> = parts.iter().map(read).collect::<Result<_>>()?;
            if matches!(self.piece, Piece::Merge(_)) {
                self.folder.status().write_stage(Stage::Scoring);
            }
            return Ok(found);
        }
        if let Some(sources) = self.sources()?.filter(Sources::have_searches) {
            let wanted = |(part, repetitions): &(Part<'_>, Vec<u32>)| {
                let chain = |&repetition: &u32| WantedChain {
                    id: Slot::Selector.id(repetition),
                    repetition: repetition + 1,
                    name: format!("search-{}", repetition + 1),
                };
                Wanted { suffix: part.suffix(), chains: repetitions.iter().map(chain).collect() }
            };
            sources.gather_searches(&self.folder, &parts.iter().map(wanted).collect::<Vec<_>>())?;
        }
        let member = |part: &Part<'_>, repetition: u32| {
            let member = Member::search(repetition - part.first_repetition());
            Member { label: part.titled(member.label), ..member }
        };
        let members =
            parts.iter().flat_map(|(part, repetitions)| repetitions.iter().map(|&r| member(part, r))).collect();
        let progress = self.progress(Stage::Choosing, members, timeline::of_search(&self.experiment)?);
        let firsts = firsts(parts.iter().map(|(_, repetitions)| repetitions.len()));
        let identity = self.folder.record().identity_of_searches();
        let found = self.side_by_side(parts.len(), |index| {
            let (part, repetitions) = &parts[index];
            let progress = Shifted { progress: &progress, by: firsts[index] };
            let suffix = part.suffix();
            let (choices, seconds) = self.stored(&format!("{identity}{suffix}"), &suffix, |durable| {
                part.experiment.select_durably(repetitions, durable, &progress)
            })?;
            let searches = repetitions.iter().zip(choices).zip(seconds);
            let finished = |((&repetition, choice), seconds)| FinishedSearch { repetition, choice, seconds };
            Ok(searches.map(finished).collect())
        })?;
        progress.finish();
        if self.folder.record().wants_pilot() {
            self.folder.status().write_stage(Stage::Tuning);
        }
        Ok(found)
    }

    /// The searches of a study that this is a shard of.
    fn read_searches(&self, run: &Path, part: Part<'_>, repetitions: &[u32]) -> Result<Vec<FinishedSearch>> {
        let suffix = part.suffix();
        let path = run.join(CHECKPOINTS).join(format!("search{suffix}.checkpoint"));
        let identity = format!("{}{suffix}", self.folder.record().identity_of_searches());
        let found = part.experiment.stored_searches(repetitions, &path, &identity)?;
        let (choices, seconds) = found.ok_or_else(|| {
            refused(format!(
                "the searches of {} are not finished, and its chains start from them\n  finish them first: `{} --stage search`",
                run.display(),
                resume_command(run)
            ))
        })?;
        let searches = repetitions.iter().zip(choices).zip(seconds);
        Ok(searches.map(|((&repetition, choice), seconds)| FinishedSearch { repetition, choice, seconds }).collect())
    }

    /// Where the chains of a study that is put together lie.
    fn sources(&self) -> Result<Option<Sources>> {
        match &self.piece {
            Piece::Merge(folders) if folders.is_empty() => Sources::shards(&self.folder).map(Some),
            Piece::Merge(folders) => Sources::repetitions(&self.folder, folders).map(Some),
            Piece::Whole | Piece::Search | Piece::Shard(_) => Ok(None),
        }
    }

    /// Puts the chains of these populations together from where they were sampled.
    fn gather(&self, sources: &Sources, asked: &[Asked<'_>]) -> Result<Vec<StoredMembers>> {
        let wanted = |asked: &Asked<'_>| {
            let chain = |spec: &ChainSpec| WantedChain {
                id: spec.slot.id(spec.repetition),
                repetition: spec.repetition + 1,
                name: asked.part.draws_name(spec),
            };
            Wanted { suffix: asked.part.suffix() + &asked.name, chains: asked.specs.iter().map(chain).collect() }
        };
        sources.check_versions()?;
        let wanted: Vec<Wanted> = asked.iter().map(wanted).collect();
        let (written, origins) = sources.gather_chains(&self.folder, &wanted, self.decides_on_the_way())?;
        if let Some(difference) = chains_differ(&origins) {
            self.observer.note(&Note::ChainsDiffer(&difference));
        }
        self.folder.write_origins(origins)?;
        Ok(written)
    }

    /// Whether chains of one temperature decide together when they have seen enough.
    fn decides_on_the_way(&self) -> bool {
        self.experiment.settings.stopping.is_some()
    }

    /// The populations, or parts of them, that a shard samples.
    fn own<'a>(&self, asked: &[Asked<'a>], shard: Shard) -> Vec<Asked<'a>> {
        let lengths: Vec<usize> = asked.iter().map(|asked| asked.specs.len()).collect();
        let own = own_chains(&lengths, self.decides_on_the_way(), shard).into_iter();
        own.map(|(index, chains)| {
            let Asked { part, name, specs } = &asked[index];
            Asked { part: *part, name: name.clone(), specs: specs[chains].to_vec() }
        })
        .collect()
    }

    /// Finds the step size of chains where the settings want a pilot, from where a search ended.
    pub fn tune(&mut self, choice: &JointChoice) -> Result<()> {
        if self.folder.record().wants_pilot() {
            self.experiment.tune_learning_rate(&choice.position, choice.inverse_temperature)?;
            self.folder.write_tuned(&self.experiment.settings)?;
        }
        Ok(())
    }

    /// Samples chains as one population, or resumes those that the folder holds; their draws are in the folder when it returns.
    pub fn sample(&self, specs: &[ChainSpec]) -> Result<Vec<SampledChain>> {
        let part = Part { experiment: &self.experiment, rows: PartRows::Own };
        let mut sampled = self.sample_populations(&[Asked { part, name: String::new(), specs: specs.to_vec() }])?;
        Ok(sampled.pop().unwrap_or_default())
    }

    /// The chains of a sweep: sampled as one population, or, where they are put together from shards, read one at a time.
    pub fn sample_sweep(&self, specs: Vec<ChainSpec>) -> Result<SweepChains> {
        let Some(sources) = self.sources()? else { return Ok(SweepChains::Here(self.sample(&specs)?)) };
        let part = Part { experiment: &self.experiment, rows: PartRows::Own };
        let asked = Asked { part, name: String::new(), specs };
        let written = self.gather(&sources, std::slice::from_ref(&asked))?;
        self.folder.status().write_stage(Stage::Scoring);
        let Some(written) = written.into_iter().next() else { return Ok(SweepChains::Here(Vec::new())) };
        let chains = StoredChains::of(written, self.folder.checkpoints().join("sampling.checkpoint"));
        let with_draws = |spec: ChainSpec| {
            let draws = self.folder.draws(&spec.draws_name());
            (spec, draws)
        };
        Ok(SweepChains::Stored { chains, specs: asked.specs.into_iter().map(with_draws).collect() })
    }

    /// Samples several populations side by side, each with checkpoints of its own; of a part of the study what belongs to it, which ends there.
    pub fn sample_populations(&self, asked: &[Asked<'_>]) -> Result<Vec<Vec<SampledChain>>> {
        match &self.piece {
            Piece::Whole => {}
            Piece::Search => return Err(StudyError::PieceDone),
            Piece::Shard(shard) => {
                let own = self.own(asked, *shard);
                if !own.is_empty() {
                    self.sample_here(&own)?;
                }
                return Err(StudyError::PieceDone);
            }
            // What is learned from all rows is known only once everything else is scored: it is sampled where that is.
            Piece::Merge(_) if asked.iter().any(|asked| matches!(asked.part.rows, PartRows::All(_))) => {}
            Piece::Merge(_) => {
                if let Some(sources) = self.sources()? {
                    self.gather(&sources, asked)?;
                }
            }
        }
        self.sample_here(asked)
    }

    /// Samples several populations in this process whatever the part of the study: what everything else starts from, or follows once all is sampled.
    pub fn sample_here(&self, asked: &[Asked<'_>]) -> Result<Vec<Vec<SampledChain>>> {
        let (experiment, folder) = (&self.experiment, &self.folder);
        let num_chains = asked.iter().map(|asked| asked.specs.len()).sum();
        if let Some(arrangement) = experiment.arrangement(num_chains)? {
            self.observer.note(&Note::Arranged { device: experiment.engine.describe(), arrangement });
        }
        let mut members = Vec::new();
        for Asked { part, specs, .. } in asked {
            for spec in specs {
                let beta = spec.inverse_temperature;
                let group =
                    if spec.slot == Slot::Chosen { BETA_STAR.into() } else { format!("β = {}", significant(beta, 3)) };
                let sampler_temperature = Some(part.experiment.sampler_temperature(beta)?);
                let label = spec.label.clone();
                members.push(Member { label, group: part.titled(group), beta, sampler_temperature });
            }
        }
        let moved = asked.first().map_or(experiment, |asked| asked.part.experiment);
        let progress = self.progress(Stage::Sampling, members, timeline::of_chain(moved)?);
        let firsts = firsts(asked.iter().map(|asked| asked.specs.len()));
        let identity = folder.record().identity_of_chains();
        let chains = self.side_by_side(asked.len(), |index| {
            let Asked { part, name, specs } = &asked[index];
            let path = |spec: &ChainSpec| folder.draws(&part.draws_name(spec));
            let about = |spec: &ChainSpec| {
                BTreeMap::from([
                    ("label", spec.label.clone()),
                    ("beta", spec.inverse_temperature.to_string()),
                    ("seed", part.experiment.settings.run.seed.to_string()),
                    ("version", VERSION.to_owned()),
                ])
            };
            let files = DrawFiles { path: &path, about: &about };
            let progress = Shifted { progress: &progress, by: firsts[index] };
            let suffix = part.suffix() + name;
            self.stored(&format!("{identity}{suffix}"), &suffix, |durable| {
                part.experiment.sample_durably(specs, &files, durable, &progress)
            })
        })?;
        progress.finish();
        folder.status().write_stage(Stage::Scoring);
        Ok(chains)
    }

    /// Does pieces of work at the same time, which share the threads that chains move on; one after the other on a device that moves
    /// chains together. Of several failures the first is returned.
    fn side_by_side<T: Send>(&self, count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        if count <= 1 || self.experiment.engine.moves_chains_together() {
            return (0..count).map(work).collect();
        }
        let work = &work;
        if rayon::current_thread_index().is_some() {
            // Inside a pool of the caller's, which threads of our own would leave for the global one.
            let mut done: Vec<Option<Result<T>>> = (0..count).map(|_| None).collect();
            rayon::scope(|scope| {
                for (index, done) in done.iter_mut().enumerate() {
                    scope.spawn(move |_| *done = Some(work(index)));
                }
            });
            return done.into_iter().flatten().collect();
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || work(index))).collect();
            let done = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            done.collect::<Vec<Result<T>>>().into_iter().collect()
        })
    }

    /// Samples exact chains at the temperatures of these, and puts both side by side. It is not stored on the way: after a stop it begins anew.
    pub fn audit(&self, groups: Vec<ChainGroup<'_>>) -> Result<Vec<AuditRow>> {
        let (experiment, plan) = (&self.experiment, AuditPlan::default());
        let mut members = Vec::new();
        for group in &groups {
            let beta = group.inverse_temperature;
            let sampler_temperature = Some(experiment.sampler_temperature(beta)?);
            for number in 1..=plan.num_chains {
                let label = format!("{}, exact chain {number}", group.label);
                members.push(Member { label, group: group.label.clone(), beta, sampler_temperature });
            }
        }
        let steps = Experiment::audit_trajectories(&groups, &plan);
        let timeline = Timeline::Sampling { ramp_start: 0, ramp_end: 0, burn_in: steps / 5, cycle: 1, steps };
        let progress = self.progress(Stage::Auditing, members, timeline);
        let rows = experiment.audit(&groups, &plan, &Cancelled { progress: &progress, cancel: &self.cancel })?;
        progress.finish();
        self.folder.status().write_stage(Stage::Scoring);
        Ok(rows)
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
    fn stored<T>(
        &self,
        identity: &str,
        suffix: &str,
        stage: impl FnOnce(&Durable<'_>) -> Result<T, ExperimentError>,
    ) -> Result<T> {
        let (checkpoints, lease) = (self.folder.checkpoints(), self.folder.lease());
        let durable = Durable {
            folder: &checkpoints,
            identity,
            every: Duration::from_secs_f64(self.experiment.settings.run.checkpoint_seconds),
            should_stop: &|| self.cancel.is_cancelled(),
            is_owner: &|| !lease.is_lost(),
            tell: &|recovery: &Recovery| self.observer.note(&Note::Repaired(recovery)),
            suffix,
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
    let command = folder.resume_command();
    StudyError::Step {
        step: format!(
            "the run could not go on; what was done up to the last checkpoint is kept: `{command}` goes on from there"
        ),
        cause: Box::new(error),
    }
}

/// The names of the draws files of the chains at β̂*, which are those at β = 1 where no others were sampled.
pub(crate) fn chosen_draws(chains: &[SampledChain]) -> Vec<String> {
    let stored = with_draws(chains.iter()).into_iter().filter(|chain| chain.draws.are_stored());
    let slot = if chains.iter().any(|chain| chain.spec.slot == Slot::Chosen) { Slot::Chosen } else { Slot::Bayes };
    let chosen = stored.filter(|chain| chain.spec.slot == slot);
    chosen.map(|chain| chain.spec.draws_name()).collect()
}

/// A warning for each chain whose weights or outputs became infinite or NaN, with or without draws.
pub(crate) fn divergence_warnings(chains: &[SampledChain]) -> Vec<Warning> {
    let step = |chain: &SampledChain| chain.scores.failed_at.or(chain.chain.divergence.map(|at| at.step));
    let diverged = chains.iter().filter_map(|chain| Some((chain, step(chain)?)));
    diverged.map(|(chain, step)| Warning::ChainDiverged { label: chain.spec.label.clone(), step }).collect()
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

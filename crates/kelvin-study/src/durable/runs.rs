//! Durable runs: populations are moved in pieces, written to a checkpoint after each, and resumed from there.
//!
//! A piece ends when its time is over, or sooner after draws were kept; nothing is changed by where a way is cut. Chains share
//! nothing, so that one whose draws are damaged can go back, if need be to its start, and end where it would have ended.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::checkpoint::{Checkpoint, CheckpointError, Member, forget, previous, set_aside};
use crate::durable::pieces::{Pace, Watch};
use crate::error::ExperimentError;
use crate::experiment::population::{Population, Sampled, Searches};
use crate::experiment::running_scores::RunningScores;
use crate::experiment::sampling::choices;
use crate::experiment::{ChainSpec, Experiment, SampledChain};
use crate::settings::DrawsSetting;
use kelvin::draws::{DrawShape, Draws, DrawsError};
use kelvin::potential::Posterior;
use kelvin::sampler::{Chain, Observer};
use kelvin::selection::JointChoice;

/// What searches chose, and the seconds that each took.
pub type TimedChoices = (Vec<JointChoice>, Vec<f64>);

/// Where a running experiment is stored, how often, and what may stop it.
#[derive(Clone, Copy)]
pub struct Durable<'a> {
    /// A folder of its own.
    pub folder: &'a Path,
    /// Names the run: what was stored under another name is refused.
    pub identity: &'a str,
    /// The longest time between two checkpoints.
    pub every: Duration,
    /// Asked often: whether to store everything and stop with [`ExperimentError::Interrupted`].
    pub should_stop: &'a (dyn Fn() -> bool + Sync),
    /// Asked before anything is stored: whether the folder still is this process's to write.
    pub is_owner: &'a (dyn Fn() -> bool + Sync),
    /// Told what had to be repaired.
    pub tell: &'a (dyn Fn(&Recovery) + Sync),
    /// Ends the names of its checkpoints, where several populations share the folder.
    pub suffix: &'a str,
}

/// The files that the draws of finished chains are kept in.
#[derive(Clone, Copy)]
pub struct DrawFiles<'a> {
    /// The file of a chain's draws.
    pub path: &'a dyn Fn(&ChainSpec) -> PathBuf,
    /// Metadata that is written into the file.
    pub about: &'a dyn Fn(&ChainSpec) -> BTreeMap<&'static str, String>,
}

/// What was found damaged, and what was done about it; the numbers stay what they would have been.
#[derive(Debug)]
pub enum Recovery {
    /// The last checkpoint could not be used.
    OlderCheckpoint {
        /// What is wrong with it.
        reason: CheckpointError,
    },
    /// No checkpoint could be used.
    NoCheckpoint {
        /// What is wrong with the last one.
        reason: CheckpointError,
    },
    /// The draws of one chain could not be used: it goes on from the checkpoint before the last.
    ChainWentBack {
        /// The label of the chain.
        label: String,
        /// What is wrong with its draws.
        reason: DrawsError,
    },
    /// The draws of one chain could not be used: it begins anew.
    ChainBeginsAnew {
        /// The label of the chain.
        label: String,
        /// What is wrong with its draws.
        reason: DrawsError,
    },
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OlderCheckpoint { reason } => write!(f, "{reason}; going on from the one before"),
            Self::NoCheckpoint { reason } => write!(f, "{reason}; there is none before it, so this part begins anew"),
            Self::ChainWentBack { label, reason } => {
                write!(f, "{label}: {}; it goes on from the checkpoint before", without_advice(reason))
            }
            Self::ChainBeginsAnew { label, reason } => write!(f, "{label}: {}; it begins anew", without_advice(reason)),
        }
    }
}

/// What is wrong with draws that are about to be repaired.
fn without_advice(reason: &DrawsError) -> String {
    match reason {
        DrawsError::Damaged { path, reason } => format!("the draws {} are damaged ({reason})", path.display()),
        other => other.to_string(),
    }
}

impl Durable<'_> {
    fn checkpoint(&self, stage: &str) -> PathBuf {
        self.folder.join(format!("{stage}{}.checkpoint", self.suffix))
    }

    /// The checkpoints of a stage that can be used, the newest first.
    fn read(&self, path: &Path) -> Result<Vec<Checkpoint<'static>>, ExperimentError> {
        let newest = Checkpoint::read(path, self.identity);
        let before = Checkpoint::read(&previous(path), self.identity);
        let usable = match (newest, before) {
            (Err(reason @ CheckpointError::Damaged { .. }), before) => {
                set_aside(path);
                match before {
                    Ok(Some(before)) => {
                        (self.tell)(&Recovery::OlderCheckpoint { reason });
                        vec![before]
                    }
                    _ => {
                        (self.tell)(&Recovery::NoCheckpoint { reason });
                        vec![]
                    }
                }
            }
            // The one before is of use only where the last is damaged.
            (newest, before) => newest?.into_iter().chain(before.ok().flatten()).collect(),
        };
        Ok(usable)
    }

    /// Moves a population until it is done, storing it after each piece.
    fn carry_out<P: Population>(
        &self,
        population: &mut P,
        seconds: &mut [f64],
        together: bool,
        progress: &dyn Observer,
        mut store: impl FnMut(&P, &[f64]) -> Result<(), ExperimentError>,
    ) -> Result<(), ExperimentError> {
        let num_steps = population.num_steps();
        let moving = |population: &P| population.chains().map(|chain| !chain.is_done(num_steps)).collect::<Vec<_>>();
        let mut cost = Duration::ZERO;
        loop {
            let moved = moving(population);
            for (index, at) in
                population.chains().enumerate().filter_map(|(index, chain)| Some((index, chain.divergence?)))
            {
                progress.diverged(index, at.step);
            }
            if !moved.contains(&true) {
                return Ok(());
            }
            if (self.should_stop)() {
                return Err(ExperimentError::Interrupted);
            }
            let watch = Watch::new(progress, self.should_stop, Pace::new(self.every, cost), moved.len(), together);
            population.advance(&watch)?;
            seconds.iter_mut().zip(watch.seconds(&moved)).for_each(|(sum, seconds)| *sum += seconds);
            let began = Instant::now();
            if !(self.is_owner)() {
                return Err(ExperimentError::TakenOver { folder: self.folder.into() });
            }
            store(population, seconds)?;
            cost = watch.setup() + began.elapsed();
        }
    }
}

impl Experiment {
    /// [`Experiment::select`] that can be stopped at any moment and goes on where it was; a finished search is not run again.
    /// Also the seconds that each search took.
    ///
    /// # Errors
    /// As `select`; where files cannot be written; [`ExperimentError::Interrupted`] where it was stopped.
    pub fn select_durably(
        &self,
        repetitions: &[u32],
        durable: &Durable<'_>,
        progress: &dyn Observer,
    ) -> Result<(Vec<JointChoice>, Vec<f64>), ExperimentError> {
        let path = durable.checkpoint("search");
        let mut population = self.searches(repetitions)?;
        let mut seconds = vec![0.0; repetitions.len()];
        if let Some(newest) = durable.read(&path)?.into_iter().next() {
            for (search, seconds) in population.searches.iter_mut().zip(&mut seconds) {
                let Some(member) = newest.member(search.chain.id) else { continue };
                let other = || CheckpointError::OtherRun { path: path.clone() };
                search.chain = member.restore(&search.chain).ok_or_else(other)?;
                (search.choice, *seconds) = (member.choice.clone().map(Cow::into_owned), member.seconds);
            }
        }
        let store = |population: &Searches<'_>, seconds: &[f64]| {
            let members = population.searches.iter().zip(seconds).map(|(search, &seconds)| {
                (search.chain.id, Member::of_search(&search.chain, seconds, search.choice.as_ref()))
            });
            Ok(Checkpoint::new(durable.identity, members).write(&path)?)
        };
        let together = self.engine.moves_chains_together();
        for (index, search) in population.searches.iter().enumerate().filter(|(_, search)| search.chain.state.step > 0)
        {
            progress.resumed(index, search.chain.state.step);
        }
        durable.carry_out(&mut population, &mut seconds, together, progress, store)?;
        forget(&previous(&path));
        Ok((choices(population.searches), seconds))
    }

    /// The searches of these starts that a checkpoint holds, with the seconds that each took, if all are finished; the file is only read.
    ///
    /// # Errors
    /// Where the checkpoint is damaged or of another run.
    pub fn stored_searches(
        &self,
        repetitions: &[u32],
        path: &Path,
        identity: &str,
    ) -> Result<Option<TimedChoices>, ExperimentError> {
        let population = self.searches(repetitions)?;
        let Some(stored) = Checkpoint::read(path, identity)? else { return Ok(None) };
        let (mut choices, mut seconds) = (Vec::new(), Vec::new());
        for search in &population.searches {
            let Some(member) = stored.member(search.chain.id) else { return Ok(None) };
            let other = || CheckpointError::OtherRun { path: path.into() };
            let chain = member.restore(&search.chain).ok_or_else(other)?;
            let Some(choice) = member.choice.clone().filter(|_| chain.is_done(population.plan.num_steps)) else {
                return Ok(None);
            };
            choices.push(choice.into_owned());
            seconds.push(member.seconds);
        }
        Ok(Some((choices, seconds)))
    }

    /// [`Experiment::sample`] that can be stopped at any moment and goes on where it was; finished chains are not run again.
    /// Draws go to disk as they are kept, and end in `files`.
    ///
    /// # Errors
    /// As `sample`; where files cannot be written; [`ExperimentError::Interrupted`] where it was stopped.
    pub fn sample_durably(
        &self,
        specs: &[ChainSpec],
        files: &DrawFiles<'_>,
        durable: &Durable<'_>,
        progress: &dyn Observer,
    ) -> Result<Vec<SampledChain>, ExperimentError> {
        let path = durable.checkpoint("sampling");
        let mut population = self.sampled(specs)?;
        let looks_on_the_way = self.settings.stopping.is_some();
        population.look_on_the_way();
        let mut seconds = vec![0.0; specs.len()];
        let shape = DrawShape::of(&self.posterior, population.measures_momentum());
        let checkpoints = durable.read(&path)?;
        population.draws.clear();
        let stored = self.settings.sampler.draws == DrawsSetting::Stored;
        let places: Vec<Place<'_>> = specs
            .iter()
            .zip(&population.chains)
            .map(|(spec, chain)| Place {
                spec,
                posterior: &self.posterior,
                file: (files.path)(spec),
                log: log_path(durable.folder, chain),
                shape,
                stored,
            })
            .collect();
        // Chains that decide together how far they go come from one checkpoint, or begin anew together.
        let lots: Vec<&[Checkpoint<'static>]> =
            if looks_on_the_way { checkpoints.chunks(1).collect() } else { vec![&checkpoints[..]] };
        let mut found: Vec<Option<Found>> = specs.iter().map(|_| None).collect();
        for lot in lots {
            let starts = population.chains.iter().zip(&population.scores);
            for ((place, (start, no_scores)), found) in places.iter().zip(starts).zip(&mut found) {
                let members = lot.iter().filter_map(|checkpoint| checkpoint.member(start.id));
                *found = place.found(start, no_scores, members, durable.tell)?;
            }
            if !looks_on_the_way {
                break;
            }
            if let (true, Some(reach)) = (found.iter().all(Option::is_some), lot[0].reach()) {
                population.set_reach(reach);
                break;
            }
            found.fill_with(|| None);
        }
        for (index, (place, found)) in places.iter().zip(found).enumerate() {
            population.draws.push(match found {
                Some(Found { chain, draws, scores, seconds: spent }) => {
                    (population.chains[index], population.scores[index], seconds[index]) = (chain, scores, spent);
                    draws
                }
                None if stored => Draws::create_log(&place.log, shape)?,
                None => Draws::unstored(shape.dim),
            });
        }
        drop((checkpoints, places));

        let mut synced: Vec<usize> = population.draws.iter().map(Draws::len).collect();
        let mut store = |population: &Sampled<'_>, seconds: &[f64]| {
            for (draws, synced) in population.draws.iter().zip(&mut synced).filter(|(draws, len)| draws.len() > **len) {
                draws.sync()?;
                *synced = draws.len();
            }
            let scores: Vec<Vec<Vec<f64>>> = population.scores.iter().map(RunningScores::state).collect();
            let members = population.chains.iter().zip(&population.draws).zip(&scores).zip(seconds);
            let members = members.map(|(((chain, draws), scores), &seconds)| {
                let series = if draws.are_stored() { [&[][..]; 3] } else { draws.series().map(Vec::as_slice) };
                (chain.id, Member::of_sampled(chain, seconds, draws.len(), scores, series))
            });
            let reach = looks_on_the_way.then(|| population.reach());
            Ok(Checkpoint::new(durable.identity, members).reaching(reach).write(&path)?)
        };
        let together = self.engine.moves_chains_together();
        for (index, chain) in population.chains.iter().enumerate().filter(|(_, chain)| chain.state.step > 0) {
            progress.resumed(index, chain.state.step);
        }
        loop {
            durable.carry_out(&mut population, &mut seconds, together, progress, &mut store)?;
            match population.next_reach()? {
                Some(reach) => population.set_reach(reach),
                None => break,
            }
        }
        (0..population.chains.len()).for_each(|index| progress.ended(index));

        let mut sampled = Vec::new();
        let kept = population.draws.into_iter().zip(population.scores).zip(seconds);
        for ((spec, chain), ((draws, scores), seconds)) in specs.iter().zip(population.chains).zip(kept) {
            let log = log_path(durable.folder, &chain);
            let draws = if draws.is_empty() && draws.are_stored() {
                Draws::in_memory(shape.dim)
            } else if draws.is_log() {
                let file = (files.path)(spec);
                draws.save(&file, &self.posterior, &(files.about)(spec))?;
                Draws::open(&file, &self.posterior)?
            } else {
                draws
            };
            forget(&log);
            sampled.push(SampledChain { spec: spec.clone(), chain, draws, scores, seconds });
        }
        forget(&previous(&path));
        Ok(sampled)
    }
}

fn log_path(folder: &Path, chain: &Chain) -> PathBuf {
    folder.join(format!("chain-{}.draws", chain.id))
}

/// Where a chain's draws may be.
struct Place<'a> {
    spec: &'a ChainSpec,
    posterior: &'a Posterior,
    file: PathBuf,
    log: PathBuf,
    shape: DrawShape,
    stored: bool,
}

/// A chain as it was stored, whose draws are whole.
struct Found {
    chain: Chain,
    draws: Draws,
    scores: RunningScores,
    seconds: f64,
}

impl Place<'_> {
    /// The chain as the newest of its stored states had it whose draws are whole.
    fn found<'m>(
        &self,
        start: &Chain,
        no_scores: &RunningScores,
        members: impl Iterator<Item = &'m Member<'static>>,
        tell: &dyn Fn(&Recovery),
    ) -> Result<Option<Found>, ExperimentError> {
        let label = || self.spec.label.clone();
        let mut damage = None;
        for member in members {
            // The settings are the same, so a chain that does not fit was never this one.
            let Some(chain) = member.restore(start) else { continue };
            let Some(scores) = no_scores.clone().restore(&member.scores) else { continue };
            match self.draws(&chain, member) {
                Ok(draws) => {
                    if let Some(reason) = damage {
                        tell(&Recovery::ChainWentBack { label: label(), reason });
                    }
                    return Ok(Some(Found { chain, draws, scores, seconds: member.seconds }));
                }
                Err(reason @ DrawsError::OtherVersion { .. }) => return Err(reason.into()),
                Err(reason) => damage = Some(damage.unwrap_or(reason)),
            }
        }
        if let Some(reason) = damage {
            tell(&Recovery::ChainBeginsAnew { label: label(), reason });
        }
        Ok(None)
    }

    fn draws(&self, chain: &Chain, member: &Member<'_>) -> Result<Draws, DrawsError> {
        if !self.stored {
            let damaged = || DrawsError::Damaged { path: self.log.clone(), reason: "measurements are missing".into() };
            return Draws::unstored(self.shape.dim)
                .with_series(member.series.clone().map(Cow::into_owned))
                .ok_or_else(damaged);
        }
        let count = usize::try_from(member.num_draws).unwrap_or(usize::MAX);
        let from_log = match Draws::reopen_log(&self.log, self.shape, count) {
            Ok(draws) => return Ok(draws),
            Err(error) => error,
        };
        if count == 0 {
            return if chain.divergence.is_some() { Ok(Draws::in_memory(self.shape.dim)) } else { Err(from_log) };
        }
        // Once a chain is done, its log becomes a file.
        match Draws::open(&self.file, self.posterior) {
            Ok(draws) if draws.len() == count => Ok(draws),
            Err(error) if self.file.exists() => Err(error),
            _ => Err(from_log),
        }
    }
}

//! How far the parts of a study are, which may be carried out on many machines: told from files alone.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use crate::error::{Result, path_word, resume_command};
use crate::findings::FINDINGS;
use crate::folder::hashes::HASHES;
use crate::folder::run_folder::{last_writer, record_of, writer};
use crate::folder::shard::Shard;
use crate::folder::status::{Moment, Stage, Status};

/// The parts of a study, and how far each is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// The searches, which shards wait for.
    pub search: PartStatus,
    /// The shards, in order; empty of a study that is made in one piece.
    pub shards: Vec<PartStatus>,
    /// What puts them together; of a study in one piece, its chains.
    pub merge: PartStatus,
}

/// How far a part is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartStatus {
    /// "search", "shard 3/8" or "merge"; "chains" of a study in one piece.
    pub name: String,
    /// What it is doing.
    pub state: PartState,
    /// The process that carries it out, or that did when it ended without a word, and its machine; none where that is not known.
    pub process: Option<String>,
    /// Why it failed; none where it did not.
    pub failure: Option<String>,
    /// Its chains as they last told; none where it has not begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// What a part of a study is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// It has not begun.
    Waiting,
    /// A process is carrying it out.
    Running,
    /// It was stopped, or its machine was lost: it goes on from its last checkpoint when it is asked for again.
    Stopped,
    /// It ended with an error.
    Failed,
    /// All of it is done.
    Done,
}

impl PartState {
    /// The state as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }
}

impl PartStatus {
    fn of(name: String, folder: &Path, is_done: bool) -> Result<Self> {
        let (running, status) = (writer(folder), Status::read(folder)?);
        let failure =
            status.as_ref().and_then(|status| status.failure.clone()).filter(|_| !is_done && running.is_none());
        let lost = last_writer(folder).filter(|_| !is_done);
        let state = match () {
            () if is_done => PartState::Done,
            () if running.is_some() => PartState::Running,
            () if failure.is_some() => PartState::Failed,
            () if lost.is_some() || status.is_some() => PartState::Stopped,
            () => PartState::Waiting,
        };
        Ok(Self { name, state, process: running.filter(|_| !is_done).or(lost), failure, status })
    }

    /// A part that a run folder carries out itself, when it is not at another one.
    fn of_run(name: &str, run: &Path, is_done: bool, is_at_it: bool) -> Result<Self> {
        if is_done || is_at_it {
            return Self::of(name.into(), run, is_done);
        }
        Ok(Self { name: name.into(), state: PartState::Waiting, process: None, failure: None, status: None })
    }
}

/// The shards that were found, and those that belong to them and have no folder yet.
fn dealt(found: Vec<Shard>) -> BTreeSet<Shard> {
    let count = Shard::most_common_count(found.iter().copied());
    count.into_iter().flat_map(Shard::all).chain(found).collect()
}

impl Parts {
    /// Looks at the files of a run folder.
    ///
    /// # Errors
    /// If a status is damaged or of another format.
    pub fn of(run: &Path) -> Result<Self> {
        let is_shard = record_of(run).is_ok_and(|record| record.is_some_and(|record| record.shard.is_some()));
        let is_merged = run.join(HASHES).exists() && (is_shard || run.join(FINDINGS).exists());
        let stage = Status::read(run)?.map(|status| status.moment.stage);
        let is_searched = is_merged || !matches!(stage, None | Some(Stage::Choosing | Stage::Tuning));
        let shard = |shard: Shard| {
            let folder = shard.folder(run);
            PartStatus::of(format!("shard {shard}"), &folder, folder.join(HASHES).exists())
        };
        let is_merging = is_searched && stage != Some(Stage::Searched);
        let shards: Vec<PartStatus> = dealt(Shard::found_in(run)).into_iter().map(shard).collect::<Result<_>>()?;
        let rest = if shards.is_empty() { "chains" } else { "merge" };
        Ok(Self {
            search: PartStatus::of_run("search", run, is_searched, true)?,
            shards,
            merge: PartStatus::of_run(rest, run, is_merged, is_merging)?,
        })
    }

    /// Its shards in one line: "8 shards: 3 done, 4 running, 1 waiting"; none of a study in one piece.
    pub fn summary(&self) -> Option<String> {
        use PartState::{Done, Failed, Running, Stopped, Waiting};
        let count = |state| self.shards.iter().filter(|shard| shard.state == state).count();
        let counted = [Done, Running, Waiting, Stopped, Failed].map(|state| (count(state), state.name()));
        let counted =
            counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
        let noun = if self.shards.len() == 1 { "shard" } else { "shards" };
        let told = format!("{} {noun}: {}", self.shards.len(), counted.collect::<Vec<_>>().join(", "));
        (!self.shards.is_empty()).then_some(told)
    }

    /// What to type next, where nothing of a study in shards is running that would go on by itself.
    pub fn next(&self, run: &Path) -> Option<String> {
        let all = || std::iter::once(&self.search).chain(&self.shards).chain(std::iter::once(&self.merge));
        let is_on = all().any(|part| part.state == PartState::Running);
        if self.shards.is_empty() || is_on || self.merge.state == PartState::Done {
            return None;
        }
        if self.search.state != PartState::Done {
            return Some(format!("search first: `{} --stage search`", resume_command(run)));
        }
        match self.shards.iter().find(|shard| shard.state != PartState::Done) {
            Some(shard) => Some(format!("go on with a shard: `{} --{}`", resume_command(run), shard.name)),
            None => Some(format!("put them together: `kelvin merge {}`", path_word(run))),
        }
    }

    /// All shards as one moment of one population; none before any of them has told of itself.
    pub fn together(&self) -> Option<Status> {
        let all: Vec<&Status> = self.shards.iter().filter_map(|shard| shard.status.as_ref()).collect();
        let running = || self.shards.iter().filter(|shard| shard.state == PartState::Running);
        let moments = || running().filter_map(|shard| Some(&shard.status.as_ref()?.moment));
        let mut together = (*all.first()?).clone();
        let speeds: Vec<f64> = moments().filter_map(|moment| moment.steps_per_second).collect();
        let failed = || std::iter::once(&self.merge).chain(&self.shards).find(|part| part.failure.is_some());
        together.failure = failed()
            .filter(|_| running().next().is_none())
            .and_then(|part| Some(format!("{}: {}", part.name, part.failure.as_ref()?)));
        together.update = all.iter().map(|status| status.update).sum();
        together.elapsed_seconds = all.iter().map(|status| status.elapsed_seconds).fold(0.0, f64::max);
        together.moment = Moment {
            stage: Stage::Sampling,
            steps_done: all.iter().map(|status| status.moment.steps_done).sum(),
            steps: all.iter().map(|status| status.moment.steps).sum(),
            steps_per_second: Some(speeds.iter().sum()).filter(|_| !speeds.is_empty()),
            seconds_left: moments().filter_map(|moment| moment.seconds_left).reduce(f64::max),
            chains: all.iter().flat_map(|status| status.moment.chains.clone()).collect(),
        };
        Some(together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::RunCommand;
    use crate::folder::status::StatusFile;

    #[test]
    fn parts_are_told_from_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let states = || {
            let Parts { search, shards, merge } = Parts::of(run).unwrap();
            let all = std::iter::once(&search).chain(&shards).chain(std::iter::once(&merge));
            all.map(|part| part.state.name()).collect::<Vec<_>>().join(" ")
        };
        let status = |folder: &Path| {
            std::fs::create_dir_all(folder.join("checkpoints")).unwrap();
            StatusFile::new(folder, "concrete", RunCommand::Sweep)
        };
        assert_eq!((states(), Parts::of(run).unwrap().summary()), ("waiting waiting".into(), None));
        status(run).write_stage(Stage::Choosing);
        assert_eq!(states(), "stopped waiting");
        status(run).write_stage(Stage::Searched);
        for shard in Shard::all(3) {
            std::fs::create_dir_all(shard.folder(run)).unwrap();
        }
        assert_eq!(states(), "done waiting waiting waiting waiting");
        // Shards that nobody has begun are parts of the study as well.
        for gone in ["1/3", "3/3"] {
            std::fs::remove_dir(gone.parse::<Shard>().unwrap().folder(run)).unwrap();
        }
        assert_eq!(states(), "done waiting waiting waiting waiting");
        let [first, second, _] = [1, 2, 3].map(|number| format!("{number}/3").parse::<Shard>().unwrap().folder(run));
        status(&first).write_stage(Stage::Sampling);
        std::fs::write(first.join(HASHES), "{}").unwrap();
        status(&second).write_failure("the disk is full");
        std::fs::write(second.join("checkpoints/lock"), "").unwrap();
        assert_eq!(states(), "done done failed waiting waiting");
        let parts = Parts::of(run).unwrap();
        assert_eq!(parts.shards[1].failure.as_deref(), Some("the disk is full"));
        assert_eq!(parts.summary().unwrap(), "3 shards: 1 done, 1 waiting, 1 failed");
        let together = parts.together().unwrap();
        assert_eq!(together.moment.stage, Stage::Sampling);
        assert_eq!(together.failure.as_deref(), Some("shard 2/3: the disk is full"));
        // What a merge that is refused says is of the merge, and not of the searches.
        let merge = status(run);
        merge.write_stage(Stage::Scoring);
        merge.write_failure("6 of 9 chains are missing");
        assert_eq!(states(), "done done failed waiting failed");
        status(run).write_stage(Stage::Searched);
        std::fs::write(second.join("checkpoints/lock"), "process 4194399 on node-3 boot 0 heartbeat 7").unwrap();
        status(&second).write_stage(Stage::Sampling);
        let parts = Parts::of(run).unwrap();
        assert_eq!(parts.shards[1].process.as_deref(), Some("process 4194399 on node-3"));
    }
}

//! The folder of a run: made once, refused when it holds something else or is being written, every file written whole.

use crate::error::{Context, Result, refused, resume_command};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::experiment::Experiment;
use crate::settings::Settings;
use kelvin::write_file::{remove_all_parts_in, remove_leftovers_in, replace_with, write_atomically};
use serde::Serialize;

use crate::findings::{FINDINGS, Findings, Predictions, Row, metrics_csv, scores_csv};
use crate::folder::hashes::{HASHES, Hashes};
use crate::folder::links::check_keeps_to_itself;
use crate::folder::lock;
use crate::folder::lock::{Lease, Lock};
use crate::folder::provenance::{ChainOrigin, Provenance, devices_of};
use crate::folder::record::RunRecord;
use crate::folder::shard::{SHARDS, Shard};
use crate::folder::status::StatusFile;

/// The name of the file of provenance in a run folder.
pub const PROVENANCE: &str = "provenance.json";
/// The name of the file of settings in a run folder; `kelvin run` takes it and repeats the run.
pub const SETTINGS: &str = "experiment.toml";
/// The name of the folder of checkpoints in a run folder: what a run needs to be resumed.
pub const CHECKPOINTS: &str = "checkpoints";
const LOCK: &str = "checkpoints/lock";
/// The name of the record in a run folder: what it is a run of, and so that it is one.
const RECORD: &str = "checkpoints/run.json";
/// The folders that a run is begun with.
const FOLDERS: [&str; 4] = ["draws", "figures", "predictions", CHECKPOINTS];

/// A run folder that is locked for writing by this process.
pub struct RunFolder {
    path: PathBuf,
    record: RunRecord,
    status: Arc<StatusFile>,
    lock: Lock,
}

impl RunFolder {
    /// Opens a folder; one that holds anything but the same experiment is left alone. What it has done so far is kept, unless it is to begin anew.
    /// `tell` hears why it takes a while, where it does.
    pub(crate) fn open(path: &Path, name: &str, record: RunRecord, fresh: bool, tell: &dyn Fn(&str)) -> Result<Self> {
        let path = path.to_path_buf();
        if path.is_file() {
            return Err(refused(format!("{} is a file; name a folder with --out", path.display())));
        }
        check_keeps_to_itself(&path)?;
        check_contents(&path, &record, fresh)?;
        for inner in FOLDERS {
            let inner = path.join(inner);
            std::fs::create_dir_all(&inner).with_context(|| format!("cannot create the folder {}", inner.display()))?;
        }
        let lock = Lock::take(&path.join(LOCK), &path, tell)?;
        // Another process may have come and gone in between.
        check_keeps_to_itself(&path)?;
        let there = check_contents(&path, &record, fresh)?;
        sweep_up(&path);
        if fresh {
            forget(&path)?;
        }
        let record = there.filter(|_| !fresh).unwrap_or(record);
        let status = Arc::new(StatusFile::new(&path, name, record.command));
        let folder = Self { path, record, status, lock };
        folder.write_record()?;
        Ok(folder)
    }

    /// Its path, as it was asked for or named after the experiment.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was removed or renamed since it was opened.
    pub(crate) fn is_gone(&self) -> bool {
        !self.path.join(RECORD).exists()
    }

    /// The command line that goes on with it.
    pub fn resume_command(&self) -> String {
        match (self.record.shard, self.path.parent().and_then(Path::parent)) {
            (Some(shard), Some(run)) => shard.command(run),
            _ => resume_command(&self.path),
        }
    }

    /// Notes where each chain was sampled.
    pub(crate) fn write_origins(&self, origins: Vec<ChainOrigin>) -> Result<()> {
        let path = self.path.join(PROVENANCE);
        let provenance = Provenance::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        self.write_json(PROVENANCE, &Provenance { chains: origins, ..provenance })
    }

    /// The devices that its chains were sampled on, where it was put together and not by CPUs alone.
    pub(crate) fn devices_of_chains(&self) -> Option<String> {
        devices_of(&Provenance::read(&self.path.join(PROVENANCE))?.chains)
    }

    /// What says whether it still is this process's to write.
    pub(crate) fn lease(&self) -> Arc<Lease> {
        self.lock.lease()
    }

    /// What it is a run of.
    pub(crate) fn record(&self) -> &RunRecord {
        &self.record
    }

    /// The file that the run's progress is written to.
    pub(crate) fn status(&self) -> &Arc<StatusFile> {
        &self.status
    }

    /// The folder of checkpoints.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// The file of a chain's draws; `name` is without ending.
    pub(crate) fn draws(&self, name: &str) -> PathBuf {
        self.path.join("draws").join(format!("{name}.safetensors"))
    }

    /// Writes a file atomically: a reader sees the old contents or the new, never a part.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write(&self.path, name, bytes)
    }

    /// Writes a value as indented JSON, atomically.
    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.path.join(name);
        let written: std::io::Result<()> = replace_with(&path, |file| {
            let mut file = BufWriter::new(file);
            serde_json::to_writer_pretty(&mut file, value)?;
            file.write_all(b"\n")?;
            file.flush()
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes provenance, split and settings before the first step. Returns sentences that a user should read if the run is
    /// resumed with another kelvin, device or vector instructions.
    pub(crate) fn write_start(&self, experiment: &Experiment) -> Result<Vec<String>> {
        let mut provenance = Provenance::new(self.record.identity(), experiment);
        let began = Provenance::read(&self.path.join(PROVENANCE));
        let notes = began.map_or(Vec::new(), |began| provenance.go_on_from(began));
        self.write_json(PROVENANCE, &provenance)?;
        self.write_questions(experiment)?;
        Ok(notes)
    }

    /// Writes split and settings, which no device has a part in.
    pub(crate) fn write_questions(&self, experiment: &Experiment) -> Result<()> {
        // Images come divided.
        if let Some(table) = experiment.problem.table() {
            self.write_json("split.json", &table.split)?;
        }
        self.write_settings(&experiment.settings)
    }

    /// Adds a row of results, with its predictions in a file of their own.
    pub(crate) fn add_row(&self, findings: &mut Findings, row: Row, predictions: &Predictions) -> Result<()> {
        self.write(&format!("predictions/{}.csv", row.file_name()), predictions.to_csv().as_bytes())?;
        findings.rows.push(row);
        Ok(())
    }

    /// Writes what was found, and its views for other programs.
    pub(crate) fn write_findings(&self, findings: &Findings) -> Result<()> {
        self.write("scores.csv", scores_csv(findings).as_bytes())?;
        self.write("metrics.csv", metrics_csv(findings).as_bytes())?;
        self.write_json("warnings.json", &findings.warnings)?;
        self.write_json(FINDINGS, findings)
    }

    /// Writes hashes of all that was written: the last thing a run does.
    pub(crate) fn write_hashes(&self) -> Result<()> {
        self.write_json(HASHES, &Hashes::of(&self.path)?)
    }

    /// Stores the step size that the pilot found, so that it is not run again.
    pub(crate) fn write_tuned(&mut self, settings: &Settings) -> Result<()> {
        self.record.tuned_learning_rate = Some(settings.sampler.learning_rate);
        self.write_record()?;
        self.write_settings(settings)
    }

    /// Writes the likelihood that was chosen among those tried: to the record first, as the settings have it from there.
    pub(crate) fn write_likelihood(&mut self, settings: &Settings) -> Result<()> {
        self.record.chosen_likelihood = settings.model.likelihood;
        self.write_record()?;
        self.write_settings(settings)
    }

    /// Writes the hidden layers that were chosen among those tried, in the same order.
    pub(crate) fn write_hidden(&mut self, settings: &Settings) -> Result<()> {
        self.record.chosen_hidden = settings.model.hidden.clone();
        self.write_record()?;
        self.write_settings(settings)
    }

    fn write_record(&self) -> Result<()> {
        self.write_json(RECORD, &self.record.sealed()?)
    }

    /// Writes the resolved settings; `kelvin run experiment.toml` repeats the run.
    fn write_settings(&self, settings: &Settings) -> Result<()> {
        self.write(SETTINGS, settings.to_toml()?.as_bytes())
    }
}

/// `asked`, or `runs/<name>-<short hash of command and settings>`.
pub(crate) fn run_path(asked: Option<&Path>, name: &str, record: &RunRecord) -> PathBuf {
    let named = || PathBuf::from("runs").join(format!("{}-{}", as_file_name(name), &record.identity()[..8]));
    asked.map_or_else(named, Path::to_path_buf)
}

/// What a folder is a run of; `None` where it holds no record.
///
/// # Errors
/// If the record is damaged or of another format.
pub(crate) fn record_of(path: &Path) -> Result<Option<RunRecord>> {
    RunRecord::read(&path.join(RECORD))
}

/// Writes a file of a run folder atomically: a reader sees the old contents or the new, never a part.
///
/// # Errors
/// If the file cannot be written.
pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    write_atomically(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The record and the settings of a run to be resumed.
///
/// # Errors
/// If the folder holds no run, has lost its record, or its experiment.toml was changed.
pub fn stored_run(path: &Path) -> Result<(RunRecord, Settings)> {
    check_is_run(path)?;
    let stored = record_and_settings(path)?.with_context(|| {
        let run = path.display();
        let finished = match path.join(FINDINGS).exists() {
            true => format!("\n  it is finished: `kelvin report {run}` shows it"),
            false => String::new(),
        };
        let command = Provenance::read(&path.join(PROVENANCE)).and_then(|began| began.command.first().cloned());
        let again = command.map_or(String::new(), |command| {
            format!("\n  `kelvin {command} {} --out {run}-again` runs it again", path.join(SETTINGS).display())
        });
        format!("cannot go on with {run}: it has lost {RECORD}, which says what it is a run of{finished}{again}")
    })?;
    stored.0.check_can_go_on(&path.join(RECORD), path)?;
    Ok(stored)
}

/// The record of a run and the settings that were asked for, with the seconds between its checkpoints from experiment.toml;
/// `None` if the record is lost.
pub(super) fn record_and_settings(path: &Path) -> Result<Option<(RunRecord, Settings)>> {
    let Some(record) = RunRecord::read(&path.join(RECORD))? else { return Ok(None) };
    let written = path.join(SETTINGS);
    record.check_unchanged(&written)?;
    let mut settings = record.settings(&path.join(RECORD))?;
    let text = std::fs::read_to_string(&written).unwrap_or_default();
    if let Ok(written) = Settings::from_toml(&text, SETTINGS) {
        settings.run.checkpoint_seconds = written.run.checkpoint_seconds;
        settings.run.most_hours = written.run.most_hours;
    }
    Ok(Some((record, settings)))
}

/// Whether a process is writing this run.
pub fn is_being_written(path: &Path) -> bool {
    writer(path).is_some()
}

/// The process that is writing this run, and where; none where none is.
pub fn writer(path: &Path) -> Option<String> {
    lock::holder(&path.join(LOCK))
}

/// The process that was writing this run and ended without a word, as one does that is killed; none where each has said that it ended.
pub fn last_writer(path: &Path) -> Option<String> {
    lock::last_holder(&path.join(LOCK))
}

/// Checks that a folder holds a run, finished or not, and nothing that leads out of it.
///
/// # Errors
/// If there is no such folder, it holds no run, or anything in it is a link.
pub fn check_is_run(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return Err(refused(format!(
            "there is no folder {}; `kelvin run` and `kelvin sweep` print where theirs is",
            path.display()
        )));
    }
    if !is_run(path) {
        return Err(refused(format!(
            "{} is no run folder of kelvin; name one that `kelvin run` or `kelvin sweep` has begun",
            path.display()
        )));
    }
    check_keeps_to_itself(path)
}

/// Whether a folder holds the beginnings of a run.
fn is_run(path: &Path) -> bool {
    [LOCK, RECORD, PROVENANCE].iter().any(|name| path.join(name).exists())
}

/// Refuses a folder that holds anything but a run, and one of another run unless it begins anew; the record that it holds.
fn check_contents(path: &Path, record: &RunRecord, fresh: bool) -> Result<Option<RunRecord>> {
    let Some(there) = RunRecord::read(&path.join(RECORD))? else {
        return match foreign_entry(path) {
            None => Ok(None),
            Some(entry) => Err(refused(format!(
                "{} holds files that are no run of kelvin ({entry}), and no {RECORD} that says otherwise; nothing was changed. Name another \
                 folder with --out",
                path.display(),
            ))),
        };
    };
    if !fresh {
        there.check_can_go_on(&path.join(RECORD), path)?;
        there.check_same(record, path)?;
        there.check_unchanged(&path.join(SETTINGS))?;
        check_same_part(&there, record, path)?;
    }
    Ok(Some(there))
}

/// Refuses the folder of a shard to all but this shard, with the step size that its study has.
fn check_same_part(there: &RunRecord, now: &RunRecord, path: &Path) -> Result<()> {
    let named = |record: &RunRecord| record.shard.map_or("a whole study".into(), |shard| format!("shard {shard}"));
    if there.shard != now.shard {
        return Err(refused(format!(
            "{} holds {}, and was asked to hold {}; nothing was changed\n  name another folder with --out",
            path.display(),
            named(there),
            named(now),
        )));
    }
    if there.shard.is_some() && there.identity_of_chains() != now.identity_of_chains() {
        return Err(refused(format!(
            "{} was begun with another step size than its study has now; nothing was changed\n  begin it anew with --fresh",
            path.display()
        )));
    }
    Ok(())
}

/// Something in a folder that a run does not leave before its record is written; none in a folder that is empty or not there.
fn foreign_entry(path: &Path) -> Option<String> {
    let names = |folder: &Path| {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let is_ours = |inner: &str, name: &str| {
        inner == CHECKPOINTS && (name == "lock" || name.starts_with("run.json.") && name.ends_with(".part"))
    };
    for name in names(path) {
        let Some(inner) = FOLDERS.iter().find(|inner| **inner == name).filter(|_| path.join(&name).is_dir()) else {
            return Some(name);
        };
        if let Some(foreign) = names(&path.join(inner)).into_iter().find(|name| !is_ours(inner, name)) {
            return Some(format!("{inner}/{foreign}"));
        }
    }
    None
}

/// The folders whose files are written whole.
const WRITTEN: [&str; 7] = [".", "cases", "draws", "figures", "predictions", "tables", CHECKPOINTS];

/// Removes files that were not finished when a process was killed; whoever has the lock is the only one to write.
fn sweep_up(path: &Path) {
    WRITTEN.iter().for_each(|folder| remove_all_parts_in(&path.join(folder)));
}

/// Removes files of a folder that were not finished when a process was killed, unless one is writing there now.
pub fn remove_leftovers(path: &Path) {
    if !is_being_written(path) {
        WRITTEN.iter().for_each(|folder| remove_leftovers_in(&path.join(folder)));
    }
}

/// Removes what was done so far. The record stays until the next one takes its place: without it the folder would be nobody's.
fn forget(path: &Path) -> Result<()> {
    let cannot = |path: &Path| format!("cannot remove {}", path.display());
    for folder in [CHECKPOINTS, "draws"] {
        let folder = path.join(folder);
        for entry in folder.read_dir().with_context(|| cannot(&folder))? {
            let entry = entry.with_context(|| cannot(&folder))?;
            let (file, is_file) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_file()));
            if is_file && file != path.join(LOCK) && file != path.join(RECORD) {
                std::fs::remove_file(&file).with_context(|| cannot(&file))?;
            }
        }
    }
    let shards = path.join(SHARDS);
    if shards.exists() {
        if let Some(shard) = Shard::found_in(path).into_iter().find(|shard| is_being_written(&shard.folder(path))) {
            return Err(refused(format!("shard {shard} of {} is running; stop it before --fresh", path.display())));
        }
        std::fs::remove_dir_all(&shards).with_context(|| cannot(&shards))?;
    }
    for name in [PROVENANCE, SETTINGS, FINDINGS, HASHES, "model.json", "metrics.csv"] {
        let file = path.join(name);
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| cannot(&file))?;
        }
    }
    Ok(())
}

/// The name with everything but letters, digits, `-`, `_` and inner dots replaced, so that it stays one folder.
fn as_file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.trim_matches('.').chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_folder() {
        assert_eq!(as_file_name("concrete-quick"), "concrete-quick");
        assert_eq!(as_file_name("../my data/v1.2"), "-my-data-v1.2");
    }
}

//! What a run folder is a run of: enough to go on with it, and to see that nothing it depends on has changed.

use crate::error::{Context, Result, path_word, refused, resume_command};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::findings::RunCommand;
use crate::folder::shard::Shard;
use crate::problem::{Problem, SourceData};
use crate::settings::{LikelihoodName, RunSettings, Settings};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The format of run.json that this kelvin writes and goes on from.
const FORMAT: u32 = 2;
/// The format before, without a checksum: of finished runs it is still read.
const WITHOUT_CHECKSUM: u32 = 1;
/// The most differences that are shown.
const MOST_SHOWN: usize = 12;

/// What a run folder is a run of, written as checkpoints/run.json.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    format: u32,
    /// The command that fills the folder.
    pub command: RunCommand,
    /// Whether step sizes were derived from the table and want a pilot.
    pub automatic: bool,
    /// The settings as they were asked for, before any pilot, as TOML.
    asked: String,
    /// What decides no numbers and so is no part of `asked`: seconds between checkpoints and the most hours that were allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conduct: Option<(f64, f64)>,
    /// What the pilot found.
    #[serde(default)]
    pub tuned_learning_rate: Option<f64>,
    /// The likelihood that was chosen among those tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_likelihood: Option<LikelihoodName>,
    /// The widths of hidden layers that were chosen among those tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_hidden: Option<Vec<usize>>,
    /// SHA-256 of the numbers that were read.
    data_sha256: String,
    #[serde(default)]
    out_of_distribution_sha256: Option<String>,
    /// Where the command was given: relative paths begin there.
    pub working_folder: PathBuf,
    /// Where the files of known data sets were, if a folder was named.
    pub data_folder: Option<PathBuf>,
    /// The shard whose folder this is; none of a whole study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// SHA-256 of all of the above, as JSON on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// SHA-256 of what a run read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataHashes {
    /// Hash of the data to learn from and to be judged on.
    pub data: String,
    /// Hash of the images of another data set; none if none is named.
    pub out_of_distribution: Option<String>,
}

impl DataHashes {
    /// Both hashes in one line, for error messages.
    pub fn described(&self) -> String {
        let other = self.out_of_distribution.as_ref().map(|hash| format!(" (of the other set: {hash})"));
        self.data.clone() + &other.unwrap_or_default()
    }
}

impl RunRecord {
    /// The record of a run that is about to begin in the current folder.
    pub(crate) fn new(
        command: RunCommand,
        automatic: bool,
        settings: &Settings,
        hashes: DataHashes,
        data_folder: Option<&Path>,
    ) -> Result<Self> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
        Ok(Self {
            format: FORMAT,
            command,
            automatic,
            asked: numbers_of(settings)?,
            conduct: Some((settings.run.checkpoint_seconds, settings.run.most_hours)),
            tuned_learning_rate: None,
            chosen_likelihood: None,
            chosen_hidden: None,
            data_sha256: hashes.data,
            out_of_distribution_sha256: hashes.out_of_distribution,
            working_folder: absolute(Path::new(".")),
            data_folder: data_folder.map(absolute),
            shard: None,
            sha256: None,
        })
    }

    /// The record of a shard of this study.
    pub(crate) fn of_shard(&self, shard: Shard) -> Self {
        Self { shard: Some(shard), ..self.clone() }
    }

    /// What a run of a single repetition is a piece of: the same with all repetitions.
    pub(crate) fn of_all_repetitions(&self, path: &Path) -> Result<Self> {
        let mut settings = self.settings(path)?;
        settings.run.only_repetition = None;
        Ok(Self { asked: numbers_of(&settings)?, ..self.clone() })
    }

    /// The record with its checksum, as it is written.
    pub(crate) fn sealed(&self) -> Result<Self> {
        Ok(Self { sha256: Some(self.checksum()?), ..self.clone() })
    }

    fn checksum(&self) -> Result<String> {
        Ok(hex(&Sha256::digest(serde_json::to_vec(&Self { sha256: None, ..self.clone() })?)))
    }

    /// Whether nothing in it was changed since it was written; false for the format before, which has no checksum.
    pub fn is_checked(&self) -> bool {
        self.format == FORMAT
    }

    /// Checks that a run can go on from this record.
    pub(crate) fn check_can_go_on(&self, path: &Path, run: &Path) -> Result<()> {
        if self.is_checked() {
            return Ok(());
        }
        Err(refused(format!(
            "{} has format {}, which has no checksum, and this kelvin goes on from format {FORMAT} only; nothing was changed\n  \
             if the run is finished, `kelvin report {2}` and `kelvin verify {2}` still read it\n  \
             if not, go on with the kelvin that began it, or begin anew with --fresh",
            path.display(),
            self.format,
            path_word(run),
        )))
    }

    /// Reads run.json; `None` if there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(bytes) => Self::from_bytes(path, &bytes).map(Some),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Reads the bytes of a run.json; `path` stands for it in errors.
    ///
    /// # Errors
    /// If they are damaged or of another format.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        /// All that every format has.
        #[derive(Deserialize)]
        struct Format {
            #[serde(default)]
            format: serde_json::Value,
        }
        let damaged = || damaged(path);
        let format = serde_json::from_slice::<Format>(bytes).with_context(damaged)?.format.as_u64();
        if ![FORMAT, WITHOUT_CHECKSUM].iter().any(|&known| format == Some(known.into())) {
            let found = format.map_or("no".into(), |format| format.to_string());
            return Err(refused(format!(
                "{} has format {found}, and this kelvin knows {FORMAT}; nothing was changed\n  \
                 go on with the kelvin that began the run, or name another folder with --out",
                path.display()
            )));
        }
        let record: Self = serde_json::from_slice(bytes).with_context(damaged)?;
        if record.is_checked() && record.sha256.as_ref() != Some(&record.checksum()?) {
            return Err(refused("its contents do not have the SHA-256 that was written with them"))
                .with_context(damaged);
        }
        Ok(record)
    }

    /// SHA-256 of the numbers that were read.
    pub fn data_hashes(&self) -> DataHashes {
        DataHashes { data: self.data_sha256.clone(), out_of_distribution: self.out_of_distribution_sha256.clone() }
    }

    /// Whether the step size is still to be found by a pilot.
    pub(crate) fn wants_pilot(&self) -> bool {
        self.automatic && self.tuned_learning_rate.is_none()
    }

    /// Whether the searches that chains start from are done with all that follows from them.
    pub(crate) fn check_is_searched(&self, run: &Path) -> Result<()> {
        if !self.wants_pilot() {
            return Ok(());
        }
        Err(refused(format!(
            "{} has no step size yet, which its searches find; nothing was begun
  search first: `{} --stage search`",
            run.display(),
            resume_command(run)
        )))
    }

    /// SHA-256 of the command and the settings as they were asked for: what folders are named after.
    pub fn identity(&self) -> String {
        hex(&Sha256::digest(format!("{}\n{}", self.command.name(), self.asked)))
    }

    /// Names the searches of this run, in checkpoints: all that decides their numbers.
    pub(crate) fn identity_of_searches(&self) -> String {
        let Self { automatic, data_sha256, out_of_distribution_sha256, .. } = self;
        let other = out_of_distribution_sha256.as_deref().unwrap_or("none");
        hex(&Sha256::digest(format!("{}\n{automatic}\n{data_sha256}\n{other}", self.identity())))
    }

    /// Names the chains of this run, in checkpoints: the searches, and the step size that a pilot found.
    pub(crate) fn identity_of_chains(&self) -> String {
        let rate = self.tuned_learning_rate.map_or("none".into(), |rate| format!("{:016x}", rate.to_bits()));
        hex(&Sha256::digest(format!("{}\n{rate}", self.identity_of_searches())))
    }

    /// The settings as they were asked for; `place` names them in errors.
    ///
    /// # Errors
    /// If this kelvin does not accept them.
    pub fn settings(&self, place: &Path) -> Result<Settings> {
        let mut settings = Settings::from_toml(&self.asked, &place.display().to_string())?;
        if let Some((checkpoint_seconds, most_hours)) = self.conduct {
            (settings.run.checkpoint_seconds, settings.run.most_hours) = (checkpoint_seconds, most_hours);
        }
        Ok(settings)
    }

    /// Puts what the run has found into the settings that it was asked for.
    pub(crate) fn put_found(&self, settings: &mut Settings) {
        settings.sampler.learning_rate = self.tuned_learning_rate.unwrap_or(settings.sampler.learning_rate);
        if self.chosen_likelihood.is_some() {
            settings.model.likelihood = self.chosen_likelihood;
            settings.run.likelihoods.clear();
        }
        if self.chosen_hidden.is_some() {
            settings.model.hidden = self.chosen_hidden.clone();
            settings.run.hidden_layers.clear();
        }
    }

    /// Reads the data again from where the run read them; `data_folder` takes the place of the recorded one.
    ///
    /// # Errors
    /// If they are not there any more, or cannot be read.
    pub fn read_data(&self, settings: &Settings, data_folder: Option<&Path>) -> Result<SourceData> {
        let mut reading = settings.clone();
        let elsewhere = self.working_folder.join(&settings.data.source);
        if !Path::new(&settings.data.source).exists() && elsewhere.is_file() {
            reading.data.source = elsewhere.display().to_string();
        }
        Ok(Problem::read_dataset(&reading, data_folder.or(self.data_folder.as_deref()))?)
    }

    /// Checks that `now` asks for the same run, on the same data.
    ///
    /// # Errors
    /// If command, settings or data differ; the error lists the settings.
    pub fn check_same(&self, now: &Self, run: &Path) -> Result<()> {
        let mut differences = differences(&self.asked, &now.asked);
        if self.command != now.command {
            differences.insert(0, format!("the command: {} there, {} now", self.command.name(), now.command.name()));
        }
        if !differences.is_empty() {
            return Err(refused(format!(
                "{} holds a run with other settings; nothing was changed\n{}  \
                 go on with it by `{}`, or name another folder with --out",
                run.display(),
                listed(differences),
                resume_command(run),
            )));
        }
        if (&self.data_sha256, &self.out_of_distribution_sha256) != (&now.data_sha256, &now.out_of_distribution_sha256)
        {
            return Err(refused(format!(
                "the data have changed since the run in {} began; nothing was changed\n  \
                 SHA-256 of the numbers then: {}, now: {}\n  \
                 put the old data back, or name another folder with --out",
                run.display(),
                self.data_sha256,
                now.data_sha256,
            )));
        }
        Ok(())
    }

    /// Checks that experiment.toml was not changed since the run began.
    pub(crate) fn check_unchanged(&self, path: &Path) -> Result<()> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let found = numbers_of(&Settings::from_toml(&text, &path.display().to_string())?)?;
        let mut written = self.settings(path)?;
        self.put_found(&mut written);
        let written = numbers_of(&written)?;
        // A run may have been stopped between finding a rate and writing it.
        if found != self.asked && found != written {
            return Err(refused(format!(
                "{} was changed since the run began; nothing was changed\n{}  \
                 put it back, or run it as an experiment of its own: `kelvin run {0}`",
                path.display(),
                listed(differences(&written, &found)),
            )));
        }
        Ok(())
    }
}

fn damaged(path: &Path) -> String {
    format!(
        "{} is damaged; nothing was changed. Put it back from a copy, or run the experiment again in another folder with --out",
        path.display()
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The settings that decide numbers, as TOML.
fn numbers_of(settings: &Settings) -> Result<String> {
    let mut settings = settings.clone();
    let RunSettings { checkpoint_seconds, most_hours, .. } = RunSettings::default();
    (settings.run.checkpoint_seconds, settings.run.most_hours) = (checkpoint_seconds, most_hours);
    Ok(settings.to_toml()?)
}

fn listed(differences: Vec<String>) -> String {
    let more = differences.len().saturating_sub(MOST_SHOWN);
    let mut text: String = differences.iter().take(MOST_SHOWN).map(|line| format!("  {line}\n")).collect();
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
    }
    text
}

/// The settings that differ between two TOML texts, each in a line.
fn differences(there: &str, now: &str) -> Vec<String> {
    let shown = |value: &Option<String>| value.clone().unwrap_or("not given".into());
    let differ = differing_settings(&[there, now]).into_iter();
    differ.map(|(key, values)| format!("{key}: {} there, {} now", shown(&values[0]), shown(&values[1]))).collect()
}

/// The settings that are not the same in all of these TOML texts, by name, each with its value in every text; none where a
/// text does not give it.
pub fn differing_settings(texts: &[&str]) -> Vec<(String, Vec<Option<String>>)> {
    let tables: Vec<BTreeMap<String, String>> = texts.iter().map(|text| flat(text)).collect();
    let keys: BTreeSet<&String> = tables.iter().flat_map(BTreeMap::keys).collect();
    let values = |key: &String| tables.iter().map(|table| table.get(key).cloned()).collect::<Vec<_>>();
    let all = keys.into_iter().map(|key| (key.clone(), values(key)));
    all.filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

fn flat(text: &str) -> BTreeMap<String, String> {
    fn walk(prefix: &str, table: &toml::Table, found: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(inner) => walk(&key, inner, found),
                other => _ = found.insert(key, other.to_string()),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk("", &text.parse().unwrap_or_default(), &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::preset;

    #[test]
    fn differences_are_named_by_their_keys() {
        let settings = preset("concrete").unwrap().settings();
        let mut other = settings.clone();
        other.sampler.learning_rate = 0.5;
        other.sampler.energy_rows = Some(7);
        (other.run.checkpoint_seconds, other.run.most_hours) = (1.0, 7.0);
        let lines = differences(&numbers_of(&settings).unwrap(), &numbers_of(&other).unwrap());
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0], "sampler.energy_rows: not given there, 7 now");
        assert!(lines[1].starts_with("sampler.learning_rate: ") && lines[1].ends_with(" there, 0.5 now"), "{lines:?}");
    }

    #[test]
    fn a_record_survives_being_written() {
        let mut settings = preset("stripes").unwrap().settings();
        (settings.run.checkpoint_seconds, settings.run.most_hours) = (0.5, 7.0);
        let hashes = DataHashes { data: "ab".into(), out_of_distribution: None };
        let mut record = RunRecord::new(RunCommand::Sweep, true, &settings, hashes, None).unwrap();
        record.tuned_learning_rate = Some(0.25);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        assert!(RunRecord::read(&path).unwrap().is_none());
        let written = serde_json::to_string_pretty(&record.sealed().unwrap()).unwrap();
        std::fs::write(&path, &written).unwrap();
        let read = RunRecord::read(&path).unwrap().unwrap();
        assert!(read.is_checked());
        assert_eq!((read.identity(), read.tuned_learning_rate), (record.identity(), record.tuned_learning_rate));
        assert_eq!(read.settings(&path).unwrap(), settings);
        read.check_same(&record, folder.path()).unwrap();
        std::fs::write(&path, r#"{"format": 9}"#).unwrap();
        assert!(RunRecord::read(&path).unwrap_err().to_string().contains("format 9"));
        std::fs::write(&path, r#"{"format": 2}"#).unwrap();
        assert!(RunRecord::read(&path).unwrap_err().to_string().contains("damaged"));
        std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
        assert!(RunRecord::read(&path).unwrap_err().to_string().contains("damaged"), "its checksum was removed");
        let whole: serde_json::Value = serde_json::from_str(&written).unwrap();
        for (place, _) in written.char_indices().filter(|(_, letter)| letter.is_ascii_digit()) {
            let mut bytes = written.clone().into_bytes();
            bytes[place] = if bytes[place] == b'7' { b'8' } else { b'7' };
            // The last digit of a number may be beyond what 64 bits tell apart.
            if serde_json::from_slice::<serde_json::Value>(&bytes).is_ok_and(|value| value == whole) {
                continue;
            }
            assert!(RunRecord::from_bytes(&path, &bytes).is_err(), "the digit at byte {place}");
        }
        // The format before had none: it is read, and not gone on from.
        let older = RunRecord { format: WITHOUT_CHECKSUM, ..record };
        std::fs::write(&path, serde_json::to_vec(&older).unwrap()).unwrap();
        let read = RunRecord::read(&path).unwrap().unwrap();
        assert!(!read.is_checked());
        let refused = read.check_can_go_on(&path, folder.path()).unwrap_err().to_string();
        assert!(refused.contains("has format 1") && refused.contains("--fresh"), "{refused}");
    }

    #[test]
    fn chains_are_named_by_the_step_size_too() {
        let settings = preset("concrete").unwrap().settings();
        let hashes = DataHashes { data: "ab".into(), out_of_distribution: None };
        let asked = RunRecord::new(RunCommand::Run, true, &settings, hashes, None).unwrap();
        let tuned = |rate| RunRecord { tuned_learning_rate: Some(rate), ..asked.clone() };
        let other_data = RunRecord { data_sha256: "ac".into(), ..asked.clone() };
        assert_eq!(asked.identity_of_searches(), tuned(0.1).identity_of_searches());
        assert_ne!(asked.identity_of_searches(), other_data.identity_of_searches());
        let names = [&asked, &tuned(0.1), &tuned(0.2), &other_data].map(RunRecord::identity_of_chains);
        assert!((1..4).all(|i| names[..i].iter().all(|other| *other != names[i])), "{names:?}");
    }
}

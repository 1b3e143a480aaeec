//! selection.json: what `kelvin select --out` found, for `kelvin report` and other programs.

use crate::error::{Context, Result, refused};
use std::path::Path;

use crate::experiment::Experiment;
use kelvin::predictive::Scores;
use kelvin::selection::{BetaInterval, Cost, Goal};
use kelvin::write_file::{remove_leftovers, replace_folder_with};
use serde::{Deserialize, Serialize};

use crate::findings::{Choice, Refusal, StartChoice};
use crate::folder::run_folder::{SETTINGS, write};
use crate::folder::shard::Shard;
use crate::version::this_kelvin;

/// The name of the file of choices in a folder of `kelvin select`.
pub const SELECTION: &str = "selection.json";
const FORMAT: u32 = 1;

/// What a selection found, as `--json` prints it and selection.json holds it.
#[derive(Serialize)]
pub struct SelectResult<'a> {
    format: u32,
    command: &'static str,
    name: &'a str,
    seed: u64,
    device: String,
    kelvin: String,
    starts: u32,
    methods: &'a [Choice],
    refused: &'a [Refusal],
    /// What each start chose on its own, where that was asked for.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    each_start: &'a [StartChoice],
    /// Which shard of a selection it is; none of a whole one.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<SelectionShard>,
}

/// What a shard's selection.json has beside its choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionShard {
    /// Which of the shards it is.
    pub shard: Shard,
    /// The methods of all shards, in order.
    pub asked: Vec<String>,
    /// SHA-256 of the numbers that were read.
    pub data_sha256: String,
}

impl<'a> SelectResult<'a> {
    /// Gathers what was found; `starts` is the number of starts of each search.
    pub fn new(
        experiment: &'a Experiment,
        starts: u32,
        methods: &'a [Choice],
        refused: &'a [Refusal],
        each_start: &'a [StartChoice],
    ) -> Self {
        Self {
            format: FORMAT,
            command: "select",
            name: &experiment.settings.name,
            seed: experiment.settings.run.seed,
            device: experiment.engine.describe_for(&experiment.posterior),
            kelvin: this_kelvin(),
            starts,
            methods,
            refused,
            each_start,
            shard: None,
        }
    }

    /// The same as a shard of a selection.
    pub fn of_shard(self, shard: Option<SelectionShard>) -> Self {
        Self { shard, ..self }
    }

    /// Writes selection.json, the settings as they were asked for (`asked`, TOML), and `table` as CSV: all or none of them.
    ///
    /// # Errors
    /// If a file cannot be written, or something was put into the folder since it was opened.
    pub fn write(&self, folder: &Path, asked: &str, table: &str) -> Result<()> {
        check_is_empty(folder)?;
        replace_folder_with(folder, |inside| {
            write(inside, SETTINGS, asked.as_bytes())?;
            write(inside, "selection.csv", table.as_bytes())?;
            write(inside, SELECTION, format!("{}\n", serde_json::to_string_pretty(self)?).as_bytes())
        })
    }
}

/// Creates the folder of a selection.
///
/// # Errors
/// If the folder holds anything already: nothing is overwritten.
pub fn open_folder(folder: &Path) -> Result<()> {
    if folder.is_file() {
        return Err(refused(format!("{} is a file; name a folder with --out", folder.display())));
    }
    remove_leftovers(folder);
    check_is_empty(folder)?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))
}

fn check_is_empty(folder: &Path) -> Result<()> {
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let what = if is_selection(folder) { "a selection" } else { "files" };
        return Err(refused(format!(
            "{} holds {what} already; nothing was changed. Name another folder with --out",
            folder.display()
        )));
    }
    Ok(())
}

/// Whether a folder holds what `kelvin select` wrote.
pub fn is_selection(folder: &Path) -> bool {
    folder.join(SELECTION).exists()
}

/// A selection read back from selection.json, as far as tables need it.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredSelection {
    format: u32,
    /// The name of the experiment.
    pub name: String,
    /// The kelvin that made it, with its commit.
    pub kelvin: String,
    /// What each method chose.
    pub methods: Vec<StoredChoice>,
    #[serde(default)]
    each_start: Vec<StartChoice>,
}

/// A method's choice, read back.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredChoice {
    /// The name of the method.
    pub method: String,
    /// What its β is best for.
    pub goal: Goal,
    /// The inverse temperature that it chose.
    pub inverse_temperature: f64,
    /// Intervals of β, each with its meaning.
    pub intervals: Vec<BetaInterval>,
    /// What the choice cost, in gradients.
    pub cost: Cost,
    /// Test scores of chains at β; none where none kept a draw.
    pub test: Option<Scores>,
}

impl StoredSelection {
    /// Reads selection.json of a folder.
    ///
    /// # Errors
    /// If the file is missing, damaged, or of another format.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(SELECTION);
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let damaged = || {
            format!(
                "{} is damaged; remove its folder, and the same `kelvin select --out` makes it again",
                path.display()
            )
        };
        let found: Self = serde_json::from_slice(&bytes).with_context(damaged)?;
        if found.format != FORMAT {
            return Err(refused(format!(
                "{} has format {}, and this kelvin knows {FORMAT}; select anew",
                path.display(),
                found.format
            )));
        }
        Ok(found)
    }

    /// A selection that only holds what each start chose, for tables before anything is written.
    pub fn of_starts(name: &str, each_start: Vec<StartChoice>) -> Self {
        Self { format: FORMAT, name: name.into(), kelvin: this_kelvin(), methods: Vec::new(), each_start }
    }

    /// Whether its scores are those of a classification.
    pub fn has_classes(&self) -> bool {
        let first = self.methods.iter().find_map(|one| one.test.as_ref());
        first.is_some_and(|scores| matches!(scores, Scores::Classification(_)))
    }

    /// β and test scores that a method found: one pair for each start, or one for all starts together if single starts were not
    /// judged.
    pub fn found(&self, method: &str) -> Vec<(f64, &Scores)> {
        let own = self.each_start.iter().filter(|one| one.method == method);
        let own: Vec<_> = own.filter_map(|one| Some((one.inverse_temperature, one.test.as_ref()?))).collect();
        if !own.is_empty() {
            return own;
        }
        let pooled = self.methods.iter().filter(|one| one.method == method);
        pooled.filter_map(|one| Some((one.inverse_temperature, one.test.as_ref()?))).collect()
    }
}

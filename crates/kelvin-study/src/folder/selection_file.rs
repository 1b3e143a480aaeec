//! selection.json: what `kelvin select --out` found, for `kelvin report` and other programs.

use crate::error::{Context, Result, refused};
use std::path::Path;

use crate::experiment::Experiment;
use kelvin::predictive::Scores;
use kelvin::selection::{BetaInterval, Cost, Goal};
use serde::{Deserialize, Serialize};

use crate::findings::{Choice, Refusal, StartChoice};
use crate::folder::run_folder::{SETTINGS, write};
use crate::version::this_kelvin;

/// Its name in a folder.
pub const SELECTION: &str = "selection.json";
const FORMAT: u32 = 1;

/// What was found, as it is printed with --json and written.
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
}

impl<'a> SelectResult<'a> {
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
        }
    }

    /// Writes it beside the settings as they were asked for, and the table as CSV.
    pub fn write(&self, folder: &Path, asked: &str, table: &str) -> Result<()> {
        write(folder, SETTINGS, asked.as_bytes())?;
        write(folder, "selection.csv", table.as_bytes())?;
        write(folder, SELECTION, format!("{}\n", serde_json::to_string_pretty(self)?).as_bytes())
    }
}

/// Makes the folder; one that holds anything is left alone.
pub fn open_folder(folder: &Path) -> Result<()> {
    if folder.is_file() {
        return Err(refused(format!("{} is a file; name a folder with --out", folder.display())));
    }
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let what = if is_selection(folder) { "a selection" } else { "files" };
        return Err(refused(format!(
            "{} holds {what} already; nothing was changed. Name another folder with --out",
            folder.display()
        )));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))
}

/// Whether a folder holds what `kelvin select` wrote.
pub fn is_selection(folder: &Path) -> bool {
    folder.join(SELECTION).exists()
}

/// A selection read back, as far as tables need it.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredSelection {
    format: u32,
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
    /// Its name.
    pub method: String,
    /// What its β is best for.
    pub goal: Goal,
    /// β.
    pub inverse_temperature: f64,
    /// How well β is known.
    pub intervals: Vec<BetaInterval>,
    /// What it took.
    pub cost: Cost,
    /// Test scores of chains at β; none where none kept a draw.
    pub test: Option<Scores>,
}

impl StoredSelection {
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

    /// What each start chose, not yet written.
    pub fn of_starts(name: &str, each_start: Vec<StartChoice>) -> Self {
        Self { format: FORMAT, name: name.into(), kelvin: this_kelvin(), methods: Vec::new(), each_start }
    }

    /// Whether the target is a class.
    pub fn has_classes(&self) -> bool {
        let first = self.methods.iter().find_map(|one| one.test.as_ref());
        first.is_some_and(|scores| matches!(scores, Scores::Classification(_)))
    }

    /// β and test scores that a method found: of each start, or of all starts together where only those were judged.
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

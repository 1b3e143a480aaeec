//! A selection that was made in shards, each asking some of its methods, put together to the file of one process.

use std::path::Path;

use kelvin::selection::all_selectors;
use kelvin::write_file::remove_leftovers_in;
use serde_json::{Map, Value};

use crate::error::{Context, Result, refused};
use crate::folder::links::check_keeps_to_itself;
use crate::folder::run_folder::{SETTINGS, write};
use crate::folder::selection_file::{SELECTION, SelectionShard, StoredSelection, is_selection};
use crate::folder::shard::Shard;

/// The key of it in selection.json.
const KEY: &str = "shard";
/// Lists that shards have parts of, each in the order of the methods.
const LISTS: [&str; 3] = ["methods", "refused", "each_start"];

/// Puts the shards of a selection together and reads it back; `None` where the folder holds no such shards. `to_csv` makes the table.
///
/// # Errors
/// If a shard is missing, the folder holds links, or shards were asked for different things or by different kelvins.
pub fn merge_selections(folder: &Path, to_csv: impl Fn(&StoredSelection) -> String) -> Result<Option<StoredSelection>> {
    let found: Vec<Shard> =
        Shard::found_in(folder).into_iter().filter(|shard| is_selection(&shard.folder(folder))).collect();
    let Some(first) = found.first() else { return Ok(None) };
    check_keeps_to_itself(folder)?;
    remove_leftovers_in(folder);
    let missing: Vec<String> =
        Shard::all(first.count()).filter(|shard| !found.contains(shard)).map(|shard| shard.to_string()).collect();
    if !missing.is_empty() {
        return Err(refused(format!(
            "shards of the selection in {} are missing: {}; nothing was merged\n  \
             make each with the same `kelvin select --out {0}` and its --shard",
            folder.display(),
            missing.join(", "),
        )));
    }
    let shards: Vec<Shard> = Shard::all(first.count()).collect();
    let parts: Vec<Part> = shards.iter().map(|shard| Part::read(folder, *shard)).collect::<Result<_>>()?;
    for part in &parts[1..] {
        parts[0].check_same(part, folder)?;
    }
    let merged = Value::Object(merged(&parts));
    let text = format!("{}\n", serde_json::to_string_pretty(&merged)?);
    let selection: StoredSelection = serde_json::from_value(merged)?;
    write(folder, SETTINGS, parts[0].settings.as_bytes())?;
    write(folder, "selection.csv", to_csv(&selection).as_bytes())?;
    write(folder, SELECTION, text.as_bytes())?;
    Ok(Some(selection))
}

/// One shard's files.
struct Part {
    shard: SelectionShard,
    settings: String,
    found: Map<String, Value>,
}

impl Part {
    fn read(folder: &Path, shard: Shard) -> Result<Self> {
        let inside = shard.folder(folder);
        let path = inside.join(SELECTION);
        let damaged = || format!("{} is damaged; remove its folder and make shard {shard} again", path.display());
        // Known to be of a format that this kelvin reads.
        StoredSelection::read(&inside)?;
        let bytes = std::fs::read(&path).with_context(damaged)?;
        let mut found: Map<String, Value> = serde_json::from_slice(&bytes).with_context(damaged)?;
        let stored = found.shift_remove(KEY).with_context(damaged)?;
        let stored: SelectionShard = serde_json::from_value(stored).with_context(damaged)?;
        if stored.shard != shard {
            return Err(refused(format!(
                "{} is shard {}; it lies in the folder of {shard}",
                path.display(),
                stored.shard
            )));
        }
        let settings = std::fs::read_to_string(inside.join(SETTINGS)).with_context(damaged)?;
        Ok(Self { shard: stored, settings, found })
    }

    /// Whether both are parts of one selection, by all that decides numbers.
    fn check_same(&self, other: &Self, folder: &Path) -> Result<()> {
        let same = |key: &str| self.found.get(key) == other.found.get(key);
        let differing = match () {
            () if self.settings != other.settings => "settings",
            () if self.shard.data_sha256 != other.shard.data_sha256 => "data",
            () if self.shard.asked != other.shard.asked => "methods",
            () if !same("starts") => "numbers of starts",
            () if !same("kelvin") => "versions of kelvin",
            () => return Ok(()),
        };
        Err(refused(format!(
            "shards {} and {} of the selection in {} have different {differing}; nothing was merged\n  remove the folder of the one that is wrong, \
             and make it again",
            self.shard.shard,
            other.shard.shard,
            folder.display(),
        )))
    }
}

/// The first part with what all of them found, in the order of one process.
fn merged(parts: &[Part]) -> Map<String, Value> {
    let order: Vec<&str> = all_selectors(&[1.0]).iter().map(|one| one.name()).collect();
    let place = |one: &Value| {
        let name = one["method"].as_str().unwrap_or_default();
        order.iter().position(|known| *known == name).unwrap_or(order.len())
    };
    let mut found = parts[0].found.clone();
    for key in LISTS {
        let all = parts.iter().filter_map(|part| part.found.get(key)?.as_array()).flatten();
        let mut all: Vec<Value> = all.cloned().collect();
        if key == "each_start" {
            // In the paper's order of methods, as starts are judged.
            all.sort_by_key(|one| {
                crate::findings::SEARCHING.iter().position(|(name, _)| one["method"].as_str() == Some(name))
            });
        } else {
            all.sort_by_key(place);
        }
        if !all.is_empty() || found.contains_key(key) {
            found.insert(key.into(), Value::Array(all));
        }
    }
    let mut devices: Vec<&Value> = Vec::new();
    for device in parts.iter().filter_map(|part| part.found.get("device")) {
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    let names: Vec<&str> = devices.iter().filter_map(|device| device.as_str()).collect();
    found.insert("device".into(), Value::String(names.join(" and ")));
    found
}

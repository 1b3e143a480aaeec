//! The book's page of settings, made from the settings themselves: names, defaults and allowed words as serde has them, limits as
//! `Settings::check` states them, explanations from the doc comments of the source.
//!
//! `KELVIN_WRITE_BOOK=1 cargo test -p kelvin-study settings_reference` writes the page; without it the test compares.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kelvin::network::Layer;
use kelvin_study::error::ExperimentError;
use kelvin_study::settings::{Settings, StoppingSettings, preset, with_override};
use serde::Deserialize;
use toml::{Table, Value};

/// Where the structs and enums of the settings are declared.
const SOURCES: [&str; 12] = [
    "kelvin-study/src/settings/experiment.rs",
    "kelvin-study/src/settings/likelihood.rs",
    "kelvin-study/src/settings/model.rs",
    "kelvin-study/src/settings/sampler.rs",
    "kelvin-study/src/settings/batch_size.rs",
    "kelvin-study/src/settings/stopping.rs",
    "kelvin/src/data/images.rs",
    "kelvin/src/network/initial.rs",
    "kelvin/src/network/layers.rs",
    "kelvin/src/sampler/joint_ascent.rs",
    "kelvin/src/sampler/integrator.rs",
    "kelvin/src/temperature/mod.rs",
];

/// The experiments whose settings are put side by side.
const EXPERIMENTS: [&str; 6] = ["concrete", "energy", "naval", "mnist", "cifar10", "cifar10-da"];

#[test]
fn the_books_settings_page_is_up_to_date() {
    let page = settings_reference();
    let path = crates().join("../docs/src/settings.md");
    if std::env::var_os("KELVIN_WRITE_BOOK").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        stored == page,
        "docs/src/settings.md is not what the settings say; run `KELVIN_WRITE_BOOK=1 cargo test -p kelvin-study settings_reference` to write it again"
    );
}

#[test]
fn every_key_that_serde_knows_is_on_the_page_and_no_other() {
    let source = Source::read();
    let documented: BTreeSet<String> = source.keys().into_iter().map(|key| key.name).collect();
    let Err(ExperimentError::UnknownSetting { known, .. }) = with_override(&concrete(), "no.such.setting=1") else {
        panic!("an unknown setting is refused with a list of those that exist")
    };
    let known: BTreeSet<String> = known.split(", ").map(str::to_owned).collect();
    assert_eq!(documented, known);
}

/// A key without a default is one that a file must have.
#[test]
fn keys_without_a_default_are_required_and_all_others_are_not() {
    let source = Source::read();
    for key in source.keys().iter().filter(|key| key.is_required) {
        let text = source.least_settings(Some(&key.name));
        assert!(Settings::from_toml(&text, "text").is_err(), "{} is not required", key.name);
    }
    Settings::from_toml(&source.least_settings(None), "text").unwrap();
}

#[test]
fn the_words_of_a_setting_are_those_that_it_accepts() {
    let source = Source::read();
    for key in source.keys() {
        let Some(item) = source.item(&key.type_name).filter(|item| !item.words().is_empty()) else { continue };
        for word in item.words() {
            if let Err(error) = with_override(&concrete(), &format!("{}=\"{word}\"", key.name)) {
                panic!("{} does not accept \"{word}\": {error}", key.name);
            }
        }
        assert!(with_override(&concrete(), &format!("{}=\"no such word\"", key.name)).is_err(), "{}", key.name);
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn concrete() -> Settings {
    preset("concrete").unwrap().settings()
}

/// A field of a struct, or a variant of an enum.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    /// The type of a field; the types that a variant holds.
    type_name: String,
    doc: String,
    has_default: bool,
    is_default: bool,
    /// Fields of a variant that has named ones.
    fields: Vec<Member>,
}

/// A struct or an enum.
#[derive(Clone, Debug)]
struct Item {
    name: String,
    is_enum: bool,
    has_default: bool,
    rename: String,
    members: Vec<Member>,
}

/// A setting.
#[derive(Clone, Debug)]
struct Key {
    name: String,
    type_name: String,
    doc: String,
    is_required: bool,
}

/// Every struct and enum of the files that declare settings.
struct Source {
    items: Vec<Item>,
}

impl Source {
    fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(crates().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        Self { items: SOURCES.iter().flat_map(|path| items(&read(path))).collect() }
    }

    fn item(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.name == bare(name))
    }

    fn settings(&self) -> &Item {
        self.item("Settings").expect("settings/experiment.rs declares Settings")
    }

    /// Keys in the order of the source.
    fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for member in &self.settings().members {
            match self.section(member) {
                Some(section) => keys.extend(section.members.iter().map(|inner| Key {
                    name: format!("{}.{}", member.name, inner.name),
                    is_required: !(inner.has_default || section.has_default || inner.type_name.starts_with("Option<")),
                    type_name: inner.type_name.clone(),
                    doc: inner.doc.clone(),
                })),
                None => keys.push(Key {
                    name: member.name.clone(),
                    type_name: member.type_name.clone(),
                    doc: member.doc.clone(),
                    is_required: !member.has_default,
                }),
            }
        }
        keys
    }

    fn section(&self, member: &Member) -> Option<&Item> {
        self.item(&member.type_name).filter(|item| !item.is_enum)
    }

    /// The settings of Concrete with the required keys alone, less one of them.
    fn least_settings(&self, without: Option<&str>) -> String {
        let mut table = Table::try_from(concrete()).unwrap();
        for key in self.keys() {
            if key.is_required && without != Some(&key.name) {
                continue;
            }
            match key.name.split_once('.') {
                // A section that is optional as a whole may not be there.
                Some((section, name)) => {
                    table.get_mut(section).and_then(Value::as_table_mut).and_then(|own| own.remove(name))
                }
                None => table.remove(&key.name),
            };
        }
        table.to_string()
    }
}

impl Item {
    /// The words of an enum of words; none where a variant holds numbers that are its own name.
    fn words(&self) -> Vec<String> {
        let plain = self.members.iter().filter(|member| member.type_name.is_empty());
        if self.is_enum && !self.rename.is_empty() { plain.map(|m| self.word(m)).collect() } else { Vec::new() }
    }

    fn word(&self, member: &Member) -> String {
        match self.rename.as_str() {
            "lowercase" => member.name.to_lowercase(),
            "snake_case" => snake_case(&member.name),
            other => panic!("{} is renamed by {other}, which this page does not know", self.name),
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// `Option<kelvin::Word>` is a `Word`.
fn bare(type_name: &str) -> &str {
    let inner = type_name.strip_prefix("Option<").and_then(|name| name.strip_suffix('>')).unwrap_or(type_name);
    inner.rsplit("::").next().unwrap_or(inner)
}

/// The public structs and enums of a source file, as rustfmt lays them out.
fn items(source: &str) -> Vec<Item> {
    let mut found: Vec<Item> = Vec::new();
    let mut inside = false;
    let mut above = Above::default();
    for line in source.lines() {
        let text = line.trim();
        let depth = (line.len() - line.trim_start().len()) / 4;
        if above.takes(text) {
            continue;
        }
        let attributes = std::mem::take(&mut above);
        if depth == 0 {
            let head = text.strip_prefix("pub ").and_then(|rest| rest.strip_suffix(" {"));
            let named = head.and_then(|head| head.split_once(' '));
            inside = matches!(named, Some(("struct" | "enum", _)));
            if let Some((kind @ ("struct" | "enum"), name)) = named {
                found.push(Item {
                    name: name.into(),
                    is_enum: kind == "enum",
                    has_default: attributes.has_default(),
                    rename: attributes.rename(),
                    members: Vec::new(),
                });
            }
            continue;
        }
        let Some(item) = found.last_mut().filter(|_| inside) else { continue };
        let Some((name, type_name)) = member(text) else { continue };
        let member = attributes.member(name, type_name);
        match depth {
            1 => item.members.push(member),
            _ => item.members.last_mut().expect("fields follow their variant").fields.push(member),
        }
    }
    found
}

/// `pub name: Type,` or `Variant(Type),`, `Variant {`, `Variant,`.
fn member(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix("pub ").unwrap_or(text);
    if let Some((name, type_name)) = text.strip_suffix(',').and_then(|text| text.split_once(": ")) {
        return Some((name, type_name));
    }
    let name = text.strip_suffix(" {").or_else(|| text.strip_suffix(','))?;
    let (name, held) = name.strip_suffix(')').and_then(|name| name.split_once('(')).unwrap_or((name, ""));
    name.chars().all(char::is_alphanumeric).then_some((name, held))
}

/// Comments and attributes above a line.
#[derive(Default)]
struct Above {
    doc: Vec<String>,
    attributes: String,
    is_open: bool,
}

impl Above {
    /// Whether the line is one of them.
    fn takes(&mut self, line: &str) -> bool {
        if let Some(doc) = line.strip_prefix("///") {
            self.doc.push(doc.trim().into());
            return true;
        }
        if !self.is_open && !line.starts_with("#[") {
            return false;
        }
        self.attributes += line;
        self.is_open = !line.ends_with(']');
        true
    }

    fn has_default(&self) -> bool {
        self.attributes.contains("serde(default") || self.attributes.contains(", default")
    }

    fn rename(&self) -> String {
        let rename = self.attributes.split_once("rename_all = \"").and_then(|(_, rest)| rest.split_once('"'));
        rename.map_or(String::new(), |(name, _)| name.into())
    }

    fn member(self, name: &str, type_name: &str) -> Member {
        Member {
            has_default: self.has_default(),
            is_default: self.attributes.contains("#[default]"),
            doc: plain_doc(&self.doc.join(" ")),
            name: name.into(),
            type_name: type_name.into(),
            fields: Vec::new(),
        }
    }
}

/// "[`Layer::Threshold`]" of rustdoc is `threshold` of a settings file.
fn plain_doc(doc: &str) -> String {
    let mut parts = doc.split("[`Layer::");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("`]").expect("a link of rustdoc ends");
        let _ = write!(text, "`{}`{rest}", snake_case(name));
    }
    text
}

/// The page.
fn settings_reference() -> String {
    let source = Source::read();
    let least = Settings::from_toml(&source.least_settings(None), "text").unwrap();
    let with_stopping = Settings { stopping: Some(StoppingSettings::default()), ..least.clone() };
    let defaults = Table::try_from(&with_stopping).unwrap();
    let keys = source.keys();
    let mut page = String::from(HEAD);
    for member in &source.settings().members {
        match source.section(member) {
            None => page += "\n",
            Some(_) => {
                let _ = write!(page, "## [{}]\n\n{}\n\n", member.name, member.doc);
            }
        }
        let of_section = |key: &&Key| key.name.split('.').next() == Some(member.name.as_str());
        for key in keys.iter().filter(of_section) {
            page += &entry(&source, key, default_of(&source, key, &defaults, &least).as_deref());
        }
    }
    page += &layers(source.item("Layer").expect("network/layers.rs declares Layer"));
    page += &side_by_side(&keys);
    page
}

const HEAD: &str = "\
<!-- Written by crates/kelvin-study/tests/settings_reference.rs: change the doc comments of the settings, not this page. -->

# Settings

An experiment is a TOML file with the keys below. `kelvin presets NAME` prints a complete one to start from, `kelvin run FILE.toml` runs
it, and `--set KEY=VALUE` changes one key of a preset, of a file, or of the settings that kelvin derives for
[your own table](guide/own-table.md). Every run folder holds its settings, all spelled out, in `experiment.toml`.
A misspelt key is refused with the nearest right one, a value that makes no sense with the file, the line and what would.

```sh
kelvin presets concrete > mine.toml
kelvin run mine.toml --set sampler.learning_rate=5e-4 --set model.hidden=[128]
```

A key that is *required* has no default: a file without it is refused. This page is made from the code and checked against it.
";

fn entry(source: &Source, key: &Key, default: Option<&str>) -> String {
    let default = match default {
        Some(value) => format!("default `{value}`"),
        None if key.is_required => "required".into(),
        None => "optional".into(),
    };
    let needs = needs(&key.name).map_or(String::new(), |needs| format!(" · {needs}"));
    let type_words = type_words(source, &key.type_name);
    let mut text = format!("### {}\n\n{type_words}{needs} · {default}\n\n{}\n\n", key.name, key.doc);
    let Some(item) = source.item(&key.type_name).filter(|item| item.is_enum && item.name != "BatchSize") else {
        return text;
    };
    for member in &item.members {
        let _ = writeln!(text, "- `{}`: {}", spelling(item, member), member.doc);
    }
    text + "\n"
}

/// How a variant is written in TOML.
fn spelling(item: &Item, member: &Member) -> String {
    match (item.name.as_str(), member.name.as_str()) {
        ("NetworkName", "Dense") => "\"dense\"".into(),
        ("NetworkName", "MnistCnn") => "\"mnist-cnn\"".into(),
        ("NetworkName", "Resnet") => "\"resnet-N\"".into(),
        ("NetworkName", "WideResnet") => "\"wide-resnet-D-K\"".into(),
        (_, "Piecewise") => "{ piecewise = [[epoch, factor], …] }".into(),
        _ => format!("\"{}\"", item.word(member)),
    }
}

fn type_words(source: &Source, type_name: &str) -> String {
    let inner = type_name.strip_prefix("Option<").and_then(|name| name.strip_suffix('>')).unwrap_or(type_name);
    let words = match inner {
        "f64" => "number",
        "u64" | "u32" | "usize" => "whole number",
        "String" => "text",
        "TargetNames" => "text, or list of texts",
        "bool" => "`true` or `false`",
        "Vec<f64>" => "list of numbers",
        "Vec<usize>" => "list of whole numbers",
        "Vec<Vec<usize>>" => "list of lists of whole numbers",
        "Vec<String>" => "list of texts",
        "Vec<LikelihoodName>" | "Vec<CorruptionKind>" => "list of words",
        "(f64, f64)" => "list of two numbers",
        "BatchSize" => "whole number or `\"full\"` for all training rows",
        "Vec<Layer>" => "list of [layers](#layers)",
        "NetworkName" => "word",
        "BTreeMap<String, ColumnKind>" => "table of words: `number`, `boolean`, `text`, `date` or `drop`",
        _ if source.item(inner).is_some_and(|item| item.members.iter().any(|m| !m.type_name.is_empty())) => {
            "word or table"
        }
        _ if source.item(inner).is_some() => "word",
        other => panic!("what is a {other} in words? say so here"),
    };
    words.into()
}

fn default_of(source: &Source, key: &Key, defaults: &Table, least: &Settings) -> Option<String> {
    if key.is_required {
        return None;
    }
    // What is left out of a written file where it has its default.
    match key.name.as_str() {
        "run.checkpoint_seconds" => return Some(least.run.checkpoint_seconds.to_string()),
        "run.most_hours" => return Some(least.run.most_hours.to_string()),
        "sampler.adapt" => return Some(least.sampler.adapt.to_string()),
        _ => {}
    }
    if let Some(value) = value_of(defaults, &key.name) {
        return Some(shown(&value));
    }
    let item = source.item(&key.type_name).filter(|_| !key.type_name.starts_with("Option<"))?;
    item.members.iter().find(|member| member.is_default).map(|member| spelling(item, member))
}

/// A value as a person would write it: 1e-8, not 0.00000001.
fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) if *number != 0.0 && !(1e-3..1e5).contains(&number.abs()) => format!("{number:e}"),
        other => other.to_string(),
    }
}

fn value_of(table: &Table, key: &str) -> Option<Value> {
    match key.split_once('.') {
        Some((section, name)) => table.get(section)?.as_table()?.get(name).cloned(),
        None => table.get(key).cloned(),
    }
}

/// What `Settings::check` says a number must be, found by asking for one that it cannot be.
fn needs(key: &str) -> Option<String> {
    let settings = match key {
        "model.batch_norm_momentum" | "model.batch_norm_epsilon" | "model.normalisation" => {
            with_override(&concrete(), "model.network=resnet-20").unwrap()
        }
        "model.prior_degrees" => with_override(&concrete(), "model.prior=student_t").unwrap(),
        _ => concrete(),
    };
    // Limits that follow from other settings are told by the explanation.
    let depends = |needs: &str| needs.contains("sampler.") || needs.contains("selection.") || needs.contains("run.");
    ["-1.0", "0", "[0]", "[-1.0]", "5000000000"].iter().find_map(|bad| {
        let changed = with_override(&settings, &format!("{key}={bad}")).ok()?;
        match changed.check() {
            Err(ExperimentError::OutOfRange { key: refused, needs, .. }) if refused == key && !depends(&needs) => {
                Some(needs.into_owned())
            }
            _ => None,
        }
    })
}

/// The layers of `model.layers`.
fn layers(item: &Item) -> String {
    let mut text = String::from(
        "## Layers\n\nA network of your own is a list of layers in `model.layers`. A layer whose settings all have defaults may be written as its name alone.\n\n\
         ```toml\n[model]\nlayers = [\n    { conv = { filters = 16, kernel = 3 } }, \"batch_norm\", \"relu\",\n    \
         { residual = { body = [{ conv = { filters = 16, kernel = 3 } }, \"batch_norm\"] } }, \"relu\",\n    \
         { avg_pool = { size = 2 } }, \"global_avg_pool\", { dense = { units = 10 } },\n]\n```\n\n| layer | settings | what it does |\n|---|---|---|\n",
    );
    for member in &item.members {
        let name = item.word(member);
        let fields: Vec<String> = member.fields.iter().map(|field| layer_field(&name, member, field)).collect();
        let fields = if fields.is_empty() { "none".into() } else { fields.join("<br>") };
        let _ = writeln!(text, "| `{name}` | {fields} | {} |", member.doc);
    }
    text
}

fn layer_field(layer: &str, member: &Member, field: &Member) -> String {
    let doc = field.doc.trim_end_matches('.');
    if !field.has_default {
        return format!("`{}`: {doc}", field.name);
    }
    let mut least = Table::new();
    for required in member.fields.iter().filter(|field| !field.has_default) {
        let value = if required.type_name == "usize" { Value::Integer(1) } else { Value::Array(Vec::new()) };
        least.insert(required.name.clone(), value);
    }
    let written = Value::Table(Table::from_iter([(layer.to_owned(), Value::Table(least))]));
    let read = Layer::deserialize(written).unwrap_or_else(|error| panic!("{layer}: {error}"));
    let written = Value::try_from(read).unwrap();
    match written[layer].get(field.name.as_str()) {
        Some(default) => format!("`{}`: {doc} (default `{}`)", field.name, shown(default)),
        None => format!("`{}`: {doc}", field.name),
    }
}

/// What the paper's experiments set, key by key.
fn side_by_side(keys: &[Key]) -> String {
    let tables = EXPERIMENTS.map(|name| Table::try_from(preset(name).unwrap().settings()).unwrap());
    let mut text = String::from(
        "\n## The paper's experiments side by side\n\nWhat each preset has; keys on which all of them agree are left out. `kelvin presets NAME` prints one in full.\n\n",
    );
    let _ = writeln!(text, "| | {} |\n|---|{}", EXPERIMENTS.join(" | "), "---|".repeat(EXPERIMENTS.len()));
    for key in keys.iter().filter(|key| key.name != "name") {
        let values =
            tables.each_ref().map(|table| value_of(table, &key.name).map_or(String::new(), |value| shown(&value)));
        if values.iter().any(|value| *value != values[0]) {
            let cells = values.map(|value| if value.is_empty() { "–".into() } else { format!("`{value}`") });
            let _ = writeln!(text, "| `{}` | {} |", key.name, cells.join(" | "));
        }
    }
    text
}

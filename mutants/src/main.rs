//! Plants every mutant of the library into one copy of its source, each behind a switch that is set when a program starts.
//!
//! `kelvin-mutants TREE DROPPED LIST FILE…` reads each FILE (relative to the current folder), writes it with its switches below TREE, and writes LIST:
//! all mutants and where the text of each lies. DROPPED names, a number a line, the mutants that do not compile: they are listed and not planted.

mod find;
mod plant;
mod values;

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// What `run.py` reads.
#[derive(Serialize)]
struct List {
    /// In the order of files and lines; a mutant's number is its place here.
    mutants: Vec<Mutant>,
    /// What cannot be switched when a program runs (constants, `const fn`, opaque types), by reason.
    inexpressible: BTreeMap<String, usize>,
    /// Where alternatives lie in the files that were written: first byte, byte after the last, mutants there.
    places: BTreeMap<String, Vec<plant::Place>>,
}

/// One change of one line.
#[derive(Serialize)]
struct Mutant {
    file: String,
    line: usize,
    column: usize,
    /// What is changed, and in which function.
    name: String,
    /// The switch that plants it: where, and which of the alternatives there.
    switch: (usize, u8),
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, dropped, list, files @ ..] = arguments.as_slice() else {
        return Err("usage: kelvin-mutants TREE DROPPED LIST FILE…".into());
    };
    let dropped: HashSet<usize> = fs::read_to_string(dropped)?.lines().map(str::parse).collect::<Result<_, _>>()?;
    let mut found = List { mutants: Vec::new(), inexpressible: BTreeMap::new(), places: BTreeMap::new() };
    let mut num_switches = 0;
    for file in files {
        let text = fs::read_to_string(file)?;
        let (sites, inexpressible) = find::sites(&text).map_err(|error| format!("{file}: {error}"))?;
        for (reason, number) in inexpressible {
            *found.inexpressible.entry(reason).or_default() += number;
        }
        let numbered: Vec<plant::Planted> = sites
            .into_iter()
            .map(|site| {
                let switch = num_switches;
                num_switches += 1;
                let first = found.mutants.len();
                found.mutants.extend(site.alternatives.iter().zip(1..).map(|(alternative, number)| Mutant {
                    file: file.clone(),
                    line: site.line,
                    column: site.column,
                    name: format!("{}{}", alternative.name, site.place()),
                    switch: (switch, number),
                }));
                let kept =
                    (first..found.mutants.len()).map(|mutant| (!dropped.contains(&mutant)).then_some(mutant)).collect();
                plant::Planted { site, switch, kept }
            })
            .collect();
        let switches = if file.starts_with("crates/kelvin/") { "crate" } else { "kelvin" };
        let (planted, places) = plant::plant(&text, numbered, switches);
        write(&Path::new(tree).join(file), &planted)?;
        found.places.insert(file.clone(), places);
    }
    let switch = include_str!("switch.rs.txt").replace("NUMBER_OF_SWITCHES", &num_switches.to_string());
    write(&Path::new(tree).join("crates/kelvin/src/mutant_switch.rs"), &switch)?;
    let root = fs::read_to_string("crates/kelvin/src/lib.rs")?;
    write(&Path::new(tree).join("crates/kelvin/src/lib.rs"), &format!("{root}\npub mod mutant_switch;\n"))?;
    fs::write(list, serde_json::to_string(&found)?)?;
    Ok(())
}

/// Leaves a file that holds this already, so that it is not compiled again.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) { Ok(()) } else { fs::write(path, text) }
}

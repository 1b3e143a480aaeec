//! Architecture: crates know only those above them, rooms only those to their left, and no files know each other in a circle, so
//! that any file can be read (or replaced) after those it names.

mod sources;

use std::path::Path;

use sources::{Module, Sources, collect, folder};

/// A crate, the crates of ours that it may know, and its rooms: those of one rank do not know each other, and know only those of
/// ranks before. A room is a folder, or a file that stands for itself.
struct House {
    name: &'static str,
    knows: &'static [&'static str],
    ranks: &'static [&'static [&'static str]],
}

const HOUSES: [House; 6] = [
    House {
        name: "kelvin",
        knows: &[],
        ranks: &[
            &["mutex", "quantile", "vector", "write_file"],
            &["random"],
            &["diagnostics", "exact"],
            &["data"],
            &["network"],
            &["likelihood", "prior", "held_out"],
            &["potential"],
            &["curvature", "temperature"],
            &["sampler"],
            &["draws"],
            &["predictive"],
            &["selection"],
        ],
    },
    House {
        name: "kelvin-cuda",
        knows: &["kelvin"],
        ranks: &[&["gpu", "samplers"], &["general", "tables"], &["engine", "kernel_examples"]],
    },
    House {
        name: "kelvin-study",
        knows: &["kelvin"],
        ranks: &[
            &["csv_text", "number", "version", "checkpoint"],
            &["error"],
            &["settings"],
            &["problem"],
            &["experiment"],
            &["durable"],
            &["findings"],
            &["folder"],
            &["study"],
        ],
    },
    House {
        name: "kelvin-report",
        knows: &["kelvin", "kelvin-study"],
        ranks: &[
            &["escape", "text"],
            &["chart", "which_way_text"],
            &["tables", "cases"],
            &["compare"],
            &["run_files"],
            &["figures", "export"],
            &["page"],
            &["present"],
            &["demo"],
        ],
    },
    House {
        name: "kelvin-cli",
        knows: &["kelvin", "kelvin-cuda", "kelvin-study", "kelvin-report"],
        ranks: &[
            &["arguments", "checks", "interrupt"],
            &["output"],
            &["device", "doubts", "recomputed", "setting_names", "terminal", "watch"],
            &["source", "input"],
            &["commands"],
            &["stored"],
        ],
    },
    House {
        name: "kelvin-py",
        knows: &["kelvin", "kelvin-cuda", "kelvin-study", "kelvin-report"],
        ranks: &[
            &["wording"],
            &["error"],
            &["conduct", "table"],
            &["device", "request"],
            &["model"],
            &["fit", "run", "sample", "search"],
        ],
    },
];

fn name(module: &Module) -> String {
    if module.is_empty() { "lib".into() } else { module.join("/") }
}

#[test]
fn rooms_know_only_those_to_their_left() {
    let mut wrong = Vec::new();
    for house in &HOUSES {
        let rank = |module: &Module| {
            let room = module.first()?;
            house.ranks.iter().position(|rooms| rooms.contains(&room.as_str()))
        };
        for (module, others) in Sources::of(house.name).arrows() {
            // The list of rooms belongs to none.
            let Some(room) = module.first() else { continue };
            let Some(own) = rank(module) else {
                wrong.push(format!("{}: give the room `{room}` its place in tests/architecture.rs", house.name));
                continue;
            };
            let beyond = others.iter().filter(|other| other.first().is_some_and(|other| other != room));
            for other in beyond.filter(|other| rank(other).is_none_or(|other| other >= own)) {
                wrong.push(format!("{}: {} uses {}", house.name, name(module), name(other)));
            }
        }
    }
    assert!(wrong.is_empty(), "a room may use only rooms of ranks before its own:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_know_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for house in &HOUSES {
        for cycle in Sources::of(house.name).cycles() {
            wrong.push(format!("{}: {}", house.name, cycle.into_iter().map(name).collect::<Vec<_>>().join(", ")));
        }
    }
    assert!(wrong.is_empty(), "these files use each other in a circle:\n{}", wrong.join("\n"));
}

#[test]
fn crates_know_only_those_above_them() {
    for house in &HOUSES {
        let manifest = std::fs::read_to_string(folder(house.name).join("../Cargo.toml")).expect("a manifest");
        let dependencies =
            manifest.split("\n[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or("");
        let ours = dependencies.lines().filter_map(|line| line.split([' ', '.', '=']).next());
        for other in ours.filter(|other| other.starts_with("kelvin")) {
            assert!(house.knows.contains(&other), "{} may not depend on {other}", house.name);
        }
    }
}

/// Whoever uses a library decides what is printed.
#[test]
fn only_the_program_prints() {
    for house in HOUSES.iter().filter(|house| house.name != "kelvin-cli") {
        let mut files = Vec::new();
        collect(&folder(house.name), &mut files);
        for path in files {
            let text = std::fs::read_to_string(&path).expect("a readable source");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let printed = code.lines().find(|line| {
                let line = line.trim_start();
                !line.starts_with("//") && ["print!(", "println!(", "dbg!("].iter().any(|word| line.contains(word))
            });
            assert!(printed.is_none(), "{}: {}", path.display(), printed.unwrap_or_default());
        }
    }
}

/// The program is arguments, commands and a terminal: what else it does belongs to a library.
#[test]
fn the_program_is_thin() {
    let files = std::fs::read_dir(folder("kelvin-cli")).expect("a folder").filter_map(|entry| {
        let path = entry.expect("an entry").path();
        Path::is_file(&path).then_some(path)
    });
    let files: Vec<_> = files.collect();
    assert!(files.len() <= 12, "{} files lie outside the rooms of kelvin-cli: {files:?}", files.len());
}

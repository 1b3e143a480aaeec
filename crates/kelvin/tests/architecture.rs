//! Architecture: a room imports only from its left, so that any box can be read (or replaced) without those to its right.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Rooms in the order of the arrow; those of one rank do not know each other.
const ORDER: [&[&str]; 10] = [
    &["random"],
    &["data"],
    &["network"],
    &["likelihood", "prior", "held_out"],
    &["potential"],
    &["temperature"],
    &["sampler"],
    &["draws"],
    &["predictive"],
    &["selection"],
];
/// Rooms that serve all others and import none but `quantile`, `random` and `vector`.
const SERVANTS: [&str; 6] = ["diagnostics", "exact", "mutex", "quantile", "vector", "write_file"];

/// Whether `room` may import `other`.
fn may_import(room: &str, other: &str) -> bool {
    let rank = |name: &str| ORDER.iter().position(|rooms| rooms.contains(&name));
    if room == other {
        return true;
    }
    match (rank(room), rank(other)) {
        (Some(own), Some(others)) => others < own,
        (Some(_), None) => SERVANTS.contains(&other),
        (None, _) => matches!(other, "quantile" | "random" | "vector"),
    }
}

/// All source files with the room each belongs to; `lib.rs` is the list of rooms and belongs to none.
fn sources(folder: &Path) -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && path != root.join("lib.rs") {
            let first = path.strip_prefix(&root).expect("below src").components().next().expect("a name");
            let room = Path::new(first.as_os_str()).file_stem().expect("a name").to_string_lossy().into_owned();
            found.push((room, path));
        }
    }
    found
}

/// The rooms named in code as `crate::room`, also inside `use crate::{…}`; comments do not count.
fn imports(text: &str) -> BTreeSet<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
    let word = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let mut rooms = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.trim_start().strip_prefix('{') {
            None => {
                rooms.insert(word(rest));
            }
            Some(list) => {
                // The first word of every element at the outermost level of the braces.
                let (mut depth, mut element) = (1, String::new());
                for character in list.chars() {
                    match character {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 || (depth == 1 && character == ',') {
                        rooms.insert(word(element.trim_start()));
                        element.clear();
                    } else {
                        element.push(character);
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    rooms.remove("");
    rooms
}

#[test]
fn rooms_import_only_from_their_left() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 30, "only {} sources were found", sources.len());
    let mut wrong = Vec::new();
    for (room, path) in &sources {
        let known = SERVANTS.contains(&room.as_str()) || ORDER.iter().any(|rooms| rooms.contains(&room.as_str()));
        assert!(known, "{} is in no room that this test knows: give `{room}` its place in ORDER", path.display());
        let text = std::fs::read_to_string(path).expect("a readable source");
        for other in imports(&text).iter().filter(|other| !may_import(room, other)) {
            wrong.push(format!("{}: `{room}` imports `{other}`", path.display()));
        }
    }
    assert!(wrong.is_empty(), "a room may import only from its left:\n{}", wrong.join("\n"));
}

/// The scanner and the rule themselves.
#[test]
fn the_scan_sees_what_it_should() {
    let text =
        "use crate::{data::{Table, Split}, random, network::Rows};\n// crate::sampler\nlet x = crate::prior::new();";
    assert_eq!(imports(text).into_iter().collect::<Vec<_>>(), ["data", "network", "prior", "random"]);
    assert!(may_import("sampler", "temperature") && !may_import("potential", "sampler"));
    assert!(may_import("sampler", "diagnostics") && !may_import("diagnostics", "network"));
    assert!(!may_import("likelihood", "prior") && may_import("exact", "random"));
}

/// Hot loops start in one place, so that none runs scalar where a processor has vectors: `vector` chooses the instructions, and only
/// the double-precision reference asks for scalar ones.
#[test]
fn instructions_are_chosen_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (room, path) in sources(&root) {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
        let name = path.strip_prefix(&root).expect("below src").to_string_lossy().into_owned();
        if room != "vector" {
            assert!(!code.contains("pulp::Arch") && !code.contains("Arch::new"), "{name}: use `vector::dispatch`");
            let is_reference = name.ends_with("kernels/double.rs") || name.ends_with("network/dense.rs");
            assert!(is_reference || !code.contains("pulp::Scalar"), "{name}: only the f64 reference is scalar");
        }
    }
}

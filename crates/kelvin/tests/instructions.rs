//! Hot loops choose their instructions in one place. What rooms and files may know is kept by the architecture test of kelvin-cli.

use std::path::{Path, PathBuf};

/// All source files with the room each belongs to.
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

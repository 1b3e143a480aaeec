//! The tests of the program from outside it, as one program: what they share is compiled and linked once.

mod support;

mod architecture;
mod attacks;
mod attacks_on_shards;
mod book;
mod cli;
mod columns;
mod compare;
mod device;
mod diagnose;
mod doubts_and_overrides;
mod durable;
mod export;
mod faults;
mod images;
mod only_repetition;
mod report;
mod results_pages;
mod sampled_repetitions;
mod select;
mod select_small_models;
mod several_targets;
mod shards;
mod vector_instructions;
mod verdict;
mod verify;
mod watch;

/// A file that is not listed above would be left out in silence.
#[test]
fn every_file_of_tests_is_listed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = include_str!("all.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|&module| module != "all") else { continue };
        assert!(list.lines().any(|line| line == format!("mod {module};")), "tests/{name} is not in tests/all.rs");
    }
}

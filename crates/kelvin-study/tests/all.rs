//! The tests of studies from outside the crate, as one program: what they share is compiled and linked once.

#[path = "../../kelvin/tests/support/mod.rs"]
mod support;

mod audit;
mod durable;
mod engine;
mod generalized_bayes;
mod image_chains;

mod learned_noise;
mod predicting;
mod priors;
mod selectors;
mod settings_files;
mod settings_reference;

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

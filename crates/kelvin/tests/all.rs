//! The tests of the library from outside it, as one program: what they share is compiled and linked once.

mod support;

mod batch_norm_biases;
mod conformance;
mod conjugate_selectors;
mod curvature;
mod data_files;
mod golden_closed_forms;
mod golden_diagnostics;
mod golden_images;
mod golden_joint_sgd;
mod golden_mlp;
mod golden_predictive;
mod golden_trajectory;
mod hmc;
mod instructions;
mod known_posterior;
mod learned_noise;
mod learned_scales;
mod learning_theory;
mod lockstep;
mod logistic_models;
mod mclmc;
mod parsers;
mod row_weights;
mod several_targets;
mod small_models;
mod table_likelihoods;

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

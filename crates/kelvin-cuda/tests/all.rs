//! The tests of the CUDA engine from outside it, as one program: what they share is compiled and linked once.

#[path = "../../kelvin/tests/support/mod.rs"]
mod golden;
mod image_support;
mod posterior_support;
mod support;
mod table_support;

mod cuda_device;
mod emulator;
mod emulator_faults;
mod engine_reuse;
mod golden_images;
mod half_precision;
mod images_diverge;
mod images_evaluate;
mod images_fast;
mod images_long_runs;
mod images_memory;
mod images_run;
mod kernels_compile;
mod posteriors;
mod random;
mod several_devices;
mod tables;

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

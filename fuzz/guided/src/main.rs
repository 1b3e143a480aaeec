//! A parser of kelvin under libFuzzer: the one that `KELVIN_FUZZ_TARGET` names, with the findings of the mutational harness.

#![no_main]

use std::sync::OnceLock;

use kelvin_fuzz::{execute, target, Target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

const VARIABLE: &str = "KELVIN_FUZZ_TARGET";

fn asked() -> &'static Target {
    static ASKED: OnceLock<&'static Target> = OnceLock::new();
    ASKED.get_or_init(|| {
        let name = std::env::var(VARIABLE).unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("{VARIABLE} must name a target, got `{name}`"))
    })
}

fuzz_target!(|input: &[u8]| {
    if let Some(finding) = execute(asked(), input).finding {
        panic!("{finding:?}");
    }
});

// Without this a checksum would stop nearly all changed files at the door.
fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, most);
    let Some(repair) = asked().repair.filter(|_| seed % 4 > 0) else { return size };
    let mut repaired = data[..size].to_vec();
    repair(&mut repaired);
    if repaired.len() > most {
        return size;
    }
    data[..repaired.len()].copy_from_slice(&repaired);
    repaired.len()
});

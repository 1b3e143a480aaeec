//! Bad input for every parser of kelvin: valid files, changed in ways that files are damaged or forged, fixed by a number.
//!
//! A target is one parser with its valid files. Each execution is named by (target, seed, number) and nothing else, so that
//! any of them can be had again alone. What is looked for: panics, memory that a file's size does not explain, and errors
//! that do not say where.

pub mod findings;
pub mod mutation;
pub mod random;
mod seeds;
mod targets;

pub use findings::{Finding, Outcome, execute};
pub use targets::{Target, target, targets};

use random::Random;

/// The input of one execution.
pub fn input(target: &Target, valid: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(seed, number);
    let mut bytes = random.choose(valid).clone();
    for _ in 0..random.few() {
        mutation::change(&mut bytes, valid, target.words, &mut random);
    }
    // Without this a checksum would stop nearly all of them at the door.
    if let Some(repair) = target.repair.filter(|_| random.below(4) > 0) {
        repair(&mut bytes);
    }
    bytes
}

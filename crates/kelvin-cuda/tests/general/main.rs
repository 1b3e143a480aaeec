//! The engine of any network, against the CPU and the golden files.
#![allow(clippy::duplicate_mod)] // `support` and `reference` both say what they skip

mod convolutions;
mod dense;
mod diverge;
mod evaluate;
mod fast;
mod golden;
mod half_precision;
mod long_runs;
mod memory;
mod networks;
#[path = "../../../kelvin/tests/support/mod.rs"]
mod reference;
mod run;
#[path = "../support/mod.rs"]
mod support;

//! The program as a person starts it: in a folder of its own, on the CPU, without anybody's data.

#![allow(dead_code)] // Every file of tests takes what it needs.

#[path = "../../../kelvin/tests/support/skipped.rs"]
mod skipped;

use std::path::Path;
use std::process::{Command, Output, Stdio};

pub use skipped::{Need, skipped};

/// Chains of a moment: eight draws each.
pub const SHORT: [&str; 7] = [
    "--quick",
    "--set=selection.epochs=40",
    "--set=sampler.ramp_start=5",
    "--set=sampler.ramp_end=10",
    "--set=sampler.burn_in=20",
    "--set=sampler.cycle=5",
    "--set=sampler.epochs=60",
];

/// The program that these tests are of.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kelvin");

/// The program, ready to be started.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).args(arguments).env_remove("KELVIN_DATA").env("KELVIN_DEVICE", "cpu");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub fn kelvin(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// What it said: results, and everything else.
pub fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

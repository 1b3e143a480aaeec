//! The one way in which a test says that it was skipped, for the tests of all crates: aloud, and in the list that `.ci/run` shows.
#![allow(dead_code)] // each crate's tests need a part

use std::fs::OpenOptions;
use std::io::Write;

/// What a test needs that a machine may not have. `.ci/run` knows the names, and which of them must be there.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Reference vectors of an independent implementation.
    Golden,
    /// The shared tables and images, or Debian's.
    Data,
    /// The emulator of CUDA kernels, which needs a C++ compiler.
    Emulator,
    /// NVIDIA's compiler of kernels.
    Nvrtc,
    /// A GPU, or an ability of one.
    Gpu,
    /// Python and Chromium, to look at pages.
    Chromium,
    /// Python alone.
    Python,
    /// `script`, which makes a terminal.
    Terminal,
    /// A user whom a read-only folder stops.
    PlainUser,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Data => "data",
            Self::Emulator => "emulator",
            Self::Nvrtc => "nvrtc",
            Self::Gpu => "gpu",
            Self::Chromium => "chromium",
            Self::Python => "python",
            Self::Terminal => "terminal",
            Self::PlainUser => "plain-user",
        }
    }
}

/// Says that this test, or a part of it, is skipped, and adds a line to the file that `KELVIN_SKIPS` names: need, test, reason.
pub fn skipped(need: Need, why: &str) {
    let thread = std::thread::current();
    let (need, test, why) = (need.name(), thread.name().unwrap_or("unknown"), why.replace(['\n', '\t'], " "));
    // The test harness swallows what `eprintln!` says in a test that passes.
    writeln!(std::io::stderr(), "SKIPPED ({need}): {test}: {why}").expect("standard error can be written");
    if let Some(list) = std::env::var_os("KELVIN_SKIPS") {
        let opened = OpenOptions::new().create(true).append(true).open(&list);
        // One write, so that lines of tests that run at the same time do not mix.
        opened
            .and_then(|mut file| file.write_all(format!("{need}\t{test}\t{why}\n").as_bytes()))
            .unwrap_or_else(|error| panic!("KELVIN_SKIPS names {}, which cannot be written: {error}", list.display()));
    }
}

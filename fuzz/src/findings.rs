//! One execution: what came of it, and what of that is a finding.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::Target;

/// What came of an input.
pub struct Outcome {
    /// Whether the parser took it, or its words of refusal.
    pub read: Result<(), String>,
    /// The most bytes that were allocated at a time.
    pub memory: u64,
    /// How long it took.
    pub time: Duration,
    /// What must not be.
    pub finding: Option<Finding>,
}

/// What must not be.
#[derive(Debug)]
pub enum Finding {
    /// The parser panicked.
    Panic(String),
    /// It asked for more memory than the size of the file explains.
    Memory {
        /// What it asked for.
        found: u64,
        /// What a file of this size may ask for.
        most: u64,
    },
    /// An error without the name of the file, or without a place in it.
    Placeless(String),
}

/// Lets a target read an input.
pub fn execute(target: &Target, input: &[u8]) -> Outcome {
    let began = Instant::now();
    let mut read = Ok(Ok(()));
    let counted = allocation_counter::measure(|| read = catch_unwind(AssertUnwindSafe(|| (target.read)(input))));
    let (time, memory) = (began.elapsed(), counted.bytes_max);
    let most = target.memory(input.len());
    let (read, finding) = match read {
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (Err("panic".into()), Some(Finding::Panic(said.unwrap_or_default())))
        }
        Ok(read) if memory > most => (read, Some(Finding::Memory { found: memory, most })),
        Ok(Err(said)) if !target.says_where(&said) => (Err(said.clone()), Some(Finding::Placeless(said))),
        Ok(read) => (read, None),
    };
    Outcome { read, memory, time, finding }
}

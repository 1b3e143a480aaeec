//! Ctrl-C and its like: the first asks to stop after the step and a checkpoint, the second ends at once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use kelvin_study::error::resume_command;
use kelvin_study::study::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Listens for as long as the process lives.
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    cancel: Cancel,
}

impl Interrupt {
    pub fn listen() -> anyhow::Result<Self> {
        let (signal, cancel) = (Arc::new(AtomicUsize::new(0)), Cancel::default());
        for number in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(number, 128 + number, cancel.flag())
                .and_then(|_| flag::register(number, cancel.flag()))
                .and_then(|_| flag::register_usize(number, Arc::clone(&signal), number as usize))
                .context("cannot listen for Ctrl-C")?;
        }
        Ok(Self { signal, cancel })
    }

    /// What asks a study to stop.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    pub fn stopped(&self, run: &Path) -> Stopped {
        Stopped { run: Some(run.into()), signal: self.signal.load(Ordering::Relaxed) as u8 }
    }

    /// What was stopped has no folder, and nothing of it is kept.
    pub fn stopped_for_good(&self) -> Stopped {
        Stopped { run: None, signal: self.signal.load(Ordering::Relaxed) as u8 }
    }
}

/// A run that was stopped from outside and can go on where it has a folder.
#[derive(Debug)]
pub struct Stopped {
    run: Option<PathBuf>,
    signal: u8,
}

impl Stopped {
    /// As shells have it.
    pub fn exit_code(&self) -> u8 {
        128 + self.signal
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.run {
            Some(run) => write!(f, "stopped; what was done is kept\n  go on with `{}`", resume_command(run)),
            None => f.write_str("stopped; nothing is kept"),
        }
    }
}

impl std::error::Error for Stopped {}

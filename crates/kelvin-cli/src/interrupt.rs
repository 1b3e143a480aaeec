//! Ctrl-C and its like: the first asks to stop after the step and a checkpoint, the second of its kind ends at once.
//!
//! SIGUSR1 is what schedulers of clusters send before they take a machine away; it never ends at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use kelvin_study::study::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Signals of which the second ends at once.
const ENDING: [i32; 2] = [SIGINT, SIGTERM];
#[cfg(unix)]
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, signal_hook::consts::SIGUSR1];
#[cfg(not(unix))]
const SIGNALS: [i32; 2] = ENDING;

/// Listens for as long as the process lives.
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    cancel: Cancel,
}

impl Interrupt {
    pub fn listen() -> anyhow::Result<Self> {
        let (signal, cancel) = (Arc::new(AtomicUsize::new(0)), Cancel::default());
        for number in SIGNALS {
            // A scheduler may send one signal after the other; that is no impatience.
            let came_before = Arc::new(AtomicBool::new(false));
            if ENDING.contains(&number) {
                flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&came_before))
                    .context("cannot listen for Ctrl-C")?;
            }
            flag::register(number, came_before)
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

    /// What was stopped goes on by this command line.
    pub fn stopped(&self, resume: String) -> Stopped {
        Stopped { resume: Some(resume), signal: self.signal.load(Ordering::Relaxed) as u8 }
    }

    /// What was stopped has no folder, and nothing of it is kept.
    pub fn stopped_for_good(&self) -> Stopped {
        Stopped { resume: None, signal: self.signal.load(Ordering::Relaxed) as u8 }
    }
}

/// A run that was stopped from outside and can go on where it has a folder.
#[derive(Debug)]
pub struct Stopped {
    resume: Option<String>,
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
        match &self.resume {
            Some(resume) => write!(f, "stopped; what was done is kept\n  go on with `{resume}`"),
            None => f.write_str("stopped; nothing is kept"),
        }
    }
}

impl std::error::Error for Stopped {}

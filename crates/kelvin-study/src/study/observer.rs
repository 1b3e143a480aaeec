//! Who is told how a study goes.

use std::fmt;

use crate::durable::Recovery;
use crate::folder::{Moment, Stage};

/// Is told how a study goes, from a thread of its own: chains do not wait for it.
pub trait StudyObserver: Send + Sync {
    /// About five times a second while chains move: where each of them is.
    fn progress(&self, _moment: &Moment) {}

    /// The chains of a stage do not move any more.
    fn stage_ended(&self, _end: &StageEnd) {}

    /// Something that a person should know.
    fn note(&self, _note: &Note<'_>) {}
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageEnd {
    /// Which.
    pub stage: Stage,
    /// Searches or chains in it.
    pub num_members: usize,
    /// How long it took.
    pub seconds: f64,
    /// False where it was stopped or failed.
    pub finished: bool,
}

/// Something that a person should know, as a sentence.
#[derive(Debug)]
pub enum Note<'a> {
    /// Something stored was damaged, and what was done about it.
    Repaired(&'a Recovery),
    /// A run goes on under other circumstances than it began.
    GoesOn(&'a str),
    /// How a device arranges the chains, where it has a choice.
    Arranged {
        /// The device.
        device: String,
        /// How.
        arrangement: String,
    },
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repaired(recovery) => recovery.fmt(f),
            Self::GoesOn(note) => f.write_str(note),
            Self::Arranged { device, arrangement } => write!(f, "{device}: {arrangement}"),
        }
    }
}

/// For a study that nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl StudyObserver for Unobserved {}

//! The observer of a study: progress, ends of stages, and notes for the user.

use std::fmt;

use crate::durable::Recovery;
use crate::experiment::AuditCost;
use crate::folder::{Moment, Stage, duration};
use crate::number::significant;

/// Is told about the progress of a study, on a thread of its own: chains do not wait for it.
pub trait StudyObserver: Send + Sync {
    /// Called about five times a second while chains move, with the progress of each.
    fn progress(&self, _moment: &Moment) {}

    /// Called when the chains of a stage have stopped moving.
    fn stage_ended(&self, _end: &StageEnd) {}

    /// Called with something that the user should read.
    fn note(&self, _note: &Note<'_>) {}
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageEnd {
    /// The stage that ended.
    pub stage: Stage,
    /// The number of searches or chains in it.
    pub num_members: usize,
    /// Wall-clock seconds in this process.
    pub seconds: f64,
    /// Whether all chains reached their ends; false if it was stopped or failed.
    pub finished: bool,
}

/// Something that the user should read; displayed as a sentence.
#[derive(Debug)]
pub enum Note<'a> {
    /// Something stored was damaged, and what was done about it.
    Repaired(&'a Recovery),
    /// The run is resumed with another kelvin, device or vector instructions than it began with.
    GoesOn(&'a str),
    /// What begins only after a while, and why.
    Waits(&'a str),
    /// Chains that are put together were sampled on devices of different kinds.
    ChainsDiffer(&'a str),
    /// What the audit that follows costs.
    AuditCost(AuditCost),
    /// How a device arranges the chains, where it has a choice.
    Arranged {
        /// The device in words.
        device: String,
        /// How it arranges the chains, in words.
        arrangement: String,
    },
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repaired(recovery) => recovery.fmt(f),
            Self::GoesOn(note) | Self::Waits(note) | Self::ChainsDiffer(note) => f.write_str(note),
            Self::AuditCost(cost) => write!(
                f,
                "the exact audit takes {} gradients, about {} on this machine",
                significant(cost.gradients as f64, 2),
                duration(cost.seconds)
            ),
            Self::Arranged { device, arrangement } => write!(f, "{device}: {arrangement}"),
        }
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl StudyObserver for Unobserved {}

//! Shows a study on standard error: every chain where there is a terminal, a sentence every half minute elsewhere.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kelvin_study::folder::{Moment, Stage, duration};
use kelvin_study::study::{Note, StageEnd, StudyObserver};

use super::lines::{lines, sentence};
use super::screen::{Screen, Show, size};
use crate::output::say;

/// How often a line is said where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// Standard error as the observer of a study.
pub struct Terminal {
    show: Show,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    screen: Screen,
    /// When a line was last said of the present stage, or the stage was first heard of.
    said: Option<Instant>,
}

impl Terminal {
    /// Notes are shown even where progress is not to be.
    pub fn new(quiet: bool) -> Self {
        Self { show: Show::on_stderr(quiet), shown: Mutex::default() }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl StudyObserver for Terminal {
    fn progress(&self, moment: &Moment) {
        let mut shown = self.shown();
        match self.show {
            Show::Live => {
                let (columns, rows) = size();
                // The last column and the last row stay free: a full one would make the terminal scroll.
                shown.screen.draw(lines(moment, columns.saturating_sub(1), rows.saturating_sub(1)));
            }
            Show::Plain => {
                if shown.said.get_or_insert_with(Instant::now).elapsed() >= SAY_EVERY {
                    shown.said = Some(Instant::now());
                    say(&format!("{}\n", sentence(moment)));
                }
            }
            Show::Nothing => {}
        }
    }

    fn stage_ended(&self, end: &StageEnd) {
        let mut shown = self.shown();
        shown.screen.replace("");
        shown.said = None;
        let is_told = match self.show {
            Show::Live => true,
            // What took so long that it was told on the way has an end, too.
            Show::Plain => end.seconds >= SAY_EVERY.as_secs_f64(),
            Show::Nothing => false,
        };
        if end.finished && is_told {
            let (noun, plural) =
                if end.stage == Stage::Choosing { ("search", "searches") } else { ("chain", "chains") };
            let noun = if end.num_members == 1 { noun } else { plural };
            say(&format!("{}: {} {noun} in {}\n", end.stage.name(), end.num_members, duration(end.seconds)));
        }
    }

    fn note(&self, note: &Note<'_>) {
        match note {
            Note::Arranged { .. } if self.show == Show::Nothing => {}
            Note::Arranged { .. } => self.shown().screen.replace(&format!("{note}\n")),
            _ => self.shown().screen.replace(&format!("note: {note}\n")),
        }
    }
}

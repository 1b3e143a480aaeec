//! Asks a study to stop: what it has done so far is stored first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wish that a study stops, to be made from any thread or signal handler; clones are the same wish.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks to stop after the step that is being made.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What a signal handler sets.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

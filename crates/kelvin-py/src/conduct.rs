//! Does long work on a thread of its own, so that Python's can listen for Ctrl-C and show progress; with threads of its own, so that a
//! forked process does not wait for those of its parent.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kelvin_study::folder::Moment;
use kelvin_study::study::{Cancel, Note, StudyObserver};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::wording::in_python;

/// How often Python is asked whether there was a Ctrl-C, and progress is shown.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// How long work that was asked to stop may take to do so in good order, before it is left alone.
const STOP_WITHIN: Duration = Duration::from_millis(700);

/// How work is to be done.
pub struct Conduct {
    /// Threads; as many as there are processors if not given.
    pub threads: Option<usize>,
    /// Called as `progress(stage, steps_done, steps, steps_per_second, seconds_left, notes)`.
    pub progress: Option<Py<PyAny>>,
}

/// What work tells the thread that waits for it.
#[derive(Default)]
pub struct Told {
    /// The last moment of each stage that Python was not told yet.
    moments: Mutex<Vec<Moment>>,
    notes: Mutex<Vec<String>>,
}

impl Told {
    /// Says something that the user should read.
    pub fn note(&self, note: impl Into<String>) {
        lock(&self.notes).push(in_python(&note.into()).into_owned());
    }
}

impl StudyObserver for Told {
    fn progress(&self, moment: &Moment) {
        let mut moments = lock(&self.moments);
        if moments.last().is_some_and(|last| last.stage == moment.stage) {
            moments.pop();
        }
        moments.push(moment.clone());
    }

    fn note(&self, note: &Note<'_>) {
        self.note(note.to_string());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of threads for one call. Threads do not live on in a process that was forked, and one that waits for them waits for ever: so no pool
/// outlives a call, and rayon's own is never used.
pub fn pool(threads: Option<usize>) -> Result<rayon::ThreadPool, Failure> {
    let built = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
    built.map_err(|error| Failure::other(format!("cannot start threads: {error}")))
}

/// Does `work` without the interpreter's lock, which is taken only to look for signals and to show progress.
pub fn carry_out<T: Send + 'static>(
    py: Python<'_>,
    conduct: Conduct,
    work: impl FnOnce(&Cancel, &Arc<Told>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (cancel, told) = (Cancel::default(), Arc::new(Told::default()));
    let (for_work, told_by_work) = (cancel.clone(), Arc::clone(&told));
    let (send, receive) = channel();
    let pool = pool(conduct.threads)?;
    let thread = std::thread::Builder::new().name("kelvin".into()).spawn(move || {
        let done = pool.install(|| work(&for_work, &told_by_work));
        // Nobody listens any more where Python did not wait for the end.
        let _ = send.send(done);
    });
    thread.map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
    let receive = Mutex::new(receive);
    let wait = |time| py.detach(|| lock(&receive).recv_timeout(time));
    let crashed = || Failure::other("kelvin came to an unexpected end; what it said is on standard error");
    let mut shown: Option<Instant> = None;
    loop {
        match wait(LOOK_EVERY) {
            Ok(done) => {
                show(py, &conduct, &told)?;
                return Ok(done?);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(crashed().into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let mut asked = py.check_signals();
        if asked.is_ok() && shown.is_none_or(|at| at.elapsed() >= SHOW_EVERY) {
            shown = Some(Instant::now());
            asked = show(py, &conduct, &told);
        }
        if let Err(interrupt) = asked {
            cancel.cancel();
            // Where a step takes longer than that, the thread ends by itself after it.
            let _ = wait(STOP_WITHIN);
            return Err(interrupt);
        }
    }
}

fn show(py: Python<'_>, conduct: &Conduct, told: &Told) -> PyResult<()> {
    let Some(progress) = &conduct.progress else { return Ok(()) };
    let moments = std::mem::take(&mut *lock(&told.moments));
    let notes = std::mem::take(&mut *lock(&told.notes));
    for Moment { stage, steps_done, steps, steps_per_second, seconds_left, .. } in moments {
        progress.call1(py, (stage.name(), steps_done, steps, steps_per_second, seconds_left, Vec::<String>::new()))?;
    }
    if !notes.is_empty() {
        progress.call1(py, (None::<&str>, 0, 0, None::<f64>, None::<f64>, notes))?;
    }
    Ok(())
}

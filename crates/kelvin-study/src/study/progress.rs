//! Watches a population on a thread of its own: tells an observer the progress of each chain, and writes it to the run folder
//! about once a second.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kelvin::mutex::lock;
use kelvin::predictive::ByModel;
use kelvin::sampler::{Chain, DrawReading, Observer};

use crate::folder::{ChainStatus, Moment, Phase, Stage, StatusFile, Timeline};
use crate::study::observer::{StageEnd, StudyObserver};

/// How often an observer is told.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How often the status is written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// The speed is that of the last so many writings of the status.
const SPEED_OVER: usize = 20;
/// The most points of a trace.
const TRACE: usize = 64;

/// A chain to be watched.
pub(crate) struct Member {
    pub label: String,
    /// The part of its label that the other chains of its temperature share.
    pub group: String,
    pub beta: f64,
    /// The temperature of its noise; none for a search.
    pub sampler_temperature: Option<f64>,
}

impl Member {
    /// A search for β, whose inverse temperature begins at 1.
    pub fn search(start: u32) -> Self {
        Self { label: format!("start {}", start + 1), group: "searches".into(), beta: 1.0, sampler_temperature: None }
    }
}

/// Watches one stage of a run, on a thread of its own: chains only count their steps.
pub(crate) struct Progress {
    watched: Arc<Watched>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Watched {
    stage: Stage,
    timeline: Timeline,
    observer: Arc<dyn StudyObserver>,
    /// None where there is no run folder.
    file: Option<Arc<StatusFile>>,
    members: Vec<Member>,
    counts: Vec<Count>,
    began: Instant,
    /// Steps that were done before this process took the chains up.
    steps_before: AtomicU64,
    speed: Mutex<Speed>,
}

/// What a chain is told to have done.
#[derive(Default)]
struct Count {
    step: AtomicU64,
    has_moved: AtomicBool,
    has_diverged: AtomicBool,
    /// Whether it has seen enough before its longest length.
    has_ended: AtomicBool,
    noted: Mutex<Noted>,
}

/// What was seen of a chain at its draws, or at the checkpoints of a search.
#[derive(Default)]
struct Noted {
    /// When a thread last took it up, and at which step.
    started: Option<(Instant, u64)>,
    beta: Option<f64>,
    energy: Option<f64>,
    temperature_ratio: Option<f64>,
    validation_lpd: Option<ByModel<f64>>,
    trace: Trace,
}

/// A thinned sequence: evenly spaced values, at most [`TRACE`] of them.
#[derive(Default)]
struct Trace {
    points: Vec<f32>,
    /// One value in `skips + 1` is kept.
    skips: u64,
    seen: u64,
}

impl Trace {
    fn push(&mut self, value: f64) {
        if self.seen.is_multiple_of(self.skips + 1) && value.is_finite() {
            self.points.push(value as f32);
        }
        self.seen += 1;
        if self.points.len() > TRACE {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.skips = 2 * self.skips + 1;
        }
    }
}

/// Steps of all chains at the last moments.
#[derive(Default)]
struct Speed {
    moments: VecDeque<(Instant, u64)>,
}

impl Speed {
    fn note(&mut self, now: Instant, steps: u64) {
        // Before chains move there is no speed.
        if steps > 0 || !self.moments.is_empty() {
            self.moments.push_back((now, steps));
        }
        if self.moments.len() > SPEED_OVER {
            self.moments.pop_front();
        }
    }

    fn steps_per_second(&self, now: Instant, steps: u64) -> Option<f64> {
        let (since, before) = self.moments.front()?;
        let seconds = now.saturating_duration_since(*since).as_secs_f64();
        (seconds > 0.0 && steps > *before).then(|| (steps - before) as f64 / seconds)
    }
}

impl Progress {
    /// Watches from now on until it is finished or dropped.
    pub fn new(
        stage: Stage,
        members: Vec<Member>,
        timeline: Timeline,
        observer: Arc<dyn StudyObserver>,
        file: Option<Arc<StatusFile>>,
    ) -> Self {
        let counts = members.iter().map(|_| Count::default()).collect();
        let watched = Arc::new(Watched {
            stage,
            timeline,
            observer,
            file,
            members,
            counts,
            began: Instant::now(),
            steps_before: AtomicU64::new(0),
            speed: Mutex::default(),
        });
        watched.write();
        let (stop, stopped) = channel();
        let for_thread = Arc::clone(&watched);
        // Without a thread nobody is told, and the run goes on.
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            let mut written = Instant::now();
            while stopped.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
                let is_time = written.elapsed() >= WRITE_EVERY;
                if is_time {
                    written = Instant::now();
                }
                for_thread.tick(is_time);
            }
        });
        Self { watched, ticker: thread.ok().map(|thread| (stop, thread)) }
    }

    /// Ends with all chains done.
    pub fn finish(mut self) {
        self.stop(true);
    }

    /// Ends the thread, writes the status a last time, and says how it ended.
    fn stop(&mut self, finished: bool) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join();
            self.watched.write();
            let Watched { stage, members, began, observer, .. } = &*self.watched;
            // So that a stage shorter than the ticker's beat is told of too.
            observer.progress(&self.watched.moment());
            let (num_members, seconds) = (members.len(), began.elapsed().as_secs_f64());
            observer.stage_ended(&StageEnd { stage: *stage, num_members, seconds, finished });
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop(false);
    }
}

impl Watched {
    fn tick(&self, is_time_to_write: bool) {
        let mut speed = lock(&self.speed);
        if is_time_to_write || speed.moments.is_empty() {
            speed.note(Instant::now(), self.steps_moved());
        }
        drop(speed);
        if is_time_to_write {
            self.write();
        }
        self.observer.progress(&self.moment());
    }

    fn write(&self) {
        if let Some(file) = &self.file {
            file.write(self.moment());
        }
    }

    /// Steps that chains did here.
    fn steps_moved(&self) -> u64 {
        let steps: u64 = self.counts.iter().map(|count| count.step.load(Ordering::Relaxed)).sum();
        steps.saturating_sub(self.steps_before.load(Ordering::Relaxed))
    }

    fn moment(&self) -> Moment {
        let now = Instant::now();
        let chains: Vec<ChainStatus> =
            self.members.iter().zip(&self.counts).map(|(member, count)| self.chain(member, count, now)).collect();
        let is_over = |chain: &ChainStatus| matches!(chain.phase, Phase::Diverged | Phase::Done);
        let needed = |chain: &ChainStatus| if is_over(chain) { chain.step } else { chain.steps };
        let (steps_done, steps): (u64, u64) =
            chains.iter().fold((0, 0), |(done, all), chain| (done + chain.step, all + needed(chain)));
        let steps_per_second = lock(&self.speed).steps_per_second(now, self.steps_moved());
        let seconds_left = steps_per_second.map(|speed| (steps - steps_done) as f64 / speed);
        Moment { stage: self.stage, steps_done, steps, steps_per_second, seconds_left, chains }
    }

    fn chain(&self, member: &Member, count: &Count, now: Instant) -> ChainStatus {
        let steps = self.timeline.steps();
        let step = count.step.load(Ordering::Relaxed).min(steps);
        let noted = lock(&count.noted);
        let seconds_left = noted.started.filter(|&(_, from)| step > from).map(|(since, from)| {
            let a_step = now.saturating_duration_since(since).as_secs_f64() / (step - from) as f64;
            a_step * (steps - step) as f64
        });
        let phase = match self.timeline.phase(step) {
            _ if count.has_diverged.load(Ordering::Relaxed) => Phase::Diverged,
            _ if count.has_ended.load(Ordering::Relaxed) => Phase::Done,
            Phase::Done => Phase::Done,
            _ if !count.has_moved.load(Ordering::Relaxed) => Phase::Waiting,
            phase => phase,
        };
        ChainStatus {
            label: member.label.clone(),
            group: member.group.clone(),
            beta: noted.beta.unwrap_or(member.beta),
            phase,
            step,
            steps,
            energy: noted.energy,
            trace: noted.trace.points.clone(),
            temperature_ratio: noted.temperature_ratio,
            validation_lpd: noted.validation_lpd,
            seconds_left: seconds_left.filter(|_| !matches!(phase, Phase::Done | Phase::Diverged)),
        }
    }
}

impl Observer for Progress {
    fn resumed(&self, index: usize, steps: u64) {
        self.watched.counts[index].step.fetch_add(steps, Ordering::Relaxed);
        self.watched.steps_before.fetch_add(steps, Ordering::Relaxed);
    }

    fn started(&self, index: usize) {
        let count = &self.watched.counts[index];
        lock(&count.noted).started = Some((Instant::now(), count.step.load(Ordering::Relaxed)));
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        for (index, chain) in kept {
            let mut noted = lock(&self.watched.counts[*index].noted);
            match self.watched.members[*index].sampler_temperature {
                Some(temperature) => {
                    noted.temperature_ratio = chain.kinetic_kept.mean().map(|measured| measured / temperature);
                }
                None => {
                    let beta = chain.state.log_beta.exp();
                    noted.beta = Some(beta).filter(|beta| beta.is_finite());
                    noted.trace.push(beta);
                }
            }
        }
    }

    fn measured(&self, index: usize, reading: &DrawReading) {
        let lpd = ByModel { standard: reading.validation_lpd_standard, tempered: reading.validation_lpd_tempered };
        let mut noted = lock(&self.watched.counts[index].noted);
        // JSON has no infinities.
        noted.energy = Some(reading.potential_energy).filter(|energy| energy.is_finite());
        noted.validation_lpd = Some(lpd).filter(|lpd| lpd.standard.is_finite() && lpd.tempered.is_finite());
        noted.trace.push(reading.potential_energy);
    }

    fn diverged(&self, index: usize, step: u64) {
        let count = &self.watched.counts[index];
        count.step.store(step, Ordering::Relaxed);
        count.has_diverged.store(true, Ordering::Relaxed);
    }

    fn ended(&self, index: usize) {
        self.watched.counts[index].has_ended.store(true, Ordering::Relaxed);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        let count = &self.watched.counts[index];
        // A chain may be taken up and put back at once, for a checkpoint: it is still waiting.
        if steps > 0 {
            count.step.fetch_add(steps, Ordering::Relaxed);
            count.has_moved.store(true, Ordering::Relaxed);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_thinned_evenly() {
        let mut trace = Trace::default();
        (0..1000).for_each(|value| trace.push(f64::from(value)));
        assert!(trace.points.len() <= TRACE && trace.points.len() > TRACE / 2, "{}", trace.points.len());
        let steps: Vec<f32> = trace.points.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
    }

    #[test]
    fn speed_is_that_of_the_last_moments() {
        let (began, mut speed) = (Instant::now(), Speed::default());
        let after = |seconds| began + Duration::from_secs(seconds);
        speed.note(after(0), 0);
        assert_eq!(speed.steps_per_second(after(1), 10), None);
        (1..=30).for_each(|second| speed.note(after(second), 10 * second.min(10) + 2 * second.saturating_sub(10)));
        assert_eq!(speed.steps_per_second(after(30), 140), Some(2.0));
        // A clock that stands still gives no number, not a wrong one.
        assert_eq!(Speed { moments: [(after(5), 3)].into() }.steps_per_second(after(5), 7), None);
    }
}

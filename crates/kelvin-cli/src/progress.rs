//! Watches a population: what each chain does, shown on standard error and written to the run folder about once a second.

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

use crate::output::say;
use crate::watch::lines::{lines, sentence};
use crate::watch::screen::{Screen, Show, size};
use crate::watch::status::{ChainStatus, Moment, Phase, Stage, StatusFile, Timeline, duration};

/// How often a terminal is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// How often the status is written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// How often a line is said where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// The speed is that of the last so many writings of the status.
const SPEED_OVER: usize = 20;
/// The most points of a trace.
const TRACE: usize = 64;

/// A chain to be watched.
pub struct Member {
    pub label: String,
    /// What it shares with the other chains of its temperature.
    pub group: String,
    pub beta: f64,
    /// The temperature of its noise; none for a search.
    pub sampler_temperature: Option<f64>,
}

/// Watches one stage of a run, on a thread of its own: chains only count their steps.
pub struct Progress {
    watched: Arc<Watched>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Watched {
    stage: Stage,
    timeline: Timeline,
    show: Show,
    file: Arc<StatusFile>,
    members: Vec<Member>,
    counts: Vec<Count>,
    began: Instant,
    /// Steps that were done before this process took the chains up.
    steps_before: AtomicU64,
    speed: Mutex<Speed>,
    screen: Mutex<Screen>,
}

/// What a chain is told to have done.
#[derive(Default)]
struct Count {
    step: AtomicU64,
    has_moved: AtomicBool,
    has_diverged: AtomicBool,
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

/// At most so many points of a sequence, evenly taken.
#[derive(Default)]
struct Trace {
    points: Vec<f32>,
    /// Of so many values one is kept, less one.
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
    pub fn new(stage: Stage, members: Vec<Member>, timeline: Timeline, show: Show, file: Arc<StatusFile>) -> Self {
        let counts = members.iter().map(|_| Count::default()).collect();
        let watched = Arc::new(Watched {
            stage,
            timeline,
            show,
            file,
            members,
            counts,
            began: Instant::now(),
            steps_before: AtomicU64::new(0),
            speed: Mutex::default(),
            screen: Mutex::default(),
        });
        watched.file.write(watched.moment());
        let (stop, stopped) = channel();
        let for_thread = Arc::clone(&watched);
        // Without a thread nothing is shown, and the run goes on.
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            let (mut written, mut said) = (Instant::now(), Instant::now());
            while stopped.recv_timeout(DRAW_EVERY) == Err(RecvTimeoutError::Timeout) {
                let is_time = |last: &mut Instant, every| {
                    last.elapsed() >= every && {
                        *last = Instant::now();
                        true
                    }
                };
                for_thread.tick(is_time(&mut written, WRITE_EVERY), is_time(&mut said, SAY_EVERY));
            }
        });
        Self { watched, ticker: thread.ok().map(|thread| (stop, thread)) }
    }

    /// Says something above the lines that are drawn.
    pub fn say(&self, text: &str) {
        lock(&self.watched.screen).replace(text);
    }

    /// Ends with a line about the whole.
    pub fn finish(mut self) {
        self.stop();
        let is_told = match self.watched.show {
            Show::Live => true,
            // What took so long that it was told on the way has an end, too.
            Show::Plain => self.watched.began.elapsed() >= SAY_EVERY,
            Show::Nothing => false,
        };
        if is_told {
            let noun = if self.watched.stage == Stage::Choosing { "search" } else { "chain" };
            let plural = if noun == "search" { "searches" } else { "chains" };
            let count = self.watched.members.len();
            say(&format!(
                "{}: {count} {} in {}\n",
                self.watched.stage.name(),
                if count == 1 { noun } else { plural },
                duration(self.watched.began.elapsed().as_secs_f64())
            ));
        }
    }

    /// Ends the thread, wipes its lines, and writes the status a last time.
    fn stop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join();
            lock(&self.watched.screen).replace("");
            self.watched.file.write(self.watched.moment());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Watched {
    fn tick(&self, write: bool, is_time_to_say: bool) {
        let mut speed = lock(&self.speed);
        if write || speed.moments.is_empty() {
            speed.note(Instant::now(), self.steps_moved());
        }
        drop(speed);
        if write {
            self.file.write(self.moment());
        }
        match self.show {
            Show::Live => {
                let (columns, rows) = size();
                // The last column and the last row stay free: a full one would make the terminal scroll.
                let lines = lines(&self.moment(), columns.saturating_sub(1), rows.saturating_sub(1));
                lock(&self.screen).draw(lines);
            }
            Show::Plain if is_time_to_say => say(&format!("{}\n", sentence(&self.moment()))),
            Show::Plain | Show::Nothing => {}
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
        let needed = |chain: &ChainStatus| if chain.phase == Phase::Diverged { chain.step } else { chain.steps };
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

//! Watches a population for as long as it may run without being stored: how long chains take, and when all are to pause.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use kelvin::mutex::lock;
use kelvin::sampler::{Chain, DrawReading, Observer};

/// A population is also stored soon after draws were kept, but no sooner than this after the last time.
const LEAST_PAUSE: Duration = Duration::from_secs(5);
/// Storing after draws may cost one part in so many of the time.
const SHARE: u32 = 20;

/// When a population is to be stored next.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    every: Duration,
    every_with_draws: Duration,
}

impl Pace {
    /// At least every so often; `cost` is what a pause took the last time.
    pub fn new(every: Duration, cost: Duration) -> Self {
        Self { every, every_with_draws: every.min(LEAST_PAUSE.max(cost * SHARE)) }
    }
}

/// Watches one piece of a population's way.
pub(crate) struct Watch<'a> {
    progress: &'a dyn Observer,
    should_stop: &'a (dyn Fn() -> bool + Sync),
    pace: Pace,
    began: Instant,
    first_started: OnceLock<Instant>,
    has_moved: AtomicBool,
    has_kept: AtomicBool,
    /// Of each thread that moves many chains together: the chain it asked about last, and what it was told.
    told: Option<Mutex<HashMap<ThreadId, (usize, bool)>>>,
    times: Vec<Mutex<ChainTime>>,
}

#[derive(Clone, Copy, Default)]
struct ChainTime {
    started: Option<Instant>,
    seconds: f64,
}

impl<'a> Watch<'a> {
    pub fn new(
        progress: &'a dyn Observer,
        should_stop: &'a (dyn Fn() -> bool + Sync),
        pace: Pace,
        num_chains: usize,
        together: bool,
    ) -> Self {
        Self {
            progress,
            should_stop,
            pace,
            began: Instant::now(),
            first_started: OnceLock::new(),
            has_moved: AtomicBool::new(false),
            has_kept: AtomicBool::new(false),
            told: together.then(Mutex::default),
            times: (0..num_chains).map(|_| Mutex::default()).collect(),
        }
    }

    /// How long it took until the first chain moved.
    pub fn setup(&self) -> Duration {
        self.first_started.get().map_or(Duration::ZERO, |started| *started - self.began)
    }

    /// Seconds of each chain; where they move together, each of those that moved has its share.
    pub fn seconds(&self, moved: &[bool]) -> Vec<f64> {
        if self.told.is_none() {
            return self.times.iter().map(|time| lock(time).seconds).collect();
        }
        let sharing = moved.iter().filter(|moved| **moved).count();
        let share = self.began.elapsed().as_secs_f64() / sharing.max(1) as f64;
        moved.iter().map(|&moved| if moved { share } else { 0.0 }).collect()
    }

    fn is_time(&self) -> bool {
        if (self.should_stop)() {
            return true;
        }
        // A pause before anything has moved would be followed by the next one.
        let elapsed = self.began.elapsed();
        self.has_moved.load(Ordering::Relaxed)
            && (elapsed >= self.pace.every
                || (self.has_kept.load(Ordering::Relaxed) && elapsed >= self.pace.every_with_draws))
    }

    /// Chains that move together pause together: what the first of a round was told counts for all.
    fn should_pause(&self, index: usize) -> bool {
        let Some(told) = &self.told else { return self.is_time() };
        let mut told = lock(told);
        let answer = told.entry(std::thread::current().id()).or_insert((usize::MAX, false));
        if index <= answer.0 {
            answer.1 = self.is_time();
        }
        answer.0 = index;
        answer.1
    }
}

impl Observer for Watch<'_> {
    fn started(&self, index: usize) {
        self.first_started.get_or_init(Instant::now);
        lock(&self.times[index]).started = Some(Instant::now());
        self.progress.started(index);
    }

    fn measured(&self, index: usize, reading: &DrawReading) {
        self.progress.measured(index, reading);
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        self.has_kept.store(true, Ordering::Relaxed);
        self.progress.kept(kept);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        let mut time = lock(&self.times[index]);
        time.seconds = time.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
        drop(time);
        if steps > 0 {
            self.has_moved.store(true, Ordering::Relaxed);
        }
        // Who only looks on does not decide: the population would be asked to go on again at once.
        let _ = self.progress.advanced(index, steps);
        if self.should_pause(index) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::sampler::Silent;

    const NEVER: &(dyn Fn() -> bool + Sync) = &|| false;

    #[test]
    fn nothing_pauses_before_it_has_moved() {
        let pace = Pace::new(Duration::ZERO, Duration::ZERO);
        let watch = Watch::new(&Silent, NEVER, pace, 2, false);
        assert!(watch.advanced(0, 0).is_continue());
        assert!(watch.advanced(1, 5).is_break());
        assert!(watch.advanced(0, 0).is_break());
        assert!(Watch::new(&Silent, &|| true, pace, 1, false).advanced(0, 0).is_break());
    }

    #[test]
    fn chains_that_move_together_pause_together() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        // The word comes while the second of three chains is asked.
        let should_stop = || asked.fetch_add(1, Ordering::Relaxed) >= 1;
        let pace = Pace::new(Duration::from_secs(1000), Duration::ZERO);
        let watch = Watch::new(&Silent, &should_stop, pace, 3, true);
        let round = || [0, 1, 2].map(|index| watch.advanced(index, 5).is_break());
        assert_eq!((round(), round()), ([false; 3], [true; 3]));
    }

    #[test]
    fn draws_are_stored_soon_but_not_at_any_price() {
        let pace = |seconds, cost| Pace::new(Duration::from_secs(seconds), Duration::from_secs(cost)).every_with_draws;
        assert_eq!([pace(60, 0), pace(60, 1), pace(60, 9), pace(2, 0)].map(|pace| pace.as_secs()), [5, 20, 60, 2]);
    }
}

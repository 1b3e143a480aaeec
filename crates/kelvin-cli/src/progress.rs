//! A bar with rate and time left for each stage of a population, and each chain's own time.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kelvin::sampler::{Engine, Observer};

/// Watches one population.
pub struct Progress {
    bar: ProgressBar,
    times: Vec<Mutex<ChainTime>>,
    /// Whether the chains share one device, and so its time.
    together: bool,
    started: Instant,
}

#[derive(Clone, Copy, Default)]
struct ChainTime {
    started: Option<Instant>,
    seconds: f64,
}

impl Progress {
    /// A bar for `num_chains` chains of `steps_each` on an engine; hidden where nobody looks.
    pub fn new(stage: &'static str, num_chains: usize, steps_each: u64, engine: &dyn Engine, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let bar = ProgressBar::with_draw_target(Some(num_chains as u64 * steps_each), target);
        let template = "{msg:<24} {bar:30} {percent:>3} %  {rate}  {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // A sink that cannot be written to has nobody who could be told.
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{:.0} steps/s", state.per_sec());
        }));
        bar.set_message(stage);
        let times = (0..num_chains).map(|_| Mutex::default()).collect();
        Self { bar, times, together: engine.moves_chains_together(), started: Instant::now() }
    }

    /// Clears the bar; seconds each chain ran, or its share where they ran together.
    pub fn finish(self) -> Vec<f64> {
        self.bar.finish_and_clear();
        if self.together {
            let share = self.started.elapsed().as_secs_f64() / self.times.len() as f64;
            return vec![share; self.times.len()];
        }
        self.times.iter().map(|time| lock(time).seconds).collect()
    }
}

fn lock(time: &Mutex<ChainTime>) -> std::sync::MutexGuard<'_, ChainTime> {
    time.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Observer for Progress {
    fn started(&self, index: usize) {
        lock(&self.times[index]).started = Some(Instant::now());
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        let mut time = lock(&self.times[index]);
        time.seconds = time.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
        self.bar.inc(steps);
        ControlFlow::Continue(())
    }
}

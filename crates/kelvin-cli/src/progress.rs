//! A bar with rate and time left for each stage of a population.

use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kelvin::sampler::Observer;

/// Watches one population.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `num_chains` chains of `steps_each`; hidden where nobody looks.
    pub fn new(stage: &'static str, num_chains: usize, steps_each: u64, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let bar = ProgressBar::with_draw_target(Some(num_chains as u64 * steps_each), target);
        let template = "{msg:<24} {bar:30} {percent:>3} %  {rate}  {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // A sink that cannot be written to has nobody who could be told.
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{:.0} steps/s", state.per_sec());
        }));
        bar.set_message(stage);
        Self { bar }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn resumed(&self, _: usize, steps: u64) {
        self.bar.inc(steps);
        // Rate and time left are about what is left.
        self.bar.reset_eta();
    }

    fn advanced(&self, _: usize, steps: u64) -> ControlFlow<()> {
        self.bar.inc(steps);
        ControlFlow::Continue(())
    }
}

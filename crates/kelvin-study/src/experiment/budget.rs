//! From a time to gradients: how many of them this machine computes while it lasts.

use std::time::{Duration, Instant};

use kelvin::potential::{Batch, Potential};

use crate::error::ExperimentError;
use crate::experiment::prepared::Experiment;

/// How long gradients are timed, and how many at most.
const TIMED: Duration = Duration::from_millis(200);
const MOST_TIMED: u32 = 2000;

impl Experiment {
    /// Lets chains sample as long as they may in so much time, over all temperatures and folds of a run, on all threads. The number of
    /// gradients is measured once and becomes a setting, so that the run can be repeated.
    ///
    /// # Errors
    /// If the settings do not hold together with lengths that short.
    pub fn spend(&mut self, num_temperatures: usize, time: Duration) -> Result<(), ExperimentError> {
        let run = &self.settings.run;
        let parts = 1 + run.folds.or(run.splits).unwrap_or(0) as usize;
        let share = time.as_secs_f64() * rayon::current_num_threads() as f64 / (parts * num_temperatures) as f64;
        let gradients = share / self.seconds_of_step();
        self.settings = self.settings.clone().with_budget(gradients as u64, self.problem.train.len());
        self.settings.check()
    }

    /// What the gradient of a step of chains takes on one thread.
    fn seconds_of_step(&self) -> f64 {
        let num_train = self.problem.train.len();
        let rows = self.settings.sampler.batch_size.rows().map_or(num_train, |rows| rows.min(num_train));
        self.seconds_of_gradient() * rows as f64 / num_train as f64
    }

    /// What a gradient over all training rows takes on one thread.
    pub(crate) fn seconds_of_gradient(&self) -> f64 {
        let position = self.posterior.initial_position(self.settings.run.seed, 0);
        let (mut gradient, mut work) = (vec![0.0; position.len()], self.posterior.workspace());
        let began = Instant::now();
        let mut count = 0;
        while count < MOST_TIMED && (count == 0 || began.elapsed() < TIMED) {
            self.posterior.gradient(&position, Batch::ALL, &mut gradient, &mut work);
            count += 1;
        }
        began.elapsed().as_secs_f64() / f64::from(count)
    }
}

//! How `run` samples tables: chains that find their step and decide when they have seen enough, and folds for its verdict; and images, where it is asked to.
//!
//! The longest a temperature may sample is a number of gradients, by the work of one: 4·10¹¹ multiply-adds, at least 40 000 gradients and at most
//! 2 million, over all chains of the temperature; half of it on one's own table, where choices are tried first and all rows are sampled besides. That is 760 000 for Concrete (824 rows, 641 parameters), some 19 seconds of a core with AVX-512.
//! The numbers were set by the time that they take, on Concrete's training rows.

use crate::settings::batch_size::BatchSize;
use crate::settings::experiment::Settings;
use crate::settings::sampler::{DrawsSetting, Preconditioner, Start};
use crate::settings::stopping::StoppingSettings;
use kelvin::sampler::Integrator;

/// Multiply-adds of the longest sampling at one temperature.
const WORK: f64 = 4e11;
const FEWEST_GRADIENTS: f64 = 4e4;
const MOST_GRADIENTS: f64 = 2e6;
/// Steps of the first burn-in; it doubles until U has no trend.
const BURN_IN: u64 = 4096;
/// Steps between two kept draws.
const CYCLE: u64 = 100;
/// Chains that may be shorter than this begin where the search ended: on Naval, 10 000 steps from random weights were still on their way down.
const STEPS_FROM_RANDOM_STARTS: u64 = 20_000;
/// Multiply-adds of the chains that try one choice, how many there are on a fold, their draws, and the limits of their lengths.
const TRIAL_WORK: f64 = 1e11;
const TRIAL_CHAINS: u32 = 2;
const TRIAL_DRAWS: u64 = 60;
const FEWEST_TRIAL_STEPS: f64 = 6000.0;
const MOST_TRIAL_STEPS: f64 = 16_000.0;
/// Folds of a table, up to so many rows.
const FOLDS: u32 = 5;
const MOST_ROWS_FOR_FOLDS: usize = 20_000;

/// Rows times parameters from which full batches are too dear.
const MOST_WORK_OF_GRADIENT: usize = 50_000_000;

impl Settings {
    /// Whether every step of a chain can see all rows of such a table.
    pub fn suits_full_batches(num_rows: usize, num_parameters: usize) -> bool {
        (num_rows * 4 / 5).saturating_mul(num_parameters) <= MOST_WORK_OF_GRADIENT
    }

    /// The same experiment on a table of so many rows, sampled by chains that adapt and stop when they have seen enough, with folds.
    pub fn adaptive(mut self, num_rows: usize, num_parameters: usize) -> Self {
        let num_train = num_rows * 4 / 5;
        let work = (num_train * num_parameters).max(1) as f64;
        // What is sampled once more on all rows, after choices that are tried first, is to take no longer in all.
        let share = if self.run.all_rows { 0.5 } else { 1.0 };
        let gradients = share * (WORK / work).clamp(FEWEST_GRADIENTS, MOST_GRADIENTS);
        let sampler = &mut self.sampler;
        sampler.integrator = Integrator::Baoab;
        sampler.adapt = true;
        sampler.preconditioner = Preconditioner::None;
        sampler.batch_size = BatchSize::FULL;
        (sampler.ramp_start, sampler.ramp_end) = (0, 0);
        self.stopping = Some(StoppingSettings::default());
        self = self.with_budget(gradients as u64);
        if self.sampler.epochs < STEPS_FROM_RANDOM_STARTS {
            self.sampler.start = Start::Search;
        }
        if num_rows <= MOST_ROWS_FOR_FOLDS && self.run.splits.is_none() {
            self.run.folds = self.run.folds.or(Some(FOLDS));
        }
        self
    }

    /// The same experiment on images, by chains that find masses, step and friction from minibatches while they burn in, and are as long as before.
    pub fn adaptive_images(mut self) -> Self {
        let sampler = &mut self.sampler;
        sampler.integrator = Integrator::Baoab;
        sampler.adapt = true;
        sampler.preconditioner = Preconditioner::None;
        (sampler.ramp_start, sampler.ramp_end) = (0, 0);
        self
    }

    /// The same with so many gradients at each temperature, at most.
    pub fn with_budget(mut self, gradients: u64) -> Self {
        let sampler = &mut self.sampler;
        let steps = (gradients / u64::from(self.run.chains).max(1)).max(20);
        sampler.burn_in = BURN_IN.min(steps / 4);
        sampler.cycle = CYCLE.min((steps - sampler.burn_in) / 10).max(1);
        sampler.epochs = sampler.burn_in + (steps - sampler.burn_in) / sampler.cycle * sampler.cycle;
        self
    }

    /// The chains that try one choice (a likelihood, an inverse temperature), and on how many folds at most: 10¹¹ multiply-adds for each choice, a quarter
    /// of what a temperature may take. Two chains a fold, half of each burn-in, at most half as long as those of the run. Folds are given up before chains
    /// become shorter than 6000 steps.
    pub(crate) fn for_trials(mut self, num_rows: usize, num_parameters: usize) -> (Self, usize) {
        let work = (num_rows * 4 / 5 * num_parameters).max(1) as f64;
        let gradients = TRIAL_WORK / work;
        let most = self.run.folds.or(self.run.splits).unwrap_or(1) as usize;
        let steps = |folds: usize| gradients / (TRIAL_CHAINS as usize * folds) as f64;
        let folds = (1..=most).rev().find(|&folds| steps(folds) >= FEWEST_TRIAL_STEPS).unwrap_or(1);
        let half = (0.5 * steps(folds).clamp(FEWEST_TRIAL_STEPS, MOST_TRIAL_STEPS)) as u64;
        let half = half.min(self.sampler.epochs / 4).max(TRIAL_DRAWS);
        self.run.chains = TRIAL_CHAINS;
        (self.run.folds, self.run.splits, self.run.exact, self.stopping) = (None, None, false, None);
        let sampler = &mut self.sampler;
        sampler.burn_in = half;
        sampler.cycle = (half / TRIAL_DRAWS).max(1);
        sampler.epochs = half + sampler.cycle * TRIAL_DRAWS;
        (sampler.start, sampler.draws) = (Start::Random, DrawsSetting::Scored);
        (self, folds)
    }

    /// A rough answer in seconds: two chains of a fortieth of the length, and no folds.
    pub fn quick_adaptive(mut self) -> Self {
        self.run.chains = self.run.chains.min(2);
        (self.run.folds, self.run.splits) = (None, None);
        // The simplest of the likelihoods and the first of the networks, without a trial.
        self.run.likelihoods.clear();
        self.run.hidden_layers.clear();
        let gradients = self.sampler.epochs * 4 / 20;
        self = self.with_budget(gradients);
        self.name.push_str("-quick");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Start, preset};

    #[test]
    fn lengths_follow_the_work_of_a_gradient() {
        for (name, rows, parameters, epochs) in
            [("concrete", 1030, 641, 189_000), ("naval", 11_934, 1025, 10_200), ("concrete", 300_000, 641, 10_000)]
        {
            let settings = preset(name).unwrap().settings().adaptive(rows, parameters);
            settings.check().unwrap();
            let found = settings.sampler.epochs as f64 / f64::from(epochs);
            assert!((0.95..1.05).contains(&found), "{name}: {}", settings.sampler.epochs);
            assert_eq!(settings.run.folds.is_some(), rows <= 20_000);
            assert_eq!(settings.sampler.start == Start::Search, epochs < 20_000, "{name}");
            settings.clone().quick_adaptive().check().unwrap();
            settings.with_budget(40).check().unwrap();
        }
    }

    #[test]
    fn images_keep_their_lengths_and_batches() {
        for name in ["stripes", "mnist-small", "cifar10"] {
            let paper = preset(name).unwrap().settings();
            let adaptive = paper.clone().adaptive_images();
            adaptive.check().unwrap();
            let lengths =
                |s: &super::Settings| (s.sampler.burn_in, s.sampler.epochs, s.sampler.cycle, s.sampler.batch_size);
            assert_eq!(lengths(&adaptive), lengths(&paper), "{name}");
            assert!(adaptive.sampler.adapt && adaptive.stopping.is_none(), "{name}");
        }
    }

    #[test]
    fn trials_give_up_folds_before_they_are_too_short() {
        for (rows, folds, steps) in
            [(400, 5, 16_000), (1030, 5, 16_000), (3000, 5, 6485), (8000, 2, 6080), (20_000, 1, 5060)]
        {
            let settings = preset("concrete").unwrap().settings().adaptive(rows, 641);
            let (short, found) = settings.for_trials(rows, 641);
            short.check().unwrap();
            let ratio = short.sampler.epochs as f64 / f64::from(steps);
            assert!(found == folds && (0.97..1.03).contains(&ratio), "{rows}: {found}, {}", short.sampler.epochs);
        }
    }

    #[test]
    fn large_tables_are_left_to_minibatches() {
        use super::Settings;
        assert!(Settings::suits_full_batches(90_000, 641) && !Settings::suits_full_batches(100_000, 641));
        assert!(!Settings::suits_full_batches(usize::MAX / 8, 1_000_000));
    }
}

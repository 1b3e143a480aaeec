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
/// Draws of a chain of images, where epochs are as many.
const FEWEST_DRAWS_OF_IMAGES: u64 = 100;
/// Steps between two kept draws.
const CYCLE: u64 = 100;
/// Chains that may be shorter than this begin where the search ended: on Naval, 10 000 steps from random weights were still on their way down.
const STEPS_FROM_RANDOM_STARTS: u64 = 20_000;
/// Multiply-adds of the chains that try one choice, how many there are on a fold, their draws, and the limits of their lengths.
const TRIAL_WORK: f64 = 1e11;
const TRIAL_CHAINS: u32 = 2;
const TRIAL_DRAWS: u64 = 60;
const FEWEST_TRIAL_DRAWS: u64 = 10;
const FEWEST_TRIAL_STEPS: f64 = 6000.0;
const MOST_TRIAL_STEPS: f64 = 16_000.0;
/// Folds of a table, up to so many rows.
const FOLDS: u32 = 5;
const MOST_ROWS_FOR_FOLDS: usize = 20_000;

/// Rows times parameters of a step up to which it sees all rows, and of a minibatch beyond.
const MOST_WORK_OF_GRADIENT: usize = 50_000_000;
const WORK_OF_MINIBATCH: usize = 16_000_000;
const FEWEST_ROWS_OF_MINIBATCH: usize = 256;
/// Draws are an epoch apart at least, so that epochs of very large tables must be short.
const MOST_MINIBATCHES: usize = 64;

/// Rows of a step of chains that adapt. The noise of minibatches heats, so they are as large as is affordable.
fn batch_size(num_train: usize, num_parameters: usize) -> BatchSize {
    if num_train.saturating_mul(num_parameters) <= MOST_WORK_OF_GRADIENT {
        return BatchSize::FULL;
    }
    let affordable = (WORK_OF_MINIBATCH / num_parameters.max(1)).max(FEWEST_ROWS_OF_MINIBATCH);
    BatchSize::Rows(affordable.max(num_train.div_ceil(MOST_MINIBATCHES)).min(num_train))
}

impl Settings {
    /// Steps of an epoch of so many training rows.
    fn steps_per_epoch(&self, num_train: usize) -> u64 {
        self.sampler.batch_size.rows().map_or(1, |rows| (num_train / rows.max(1)).max(1) as u64)
    }

    /// Multiply-adds of a step, up to a factor.
    fn work_of_step(&self, num_train: usize, num_parameters: usize) -> f64 {
        let rows = self.sampler.batch_size.rows().map_or(num_train, |rows| rows.min(num_train));
        rows.saturating_mul(num_parameters).max(1) as f64
    }

    /// The same experiment on a table of so many rows, sampled by chains that adapt and stop when they have seen enough, with folds.
    pub fn adaptive(mut self, num_rows: usize, num_parameters: usize) -> Self {
        let num_train = num_rows * 4 / 5;
        self.sampler.batch_size = batch_size(num_train, num_parameters);
        let work = self.work_of_step(num_train, num_parameters);
        // What is sampled once more on all rows, after choices that are tried first, is to take no longer in all.
        let share = if self.run.all_rows { 0.5 } else { 1.0 };
        let gradients = share * (WORK / work).clamp(FEWEST_GRADIENTS, MOST_GRADIENTS);
        let sampler = &mut self.sampler;
        sampler.integrator = Integrator::Baoab;
        sampler.adapt = true;
        sampler.preconditioner = Preconditioner::None;
        (sampler.ramp_start, sampler.ramp_end) = (0, 0);
        self.stopping = Some(StoppingSettings::default());
        self = self.with_budget(gradients as u64, num_train);
        if self.sampler.epochs * self.steps_per_epoch(num_train) < STEPS_FROM_RANDOM_STARTS {
            self.sampler.start = Start::Search;
        }
        if num_rows <= MOST_ROWS_FOR_FOLDS && self.run.splits.is_none() {
            self.run.folds = self.run.folds.or(Some(FOLDS));
        }
        self
    }

    /// The same experiment on images, by chains that find masses, step and friction from minibatches while they burn in, end when they have seen enough, and
    /// are at most as long as before. Draws come often enough to judge that.
    pub fn adaptive_images(mut self) -> Self {
        let sampler = &mut self.sampler;
        sampler.integrator = Integrator::Baoab;
        sampler.adapt = true;
        sampler.preconditioner = Preconditioner::None;
        (sampler.ramp_start, sampler.ramp_end) = (0, 0);
        let length = sampler.epochs - sampler.burn_in;
        sampler.cycle = sampler.cycle.min(length / FEWEST_DRAWS_OF_IMAGES).max(1);
        sampler.epochs = sampler.burn_in + length / sampler.cycle * sampler.cycle;
        self.stopping = Some(StoppingSettings::default());
        self
    }

    /// The same with so many gradients at each temperature, at most: of minibatches where steps see those, and then enough for ten draws a chain.
    pub fn with_budget(mut self, gradients: u64, num_train: usize) -> Self {
        let epoch = self.steps_per_epoch(num_train);
        let sampler = &mut self.sampler;
        let epochs = (gradients / u64::from(self.run.chains).max(1) / epoch).max(20);
        sampler.burn_in = BURN_IN.div_ceil(epoch).min(epochs / 4);
        sampler.cycle = CYCLE.div_ceil(epoch).min((epochs - sampler.burn_in) / 10).max(1);
        sampler.epochs = sampler.burn_in + (epochs - sampler.burn_in) / sampler.cycle * sampler.cycle;
        self
    }

    /// The chains that try one choice (a likelihood, an inverse temperature), and on how many folds at most: 10¹¹ multiply-adds for each choice, a quarter
    /// of what a temperature may take. Two chains a fold, half of each burn-in, at most half as long as those of the run. Folds are given up before chains
    /// become shorter than 6000 steps.
    pub(crate) fn for_trials(mut self, num_rows: usize, num_parameters: usize) -> (Self, usize) {
        let num_train = num_rows * 4 / 5;
        let gradients = TRIAL_WORK / self.work_of_step(num_train, num_parameters);
        let most = self.run.folds.or(self.run.splits).unwrap_or(1) as usize;
        let steps = |folds: usize| gradients / (TRIAL_CHAINS as usize * folds) as f64;
        let folds = (1..=most).rev().find(|&folds| steps(folds) >= FEWEST_TRIAL_STEPS).unwrap_or(1);
        let half = (0.5 * steps(folds).clamp(FEWEST_TRIAL_STEPS, MOST_TRIAL_STEPS)) as u64;
        let epoch = self.steps_per_epoch(num_train);
        let fewest = TRIAL_DRAWS.div_ceil(epoch).max(FEWEST_TRIAL_DRAWS);
        let half = (half / epoch).min(self.sampler.epochs / 4).max(fewest);
        let draws = TRIAL_DRAWS.min(half);
        self.run.chains = TRIAL_CHAINS;
        (self.run.folds, self.run.splits, self.run.exact, self.stopping) = (None, None, false, None);
        let sampler = &mut self.sampler;
        sampler.burn_in = half;
        sampler.cycle = half / draws;
        sampler.epochs = half + sampler.cycle * draws;
        (sampler.start, sampler.draws) = (Start::Random, DrawsSetting::Scored);
        (self, folds)
    }

    /// A rough answer in seconds: two chains of a fortieth of the length, and no folds.
    pub fn quick_adaptive(mut self, num_train: usize) -> Self {
        self.run.chains = self.run.chains.min(2);
        (self.run.folds, self.run.splits) = (None, None);
        // The simplest of the likelihoods and the first of the networks, without a trial.
        self.run.likelihoods.clear();
        self.run.hidden_layers.clear();
        let gradients = self.sampler.epochs * self.steps_per_epoch(num_train) * 4 / 20;
        self = self.with_budget(gradients, num_train);
        self.name.push_str("-quick");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchSize, Settings, Start, preset};

    #[test]
    fn lengths_follow_the_work_of_a_gradient() {
        for (name, rows, parameters, epochs) in
            [("concrete", 1030, 641, 189_000), ("naval", 11_934, 1025, 10_200), ("concrete", 300_000, 641, 1110)]
        {
            let settings = preset(name).unwrap().settings().adaptive(rows, parameters);
            settings.check().unwrap();
            let num_train = rows * 4 / 5;
            let found = settings.sampler.epochs as f64 / f64::from(epochs);
            assert!((0.95..1.05).contains(&found), "{name}: {}", settings.sampler.epochs);
            assert_eq!(settings.run.folds.is_some(), rows <= 20_000);
            assert_eq!(settings.sampler.start == Start::Search, epochs < 20_000, "{name}");
            settings.clone().quick_adaptive(num_train).check().unwrap();
            settings.with_budget(40, num_train).check().unwrap();
        }
    }

    #[test]
    fn images_keep_their_lengths_and_batches_and_may_end_sooner() {
        for name in ["stripes", "mnist-small", "cifar10"] {
            let paper = preset(name).unwrap().settings();
            let adaptive = paper.clone().adaptive_images();
            adaptive.check().unwrap();
            let of_paper = &paper.sampler;
            assert_eq!(
                (adaptive.sampler.burn_in, adaptive.sampler.batch_size),
                (of_paper.burn_in, of_paper.batch_size),
                "{name}"
            );
            let epochs = adaptive.sampler.epochs;
            assert!((of_paper.epochs - adaptive.sampler.cycle..=of_paper.epochs).contains(&epochs), "{name}: {epochs}");
            assert!(adaptive.draws_per_chain() >= paper.draws_per_chain().max(40), "{name}");
            assert!(adaptive.sampler.adapt && adaptive.stopping.is_some(), "{name}");
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
            let ratio = (short.sampler.epochs * short.steps_per_epoch(rows * 4 / 5)) as f64 / f64::from(steps);
            assert!(found == folds && (0.97..1.03).contains(&ratio), "{rows}: {found}, {}", short.sampler.epochs);
        }
    }

    #[test]
    fn steps_on_large_tables_see_minibatches_and_are_as_many() {
        for (rows, parameters) in [(60_000, 8000), (100_000, 641), (5_000_000, 641), (3000, 300_000)] {
            let settings = preset("concrete").unwrap().settings().adaptive(rows, parameters);
            settings.check().unwrap();
            let num_train = rows * 4 / 5;
            let batch = settings.sampler.batch_size.rows().unwrap();
            assert!(batch >= 256 && batch * parameters <= 80_000_000, "{batch} rows");
            let epoch = settings.steps_per_epoch(num_train);
            let steps = |settings: &Settings| settings.sampler.epochs * epoch;
            assert!(epoch <= 64 && (9000..11_000).contains(&steps(&settings)), "{} of {epoch}", steps(&settings));
            let (short, _) = settings.clone().for_trials(rows, parameters);
            assert!(steps(&short) <= 6100 && short.draws_per_chain() >= 10, "{} of {epoch}", steps(&short));
            let quick = settings.quick_adaptive(num_train);
            assert!(steps(&quick) <= 1300 && quick.draws_per_chain() >= 10, "{} of {epoch}", steps(&quick));
        }
        let small = preset("concrete").unwrap().settings().adaptive(90_000, 641);
        assert_eq!(small.sampler.batch_size, BatchSize::FULL);
        assert!(
            preset("concrete").unwrap().settings().adaptive(usize::MAX / 8, 1000).sampler.batch_size.rows().is_some()
        );
    }
}

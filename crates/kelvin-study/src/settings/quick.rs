//! A rough answer soon: settings cut down for `--quick`.

use crate::settings::experiment::{RateSchedule, RunSettings, SelectionSettings, Settings};

impl SelectionSettings {
    /// A shorter search with the turns of its rate at the same shares of its length.
    fn shorten(&mut self, epochs: u64) {
        if let RateSchedule::Piecewise(factors) = &mut self.schedule {
            for (at, _) in factors.iter_mut() {
                *at = (u128::from(*at) * u128::from(epochs) / u128::from(self.epochs.max(1))) as u64;
            }
            // Of turns that fall together the last counts.
            factors.reverse();
            factors.dedup_by_key(|(at, _)| *at);
            factors.reverse();
        }
        self.epochs = epochs;
        self.checkpoints = self.checkpoints.min(epochs);
    }
}

impl RunSettings {
    /// At most so many repetitions, with chains in no more of them than before.
    fn cut_repetitions(&mut self, most: u32) {
        self.repetitions = self.repetitions.min(most);
        self.sampled_repetitions = self.sampled_repetitions.map(|sampled| sampled.min(most));
    }
}

impl Settings {
    /// A rough answer in seconds: 40 draws of two shorter chains, two repetitions. The search keeps its length where it
    /// can: cut short it would not only be rough but wrong, since β first falls far and then climbs back.
    pub fn quick(mut self, steps_per_epoch: u64) -> Self {
        const DRAWS: u64 = 40;
        let full_batch = steps_per_epoch == 1;
        let epochs_of = |steps: u64| (steps / steps_per_epoch.max(1)).max(1);
        let (selection, sampler) = (&mut self.selection, &mut self.sampler);
        let longest_search = epochs_of(if full_batch { 15_000 } else { 200_000 }).max(selection.checkpoints);
        if selection.epochs > longest_search {
            // A shorter search moves β as far by a higher rate.
            selection.learning_rate *= (selection.epochs as f64 / longest_search as f64).min(3.0);
            selection.shorten(longest_search);
        }
        let longest_chain = epochs_of(if full_batch { 6_000 } else { 40_000 });
        if sampler.epochs > longest_chain {
            sampler.burn_in = (longest_chain / 3).max(1);
            sampler.ramp_end = longest_chain / 6;
            sampler.ramp_start = sampler.ramp_end * 24 / 25;
            sampler.cycle = ((longest_chain - sampler.burn_in) / DRAWS).max(1);
            sampler.epochs = sampler.burn_in + DRAWS * sampler.cycle;
        }
        self.run.chains = self.run.chains.min(2);
        self.run.cut_repetitions(2);
        self.name.push_str("-quick");
        self
    }

    /// The same for images, whose steps are dear: fewer of them, 20 draws of two short chains. The rate of the search
    /// grows as the sum over the images that it climbs on shrinks; weights decay by as much a step as before. The set has so
    /// many images to learn from, to choose by and to be judged on.
    pub fn quick_images(mut self, [num_train, num_validation, num_test]: [usize; 3]) -> Self {
        const DRAWS: u64 = 20;
        const SEARCH_STEPS: u64 = 240;
        const CHAIN_STEPS: u64 = 360;
        let data = &mut self.data;
        let num_train = data.train_images.map_or(num_train, |asked| asked.min(num_train));
        let train = num_train.min(512);
        data.train_images = Some(train);
        data.validation_images = Some(data.validation_images.unwrap_or(num_validation).min(256));
        data.test_images = Some(data.test_images.unwrap_or(num_test).min(256));
        let (selection, sampler) = (&mut self.selection, &mut self.sampler);
        let steps_of = |rows: Option<usize>| rows.map_or(1, |rows| (train / rows.max(1)).max(1)) as u64;
        let search_epochs = SEARCH_STEPS.div_ceil(steps_of(selection.batch_size.rows()));
        let fewer = num_train as f64 / train as f64;
        selection.learning_rate *= fewer;
        selection.weight_decay /= fewer;
        if selection.epochs > search_epochs {
            selection.shorten(search_epochs);
        }
        let epochs_of = |steps: u64| (steps / steps_of(sampler.batch_size.rows())).max(1);
        if sampler.epochs > epochs_of(CHAIN_STEPS) {
            sampler.burn_in = epochs_of(CHAIN_STEPS / 3);
            sampler.ramp_end = epochs_of(CHAIN_STEPS / 12).min(sampler.burn_in);
            sampler.ramp_start = sampler.ramp_end / 2;
            sampler.cycle = epochs_of(CHAIN_STEPS * 2 / 3 / DRAWS);
            sampler.epochs = sampler.burn_in + DRAWS * sampler.cycle;
        }
        sampler.energy_rows = sampler.energy_rows.map(|rows| rows.min(train));
        sampler.preconditioner_batches = sampler.preconditioner_batches.min(4);
        self.run.chains = self.run.chains.min(2);
        self.run.cut_repetitions(2);
        self.model = self.model.with_fast_statistics();
        self.name.push_str("-quick");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RateSchedule, preset};

    #[test]
    fn quick_keeps_the_order_of_events() {
        for (name, steps) in [("concrete", 1), ("naval", 74), ("naval", 1_000_000)] {
            let quick = preset(name).unwrap().settings().quick(steps);
            quick.check().unwrap();
            assert_eq!(quick.draws_per_chain(), 40);
        }
        for (name, num_train) in [("mnist", 60_000), ("cifar10-da", 50_000), ("stripes", 512), ("mnist", 40)] {
            let quick = preset(name).unwrap().settings().quick_images([num_train, 5000, 5000]);
            quick.check().unwrap();
            assert!((1..=20).contains(&quick.draws_per_chain()), "{name}");
            assert!(quick.data.train_images.unwrap() <= 512.min(num_train));
        }
        let concrete = preset("concrete").unwrap().settings();
        assert_eq!(concrete.clone().quick(1).selection, concrete.selection);
    }

    /// β̂ of a classification depends on the decay of a step, which is rate times decay.
    #[test]
    fn a_quick_search_decays_weights_as_the_full_one() {
        for (name, num_train) in [("mnist", 60_000), ("cifar10", 50_000), ("cifar10-small", 512), ("stripes", 512)] {
            let full = preset(name).unwrap().settings();
            let quick = full.clone().quick_images([num_train, 5000, 5000]);
            let decay = |settings: &super::Settings| settings.selection.learning_rate * settings.selection.weight_decay;
            assert!((decay(&quick) / decay(&full) - 1.0).abs() < 1e-12, "{name}");
            let sum = |settings: &super::Settings, rows: usize| settings.selection.learning_rate * rows as f64;
            assert!((sum(&quick, num_train.min(512)) / sum(&full, num_train) - 1.0).abs() < 1e-12, "{name}");
        }
    }

    #[test]
    fn what_depends_on_the_length_is_cut_with_it() {
        let mut full = preset("cifar10").unwrap().settings();
        full.sampler.energy_rows = Some(2000);
        full.run.sampled_repetitions = Some(3);
        let quick = full.clone().quick_images([50_000, 5000, 5000]);
        assert_eq!((full.selection.epochs, quick.selection.epochs), (200, 60));
        let turns = vec![(24, 0.1), (36, 0.01), (48, 0.001), (54, 0.0005)];
        assert_eq!(quick.selection.schedule, RateSchedule::Piecewise(turns));
        assert_eq!(quick.sampler.energy_rows, Some(512));
        assert_eq!((quick.run.repetitions, quick.run.sampled_repetitions), (2, Some(2)));
        assert_eq!(quick.model.batch_norm_momentum, Some(0.9));
        let few = preset("stripes").unwrap().settings().quick_images([512, 128, 100]).data;
        assert_eq!((few.train_images, few.validation_images, few.test_images), (Some(512), Some(128), Some(100)));
        let mut shorter = full.selection;
        shorter.shorten(2);
        assert_eq!(shorter.schedule, RateSchedule::Piecewise(vec![(0, 0.1), (1, 0.0005)]));
    }
}

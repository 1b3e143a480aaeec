//! Refuses settings that make no sense, each by name, before anything runs.

use std::borrow::Cow;

use crate::error::ExperimentError;
use crate::settings::batch_size::BatchSize;
use crate::settings::experiment::{RateSchedule, Settings};
use crate::settings::sampler::{DrawStatistics, Preconditioner, PreconditionerStatistics};
use kelvin::sampler::Integrator;

/// Far beyond any experiment: a typo must neither overflow a step count nor run for ever.
const MOST_EPOCHS: u64 = 1_000_000_000;
/// Likewise for the memory of draws.
const MOST_DRAWS: u64 = 1_000_000;
/// TOML's integers have a sign.
const MOST_SEED: u64 = i64::MAX as u64;
const LEAST_BETA: f64 = 1e-12;
const MOST_BETA: f64 = 1e12;

impl Settings {
    /// Refuses numbers that make no sense, each by name.
    ///
    /// # Errors
    /// At the first setting that is out of range or does not apply; the error names it.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let positive = |key: &'static str, found: f64| {
            let needs = "a finite number > 0";
            check(found.is_finite() && found > 0.0, key, needs, found)
        };
        let count = |key: &'static str, found: u64| {
            let needs = format!("from 1 to {MOST_EPOCHS}");
            check((1..=MOST_EPOCHS).contains(&found), key, needs, found)
        };
        let epoch =
            |key: &'static str, found: u64| check(found <= MOST_EPOCHS, key, format!("at most {MOST_EPOCHS}"), found);
        let batch = |key: &'static str, found: BatchSize| {
            check(found.rows() != Some(0), key, "at least 1, or \"full\" for all training rows", 0)
        };
        let share =
            |key: &'static str, found: f64| check((0.0..1.0).contains(&found), key, "at least 0 and below 1", found);
        let (model, selection, sampler, run) = (&self.model, &self.selection, &self.sampler, &self.run);
        let data = &self.data;
        check(!data.source.is_empty(), "data.source", "a known data set or a CSV file", "nothing")?;
        let strength = data.augmentation;
        check((0.0..=1.0).contains(&strength), "data.augmentation", "a probability from 0 to 1", strength)?;
        let limit = |key: &'static str, found: Option<usize>| check(found != Some(0), key, "at least 1", 0);
        limit("data.train_images", data.train_images)?;
        limit("data.validation_images", data.validation_images)?;
        limit("data.test_images", data.test_images)?;
        let twice = data.corruptions.iter().enumerate().find(|(at, kind)| data.corruptions[..*at].contains(kind));
        let twice = twice.map_or(String::new(), |(_, kind)| format!("{} twice", kind.name()));
        check(twice.is_empty(), "data.corruptions", "a list that names each corruption once", twice)?;
        limit("sampler.energy_rows", sampler.energy_rows)?;
        model.check_keys()?;
        let wide = |width: &usize| (1..=65_536).contains(width);
        let hidden = model.hidden.as_deref().unwrap_or_default();
        check(hidden.iter().all(wide), "model.hidden", "widths from 1 to 65536", format!("{hidden:?}"))?;
        let tried = &self.run.hidden_layers;
        check(
            tried.iter().flatten().all(wide),
            "run.hidden_layers",
            "lists of widths from 1 to 65536",
            format!("{tried:?}"),
        )?;
        let is_dense = model.hidden.is_some() || (model.network.is_none() && model.layers.is_none());
        let needs = "a dense network, whose hidden layers may be chosen";
        check(tried.is_empty() || is_dense, "run.hidden_layers", needs, format!("{tried:?}"))?;
        share("model.batch_norm_momentum", model.batch_norm_momentum.unwrap_or(0.0))?;
        positive("model.batch_norm_epsilon", model.batch_norm_epsilon.unwrap_or(1.0))?;
        positive("model.noise_variance", model.noise_variance)?;
        positive("model.prior_variance", model.prior_variance)?;
        let degrees = model.prior_degrees.unwrap_or(3.0);
        check(degrees.is_finite() && degrees > 2.0, "model.prior_degrees", "a finite number > 2", degrees)?;

        positive("selection.learning_rate", selection.learning_rate)?;
        let beta = selection.beta.unwrap_or(1.0);
        let needs = format!("from {LEAST_BETA:e} to {MOST_BETA:e}");
        check((LEAST_BETA..=MOST_BETA).contains(&beta), "selection.beta", needs, beta)?;
        if let Some((mean, std)) = selection.log_beta_prior {
            let good = mean.is_finite() && std.is_finite() && std > 0.0;
            let needs = "[mean, standard deviation] of log β, finite and the second > 0";
            check(good, "selection.log_beta_prior", needs, format!("[{mean}, {std}]"))?;
        }
        share("selection.momentum", selection.momentum)?;
        let decay = selection.weight_decay;
        check(decay.is_finite() && decay >= 0.0, "selection.weight_decay", "a finite number ≥ 0", decay)?;
        count("selection.epochs", selection.epochs)?;
        batch("selection.batch_size", selection.batch_size)?;
        if let RateSchedule::Piecewise(factors) = &selection.schedule {
            check_piecewise(factors)?;
        }
        positive("selection.clip_norm", selection.clip_norm)?;
        count("selection.checkpoints", selection.checkpoints)?;
        let checkpoints = selection.checkpoints <= selection.epochs;
        check(checkpoints, "selection.checkpoints", "at most selection.epochs", selection.checkpoints)?;

        positive("sampler.learning_rate", sampler.learning_rate)?;
        share("sampler.momentum", sampler.momentum)?;
        positive("sampler.clip_norm", sampler.clip_norm)?;
        batch("sampler.batch_size", sampler.batch_size)?;
        count("sampler.epochs", sampler.epochs)?;
        count("sampler.cycle", sampler.cycle)?;
        epoch("sampler.burn_in", sampler.burn_in)?;
        epoch("sampler.ramp_end", sampler.ramp_end)?;
        epoch("sampler.ramp_start", sampler.ramp_start)?;
        check(
            sampler.ramp_start <= sampler.ramp_end,
            "sampler.ramp_start",
            "at most sampler.ramp_end",
            sampler.ramp_start,
        )?;
        check(sampler.ramp_end <= sampler.burn_in, "sampler.ramp_end", "at most sampler.burn_in", sampler.ramp_end)?;
        let one_draw = sampler.burn_in.checked_add(sampler.cycle).is_some_and(|end| end <= sampler.epochs);
        check(one_draw, "sampler.epochs", "at least sampler.burn_in + sampler.cycle, for one draw", sampler.epochs)?;
        count("sampler.preconditioner_batches", sampler.preconditioner_batches)?;
        let by_batch = sampler.preconditioner_statistics == PreconditionerStatistics::Batch;
        if by_batch && sampler.preconditioner == Preconditioner::None {
            let reason = "there is no preconditioner; set sampler.preconditioner = \"layerwise\"";
            let key = "sampler.preconditioner_statistics";
            return Err(ExperimentError::DoesNotApply { key, reason: reason.into() });
        }
        self.check_adaptation()?;
        let draws = self.draws_per_chain();
        check(
            draws <= MOST_DRAWS,
            "sampler.cycle",
            format!("long enough for a chain to keep at most {MOST_DRAWS} draws"),
            format!("{} ({draws} draws)", sampler.cycle),
        )?;

        check(run.seed <= MOST_SEED, "run.seed", format!("at most {MOST_SEED}, the most TOML can hold"), run.seed)?;
        check((1..=1024).contains(&run.chains), "run.chains", "from 1 to 1024", run.chains)?;
        self.check_stopping()?;
        check(
            (1e-3..=1e6).contains(&run.checkpoint_seconds),
            "run.checkpoint_seconds",
            "from 0.001 to 1000000",
            run.checkpoint_seconds,
        )?;
        let hours = run.most_hours;
        check((1e-9..=1e9).contains(&hours), "run.most_hours", "from 1e-9 to 1e9", hours)?;
        check((1..=1024).contains(&run.repetitions), "run.repetitions", "from 1 to 1024", run.repetitions)?;
        let sampled = run.num_sampled_repetitions();
        check(
            (1..=run.repetitions).contains(&sampled),
            "run.sampled_repetitions",
            format!("from 1 to {} (run.repetitions), or left out for chains in all of them", run.repetitions),
            sampled,
        )?;
        let of = if run.sampled_repetitions.is_some() { "run.sampled_repetitions" } else { "run.repetitions" };
        check(
            run.only_repetition.is_none_or(|only| (1..=sampled).contains(&only)),
            "run.only_repetition",
            format!("from 1 to {sampled} ({of}), or left out for all of them"),
            run.only_repetition.unwrap_or(0),
        )?;
        check(
            (1..=60).contains(&run.grid.len()),
            "run.grid",
            "a list of 1 to 60 inverse temperatures",
            run.grid.len(),
        )?;
        for &beta in &run.grid {
            let needs = format!("inverse temperatures from {LEAST_BETA:e} to {MOST_BETA:e}");
            check((LEAST_BETA..=MOST_BETA).contains(&beta), "run.grid", needs, format!("{beta:e}"))?;
        }
        let increasing = run.grid.windows(2).all(|pair| pair[0] < pair[1]);
        check(increasing, "run.grid", "in increasing order", format!("{:?}", run.grid))
    }
}

impl Settings {
    /// Refuses targets that make no sense, and folds beside splits.
    fn check_stopping(&self) -> Result<(), ExperimentError> {
        if let Some(stopping) = &self.stopping {
            for (key, found) in [
                ("stopping.effective_median", stopping.effective_median),
                ("stopping.effective_low", stopping.effective_low),
                ("stopping.lpd_error", stopping.lpd_error),
            ] {
                check(found.is_finite() && found > 0.0, key, "a finite number > 0", found)?;
            }
            let rhat = stopping.worst_rhat;
            check(rhat.is_finite() && rhat > 1.0, "stopping.worst_rhat", "a finite number > 1", rhat)?;
        }
        let run = &self.run;
        let folds = run.folds.unwrap_or(2);
        check((2..=100).contains(&folds), "run.folds", "from 2 to 100, or left out for none", folds)?;
        let splits = run.splits.unwrap_or(1);
        check((1..=100).contains(&splits), "run.splits", "from 1 to 100, or left out for none", splits)?;
        if run.folds.is_some() && run.splits.is_some() {
            let reason = "there are folds already (run.folds); leave one of them out".into();
            return Err(ExperimentError::DoesNotApply { key: "run.splits", reason });
        }
        Ok(())
    }

    /// Refuses a chain that is to find its masses and step size, and is not let.
    fn check_adaptation(&self) -> Result<(), ExperimentError> {
        let sampler = &self.sampler;
        let refuse =
            |key: &'static str, reason: &'static str| Err(ExperimentError::DoesNotApply { key, reason: reason.into() });
        match sampler.friction {
            Some(_) if !sampler.adapt => {
                return refuse(
                    "sampler.friction",
                    "chains that do not adapt take it from sampler.momentum; set sampler.adapt = true",
                );
            }
            Some(friction) => {
                let good = friction.is_finite() && friction > 0.0;
                check(
                    good,
                    "sampler.friction",
                    "a finite number > 0, or left out to follow the temperature",
                    friction,
                )?;
            }
            None => {}
        }
        if !sampler.adapt {
            return Ok(());
        }
        if !matches!(sampler.integrator, Integrator::Baoab | Integrator::Mclmc) {
            return refuse(
                "sampler.adapt",
                "it is for BAOAB and MCLMC; set sampler.integrator = \"baoab\" or \"mclmc\"",
            );
        }
        if sampler.preconditioner != Preconditioner::None {
            return refuse("sampler.preconditioner", "chains that adapt find their own masses; set it to \"none\"");
        }
        check(
            sampler.burn_in >= 1,
            "sampler.burn_in",
            "at least 1 where chains adapt: they do it then",
            sampler.burn_in,
        )
    }

    /// Refuses what does not fit so many training rows, or a network with or without batch norm.
    pub(crate) fn check_against(&self, num_train: usize, has_batch_norm: bool) -> Result<(), ExperimentError> {
        let (selection, sampler) = (&self.selection, &self.sampler);
        for (key, size) in [("selection.batch_size", selection.batch_size), ("sampler.batch_size", sampler.batch_size)]
        {
            size.check_rows(key, num_train)?;
            let reason = match size.rows() {
                None if has_batch_norm => "batch norm takes its statistics over the batch of a step",
                None if self.data.augmentation > 0.0 => "augmentation changes the images of each batch",
                _ => continue,
            };
            let needs = format!("a number of images here, for example 128: {reason}");
            return Err(ExperimentError::OutOfRange { key, needs: needs.into(), found: "\"full\"".into() });
        }
        if sampler.draw_statistics == DrawStatistics::Reestimated && !has_batch_norm {
            return Err(ExperimentError::DoesNotApply {
                key: "sampler.draw_statistics",
                reason: "the network has no batch norm, so draws carry no statistics".into(),
            });
        }
        let rows = sampler.energy_rows.unwrap_or(num_train);
        let (least, why) = match sampler.batch_size.rows() {
            Some(size) if has_batch_norm => (size, "a batch, as batch norm needs it, to "),
            _ => (1, ""),
        };
        let needs = format!("from {least} to {num_train} ({why}the rows of the training set)");
        check((least..=num_train).contains(&rows), "sampler.energy_rows", needs, rows)
    }
}

impl BatchSize {
    /// Refuses more rows than there are, by the name of the setting.
    pub(crate) fn check_rows(self, key: &'static str, num_train: usize) -> Result<(), ExperimentError> {
        let rows = self.rows().unwrap_or(num_train);
        let needs = format!("from 1 to {num_train} (the rows of the training set), or \"full\" for all of them");
        check((1..=num_train).contains(&rows), key, needs, rows)
    }
}

/// Epochs times steps of an epoch.
pub(crate) fn num_steps(key: &'static str, epochs: u64, steps_per_epoch: u64) -> Result<u64, ExperimentError> {
    epochs.checked_mul(steps_per_epoch).ok_or_else(|| ExperimentError::OutOfRange {
        key,
        needs: format!("at most {}, at {steps_per_epoch} steps an epoch", u64::MAX / steps_per_epoch.max(1)).into(),
        found: epochs.to_string(),
    })
}

/// Epochs in order, each with a factor that a rate can be multiplied by.
fn check_piecewise(factors: &[(u64, f64)]) -> Result<(), ExperimentError> {
    let key = "selection.schedule";
    for &(epoch, factor) in factors {
        check(epoch <= MOST_EPOCHS, key, format!("a list of epochs of at most {MOST_EPOCHS}"), epoch)?;
        check(factor.is_finite() && factor >= 0.0, key, "a list of finite factors ≥ 0", factor)?;
    }
    let increasing = factors.windows(2).all(|pair| pair[0].0 < pair[1].0);
    check(increasing, key, "a list of epochs in increasing order", format!("{factors:?}"))
}

fn check(
    holds: bool,
    key: &'static str,
    needs: impl Into<Cow<'static, str>>,
    found: impl std::fmt::Display,
) -> Result<(), ExperimentError> {
    if holds { Ok(()) } else { Err(ExperimentError::OutOfRange { key, needs: needs.into(), found: found.to_string() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::NetworkName;
    use crate::settings::RunSettings;
    use crate::settings::preset;

    #[test]
    fn nonsense_is_named() {
        let good = preset("concrete").unwrap().settings();
        let bad = |change: fn(&mut Settings)| {
            let mut settings = good.clone();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(
            bad(|s| s.sampler.learning_rate = -1.0),
            "sampler.learning_rate must be a finite number > 0, got -1"
        );
        assert!(bad(|s| s.sampler.epochs = 10_100).contains("sampler.epochs must be at least"));
        assert!(bad(|s| s.run.grid = vec![1.0, 0.5]).contains("increasing"));
        assert!(bad(|s| s.model.hidden = Some(vec![0])).contains("model.hidden"));
        assert!(bad(|s| s.selection.momentum = 1.0).contains("below 1"));
        assert!(bad(|s| s.data.augmentation = 1.5).contains("data.augmentation must be a probability from 0 to 1"));
        assert!(bad(|s| s.data.train_images = Some(0)).contains("data.train_images must be at least 1, got 0"));
        assert!(bad(|s| s.sampler.energy_rows = Some(0)).contains("sampler.energy_rows"));
        let momentum = bad(|s| {
            (s.model.network, s.model.hidden) = (Some(NetworkName::Resnet(20)), None);
            s.model.batch_norm_momentum = Some(1.5);
        });
        assert_eq!(momentum, "model.batch_norm_momentum must be at least 0 and below 1, got 1.5");
        let beta = bad(|s| s.selection.beta = Some(0.0));
        assert!(beta.starts_with("selection.beta must be from 1e-12 to 1e12") && beta.contains("got 0"), "{beta}");
        let prior = bad(|s| s.selection.log_beta_prior = Some((0.0, -1.0)));
        assert!(prior.starts_with("selection.log_beta_prior must be [mean, standard deviation]"), "{prior}");
        let by_batch = bad(|s| s.sampler.preconditioner_statistics = PreconditionerStatistics::Batch);
        assert!(by_batch.contains("sampler.preconditioner_statistics does not apply"), "{by_batch}");
    }

    #[test]
    fn chains_are_sampled_in_some_of_the_repetitions_or_in_all() {
        let checked = |repetitions: u32, sampled: Option<u32>| {
            let mut settings = preset("concrete").unwrap().settings();
            (settings.run.repetitions, settings.run.sampled_repetitions) = (repetitions, sampled);
            settings.check().map_err(|error| error.to_string())
        };
        for good in [None, Some(1), Some(3)] {
            assert_eq!(checked(3, good), Ok(()));
        }
        for bad in [0, 4] {
            let message =
                "run.sampled_repetitions must be from 1 to 3 (run.repetitions), or left out for chains in all of them";
            assert_eq!(checked(3, Some(bad)), Err(format!("{message}, got {bad}")));
        }
    }

    #[test]
    fn chains_adapt_by_baoab_and_mclmc_alone() {
        let checked = |change: fn(&mut Settings)| {
            let mut settings = preset("concrete").unwrap().settings();
            (settings.sampler.adapt, settings.sampler.integrator) = (true, Integrator::Baoab);
            change(&mut settings);
            settings.check().map_err(|error| error.to_string())
        };
        assert_eq!(checked(|s| s.sampler.friction = Some(10.0)), Ok(()));
        assert_eq!(checked(|s| s.sampler.integrator = Integrator::Mclmc), Ok(()));
        for (change, phrases) in [
            ((|s| s.sampler.integrator = Integrator::Sghmc) as fn(&mut Settings), ["sampler.adapt", "\"baoab\""]),
            (|s| s.sampler.preconditioner = Preconditioner::Layerwise, ["sampler.preconditioner", "\"none\""]),
            (|s| s.sampler.friction = Some(0.0), ["sampler.friction", "got 0"]),
            (
                |s| (s.sampler.adapt, s.sampler.friction) = (false, Some(4.0)),
                ["sampler.friction", "sampler.adapt = true"],
            ),
            (
                |s| (s.sampler.burn_in, s.sampler.ramp_start, s.sampler.ramp_end) = (0, 0, 0),
                ["sampler.burn_in must be at least 1", "got 0"],
            ),
        ] {
            let error = checked(change).unwrap_err();
            assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
        }
    }

    #[test]
    fn a_single_repetition_is_one_that_has_chains() {
        let checked = |sampled: Option<u32>, only: u32| {
            let mut settings = preset("concrete").unwrap().settings();
            (settings.run.sampled_repetitions, settings.run.only_repetition) = (sampled, Some(only));
            let own = settings.check().map(|()| settings.run.own_repetitions());
            own.map_err(|error| error.to_string())
        };
        assert_eq!((checked(None, 1), checked(None, 5)), (Ok(0..1), Ok(4..5)));
        assert_eq!(preset("concrete").unwrap().settings().run.own_repetitions(), 0..5);
        for (sampled, only, range) in [(None, 0, "5 (run.repetitions)"), (Some(2), 3, "2 (run.sampled_repetitions)")] {
            let message =
                format!("run.only_repetition must be from 1 to {range}, or left out for all of them, got {only}");
            assert_eq!(checked(sampled, only), Err(message));
        }
    }

    #[test]
    fn typos_that_would_overflow_or_run_for_ever_are_named() {
        let good = preset("concrete").unwrap().settings();
        let bad = |change: fn(&mut Settings), phrases: [&str; 2]| {
            let mut settings = good.clone();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
        };
        bad(|s| s.selection.epochs = u64::MAX, ["selection.epochs must be from 1 to 1000000000", "got 184"]);
        bad(|s| s.selection.epochs = 0, ["selection.epochs", "got 0"]);
        bad(|s| s.sampler.epochs = 1_000_000_001, ["sampler.epochs", "1000000000, got 1000000001"]);
        bad(|s| s.sampler.cycle = u64::MAX, ["sampler.cycle must be", "from 1 to"]);
        bad(|s| s.sampler.burn_in = u64::MAX, ["sampler.burn_in must be", "at most 1000000000"]);
        bad(|s| s.sampler.ramp_end = u64::MAX, ["sampler.ramp_end must be", "at most 1000000000"]);
        bad(|s| s.sampler.ramp_start = u64::MAX, ["sampler.ramp_start must be", "at most 1000000000"]);
        let many_draws = |s: &mut Settings| (s.sampler.epochs, s.sampler.cycle) = (1_010_001, 1);
        bad(many_draws, ["sampler.cycle must be long enough", "at most 1000000 draws, got 1 (1000001 draws)"]);
        bad(|s| s.selection.batch_size = BatchSize::Rows(0), ["selection.batch_size must be at least 1", "\"full\""]);
        bad(|s| s.sampler.batch_size = BatchSize::Rows(0), ["sampler.batch_size must be at least 1", "\"full\""]);
        bad(|s| s.run.seed = u64::MAX, ["run.seed must be at most 9223372036854775807", "TOML"]);
        for beta in [0.0, -1.0, 1e-13, 1e13, f64::INFINITY, f64::NAN] {
            let run = RunSettings { grid: vec![beta], ..good.run.clone() };
            let error = Settings { run, ..good.clone() }.check().unwrap_err().to_string();
            assert!(error.starts_with("run.grid must be inverse temperatures from 1e-12 to 1e12, got"), "{error}");
        }
    }

    #[test]
    fn a_piecewise_schedule_has_epochs_in_order_and_usable_factors() {
        let checked = |factors: &[(u64, f64)]| {
            let mut settings = preset("concrete").unwrap().settings();
            settings.selection.schedule = RateSchedule::Piecewise(factors.to_vec());
            settings.check().map_err(|error| error.to_string())
        };
        assert_eq!(checked(&[(80, 0.1), (120, 0.0)]), Ok(()));
        for (factors, phrase) in [
            (vec![(80, 0.1), (80, 0.01)], "increasing order"),
            (vec![(80, -0.1)], "finite factors ≥ 0, got -0.1"),
            (vec![(80, f64::NAN)], "finite factors ≥ 0, got NaN"),
            (vec![(u64::MAX, 0.1)], "epochs of at most 1000000000"),
        ] {
            let error = checked(&factors).unwrap_err();
            assert!(error.starts_with("selection.schedule must be") && error.contains(phrase), "{error}");
        }
    }

    #[test]
    fn batches_and_steps_that_do_not_fit_name_their_setting() {
        let error = BatchSize::Rows(1000).check_rows("sampler.batch_size", 824).unwrap_err().to_string();
        assert_eq!(
            error,
            "sampler.batch_size must be from 1 to 824 (the rows of the training set), or \"full\" for all of them, \
             got 1000"
        );
        assert!(BatchSize::FULL.check_rows("sampler.batch_size", 824).is_ok());
        assert!(BatchSize::Rows(824).check_rows("sampler.batch_size", 824).is_ok());
        assert_eq!(num_steps("sampler.epochs", 15_000, 74).unwrap(), 1_110_000);
        let error = num_steps("sampler.epochs", u64::MAX, 74).unwrap_err().to_string();
        assert!(error.contains("sampler.epochs must be at most 249280325320399346, at 74 steps an epoch"), "{error}");
    }

    #[test]
    fn the_largest_seed_survives_toml() {
        let mut settings = preset("concrete").unwrap().settings();
        settings.run.seed = MOST_SEED;
        assert_eq!(Settings::from_toml(&settings.to_toml().unwrap(), "text").unwrap(), settings);
    }
}

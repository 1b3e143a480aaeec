//! Settings survive being written and read, whatever they hold.

use kelvin_study::settings::{BatchSize, RateSchedule, Settings, presets, with_override};
use proptest::prelude::*;

/// Any finite number > 0, of any size.
fn positive() -> impl Strategy<Value = f64> {
    any::<f64>().prop_map(f64::abs).prop_filter("finite and > 0", |number| number.is_finite() && *number > 0.0)
}

fn settings() -> impl Strategy<Value = Settings> {
    let numbers = (positive(), positive(), 0.0..1.0_f64, positive(), positive());
    let texts = (any::<String>(), "\\PC{1,20}", prop::collection::vec(any::<String>(), 0..3));
    let counts =
        (1..1000_u64, 0..500_u64, 1..40_u64, 0..=i64::MAX as u64, 1..1024_u32, prop::option::of(1..5000_usize));
    let betas = prop::collection::btree_set(1..1_000_000_000_u64, 1..20);
    let epochs = prop::collection::btree_map(0..1_000_000_u64, positive(), 0..4);
    (0..presets().len(), numbers, texts, counts, betas, epochs).prop_map(
        |(which, numbers, texts, counts, betas, epochs)| {
            let mut settings = presets()[which].settings();
            settings.sampler.learning_rate = numbers.0;
            settings.selection.learning_rate = numbers.1;
            settings.sampler.momentum = numbers.2;
            settings.model.noise_variance = numbers.3;
            settings.selection.clip_norm = numbers.4;
            (settings.name, settings.data.source, settings.data.drop) = texts;
            let sampler = &mut settings.sampler;
            (sampler.cycle, sampler.ramp_start) = (counts.0, counts.1);
            (sampler.ramp_end, sampler.burn_in) = (counts.1 + 3, counts.1 + 3 + counts.2);
            sampler.epochs = sampler.burn_in + sampler.cycle * counts.2;
            (settings.run.seed, settings.run.chains) = (counts.3, counts.4);
            settings.sampler.energy_rows = counts.5;
            settings.sampler.batch_size = counts.5.map_or(BatchSize::FULL, BatchSize::Rows);
            settings.run.grid = betas.into_iter().map(|beta| beta as f64 * 1e-3).collect();
            settings.selection.schedule = RateSchedule::Piecewise(epochs.into_iter().collect());
            settings
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn settings_survive_toml(settings in settings()) {
        prop_assert_eq!(settings.check().map_err(|error| error.to_string()), Ok(()));
        let text = settings.to_toml().unwrap();
        prop_assert_eq!(Settings::from_toml(&text, "text").map_err(|error| error.to_string()), Ok(settings), "{}", text);
    }

    #[test]
    fn a_number_that_is_set_is_the_number(rate in positive(), seed in 0..=i64::MAX as u64, name in "[a-z ]{0,9}") {
        let settings = presets()[0].settings();
        let set = |text: String| with_override(&settings, &text).unwrap();
        prop_assert_eq!(set(format!("sampler.learning_rate={rate}")).sampler.learning_rate, rate);
        prop_assert_eq!(set(format!("sampler.learning_rate = {rate:e}")).sampler.learning_rate, rate);
        prop_assert_eq!(set(format!("run.seed={seed}")).run.seed, seed);
        prop_assert_eq!(set(format!("name={name:?}")).name, name);
    }

    #[test]
    fn any_text_is_settings_or_an_error_with_its_place(text in "(\\[(data|model|run)\\]\n)?([a-z.]{1,8} ?= ?[0-9a-z\"'\\[\\]{},. ]{0,9}\n){0,6}") {
        if let Err(error) = Settings::from_toml(&text, "my.toml") {
            let said = error.to_string();
            prop_assert!(said.contains("my.toml") && (said.contains("line ") || said.contains(" must be ")), "{}", said);
        }
    }
}

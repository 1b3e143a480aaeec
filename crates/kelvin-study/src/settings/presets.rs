//! The paper's experiments, by name.

use crate::error::ExperimentError;
use crate::settings::experiment::Settings;
use kelvin::data::nearest_name;

/// A named experiment and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is asked for by.
    pub name: &'static str,
    /// Its TOML, led by what it reproduces, what it costs and what to expect.
    pub text: &'static str,
}

const PRESETS: &[Preset] = &[
    Preset { name: "concrete", text: include_str!("../../presets/concrete.toml") },
    Preset { name: "energy", text: include_str!("../../presets/energy.toml") },
    Preset { name: "energy-constant", text: include_str!("../../presets/energy-constant.toml") },
    Preset { name: "naval", text: include_str!("../../presets/naval.toml") },
    Preset { name: "mnist", text: include_str!("../../presets/mnist.toml") },
    Preset { name: "mnist-small", text: include_str!("../../presets/mnist-small.toml") },
    Preset { name: "cifar10", text: include_str!("../../presets/cifar10.toml") },
    Preset { name: "cifar10-small", text: include_str!("../../presets/cifar10-small.toml") },
    Preset { name: "cifar10-da", text: include_str!("../../presets/cifar10-da.toml") },
    Preset { name: "cifar10-da-small", text: include_str!("../../presets/cifar10-da-small.toml") },
    Preset { name: "stripes", text: include_str!("../../presets/stripes.toml") },
];

/// All presets, in the paper's order.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// The preset of this name; an error lists them and the nearest.
pub fn preset(name: &str) -> Result<Preset, ExperimentError> {
    PRESETS.iter().find(|preset| preset.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let suggestion = nearest_name(name, names.iter().copied())
            .map_or(String::new(), |near| format!("\n  did you mean `{near}`?"));
        ExperimentError::UnknownPreset { asked: name.into(), known: names.join(", "), suggestion }
    })
}

impl Preset {
    /// Its settings.
    ///
    /// # Panics
    /// Never: a test reads every preset.
    pub fn settings(&self) -> Settings {
        Settings::from_toml(self.text, self.name).expect("presets are read by a test")
    }

    /// The comment that leads its text.
    pub fn about(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::*;
    use kelvin::data::Halves;
    use kelvin::network::KernelStart;
    use kelvin::sampler::{ClipScope, Integrator};
    use kelvin::temperature::Tempering;

    /// The table of SPEC §5.
    #[test]
    fn presets_hold_the_papers_settings() {
        let small = |name: &str| Settings {
            name: name.into(),
            data: DataSettings { source: name.into(), ..DataSettings::default() },
            model: ModelSettings {
                hidden: Some(vec![64]),
                start: Some(KernelStart::Lecun),
                noise_variance: 0.01,
                prior_variance: 0.1,
                ..ModelSettings::default()
            },
            selection: SelectionSettings {
                objective: SelectionObjective::Likelihood,
                log_beta_prior: None,
                beta: None,
                learning_rate: 1e-6,
                schedule: RateSchedule::Cosine,
                momentum: 0.9,
                weight_decay: 1.0,
                batch_size: BatchSize::FULL,
                epochs: 15_000,
                clip_norm: 1e6,
                clip_scope: ClipScope::All,
                checkpoints: 20,
            },
            sampler: SamplerSettings {
                integrator: Integrator::Sghmc,
                adapt: false,
                friction: None,
                tempering: Tempering::Posterior,
                start: Start::Random,
                learning_rate: 1e-3,
                momentum: 0.98,
                batch_size: BatchSize::FULL,
                ramp_start: 4_800,
                ramp_end: 5_000,
                burn_in: 10_000,
                epochs: 30_000,
                cycle: 200,
                clip_norm: 1e6,
                preconditioner: Preconditioner::None,
                preconditioner_batches: 32,
                preconditioner_statistics: PreconditionerStatistics::Running,
                draw_statistics: DrawStatistics::Running,
                energy_rows: None,
                draws: DrawsSetting::Stored,
            },
            stopping: None,
            run: RunSettings {
                repetitions: 5,
                grid: vec![0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0],
                ..RunSettings::default()
            },
        };
        let mut naval = small("naval");
        naval.model.prior_variance = 1.0;
        naval.selection = SelectionSettings {
            learning_rate: 1e-8,
            batch_size: BatchSize::Rows(128),
            epochs: 10_000,
            clip_norm: 1e4,
            ..naval.selection
        };
        naval.sampler = SamplerSettings {
            learning_rate: 1e-4,
            batch_size: BatchSize::Rows(128),
            ramp_start: 900,
            ramp_end: 1_000,
            burn_in: 5_000,
            epochs: 15_000,
            cycle: 100,
            ..naval.sampler
        };
        let mut mnist = small("mnist");
        mnist.data.halves = Halves::Permuted;
        mnist.model.network = Some(NetworkName::MnistCnn);
        mnist.model.hidden = None;
        mnist.selection.batch_size = BatchSize::Rows(128);
        (mnist.selection.epochs, mnist.selection.checkpoints) = (10, 10);
        mnist.sampler = SamplerSettings {
            learning_rate: 0.01,
            batch_size: BatchSize::Rows(128),
            ramp_start: 10,
            ramp_end: 20,
            burn_in: 200,
            epochs: 1_200,
            cycle: 10,
            ..mnist.sampler
        };
        mnist.run.most_hours = 10_000.0;
        for expected in [small("concrete"), small("energy"), naval, mnist.clone()] {
            let settings = preset(&expected.name).unwrap().settings();
            assert_eq!(settings, expected);
            assert_eq!(settings.draws_per_chain(), 100);
        }
        let mut cifar10 = Settings { name: "cifar10".into(), ..mnist };
        cifar10.data.source = "cifar10".into();
        cifar10.run.most_hours = 100_000.0;
        cifar10.model = ModelSettings {
            network: Some(NetworkName::Resnet(20)),
            normalisation: Some(NormalisationSetting::Batch),
            batch_norm_momentum: Some(0.99),
            batch_norm_epsilon: Some(1e-5),
            start: Some(KernelStart::He),
            prior_variance: 1.0,
            ..cifar10.model
        };
        cifar10.selection = SelectionSettings {
            schedule: RateSchedule::Piecewise(vec![(80, 0.1), (120, 0.01), (160, 0.001), (180, 0.0005)]),
            weight_decay: 500.0,
            epochs: 200,
            checkpoints: 20,
            ..cifar10.selection
        };
        cifar10.sampler = SamplerSettings {
            learning_rate: 0.1,
            ramp_start: 100,
            ramp_end: 150,
            burn_in: 500,
            epochs: 2_000,
            cycle: 50,
            preconditioner: Preconditioner::Layerwise,
            ..cifar10.sampler
        };
        let mut augmented = Settings { name: "cifar10-da".into(), ..cifar10.clone() };
        augmented.data.augmentation = 1.0;
        for expected in [cifar10, augmented] {
            let settings = preset(&expected.name).unwrap().settings();
            assert_eq!(settings, expected);
            assert_eq!(settings.draws_per_chain(), 30);
        }
    }

    /// Few images, a short grid, two chains; the likelihood, prior, batch norms and masses of the full experiment.
    #[test]
    fn small_twins_differ_in_size_alone() {
        for name in ["mnist", "cifar10", "cifar10-da"] {
            let (full, small) =
                (preset(name).unwrap().settings(), preset(&format!("{name}-small")).unwrap().settings());
            assert_eq!((small.data.source, small.data.augmentation), (full.data.source, full.data.augmentation));
            assert_eq!(small.data.halves, full.data.halves, "{name}");
            assert!(small.data.train_images.unwrap() <= 1000 && small.data.test_images.unwrap() <= 500, "{name}");
            assert_eq!(small.model.prior_variance, full.model.prior_variance, "{name}");
            assert_eq!(small.sampler.preconditioner, full.sampler.preconditioner, "{name}");
            assert_eq!((small.run.chains, small.run.repetitions), (2, 2), "{name}");
            assert!(small.run.grid.len() <= 5 && small.run.grid.contains(&1.0), "{name}");
        }
        assert_eq!(presets().len(), 6 + 3 + 1 + 1, "a new preset needs its numbers here");
    }

    #[test]
    fn a_constant_rate_is_all_that_energy_constant_changes() {
        let mut settings = preset("energy-constant").unwrap().settings();
        assert_eq!(settings.selection.schedule, RateSchedule::Constant);
        (settings.name, settings.selection.schedule) = ("energy".into(), RateSchedule::Cosine);
        assert_eq!(settings, preset("energy").unwrap().settings());
    }

    #[test]
    fn every_preset_is_named_as_it_is_asked_for_and_says_what_it_is() {
        for preset in presets() {
            assert_eq!(preset.settings().name, preset.name);
            assert!(preset.about().lines().count() >= 3, "{}", preset.name);
        }
    }

    #[test]
    fn an_unknown_preset_is_refused_with_the_nearest() {
        let error = preset("concret").unwrap_err().to_string();
        assert!(error.contains("did you mean `concrete`?"), "{error}");
    }
}

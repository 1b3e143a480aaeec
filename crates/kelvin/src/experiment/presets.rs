//! The paper's experiments, by name.

use super::error::ExperimentError;
use super::settings::Settings;
use crate::data::nearest_name;

/// A named experiment and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is asked for by.
    pub name: &'static str,
    /// Its TOML, led by what it reproduces, what it costs and what to expect.
    pub text: &'static str,
}

const PRESETS: [Preset; 3] = [
    Preset { name: "concrete", text: include_str!("../../presets/concrete.toml") },
    Preset { name: "energy", text: include_str!("../../presets/energy.toml") },
    Preset { name: "naval", text: include_str!("../../presets/naval.toml") },
];

/// All presets.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The preset of this name; an error lists them and the nearest.
pub fn preset(name: &str) -> Result<Preset, ExperimentError> {
    PRESETS.iter().find(|preset| preset.name == name).copied().ok_or_else(|| {
        let names = PRESETS.map(|preset| preset.name);
        let suggestion = nearest_name(name, names).map_or(String::new(), |near| format!("\n  did you mean `{near}`?"));
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
    use super::super::settings::*;
    use super::*;
    use crate::sampler::{ClipScope, Integrator};
    use crate::temperature::Tempering;

    /// The table of SPEC §5.
    #[test]
    fn presets_hold_the_papers_settings() {
        let small = |name: &str| Settings {
            name: name.into(),
            data: DataSettings { source: name.into(), target: String::new(), drop: vec![], task: TaskSetting::Auto },
            model: ModelSettings { hidden: vec![64], noise_variance: 0.01, prior_variance: 0.1 },
            selection: SelectionSettings {
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
            },
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
        for expected in [small("concrete"), small("energy"), naval] {
            let settings = preset(&expected.name).unwrap().settings();
            assert_eq!(settings, expected);
            assert_eq!(settings.draws_per_chain(), 100);
        }
        assert_eq!(presets().len(), 3, "a new preset needs its numbers here");
    }

    #[test]
    fn an_unknown_preset_is_refused_with_the_nearest() {
        let error = preset("concret").unwrap_err().to_string();
        assert!(error.contains("did you mean `concrete`?"), "{error}");
    }
}

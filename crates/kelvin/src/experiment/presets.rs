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
    use super::*;

    /// The table of SPEC §5.
    #[test]
    fn presets_hold_the_papers_settings() {
        for (name, prior, draws) in [("concrete", 0.1, 100), ("energy", 0.1, 100), ("naval", 1.0, 100)] {
            let settings = preset(name).unwrap().settings();
            assert_eq!(settings.model.prior_variance, prior);
            assert_eq!(settings.model.noise_variance, 0.01);
            assert_eq!(settings.draws_per_chain(), draws);
            assert_eq!((settings.selection.momentum, settings.sampler.momentum), (0.9, 0.98));
            assert_eq!(settings.run.grid.len(), 9);
        }
    }

    #[test]
    fn an_unknown_preset_is_refused_with_the_nearest() {
        let error = preset("concret").unwrap_err().to_string();
        assert!(error.contains("did you mean `concrete`?"), "{error}");
    }
}

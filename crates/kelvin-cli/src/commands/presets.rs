//! `kelvin presets`: what each reproduces, costs and shows; or one of them as TOML.

use kelvin_study::settings::{preset, presets as all};

use crate::output::print_result;

pub fn presets(name: Option<&str>) -> anyhow::Result<()> {
    if let Some(name) = name {
        return print_result(preset(name)?.text);
    }
    let mut text = String::new();
    for preset in all() {
        text.push_str(&format!("{}\n", preset.name));
        for line in preset.about().lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text.push_str("\n`kelvin presets NAME` prints one as TOML: save it, change it, and `kelvin run FILE.toml`.\n");
    print_result(&text)
}

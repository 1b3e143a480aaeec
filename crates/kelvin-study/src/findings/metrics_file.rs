//! metrics.csv: one line for each chain and cycle, with what was measured at its kept draw, for any plotting tool.

use crate::csv_text::csv_text;
use crate::findings::results::Findings;

const HEADER: [&str; 13] = [
    "chain",
    "method",
    "repetition",
    "beta",
    "draw",
    "step",
    "epoch",
    "potential_energy",
    "kinetic_temperature",
    "kinetic_temperature_ratio",
    "configurational_temperature",
    "validation_lpd_sm",
    "validation_lpd_tm",
];

/// The cycles of all chains. Temperatures are those of the sampler's noise; the ratio is to the one asked for. The LPD is that of
/// all draws of the chain up to this one.
pub fn metrics_csv(findings: &Findings) -> String {
    let lines = findings.chains.iter().flat_map(|chain| {
        chain.potential_energy.iter().enumerate().map(move |(draw, energy)| {
            let step = findings.step_of_draw(chain, draw);
            let cell = |value: Option<f64>| {
                value.filter(|value| value.is_finite()).map_or(String::new(), |value| value.to_string())
            };
            let kinetic = chain.kinetic_temperature.get(draw).copied();
            let lpd = chain.validation_lpd.get(draw);
            [
                chain.name.clone(),
                chain.method.name().into(),
                (chain.repetition + 1).to_string(),
                chain.beta.to_string(),
                (draw + 1).to_string(),
                step.to_string(),
                (step as f64 / findings.sampling.steps_per_epoch.max(1) as f64).to_string(),
                cell(Some(*energy)),
                cell(kinetic),
                cell(kinetic.map(|kinetic| kinetic / chain.sampler_temperature)),
                cell(chain.configurational_temperature.get(draw).copied()),
                cell(lpd.and_then(|lpd| lpd.standard)),
                cell(lpd.and_then(|lpd| lpd.tempered)),
            ]
        })
    });
    csv_text(std::iter::once(HEADER.map(String::from)).chain(lines))
}

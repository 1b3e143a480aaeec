//! What `run` and `sweep` both do with a population: keep its draws, and say what its searches and chains leave in doubt.

use std::collections::BTreeMap;

use kelvin::diagnostics::{Limits, Warning};
use kelvin::experiment::{Experiment, SampledChain, Slot};
use kelvin::selection::JointChoice;

use crate::row::with_draws;
use crate::run_folder::RunFolder;

/// A last checkpoint that beats the one before by less than this has converged.
const CONVERGED: f64 = 1e-3;

/// Writes every chain's draws; returns the file names of those at β̂*.
pub fn save_draws(
    experiment: &Experiment<'_>,
    folder: &RunFolder,
    chains: &[SampledChain],
) -> anyhow::Result<Vec<String>> {
    let mut chosen = Vec::new();
    for chain in with_draws(chains.iter()) {
        let name = draws_name(chain);
        let about = BTreeMap::from([
            ("label", chain.spec.label.clone()),
            ("beta", chain.spec.inverse_temperature.to_string()),
            ("seed", experiment.settings.run.seed.to_string()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        chain.draws.save(&folder.draws(&name), &experiment.problem.network, &about)?;
        if chain.spec.slot == Slot::Chosen {
            chosen.push(name);
        }
    }
    Ok(chosen)
}

/// The file name of a chain's draws, without its ending.
fn draws_name(chain: &SampledChain) -> String {
    let kind = match chain.spec.slot {
        Slot::Grid(_) => format!("beta-{}", chain.spec.inverse_temperature),
        Slot::Bayes => "bayes".into(),
        Slot::Chosen => "chosen".into(),
        Slot::Selector | Slot::Pilot => "pilot".into(),
    };
    format!("{kind}-{}", chain.spec.repetition + 1)
}

/// The chains that left the finite numbers, with or without draws.
pub fn divergence_warnings(chains: &[SampledChain]) -> Vec<Warning> {
    let diverged = chains.iter().filter_map(|chain| Some((chain, chain.chain.divergence?)));
    diverged.map(|(chain, at)| Warning::ChainDiverged { label: chain.spec.label.clone(), step: at.step }).collect()
}

/// What the searches say about β̂*: whether the starts agree, whether those used had converged, which failed.
pub fn selection_warnings<'a>(
    choices: &[Option<JointChoice>],
    used: impl Iterator<Item = &'a JointChoice>,
) -> Vec<Warning> {
    let betas: Vec<f64> = choices.iter().flatten().map(|choice| choice.inverse_temperature).collect();
    let mut warnings: Vec<Warning> = Limits::default().check_seeds(&betas).into_iter().collect();
    for choice in used.filter(|choice| choice.best_is_last()) {
        let before = choice.path.iter().rev().nth(1).map_or(f64::NEG_INFINITY, |checkpoint| checkpoint.validation_lpd);
        if choice.validation_lpd() - before > CONVERGED {
            let (beta, num_checkpoints) = (choice.inverse_temperature, choice.path.len());
            warnings.push(Warning::SelectionNotConverged { beta, num_checkpoints });
        }
    }
    for (start, choice) in choices.iter().enumerate() {
        let label = format!("the search for β from start {}", start + 1);
        match choice {
            None => warnings
                .push(Warning::ChainDiverged { label: format!("{label}, before its first checkpoint"), step: 0 }),
            Some(JointChoice { divergence: Some(at), .. }) => {
                warnings.push(Warning::ChainDiverged { label, step: at.step });
            }
            Some(_) => {}
        }
    }
    warnings
}

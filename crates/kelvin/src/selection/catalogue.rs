//! Every selector by name, for front ends: one asked for, or all of them side by side.

use thiserror::Error;

use super::bootstrap_spread::BootstrapSpreadSelector;
use super::credible_coverage::CredibleCoverageSelector;
use super::evidence::EvidenceSelector;
use super::grid::GridSelector;
use super::guo::GuoSelector;
use super::information_gain::InformationGainSelector;
use super::joint_selector::JointSelector;
use super::judged::Criterion;
use super::prediction_coverage::PredictionCoverageSelector;
use super::refine::RefineSelector;
use super::safe_bayes::{SafeBayesSelector, SafeLoss};
use super::selector::Selector;
use crate::data::nearest_name;
use crate::predictive::PredictiveModel;
use crate::sampler::PriorShare;

/// A name that no selector has.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no selector `{asked}`\n  selectors: {known}{suggestion}")]
pub struct UnknownSelector {
    /// What was asked.
    pub asked: String,
    /// What there is.
    pub known: String,
    /// "did you mean".
    pub suggestion: String,
}

/// Selectors of a grid, which can share its chains: measure it once and ask each to choose.
pub fn grid_selectors(grid: &[f64]) -> Vec<GridSelector> {
    let of = |criterion| {
        PredictiveModel::BOTH.map(|model| GridSelector { inverse_temperatures: grid.to_vec(), criterion, model })
    };
    Criterion::ALL.into_iter().flat_map(of).collect()
}

/// All selectors with their usual settings; those of a grid look at this one.
pub fn all_selectors(grid: &[f64]) -> Vec<Box<dyn Selector>> {
    let joint = |prior| Box::new(JointSelector { prior, ..JointSelector::default() });
    let mut all: Vec<Box<dyn Selector>> = vec![
        joint(PriorShare::None),
        joint(PriorShare::Once),
        joint(PriorShare::PerDatum),
        Box::new(GuoSelector),
        Box::new(RefineSelector::new(PredictiveModel::Standard)),
        Box::new(RefineSelector::new(PredictiveModel::Tempered)),
    ];
    all.extend(grid_selectors(grid).into_iter().map(|selector| Box::new(selector) as Box<dyn Selector>));
    all.extend(generalized_selectors());
    all
}

/// Selectors of generalized Bayes, for small models.
pub fn generalized_selectors() -> [Box<dyn Selector>; 8] {
    [
        Box::new(SafeBayesSelector { loss: SafeLoss::Randomised }),
        Box::new(SafeBayesSelector { loss: SafeLoss::InModel }),
        Box::new(InformationGainSelector),
        Box::new(BootstrapSpreadSelector),
        Box::new(CredibleCoverageSelector::default()),
        Box::new(PredictionCoverageSelector::default()),
        Box::new(PredictionCoverageSelector { model: PredictiveModel::Tempered, ..Default::default() }),
        Box::new(EvidenceSelector),
    ]
}

/// The selector of this name.
///
/// # Errors
/// Where there is none; the error names the nearest.
pub fn selector(name: &str, grid: &[f64]) -> Result<Box<dyn Selector>, UnknownSelector> {
    let names: Vec<&str> = all_selectors(grid).iter().map(|selector| selector.name()).collect();
    all_selectors(grid).into_iter().find(|selector| selector.name() == name).ok_or_else(|| UnknownSelector {
        asked: name.into(),
        suggestion: nearest_name(name, names.iter().copied())
            .map_or(String::new(), |nearest| format!("\n  did you mean `{nearest}`?")),
        known: in_lines(&names),
    })
}

/// Names after one another, as many to a line as a terminal has room for.
fn in_lines(names: &[&str]) -> String {
    const WIDEST: usize = 85;
    let mut lines = vec![String::new()];
    for (place, name) in names.iter().enumerate() {
        let name = if place + 1 < names.len() { format!("{name}, ") } else { (*name).to_owned() };
        match lines.last_mut() {
            Some(line) if line.len() + name.len() <= WIDEST => line.push_str(&name),
            _ => lines.push(name),
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selector_is_found_by_its_name() {
        let all = all_selectors(&[0.1, 1.0]);
        assert_eq!(all.len(), 24);
        for one in &all {
            let found = selector(one.name(), &[0.1, 1.0]).unwrap();
            assert_eq!((found.name(), found.goal()), (one.name(), one.goal()));
            assert_eq!(all.iter().filter(|other| other.name() == one.name()).count(), 1, "{}", one.name());
            assert!(!(one.goal().serves_lpd() && one.goal().describe().contains("not LPD")), "{}", one.name());
        }
        let error = selector("refin-sm", &[]).err().unwrap().to_string();
        assert!(error.contains("did you mean `refine-sm`?"), "{error}");
        assert!(error.lines().all(|line| line.len() <= 100) && error.contains("  selectors: joint, "), "{error}");
    }

    #[test]
    fn names_fill_lines_up_to_the_width_of_a_terminal() {
        assert_eq!(in_lines(&["a", "b", "c"]), "a, b, c");
        let long = ["x".repeat(40), "y".repeat(41), "z".repeat(2)];
        let names: Vec<&str> = long.iter().map(String::as_str).collect();
        assert_eq!(in_lines(&names), format!("{}, {},\n    zz", long[0], long[1]));
    }
}

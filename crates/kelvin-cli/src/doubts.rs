//! Warnings for a terminal: one paragraph for each kind, however many chains share it.

use kelvin::diagnostics::{Stated, Warning};

use kelvin_report::text::wrapped;
use kelvin_study::number::significant;

/// All warnings, grouped by kind in the order of their first appearance; why and what to try are said once a kind.
pub fn in_short(warnings: &[Warning]) -> String {
    let mut kinds: Vec<(&str, Vec<&Warning>)> = Vec::new();
    for warning in warnings {
        match kinds.iter_mut().find(|(name, _)| *name == warning.name()) {
            Some((_, alike)) => alike.push(warning),
            None => kinds.push((warning.name(), vec![warning])),
        }
    }
    let mut text = String::new();
    for (name, alike) in kinds {
        let seen = match alike[..] {
            [only] => only.seen(),
            _ => format!(
                "{}.",
                alike.iter().map(|warning| brief(warning).replace(' ', "\u{a0}")).collect::<Vec<_>>().join(", ")
            ),
        };
        text.push_str(&wrapped(&format!("warning: {name}: {seen}"), "  "));
        text.push_str(&wrapped(&format!("  why: {}", alike[0].why()), "    "));
        text.push_str(&wrapped(&format!("  try: {}", alike[0].try_this()), "    "));
    }
    text
}

/// One of several warnings of a kind, in a few words.
fn brief(warning: &Warning) -> String {
    match warning {
        Warning::MeasuredTemperatureOff { label, target_beta, measured_beta, .. } => {
            let off = 100.0 * (measured_beta / target_beta - 1.0);
            format!("{label} shows {} ({off:+.0} %)", significant(*measured_beta, 3))
        }
        Warning::FewEffectiveDraws { label, bulk_ess, num_draws } => {
            format!("{label} ({} of {num_draws})", significant(*bulk_ess, 2))
        }
        Warning::ChainsDisagree { label, rhat } => format!("{label} (R̂ {})", significant(*rhat, 3)),
        Warning::StepSizeTooLarge { label, heating } => {
            format!("{label} ({} times as hot)", significant(*heating, 3))
        }
        Warning::ChainDiverged { label, step } => format!("{label} (step {step})"),
        Warning::SelectionDiverged { start, step, .. } => format!("start {start} (step {step})"),
        Warning::BetaAtGridEdge { beta, metric } => format!("{metric} at β = {}", significant(*beta, 3)),
        Warning::TargetsMissed { label, draws_wanted, .. } if draws_wanted.is_finite() => {
            format!("{label} ({} times as many draws)", significant(*draws_wanted, 2))
        }
        Warning::TargetsMissed { label, .. } => label.clone(),
        Warning::FewDrawsBias { label, gained } => format!("{label} ({} nats)", significant(*gained, 2)),
        Warning::StepBeyondCurvature { label, ratio } => format!("{label} ({})", significant(*ratio, 2)),
        Warning::NotInEquilibrium { label, heating } => format!("{label} ({} times as hot)", significant(*heating, 3)),
        Warning::EnergyStillMoving { label, change, .. } => format!("{label} ({change:+.0})"),
        Warning::UnsteadyRows { label, share } => format!("{label} ({:.0} % of rows)", 100.0 * share),
        Warning::PredictionsDisagree { label, median_rhat, worst_rhat, .. } => {
            format!("{label} (median R̂ {}, worst {})", significant(*median_rhat, 3), significant(*worst_rhat, 3))
        }
        Warning::TensorTemperatureOff { label, num_off, num_tensors, tensor, ratio, .. } => {
            format!("{label} ({num_off} of {num_tensors}, {tensor} {} times as hot)", significant(*ratio, 3))
        }
        Warning::CoverageOff { label, stated, nominal, observed, .. } => {
            let place = match stated {
                Stated::CentralInterval => format!("in {:.0} % intervals", 100.0 * nominal),
                Stated::Quantile => format!("below {:.0} % quantiles", 100.0 * nominal),
            };
            format!("{label} ({:.0} % {place})", 100.0 * observed)
        }
        Warning::BetaVeryLarge { beta } => format!("β = {}", significant(*beta, 3)),
        Warning::WorseThanBaseRate { label, lpd, base_lpd, .. } => {
            format!("{label} (LPD {}, base rate {})", significant(*lpd, 3), significant(*base_lpd, 3))
        }
        Warning::RowsOutsideTraining { .. }
        | Warning::BetaUnstableOverSeeds { .. }
        | Warning::LearnedScalesTempered { .. }
        | Warning::SelectionNotConverged { .. }
        | Warning::BetaUnbounded { .. }
        | Warning::FewEffectiveWeights { .. } => warning.seen().trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn few(label: &str, bulk_ess: f64) -> Warning {
        Warning::FewEffectiveDraws { label: label.into(), bulk_ess, num_draws: 200 }
    }

    #[test]
    fn a_kind_is_explained_once() {
        let diverged = Warning::ChainDiverged { label: "β = 300".into(), step: 7 };
        let text = in_short(&[few("β = 1", 3.0), diverged, few("β = 3", 11.64)]);
        assert!(text.contains("few effective draws: β = 1 (3 of 200), β = 3 (12 of 200)."), "{text}");
        assert_eq!(text.matches("  try: ").count(), 2);
        assert_eq!(text.matches("warning: ").count(), 2);
    }

    #[test]
    fn no_line_is_too_wide_for_a_terminal() {
        let many: Vec<Warning> = (0..30).map(|i| few(&format!("β = {i}"), 5.0)).collect();
        assert!(in_short(&many).lines().all(|line| line.chars().count() <= 100));
        assert_eq!(in_short(&[]), "");
    }
}

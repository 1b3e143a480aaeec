//! What a person who will use the predictions wants to know first: the error to expect, whether intervals hold, and what else would do as well.

use kelvin::predictive::{RegressionScores, Scores};
use kelvin_study::findings::{
    BETA_STAR, CrossValidation, Findings, ModelDifference, ModelKind, ModelScores, TargetScores, Told,
};
use kelvin_study::number::{fixed, significant};
use kelvin_study::problem::Units;

use crate::compare::predicting::{predicting_text, trials_text};

/// Sentences about predictions of rows that were not seen, from cross-validation where there was one, else from the test rows; empty for a sweep.
pub fn headline(findings: &Findings) -> Vec<String> {
    let mut lines = match (&findings.cross_validation, findings.beta_star) {
        (Some(found), _) => of_folds(findings, found),
        (None, Some(_)) => of_test_rows(findings).into_iter().collect(),
        (None, None) => Vec::new(),
    };
    lines.extend(findings.trials.iter().map(trials_text));
    lines.extend(findings.predicting.as_ref().map(predicting_text));
    lines
}

/// The model that predicts; of runs of older kelvins the draws with the larger LPD on rows that were not seen.
fn predicting_scores<'f>(findings: &Findings, found: &'f CrossValidation) -> Option<&'f ModelScores> {
    let chosen = findings.predicting.as_ref();
    let own = chosen.and_then(|chosen| found.models.iter().find(|scores| scores.what == chosen.what));
    own.or_else(|| best_draws(found))
}

/// The draws with the larger LPD on rows that were not seen: at β̂* or at β = 1.
fn best_draws(found: &CrossValidation) -> Option<&ModelScores> {
    let of = |kind| found.best_of(kind);
    of(ModelKind::Chosen).into_iter().chain(of(ModelKind::Bayes)).max_by(|a, b| a.lpd.total_cmp(&b.lpd))
}

fn of_folds(findings: &Findings, found: &CrossValidation) -> Vec<String> {
    let Some(best) = predicting_scores(findings, found) else { return Vec::new() };
    let targets = &findings.problem.target;
    let over = if found.is_complete {
        format!("cross-validation over all {} rows, {} folds", found.num_rows, found.divisions)
    } else {
        format!("{} random splits, {} rows", found.divisions, found.num_rows)
    };
    let expected = match (best.rmse, best.mae, best.accuracy) {
        (Some(rmse), Some(mae), _) => format!(
            "expect an error of {} (root mean square; {} on average) in the target's own units",
            significant(rmse, 3),
            significant(mae, 3)
        ),
        _ if !best.targets.is_empty() => {
            let of = |(name, own): (&String, &TargetScores)| format!("{} in `{name}`", significant(own.rmse, 3));
            let each: Vec<String> = targets.iter().zip(&best.targets).map(of).collect();
            errors_of_each(each)
        }
        (_, _, Some(accuracy)) => {
            format!("expect {} % right answers and a log loss of {}", fixed(100.0 * accuracy, 1), fixed(-best.lpd, 3))
        }
        _ => return Vec::new(),
    };
    let mut lines = vec![format!("Predicting {} of new rows ({over}): {expected}.", targets.quoted())];
    if let Some(coverage) = best.coverage {
        // Three standard errors of a share.
        let error = 3.0 * (0.09 / found.num_rows as f64).sqrt();
        let judged = if (coverage - 0.9).abs() <= error { "as they should" } else { "where 90 % should" };
        lines.push(format!("90 % intervals held {} % of them, {judged}.", fixed(100.0 * coverage, 1)));
    }
    let others: Vec<String> = [ModelKind::Linear, ModelKind::Sgd, ModelKind::Ensemble]
        .into_iter()
        .filter_map(|kind| found.best_of(kind))
        .filter(|other| other.what != best.what)
        .map(|other| format!("{} {}", other.what.label, point_of(other)))
        .collect();
    let what = match (best.rmse, best.accuracy) {
        (Some(_), _) => "The error of others on the same rows",
        (_, Some(_)) => "Right answers of others on the same rows",
        _ => "The LPD of others on the same rows",
    };
    lines.push(format!("{what}: {}.", others.join("; ")));
    lines.push(
        "LPD in the tables is the mean log predictive density of a row, in nats: larger is better. SM averages the model's own density over draws, \
         TM the density tempered by β."
            .into(),
    );
    lines
}

/// Errors of several targets, each as "3 in `a`".
fn errors_of_each(each: Vec<String>) -> String {
    format!("expect errors of {} (root mean square), each in the target's own units", each.join(", "))
}

fn point_of(scores: &ModelScores) -> String {
    match (scores.rmse, scores.accuracy) {
        (Some(rmse), _) => significant(rmse, 3),
        (_, Some(accuracy)) => format!("{} %", fixed(100.0 * accuracy, 1)),
        _ => fixed(scores.lpd, 3),
    }
}

fn of_test_rows(findings: &Findings) -> Option<String> {
    let row = findings.shown_row()?;
    let (target, count) = (findings.problem.target.quoted(), findings.problem.test_rows);
    let text = match &row.test {
        Scores::Regression(scores) => {
            let units = &findings.problem.target_units;
            let lpd = row.validation.lpd();
            let taken = if lpd.standard > lpd.tempered { &scores.standard } else { &scores.tempered };
            let rmse = |scores: &RegressionScores, units: &Units| significant(scores.mse.sqrt() * units.std, 3);
            let expected = match units[..] {
                [_, _, ..] => {
                    let names = findings.problem.target.iter();
                    let of_targets = row.test_targets.iter().zip(units).zip(names);
                    let each =
                        of_targets.map(|((own, units), name)| format!("{} in `{name}`", rmse(&own.standard, units)));
                    errors_of_each(each.collect())
                }
                _ => {
                    let units = units.first().copied().unwrap_or(Units::ORIGINAL);
                    format!("expect an error of {} (root mean square) in the target's own units", rmse(taken, &units))
                }
            };
            format!(
                "Predicting {target} of new rows ({count} test rows): {expected}; 90 % intervals held {} % of them.",
                fixed(100.0 * taken.coverage_90, 0)
            )
        }
        Scores::Classification(scores) => format!(
            "Predicting {target} ({count} test rows): expect {} % right answers and a log loss of {}.",
            fixed(100.0 * scores.standard.accuracy, 1),
            fixed(-scores.standard.lpd, 3)
        ),
    };
    Some(text)
}

/// Whether the temperature that was chosen predicts better than β = 1 over all folds, in a sentence or two.
pub fn verdict_of_folds(beta: f64, found: &CrossValidation) -> Option<String> {
    let chosen = found.best_of(ModelKind::Chosen)?;
    let difference = found.difference_of(&chosen.what)?;
    let told = match difference.told {
        Told::Better => format!("{BETA_STAR} predicts better than β = 1"),
        Told::Worse => format!("{BETA_STAR} predicts worse than β = 1: predict with β = 1"),
        Told::CannotTell => format!("whether {BETA_STAR} or β = 1 predicts better cannot be told"),
    };
    let mut betas = found.betas.clone();
    betas.sort_by(f64::total_cmp);
    let range = match (betas.first(), betas.last()) {
        (Some(first), Some(last)) => {
            format!(", {} to {} over the folds", significant(*first, 2), significant(*last, 2))
        }
        _ => String::new(),
    };
    Some(format!(
        "{BETA_STAR} = {}{range}: {told}. {} minus β = 1: {} nats a row (± {} over rows, ± {} over draws).{}",
        significant(beta, 3),
        chosen.what.label,
        signed(difference.mean),
        fixed(difference.row_error, 3),
        fixed(difference.monte_carlo_error, 3),
        what_would_decide(difference)
    ))
}

fn signed(value: f64) -> String {
    let text = fixed(value, 3);
    if value > 0.0 { format!("+{text}") } else { text }
}

/// What would turn "cannot be told" into an answer.
pub fn what_would_decide(difference: &ModelDifference) -> String {
    /// More than this nobody has.
    const HOPELESS: f64 = 100.0;
    if difference.told != Told::CannotTell {
        return String::new();
    }
    match (difference.rows_wanted(), difference.draws_wanted()) {
        (Some(rows), _) if rows > HOPELESS => " A difference as small as this does not matter for predictions.".into(),
        (Some(rows), Some(draws)) => format!(
            " About {} times as many rows, and {} times as many draws (--budget), would decide it.",
            significant(rows, 2),
            significant(draws, 2)
        ),
        (Some(rows), None) => format!(" About {} times as many rows would decide it.", significant(rows, 2)),
        (None, Some(draws)) => {
            format!(" About {} times as many draws (--budget) would decide it.", significant(draws, 2))
        }
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::predictive::PredictiveModel;
    use kelvin_study::findings::HeldOutModel;

    fn what(kind: ModelKind, label: &str) -> HeldOutModel {
        HeldOutModel { kind, model: PredictiveModel::Standard, beta: None, label: label.into() }
    }

    fn scores(kind: ModelKind, label: &str, lpd: f64) -> ModelScores {
        ModelScores {
            targets: Vec::new(),
            what: what(kind, label),
            lpd,
            row_error: 0.02,
            monte_carlo_error: 0.01,
            rmse: Some(5.0 - lpd),
            mae: Some(3.0),
            accuracy: None,
            coverage: Some(0.91),
        }
    }

    fn folds(mean: f64, row_error: f64, monte_carlo_error: f64, told: Told) -> CrossValidation {
        CrossValidation {
            divisions: 5,
            is_complete: true,
            num_rows: 1030,
            betas: vec![0.1, 0.15],
            models: vec![scores(ModelKind::Bayes, "β = 1", -0.5), scores(ModelKind::Chosen, "β̂* TM", -0.4)],
            differences: vec![ModelDifference {
                of: what(ModelKind::Chosen, "β̂* TM"),
                from: what(ModelKind::Bayes, "β = 1"),
                mean,
                row_error,
                monte_carlo_error,
                told,
            }],
        }
    }

    #[test]
    fn three_outcomes_and_what_would_decide() {
        let text = |found: CrossValidation| verdict_of_folds(0.12, &found).unwrap();
        let better = text(folds(0.2, 0.03, 0.01, Told::Better));
        assert!(
            better.contains(
                "predicts better than β = 1. β̂* TM minus β = 1: +0.200 nats a row (± 0.030 over rows, ± 0.010"
            ),
            "{better}"
        );
        assert!(better.contains("0.1 to 0.15 over the folds") && better.ends_with("over draws)."), "{better}");
        assert!(text(folds(-0.2, 0.03, 0.01, Told::Worse)).contains("predict with β = 1"));
        let open = text(folds(0.02, 0.03, 0.001, Told::CannotTell));
        assert!(
            open.contains("cannot be told") && open.contains("About 9 times as many rows would decide it."),
            "{open}"
        );
        let draws = text(folds(0.19, 0.06, 0.08, Told::CannotTell));
        assert!(draws.contains("times as many draws (--budget) would decide it."), "{draws}");
        assert!(text(folds(0.001, 0.03, 0.001, Told::CannotTell)).contains("does not matter"));
    }

    #[test]
    fn the_better_temperature_is_the_one_whose_error_is_told() {
        assert_eq!(best_draws(&folds(0.2, 0.03, 0.01, Told::Better)).unwrap().what.kind, ModelKind::Chosen);
    }
}

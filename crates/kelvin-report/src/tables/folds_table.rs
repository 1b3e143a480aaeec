//! The table of a cross-validation: every model on rows that it has not seen, and how it compares with β = 1.

use kelvin_study::findings::{CrossValidation, ModelKind, ModelScores, TargetScores, Told};
use kelvin_study::number::{fixed, significant};

use crate::tables::table::Table;

/// A line for each model, in the order they were made; `targets` are the names of what is predicted.
pub fn folds_table(name: &str, targets: &[String], found: &CrossValidation) -> Table {
    let is_classes = found.models.iter().all(|scores| scores.accuracy.is_some());
    let over = if found.is_complete { "folds" } else { "random splits" };
    let title =
        format!("{name} — {} rows that were not seen, {} {over}: LPD ± over rows", found.num_rows, found.divisions);
    let has_several = found.models.iter().any(|scores| !scores.targets.is_empty());
    let mut header = vec!["model".to_owned(), "LPD".into()];
    match (is_classes, has_several) {
        (true, _) => header.push("accuracy %".into()),
        (false, false) => header.extend(["RMSE", "MAE", "in 90 %"].map(str::to_owned)),
        (false, true) => {
            header.extend(targets.iter().flat_map(|name| [format!("RMSE {name}"), format!("in 90 % {name}")]));
        }
    }
    header.extend(["minus β = 1".into(), "± rows".into(), "± draws".into(), "".into()]);
    let mut table = Table::new(title, header);
    for scores in &found.models {
        let mut cells =
            vec![scores.what.label.clone(), format!("{} ± {}", fixed(scores.lpd, 3), fixed(scores.row_error, 3))];
        cells.extend(points_of(scores));
        match found.difference_of(&scores.what) {
            Some(difference) => {
                let told = match difference.told {
                    Told::Better => "better",
                    Told::Worse => "worse",
                    Told::CannotTell => "cannot tell",
                };
                let numbers = [difference.mean, difference.row_error, difference.monte_carlo_error];
                cells.extend(numbers.map(|number| fixed(number, 3)));
                cells.push(told.into());
            }
            None => cells.extend(
                ["–", "–", "–", if scores.what.kind == ModelKind::Bayes { "reference" } else { "" }].map(String::from),
            ),
        }
        table.push(cells);
    }
    table
}

fn points_of(scores: &ModelScores) -> Vec<String> {
    match (scores.rmse, scores.mae, scores.coverage, scores.accuracy) {
        (Some(rmse), Some(mae), Some(coverage), _) => {
            vec![significant(rmse, 3), significant(mae, 3), format!("{} %", fixed(100.0 * coverage, 1))]
        }
        (.., Some(accuracy)) => vec![fixed(100.0 * accuracy, 2)],
        _ => {
            let of = |own: &TargetScores| [significant(own.rmse, 3), format!("{} %", fixed(100.0 * own.coverage, 1))];
            scores.targets.iter().flat_map(of).collect()
        }
    }
}

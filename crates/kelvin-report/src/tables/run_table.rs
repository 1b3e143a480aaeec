//! The table of a run: SGD, β = 1, β̂* and the grid, side by side.

use kelvin::predictive::Scores;

use crate::tables::table::Table;
use kelvin_study::findings::Row;
use kelvin_study::number::{fixed, significant};

/// Test scores of every row, with what its chains measured.
pub fn run_table(title: &str, rows: &[Row]) -> Table {
    let classes = rows.first().is_some_and(|row| matches!(row.test, Scores::Classification(_)));
    let (point, calibration) = if classes { ("accuracy %", "ECE") } else { ("MSE ×10³", "cover") };
    let mut header = vec!["method".to_owned(), "β".into(), "LPD SM".into(), "LPD TM".into(), point.into()];
    header.extend([format!("{calibration} SM"), format!("{calibration} TM"), "measured".into()]);
    header.extend(["R̂".into(), "s".into()]);
    let mut table = Table::new(title, header);
    for row in rows {
        let lpd = row.test.lpd();
        let (point, standard, tempered) = match &row.test {
            Scores::Regression(scores) => {
                let share = |value: f64| format!("{} %", fixed(100.0 * value, 0));
                let mse = significant(1e3 * scores.standard.mse, 3);
                (mse, share(scores.standard.coverage_90), share(scores.tempered.coverage_90))
            }
            Scores::Classification(scores) => (
                fixed(100.0 * scores.standard.accuracy, 2),
                fixed(scores.standard.ece, 3),
                fixed(scores.tempered.ece, 3),
            ),
        };
        let measured = row.measured.as_ref();
        let or_dash = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or("–".into(), show);
        table.push(vec![
            row.label.clone(),
            significant(row.beta, 3),
            fixed(lpd.standard, 3),
            fixed(lpd.tempered, 3),
            point,
            standard,
            tempered,
            or_dash(measured.and_then(|m| m.beta_at_cycle_ends), &|beta| significant(beta, 3)),
            or_dash(measured.and_then(|m| m.rhat), &|rhat| fixed(rhat, 2)),
            fixed(row.seconds, 1),
        ]);
    }
    table
}

/// What the chains of each row measured: temperatures and agreement.
pub fn chains_table(rows: &[Row]) -> Table {
    let header = [
        "method",
        "β",
        "draws",
        "cycle ends",
        "all steps",
        "expected",
        "configurational",
        "R\u{302}",
        "bulk ESS",
        "tail ESS",
    ];
    let title = "Measured β (kinetic at cycle ends and over all steps with what the discretisation should show, and \
                 configurational), split-R\u{302} and effective draws of the potential energy";
    let mut table = Table::new(title, header);
    for row in rows {
        let Some(measured) = &row.measured else { continue };
        let or_dash = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or("–".into(), show);
        let beta = |value: f64| significant(value, 3);
        table.push([
            row.label.clone(),
            beta(row.beta),
            row.num_draws.to_string(),
            or_dash(measured.beta_at_cycle_ends, &beta),
            or_dash(measured.beta_over_all_steps, &beta),
            beta(measured.expected_beta_over_all_steps),
            beta(measured.configurational_beta),
            or_dash(measured.rhat, &|rhat| fixed(rhat, 2)),
            or_dash(measured.bulk_ess, &|ess| fixed(ess, 0)),
            or_dash(measured.tail_ess, &|ess| fixed(ess, 0)),
        ]);
    }
    table
}

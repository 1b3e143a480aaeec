//! Figures of several runs: data sets side by side as in the paper, and strengths of augmentation in one chart.

use kelvin::predictive::PredictiveModel;
use kelvin_study::error::{Result, StudyError};

use super::figure::{BETA_AXIS, Figure, Models, Plot, look_of, with_other_x};
use super::grid::{LpdOf, grid_line, lpd_axis, lpd_chart, point_metric_chart, unsampled};
use crate::chart::{Axis, Chart, Colour, Dash, Marker, Panels, Points, Reference};
use crate::tables::partly_sampled;
use kelvin_study::findings::{BETA_STAR, Findings, Method, Row, are_classes};
use kelvin_study::number::significant;

/// A run in a figure or a table of several runs.
pub struct NamedRun<'a> {
    /// Its name, or that of its folder where names are not enough to tell runs apart.
    pub label: String,
    /// Everything that it found.
    pub findings: &'a Findings,
    /// The probability that a training image is augmented.
    pub augmentation: f64,
}

/// What several runs show together: a panel for each run with a grid, and a curve for each strength where strengths differ.
pub fn across(runs: &[NamedRun<'_>]) -> Result<Vec<Figure>> {
    let has_grid = |run: &&NamedRun<'_>| run.findings.rows.iter().any(|row| row.method == Method::Grid);
    let with_grid: Vec<&NamedRun<'_>> = runs.iter().filter(has_grid).collect();
    let mut figures = Vec::new();
    let (partly, others) = partly(&with_grid);
    if with_grid.len() > 1 {
        let lpd_figure = |file, set: &str, caption: String, lpd: LpdOf<'_>| {
            let panels = |models: Models| {
                let label = format!("{set} LPD (nats)");
                let chart = |run: &&NamedRun<'_>| lpd_chart(&run.label, &run.findings.rows, lpd, &label, models);
                Ok(Panels::new(format!("LPD on {set} rows against β"), with_grid.iter().map(chart).collect()))
            };
            let figure = Figure::by_model(file, caption, panels)?;
            Ok::<_, StudyError>(figure.with_files_of_models().with_scale_switch("log β axis", with_other_x))
        };
        let test = format!(
            "Test LPD against β on each data set, mean ± SD over repetitions{partly}; rings and crosses are the {BETA_STAR} of \
             the searches. Dotted: β = 1{others}. Higher is better."
        );
        let validation = format!("Validation LPD against β on each data set, mean ± SD over repetitions{partly}.");
        figures.push(lpd_figure("lpd_test", "test", test, &|row| row.test.lpd())?);
        figures.push(lpd_figure("lpd_validation", "validation", validation, &|row| row.validation.lpd())?);
        let charts = with_grid.iter().map(|run| point_metric_chart(&run.label, &run.findings.rows)).collect();
        figures.push(Figure::new(
            "point_metric",
            Panels::new("Error or accuracy on test rows against β", charts),
            format!(
                "Mean squared error (lower is better) or accuracy (higher is better) of the point predictions, mean ± SD over \
                 repetitions{partly}; dashed: SGD, dotted: β = 1{others}."
            ),
        ));
    }
    figures.extend(by_strength(runs));
    Ok(figures)
}

/// The runs with chains in some of their repetitions alone, in brackets, and how the β̂* of the other repetitions are drawn.
fn partly(runs: &[&NamedRun<'_>]) -> (String, String) {
    let found: Vec<String> =
        runs.iter().filter_map(|run| Some(format!("{}: {}", run.label, partly_sampled(run.findings)?))).collect();
    if found.is_empty() {
        return Default::default();
    }
    (format!(" ({})", found.join("; ")), format!(", and {BETA_STAR} of repetitions without chains"))
}

/// LPD and point metric of the runs on the first data set with several strengths of augmentation; none where there is none.
fn by_strength(runs: &[NamedRun<'_>]) -> Option<Figure> {
    runs.iter().find_map(|run| strengths_of(&run.findings.problem.data, runs))
}

fn strengths_of(data: &str, runs: &[NamedRun<'_>]) -> Option<Figure> {
    let mut own: Vec<&NamedRun<'_>> = runs.iter().filter(|run| run.findings.problem.data == data).collect();
    own.retain(|run| run.findings.rows.iter().any(|row| row.method == Method::Grid));
    own.sort_by(|a, b| a.augmentation.total_cmp(&b.augmentation));
    own.dedup_by(|a, b| a.augmentation == b.augmentation);
    if own.len() < 2 {
        return None;
    }
    let (partly, others) = partly(&own);
    let rows = &own[0].findings.rows;
    let (metric, scale) = if are_classes(rows) { ("test accuracy (%)", 100.0) } else { ("test MSE", 1.0) };
    let named: Vec<(String, &[Row])> = own
        .iter()
        .map(|run| (format!("strength {}", significant(run.augmentation, 3)), &run.findings.rows[..]))
        .collect();
    let curves = |title: &str, label: &str, value: &dyn Fn(&Row) -> f64| {
        overlaid(title, Axis::linear(label).focused(), &named, value)
    };
    let lpd = |row: &Row| *row.test.lpd().get(PredictiveModel::Standard);
    let charts = vec![
        curves("test LPD (SM)", "test LPD (nats)", &lpd),
        curves(metric.trim_end_matches(" (%)"), metric, &|row| scale * row.test.point_metric()),
    ];
    let figure = Figure::new(
        "augmentation",
        Panels::new(format!("{data}: strengths of augmentation"), charts),
        format!(
            "Test LPD of SM-PD and the point metric against β for each strength of augmentation (the probability that an image \
             is augmented), mean ± SD over repetitions{partly}; rings are the {BETA_STAR} of the searches. Dotted: β = 1{others}."
        ),
    );
    Some(figure.with_scale_switch("log β axis", with_other_x))
}

/// A number against β, a curve with its band for each run, and rings for its β̂*.
fn overlaid(title: &str, axis: Axis, runs: &[(String, &[Row])], value: &dyn Fn(&Row) -> f64) -> Chart {
    let mut chart = Chart::new(title, Axis::log(BETA_AXIS), axis).with(Reference::vertical(1.0, "β = 1"));
    for (index, (name, rows)) in runs.iter().enumerate() {
        let colour = Colour::CYCLE[index % Colour::CYCLE.len()];
        let dash = if index >= Colour::CYCLE.len() { Dash::Dashed } else { Dash::Solid };
        chart = chart.with(grid_line(name, colour, rows, value).with_dash(dash));
        for line in unsampled(rows, colour, &format!("{name}: ")) {
            chart = chart.with(line);
        }
        let chosen: Vec<&Row> = rows.iter().filter(|row| row.method == Method::Chosen).collect();
        let points = chosen.iter().map(|row| (row.beta, value(row))).collect();
        let hover = chosen.iter().map(|row| {
            let (beta, at) = (significant(row.beta, 3), significant(value(row), 4));
            format!("{name}: {BETA_STAR} = {beta}, {at}")
        });
        chart = chart.with(Points::new("", colour, Marker::Ring, points).with_hover(hover.collect()));
    }
    chart
}

/// Test LPD of runs on one data set against β, a panel for each model.
pub fn overlaid_lpd(data: &str, runs: &[(String, &[Row])]) -> Plot {
    let all: Vec<Row> = runs.iter().flat_map(|(_, rows)| rows.to_vec()).collect();
    let panel = |model: PredictiveModel| {
        let axis = lpd_axis("test LPD (nats)", &all, &|row| row.test.lpd(), Models::Only(model));
        overlaid(look_of(model).0, axis, runs, &|row| *row.test.lpd().get(model))
    };
    Panels::new(format!("{data}: test LPD against β"), PredictiveModel::BOTH.map(panel).to_vec()).into()
}

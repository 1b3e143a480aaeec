//! Scores against β, as in the paper: LPD on test and validation rows, and the point metric.

use kelvin::predictive::{ByModel, PredictiveModel};
use kelvin_study::error::{Result, StudyError};

use super::figure::{BETA_AXIS, Figure, Models, look_of, short_name, with_other_x, with_other_y};
use crate::chart::{Axis, Chart, Colour, Dash, Line, Marker, Points, Reference};
use crate::tables::partly_sampled;
use kelvin_study::findings::{BETA_STAR, Findings, Method, Row, RunCommand, are_classes, mean_and_std};
use kelvin_study::number::significant;

/// LPD on test and validation rows and the point metric against β.
pub(super) fn of_grid(findings: &Findings) -> Result<Vec<Figure>> {
    let (name, rows) = (&findings.name, &findings.rows[..]);
    let partly = partly_sampled(findings).map_or(String::new(), |partly| format!(" ({partly})"));
    let piece = findings.piece();
    let bands = if are_repeated(rows) {
        format!("Lines and bands: mean ± SD over repetitions{partly} (higher is better); arrows lie beyond the edge.")
    } else if let Some(piece) = &piece {
        format!("Lines: {piece} (higher is better); arrows lie beyond the edge.")
    } else if partly.is_empty() {
        "Higher is better; arrows lie beyond the edge.".into()
    } else {
        "Lines: one repetition (higher is better); arrows lie beyond the edge.".into()
    };
    let chosen = match findings.command {
        RunCommand::Sweep if piece.is_some() => format!("its {BETA_STAR}"),
        RunCommand::Sweep if partly.is_empty() => format!("each repetition's {BETA_STAR}"),
        RunCommand::Sweep => {
            format!("{BETA_STAR} of the repetitions with chains; dotted in their colour: of the others")
        }
        RunCommand::Run | RunCommand::RunGrid => format!("at {BETA_STAR}"),
    };
    let is_whole = partly.is_empty() || piece.is_some();
    let others = match is_whole {
        true => String::new(),
        false => format!(" Dotted in the colour of {BETA_STAR}: those of repetitions without chains."),
    };
    let sgd = if is_whole { "SGD" } else { "SGD, mean over all repetitions" };
    let lpd_figure = |file, set: &str, caption: String, lpd: LpdOf<'_>| {
        let chart = |models: Models| {
            let of = if let Models::Only(model) = models { format!(" of {}", look_of(model).0) } else { String::new() };
            Ok(lpd_chart(format!("{name}: {set} LPD{of}"), rows, lpd, &format!("{set} LPD (nats)"), models))
        };
        let figure = Figure::by_model(file, caption, chart)?;
        Ok::<_, StudyError>(figure.with_files_of_models().with_scale_switch("log β axis", with_other_x))
    };
    let test = format!(
        "Test LPD against β under the standard model (SM) and the tempered model (TM). {bands} Rings and crosses: \
         {chosen}; of one model alone the dashed line is the plug-in of {sgd}."
    );
    let validation = format!("Validation LPD against β: what a grid search would look at. {bands}");
    let what = if are_classes(rows) { "accuracy" } else { "mean squared error" };
    let direction = if are_classes(rows) { "higher" } else { "lower" };
    let point = Figure::new(
        "point_metric",
        point_metric_chart(format!("{name}: test {what}"), rows),
        format!("Test {what} of the point prediction against β ({direction} is better); dashed: {sgd}.{others}"),
    );
    let point = if are_classes(rows) {
        point.with_scale_switch("log β axis", with_other_x)
    } else {
        point.with_scale_switch("log MSE axis", with_other_y)
    };
    Ok(vec![
        lpd_figure("lpd_test", "test", test, &|row| row.test.lpd())?,
        lpd_figure("lpd_validation", "validation", validation, &|row| row.validation.lpd())?,
        point,
    ])
}

/// Mean and standard deviation of a number over the repetitions at each β of the grid.
pub(super) fn over_grid(rows: &[Row], value: &dyn Fn(&Row) -> f64) -> (Vec<(f64, f64)>, Vec<f64>) {
    let mut betas: Vec<f64> = rows.iter().filter(|row| row.method == Method::Grid).map(|row| row.beta).collect();
    betas.sort_by(f64::total_cmp);
    betas.dedup();
    let mut means = Vec::new();
    let mut deviations = Vec::new();
    for beta in betas {
        let values: Vec<f64> =
            rows.iter().filter(|row| row.method == Method::Grid && row.beta == beta).map(value).collect();
        let (mean, deviation) = mean_and_std(&values);
        means.push((beta, mean));
        deviations.push(deviation);
    }
    (means, deviations)
}

fn chosen_points(rows: &[Row], value: &dyn Fn(&Row) -> f64) -> (Vec<(f64, f64)>, Vec<String>) {
    let chosen = rows.iter().filter(|row| row.method == Method::Chosen);
    chosen
        .map(|row| {
            let y = value(row);
            let which = row.repetition.map_or(String::new(), |r| format!("repetition {}: ", r + 1));
            ((row.beta, y), format!("{which}{BETA_STAR} = {}, {}", significant(row.beta, 3), significant(y, 4)))
        })
        .unzip()
}

pub(super) type LpdOf<'a> = &'a dyn Fn(&Row) -> ByModel<f64>;

/// A line at each β̂* that no chain was sampled at, so that nothing but its place is known; `of` leads its name.
pub(super) fn unsampled(rows: &[Row], colour: Colour, of: &str) -> impl Iterator<Item = Reference> {
    let name = format!("{of}{BETA_STAR} without chains");
    let is_sampled =
        |search: &Row| rows.iter().any(|row| row.method == Method::Chosen && row.repetition == search.repetition);
    let searches = rows.iter().filter(move |row| row.method == Method::Sgd && !is_sampled(row));
    searches.map(move |search| Reference::vertical(search.beta, "").with_colour(colour).with_name(&name))
}

/// LPD against β; of one model alone also that of the SGD plug-in.
pub(super) fn lpd_chart(title: impl Into<String>, rows: &[Row], lpd: LpdOf<'_>, label: &str, models: Models) -> Chart {
    let mut chart = Chart::new(title, Axis::log(BETA_AXIS), lpd_axis(label, rows, lpd, models));
    chart = chart.with(Reference::vertical(1.0, "β = 1"));
    let shown = || PredictiveModel::BOTH.into_iter().filter(|&model| models.include(model));
    for model in shown() {
        let (name, colour) = look_of(model);
        chart = chart.with(grid_line(name, colour, rows, &|row| *lpd(row).get(model)));
    }
    for model in shown() {
        let value = |row: &Row| *lpd(row).get(model);
        let (points, hover) = chosen_points(rows, &value);
        let name = format!("{BETA_STAR} ({})", short_name(model));
        let marker = if model == PredictiveModel::Standard { Marker::Ring } else { Marker::Cross };
        chart = chart.with(Points::new(name, Colour::CHOSEN, marker, points).with_hover(hover));
        if models != Models::Both {
            chart = chart.with(sgd_line(rows, &value));
        }
    }
    unsampled(rows, Colour::CHOSEN, "").fold(chart, Chart::with)
}

/// Where posteriors are too cold TM falls without end. The axis then shows the best third of TM, all of SM where it is drawn,
/// and the chosen points; the rest becomes arrows.
pub(super) fn lpd_axis(label: &str, rows: &[Row], lpd: LpdOf<'_>, models: Models) -> Axis {
    const WORTH_CLIPPING: f64 = 4.0;
    let sm = models.include(PredictiveModel::Standard);
    if !models.include(PredictiveModel::Tempered) {
        return Axis::linear(label).focused();
    }
    let values = |model| over_grid(rows, &|row| *lpd(row).get(model)).0.into_iter().map(|(_, mean)| mean);
    let mut tempered: Vec<f64> = values(PredictiveModel::Tempered).filter(|mean| mean.is_finite()).collect();
    tempered.sort_by(f64::total_cmp);
    let best = (tempered.len() / 3).max(3).min(tempered.len());
    let mut shown = tempered[tempered.len() - best..].to_vec();
    shown.extend(chosen_points(rows, &|row| lpd(row).tempered).0.iter().map(|point| point.1));
    if sm {
        shown.extend(values(PredictiveModel::Standard));
        shown.extend(chosen_points(rows, &|row| lpd(row).standard).0.iter().map(|point| point.1));
    }
    let low = shown.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match tempered.first() {
        Some(&lowest) if high - lowest > WORTH_CLIPPING * (high - low) => {
            let room = 0.06 * (high - low);
            Axis::linear(label).between(low - room, high + room)
        }
        _ => Axis::linear(label).focused(),
    }
}

/// The grid's mean as a line, with a band of one standard deviation where there are repetitions.
pub(super) fn grid_line(name: impl Into<String>, colour: Colour, rows: &[Row], value: &dyn Fn(&Row) -> f64) -> Line {
    let (means, deviations) = over_grid(rows, value);
    let line = Line::new(name, colour, means);
    if are_repeated(rows) { line.with_std(&deviations) } else { line }
}

/// Whether some β of the grid has chains in several repetitions, each with scores of its own.
fn are_repeated(rows: &[Row]) -> bool {
    let grid: Vec<&Row> = rows.iter().filter(|row| row.method == Method::Grid).collect();
    grid.iter().any(|row| grid.iter().any(|other| other.beta == row.beta && other.repetition != row.repetition))
}

fn sgd_line(rows: &[Row], value: &dyn Fn(&Row) -> f64) -> Reference {
    let values: Vec<f64> = rows.iter().filter(|row| row.method == Method::Sgd).map(value).collect();
    Reference::horizontal(mean_and_std(&values).0, "SGD").with_dash(Dash::Dashed)
}

/// The point metric against β.
pub(super) fn point_metric_chart(title: impl Into<String>, rows: &[Row]) -> Chart {
    let (axis, scale) =
        if are_classes(rows) { (Axis::linear("test accuracy (%)"), 100.0) } else { (Axis::log("test MSE"), 1.0) };
    let value = move |row: &Row| scale * row.test.point_metric();
    let (points, hover) = chosen_points(rows, &value);
    let chart = Chart::new(title, Axis::log(BETA_AXIS), axis.focused())
        .with(Reference::vertical(1.0, "β = 1"))
        .with(sgd_line(rows, &value))
        .with(grid_line("posterior mean", Colour::Purple, rows, &value))
        .with(Points::new(BETA_STAR, Colour::CHOSEN, Marker::Ring, points).with_hover(hover));
    unsampled(rows, Colour::CHOSEN, "").fold(chart, Chart::with)
}

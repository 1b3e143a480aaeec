//! The figures of a run and of a sweep, from rows of results.

use kelvin::diagnostics::temperature_band;
use kelvin::predictive::{ByModel, PredictiveModel, ReliabilityDiagram};

use crate::chart::{Axis, Chart, Colour, Dash, Line, Marker, Points, Reference, significant};
use crate::findings::{ChainFindings, Findings};
use crate::predictions::{ClassPrediction, NumberPrediction, Predictions};
use crate::row::{BETA_STAR, Method, Row, mean_and_std};

/// A figure ready to be written and shown.
pub struct Figure {
    /// File name without ending.
    pub name: &'static str,
    pub svg: String,
    pub caption: String,
}

impl Figure {
    fn new(name: &'static str, chart: &Chart, caption: impl Into<String>) -> Self {
        Self { name, svg: chart.to_svg(), caption: caption.into() }
    }
}

const BETA_AXIS: &str = "inverse temperature β";
/// Calibration histograms and curves use this many bins.
const BINS: usize = 10;

/// LPD over the grid if there is one, the search for β, calibration, predictions, energies.
pub fn of(findings: &Findings, chosen: Option<&Predictions>) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if findings.rows.iter().any(|row| row.method == Method::Grid) {
        figures.extend(of_grid(&findings.name, &findings.rows));
    }
    figures.push(selection_path(findings));
    match chosen {
        Some(Predictions::Numbers(points)) => {
            figures.push(predictions(&findings.problem.target, points));
            figures.push(pit_histogram(points));
        }
        Some(Predictions::Classes(points)) => figures.push(reliability(points)?),
        None => {}
    }
    let row = findings.rows.iter().find(|row| row.method == Method::Chosen && row.repetition.is_none());
    if let Some(row) = row {
        let chains: Vec<&ChainFindings> = findings.chains_of(row).collect();
        figures.push(energy_traces(&row.label, &chains));
        if chains.iter().any(|chain| !chain.kinetic_temperature.is_empty()) {
            figures.push(temperature_traces(findings, &row.label, &chains)?);
        }
    }
    Ok(figures)
}

/// LPD on test and validation rows and the point metric against β, as in the paper.
fn of_grid(name: &str, rows: &[Row]) -> Vec<Figure> {
    let sd = if are_repeated(rows) {
        "Lines and bands: mean ± SD over repetitions (higher is better); arrows lie beyond the edge."
    } else {
        "Higher is better; arrows lie beyond the edge."
    };
    let chosen = if are_repeated(rows) { "each repetition's" } else { "at" };
    let test = |row: &Row| row.test.lpd();
    let both = lpd_chart(&format!("{name}: test LPD"), rows, &test, "test LPD (nats)", true, true, false);
    let validation = |row: &Row| row.validation.lpd();
    let on_validation =
        lpd_chart(&format!("{name}: validation LPD"), rows, &validation, "validation LPD (nats)", true, true, false);
    let sm = lpd_chart(&format!("{name}: test LPD of SM-PD"), rows, &test, "test LPD (nats)", true, false, true);
    let tm = lpd_chart(&format!("{name}: test LPD of TM-PD"), rows, &test, "test LPD (nats)", false, true, true);
    vec![
        Figure::new(
            "lpd_test",
            &both,
            format!(
                "Test LPD against β under the standard model (SM) and the tempered model (TM). {sd} Rings and crosses: {chosen} {BETA_STAR}."
            ),
        ),
        Figure::new(
            "lpd_test_sm",
            &sm,
            format!("Test LPD of SM-PD alone, with the SGD plug-in as the dashed line. {sd}"),
        ),
        Figure::new(
            "lpd_test_tm",
            &tm,
            format!("Test LPD of TM-PD alone, with the SGD plug-in at {BETA_STAR} as the dashed line. {sd}"),
        ),
        Figure::new(
            "lpd_validation",
            &on_validation,
            format!("Validation LPD against β: what a grid search would look at. {sd}"),
        ),
        point_metric(name, rows),
    ]
}

/// Mean and standard deviation of a number over the repetitions at each β of the grid.
fn over_grid(rows: &[Row], value: &dyn Fn(&Row) -> f64) -> (Vec<(f64, f64)>, Vec<f64>) {
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

type LpdOf<'a> = &'a dyn Fn(&Row) -> ByModel<f64>;

fn lpd_chart(title: &str, rows: &[Row], lpd: LpdOf<'_>, label: &str, sm: bool, tm: bool, sgd: bool) -> Chart {
    let models: Vec<_> = [
        (sm, PredictiveModel::Standard, "SM-PD", Colour::SM, Marker::Ring),
        (tm, PredictiveModel::Tempered, "TM-PD", Colour::TM, Marker::Cross),
    ]
    .into_iter()
    .filter(|(wanted, ..)| *wanted)
    .collect();
    let mut chart = Chart::new(title, Axis::log(BETA_AXIS), lpd_axis(label, rows, lpd, sm, tm));
    chart = chart.with(Reference::vertical(1.0, "β = 1"));
    for &(_, model, name, colour, _) in &models {
        chart = chart.with(grid_line(name, colour, rows, &|row| *lpd(row).get(model)));
    }
    for &(_, model, name, _, marker) in &models {
        let value = |row: &Row| *lpd(row).get(model);
        let (points, hover) = chosen_points(rows, &value);
        let name = format!("{BETA_STAR} ({})", &name[..2]);
        chart = chart.with(Points::new(name, Colour::CHOSEN, marker, points).with_hover(hover));
        if sgd {
            chart = chart.with(sgd_line(rows, &value));
        }
    }
    chart
}

/// Where posteriors are too cold TM falls without end. The axis then shows the best half of TM, or the best third and
/// all of SM where both are drawn, and the chosen points; the rest becomes arrows.
fn lpd_axis(label: &str, rows: &[Row], lpd: LpdOf<'_>, sm: bool, tm: bool) -> Axis {
    const WORTH_CLIPPING: f64 = 4.0;
    if !tm {
        return Axis::linear(label).focused();
    }
    let values = |model| over_grid(rows, &|row| *lpd(row).get(model)).0.into_iter().map(|(_, mean)| mean);
    let mut tempered: Vec<f64> = values(PredictiveModel::Tempered).filter(|mean| mean.is_finite()).collect();
    tempered.sort_by(f64::total_cmp);
    let mut shown = tempered[if sm { tempered.len() * 2 / 3 } else { tempered.len() / 2 }..].to_vec();
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
fn grid_line(name: &str, colour: Colour, rows: &[Row], value: &dyn Fn(&Row) -> f64) -> Line {
    let (means, deviations) = over_grid(rows, value);
    let line = Line::new(name, colour, means);
    if are_repeated(rows) { line.with_std(&deviations) } else { line }
}

fn are_repeated(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.repetition.is_some())
}

fn sgd_line(rows: &[Row], value: &dyn Fn(&Row) -> f64) -> Reference {
    let values: Vec<f64> = rows.iter().filter(|row| row.method == Method::Sgd).map(value).collect();
    Reference::horizontal(mean_and_std(&values).0, "SGD").with_dash(Dash::Dashed)
}

fn point_metric(name: &str, rows: &[Row]) -> Figure {
    let classes = rows.first().is_some_and(|row| row.test.larger_point_metric_is_better());
    let (what, axis, scale) = if classes {
        ("accuracy", Axis::linear("test accuracy (%)"), 100.0)
    } else {
        ("mean squared error", Axis::log("test MSE"), 1.0)
    };
    let value = move |row: &Row| scale * row.test.point_metric();
    let (points, hover) = chosen_points(rows, &value);
    let chart = Chart::new(format!("{name}: test {what}"), Axis::log(BETA_AXIS), axis.focused())
        .with(Reference::vertical(1.0, "β = 1"))
        .with(sgd_line(rows, &value))
        .with(grid_line("posterior mean", Colour::Purple, rows, &value))
        .with(Points::new(BETA_STAR, Colour::CHOSEN, Marker::Ring, points).with_hover(hover));
    let direction = if classes { "higher" } else { "lower" };
    Figure::new(
        "point_metric",
        &chart,
        format!("Test {what} of the point prediction against β ({direction} is better)."),
    )
}

/// β at each checkpoint of the search, one line a start; the best checkpoint of each is marked.
fn selection_path(findings: &Findings) -> Figure {
    let (unit, label) = match findings.sampling.search_steps {
        0..5_000 => (1.0, "steps of the search"),
        _ => (1e3, "steps of the search (thousands)"),
    };
    let title = format!("{}: the search for β", findings.name);
    let mut chart =
        Chart::new(title, Axis::linear(label), Axis::log(BETA_AXIS)).with(Reference::horizontal(1.0, "β = 1"));
    let mut best = (Vec::new(), Vec::new());
    for (start, search) in findings.searches.iter().enumerate() {
        let Some(chosen) = search.path.get(search.best) else { continue };
        let place = |step: u64, beta: f64| (step as f64 / unit, beta);
        let mut path = vec![(0.0, 1.0)];
        path.extend(search.path.iter().map(|visit| place(visit.step, visit.beta)));
        let colour = Colour::CYCLE[start % Colour::CYCLE.len()];
        chart = chart.with(Line::trace(format!("start {}", start + 1), colour, path));
        best.0.push(place(chosen.step, chosen.beta));
        best.1.push(format!("start {}: β = {}", start + 1, significant(chosen.beta, 3)));
    }
    chart = chart.with(Points::new("best validation", Colour::CHOSEN, Marker::Ring, best.0).with_hover(best.1));
    Figure::new(
        "selection_path",
        &chart,
        "β during the joint optimisation, from each start; the ring is the checkpoint with the best validation likelihood.",
    )
}

/// A line a chain of one number at each draw.
fn with_traces(
    mut chart: Chart,
    chains: &[&ChainFindings],
    series: impl Fn(&ChainFindings) -> &[f64],
    scale: impl Fn(&ChainFindings) -> f64,
) -> Chart {
    for (index, chain) in chains.iter().enumerate() {
        let values = series(chain).iter().enumerate();
        let points = values.map(|(draw, &value)| ((draw + 1) as f64, scale(chain) * value)).collect();
        let colour = Colour::CYCLE[index % Colour::CYCLE.len()];
        chart = chart.with(Line::trace(format!("chain {}", index + 1), colour, points));
    }
    chart
}

/// Energies of the chains that made the draws.
fn energy_traces(label: &str, chains: &[&ChainFindings]) -> Figure {
    let chart = Chart::new(
        format!("Potential energy of the draws at {label}"),
        Axis::linear("draw"),
        Axis::linear("potential energy U").focused(),
    );
    Figure::new(
        "energy_traces",
        &with_traces(chart, chains, |chain| &chain.potential_energy, |_| 1.0),
        "Chains that agree wander over the same range; a trend means that the burn-in was too short.",
    )
}

/// Kinetic temperature at each draw, relative to the one asked for, with the band of exact momenta.
fn temperature_traces(findings: &Findings, label: &str, chains: &[&ChainFindings]) -> anyhow::Result<Figure> {
    const LEVEL: f64 = 0.99;
    let dim = findings.problem.tensors.iter().map(|(_, size)| size).sum();
    let (low, high) = temperature_band(dim, 1.0, LEVEL)?;
    let chart = Chart::new(
        format!("Kinetic temperature of the draws at {label}"),
        Axis::linear("draw"),
        Axis::linear("measured T / asked T").focused(),
    )
    .with(Reference::horizontal(low, "99 %"))
    .with(Reference::horizontal(high, "99 %"));
    let traces =
        with_traces(chart, chains, |chain| &chain.kinetic_temperature, |chain| 1.0 / chain.sampler_temperature);
    Ok(Figure::new(
        "temperature_traces",
        &traces,
        "What the momenta say the temperature is, at each draw. Of momenta at the right temperature 99 % of the readings \
         lie between the dashed lines.",
    ))
}

fn predictions(target: &str, points: &[NumberPrediction]) -> Figure {
    let hover = |point: &NumberPrediction| {
        let number = |value| significant(value, 4);
        format!(
            "row {}: predicted {} ± {}, true {}",
            point.row,
            number(point.mean),
            significant(point.sd.tempered, 3),
            number(point.truth)
        )
    };
    let chart = Chart::new(
        format!("Predictions of {target} on test rows"),
        Axis::linear(format!("predicted mean of {target}")),
        Axis::linear(format!("true {target}")),
    )
    .with_size(480.0, 480.0)
    .with(Reference::diagonal("truth = prediction"))
    .with(
        Points::new(
            "test rows",
            Colour::TM,
            Marker::Circle,
            points.iter().map(|point| (point.mean, point.truth)).collect(),
        )
        .with_hover(points.iter().map(hover).collect()),
    );
    Figure::new("predictions", &chart, "Predictive mean against truth, original units; hover for the predictive SD.")
}

fn pit_histogram(points: &[NumberPrediction]) -> Figure {
    let values = |model| points.iter().map(|point| *point.pit.get(model)).collect::<Vec<f64>>();
    let outlines = [
        Line::histogram("SM-PD", Colour::SM, &values(PredictiveModel::Standard), BINS, 0.0, 1.0)
            .with_dash(Dash::Dashed),
        Line::histogram("TM-PD", Colour::TM, &values(PredictiveModel::Tempered), BINS, 0.0, 1.0),
    ];
    let highest = outlines.iter().flat_map(|line| &line.points).fold(1.0, |highest: f64, point| highest.max(point.1));
    let mut chart = Chart::new(
        "Calibration on test rows",
        Axis::linear("probability integral transform of the truth").between(0.0, 1.0),
        Axis::linear("density").between(0.0, 1.08 * highest),
    )
    .with(Reference::horizontal(1.0, "calibrated").with_dash(Dash::Dotted));
    for outline in outlines {
        chart = chart.with(outline);
    }
    Figure::new(
        "calibration",
        &chart,
        "Where the truth falls in its predictive distribution. Flat is calibrated, a hump is too wide, horns are too narrow.",
    )
}

fn reliability(points: &[ClassPrediction]) -> anyhow::Result<Figure> {
    let bins = std::num::NonZeroUsize::new(BINS).unwrap_or(std::num::NonZeroUsize::MIN);
    let mut chart = Chart::new(
        "Calibration on test rows",
        Axis::linear("predicted probability of the chosen class").between(0.0, 1.0),
        Axis::linear("share of right answers").between(0.0, 1.0),
    )
    .with_size(480.0, 480.0)
    .with(Reference::diagonal("calibrated"));
    for (model, name, colour) in
        [(PredictiveModel::Standard, "SM-PD", Colour::SM), (PredictiveModel::Tempered, "TM-PD", Colour::TM)]
    {
        let predicted = |point: &ClassPrediction| *point.predicted.get(model);
        let confidences: Vec<f64> =
            points.iter().map(|point| point.probabilities.get(model)[predicted(point)]).collect();
        let correct: Vec<bool> = points.iter().map(|point| predicted(point) == point.label).collect();
        let diagram = ReliabilityDiagram::new(&confidences, &correct, bins)?;
        let points = diagram.bins.iter().filter_map(|bin| bin.mean_confidence.zip(bin.accuracy)).collect();
        chart = chart.with(Line::new(name, colour, points));
    }
    Ok(Figure::new("calibration", &chart, "Reliability: below the diagonal the model is too sure of itself."))
}

//! Predictions against truth, with the interval that should hold nine truths of ten.

use kelvin::predictive::PredictiveModel;

use super::figure::{Drawing, Figure, Models, OfTarget, look_of};
use crate::chart::{Axis, Chart, Marker, Points, Reference, Spans};
use kelvin_study::findings::NumberPrediction;
use kelvin_study::number::significant;

pub(super) fn predictions(of: OfTarget<'_>, points: &[NumberPrediction]) -> Figure {
    let target = of.target;
    let inside =
        |model| points.iter().filter(|point| is_inside(point, model)).count() as f64 / points.len().max(1) as f64;
    let caption = format!(
        "Predictive mean against truth on test rows, original units; strokes are central 90 % intervals. They hold {:.0} % of \
         the truths under TM, {:.0} % under SM.",
        100.0 * inside(PredictiveModel::Tempered),
        100.0 * inside(PredictiveModel::Standard),
    );
    let mut figure = Figure::new(of.named("predictions"), chart(target, points, PredictiveModel::Tempered), caption);
    figure.drawings[0].models = Models::Only(PredictiveModel::Tempered);
    figure.drawings.push(Drawing {
        models: Models::Only(PredictiveModel::Standard),
        file: None,
        plot: chart(target, points, PredictiveModel::Standard).into(),
        rescaled: None,
    });
    figure
}

fn is_inside(point: &NumberPrediction, model: PredictiveModel) -> bool {
    let (low, high) = *point.interval.get(model);
    (low..=high).contains(&point.truth)
}

fn chart(target: &str, points: &[NumberPrediction], model: PredictiveModel) -> Chart {
    let hover = |point: &NumberPrediction| {
        let number = |value| significant(value, 4);
        let (low, high) = *point.interval.get(model);
        format!(
            "row {}: truth {}, predicted {} ({} to {})",
            point.row,
            number(point.truth),
            number(point.mean),
            number(low),
            number(high)
        )
    };
    let (name, colour) = look_of(model);
    let span = |point: &NumberPrediction| {
        let (low, high) = *point.interval.get(model);
        (point.truth, low, high)
    };
    let means = points.iter().map(|point| (point.truth, point.mean)).collect();
    Chart::new(
        format!("Predictions of {target} on test rows"),
        Axis::linear(format!("true {target}")),
        Axis::linear(format!("predicted {target}")),
    )
    .with_size(480.0, 480.0)
    .with(Reference::diagonal("prediction = truth"))
    .with(Spans::upright(format!("90 % interval ({name})"), colour, points.iter().map(span).collect()))
    .with(Points::new("predictive mean", colour, Marker::Circle, means).with_hover(points.iter().map(hover).collect()))
}

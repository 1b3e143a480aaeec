//! Calibration figures: probability integral transform, coverage of central intervals, reliability diagram.

use kelvin_study::error::{Result, StudyError};
use std::num::NonZeroUsize;

use kelvin::predictive::{PitValues, PredictiveModel, ReliabilityDiagram};

use super::figure::{Figure, Models, OfTarget, dash_of, look_of};
use crate::chart::{Axis, Chart, Colour, Dash, Line, Reference};
use kelvin_study::findings::{ClassPrediction, NumberPrediction};

/// Histograms and curves use this many bins.
const BINS: NonZeroUsize = NonZeroUsize::new(10).unwrap();
/// Nominal coverages, in percent.
const LEVELS: [u32; 11] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99];

fn shown(models: Models) -> impl Iterator<Item = PredictiveModel> {
    PredictiveModel::BOTH.into_iter().filter(move |&model| models.include(model))
}

fn pit_values(points: &[NumberPrediction], model: PredictiveModel) -> Result<PitValues> {
    Ok(PitValues::new(points.iter().map(|point| *point.pit.get(model)).collect())?)
}

pub(super) fn pit_histogram(of: OfTarget<'_>, points: &[NumberPrediction]) -> Result<Figure> {
    let chart = |models: Models| {
        let outline = |model| {
            let (name, colour) = look_of(model);
            let values = pit_values(points, model)?;
            let line = Line::histogram(name, colour, values.values(), BINS.get(), 0.0, 1.0);
            Ok::<_, StudyError>(line.with_dash(dash_of(model)))
        };
        let outlines = shown(models).map(outline).collect::<Result<Vec<Line>>>()?;
        // What chance alone leaves: two standard deviations of a bin's count.
        let share = 1.0 / BINS.get() as f64;
        let chance = 2.0 * ((1.0 - share) / (share * points.len() as f64)).sqrt();
        let highest =
            outlines.iter().flat_map(|line| &line.points).fold(1.0 + chance, |most: f64, point| most.max(point.1));
        let mut band =
            Line::new("by chance (± 2 SD)", Colour::Muted, vec![(0.0, 1.0), (1.0, 1.0)]).with_std(&[chance; 2]);
        (band.marker, band.dash) = (crate::chart::Marker::None, Dash::Dotted);
        let chart = Chart::new(
            of.titled("Where test truths fall in their predictive distributions"),
            Axis::linear("predictive probability of less than the truth").between(0.0, 1.0),
            Axis::linear("density").between(0.0, 1.08 * highest),
        );
        Ok(outlines.into_iter().fold(chart.with(band), Chart::with))
    };
    let caption = "Probability integral transform of the truth on test rows. Flat is calibrated, a hump is too wide, horns at \
                   the ends are too narrow.";
    Figure::by_model(of.named("calibration"), caption, chart)
}

pub(super) fn interval_coverage(of: OfTarget<'_>, points: &[NumberPrediction]) -> Result<Figure> {
    let chart = |models: Models| {
        let mut chart = Chart::new(
            of.titled("Coverage of central intervals on test rows"),
            Axis::linear("nominal coverage").between(0.0, 1.0),
            Axis::linear("share of truths inside").between(0.0, 1.0),
        )
        .with_size(480.0, 480.0)
        .with(Reference::diagonal("calibrated"));
        for model in shown(models) {
            let (name, colour) = look_of(model);
            let values = pit_values(points, model)?;
            let at = |percent: u32| {
                let nominal = f64::from(percent) / 100.0;
                Ok::<_, StudyError>((nominal, values.coverage(nominal)?))
            };
            let curve = LEVELS.into_iter().map(at).collect::<Result<Vec<_>>>()?;
            let deviations: Vec<f64> = curve.iter().map(|point| binomial_std(point.1, points.len())).collect();
            chart = chart.with(Line::new(name, colour, curve).with_std(&deviations).with_dash(dash_of(model)));
        }
        Ok(chart)
    };
    let caption = "Share of test truths inside their central predictive interval, against the share it promises, ± SD of that \
                   many rows. Above the diagonal intervals are too wide, below too narrow.";
    Figure::by_model(of.named("coverage"), caption, chart)
}

/// Standard deviation of a share among this many points.
fn binomial_std(share: f64, num_points: usize) -> f64 {
    (share * (1.0 - share) / num_points.max(1) as f64).sqrt()
}

pub(super) fn reliability(points: &[ClassPrediction]) -> Result<Figure> {
    let chart = |models: Models| {
        let mut chart = Chart::new(
            "Reliability on test rows",
            Axis::linear("predicted probability of the chosen class").between(0.0, 1.0),
            Axis::linear("share of right answers").between(0.0, 1.0),
        )
        .with_size(480.0, 480.0)
        .with(Reference::diagonal("calibrated"));
        for model in shown(models) {
            let (name, colour) = look_of(model);
            let predicted = |point: &ClassPrediction| *point.predicted.get(model);
            let confidence = |point: &ClassPrediction| point.probabilities.get(model)[predicted(point)];
            let confidences: Vec<f64> = points.iter().map(confidence).collect();
            let correct: Vec<bool> = points.iter().map(|point| predicted(point) == point.label).collect();
            let diagram = ReliabilityDiagram::new(&confidences, &correct, BINS)?;
            let filled: Vec<_> = diagram
                .bins
                .iter()
                .filter_map(|bin| Some(((bin.mean_confidence?, bin.accuracy?), bin.num_points)))
                .collect();
            let deviations: Vec<f64> = filled.iter().map(|(point, count)| binomial_std(point.1, *count)).collect();
            let curve = filled.into_iter().map(|(point, _)| point).collect();
            chart = chart.with(Line::new(name, colour, curve).with_std(&deviations).with_dash(dash_of(model)));
        }
        Ok(chart)
    };
    let caption = "Share of right answers among test rows of about the same predicted probability, ± SD of that many rows. \
                   Below the diagonal the model is too sure of itself.";
    Figure::by_model("calibration", caption, chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Plot;
    use kelvin::predictive::ByModel;

    const ONLY: OfTarget<'_> = OfTarget { target: "y", number: None };

    fn point(pit: f64) -> NumberPrediction {
        let both = |value| ByModel { standard: value, tempered: value };
        NumberPrediction {
            row: 0,
            truth: 1.0,
            mean: 1.0,
            sd: both(1.0),
            interval: ByModel { standard: (0.0, 2.0), tempered: (0.0, 2.0) },
            log_density: both(-1.0),
            pit: ByModel { standard: pit, tempered: 0.5 },
        }
    }

    #[test]
    fn coverage_counts_truths_inside_their_intervals() {
        let points: Vec<_> = [0.01, 0.3, 0.6, 0.99].map(point).to_vec();
        let figure = interval_coverage(ONLY, &points).unwrap();
        let Plot::Chart(chart) = &figure.drawings[1].plot else { panic!("one chart") };
        let csv = chart.to_csv();
        assert!(csv.contains("\nSM-PD,0.5,0.5,"), "two of four lie in the middle half: {csv}");
        assert!(csv.contains("\nSM-PD,0.99,1,"), "{csv}");
        assert!(!csv.contains("TM-PD"));
    }

    #[test]
    fn a_damaged_probability_is_an_error() {
        assert!(pit_histogram(ONLY, &[point(1.5)]).is_err());
    }
}

//! The theory as pictures: the Gaussian toy against temperature, and the bound of Lemma 3.1 against β.

use kelvin::exact::{BoundExample, Objective, OptimalTemperature, TOY_CASES, ToyCase, ToyPoint, log_spaced};
use kelvin_study::error::{Result, refused};

use crate::chart::{Axis, Chart, Colour, Line, Marker, Panels, Points, Reference};
use kelvin_study::number::significant;

const COLDEST: f64 = 0.01;
const HOTTEST: f64 = 100.0;
const NUM_POINTS: usize = 161;

/// A criterion of the toy: its name, colour, value, and where it is least.
type ToyCriterion = (&'static str, Colour, fn(&ToyPoint) -> f64, fn(&ToyCase) -> OptimalTemperature);

const CRITERIA: [ToyCriterion; 2] = [
    ("KL", Colour::Purple, |point| point.kl_divergence, |case| case.toy.optimal_temperature_kl()),
    ("W₂²", Colour::Orange, |point| point.squared_wasserstein, |case| case.toy.optimal_temperature_wasserstein()),
];

/// KL and squared W₂ against T, a panel for each case; where one is best as T → 0, its mark lies at the cold edge.
pub fn gaussian_toy() -> Panels {
    let panel = |case: &ToyCase| {
        let curve = case.toy.curve(&log_spaced(COLDEST, HOTTEST, NUM_POINTS));
        let mut chart =
            Chart::new(case.name, Axis::log("temperature T"), Axis::log("distance to the truth").between(0.018, 8.0))
                .with(Reference::vertical(1.0, "T = 1"));
        for (name, colour, value, _) in CRITERIA {
            let points = curve.iter().map(|point| (point.temperature, value(point))).collect();
            chart = chart.with(Line { marker: Marker::None, ..Line::new(name, colour, points) });
        }
        for (name, _, value, best) in CRITERIA {
            let best = best(case);
            let at = best.interior().unwrap_or(COLDEST);
            let (marker, legend, hover) = match best {
                OptimalTemperature::Interior(at) => {
                    (Marker::Ring, "best T", format!("{name}: T* = {}", significant(at, 3)))
                }
                OptimalTemperature::Cold { formula } => (
                    Marker::Cross,
                    "best as T → 0",
                    format!("{name}: best as T → 0 (the formula gives {})", significant(formula, 3)),
                ),
            };
            let points = case.toy.curve(&[at]).iter().map(|point| (at, value(point))).collect();
            chart = chart.with(Points::new(legend, Colour::CHOSEN, marker, points).with_hover(vec![hover]));
        }
        chart
    };
    Panels::new("Gaussian toy: the best temperature is rarely 1", TOY_CASES.iter().map(panel).collect())
}

/// Test LPD of SM and TM and the bound against β, with the best β of each.
///
/// # Errors
/// If the model in closed form cannot be solved.
pub fn bound(example: &BoundExample) -> Result<Chart> {
    // Beyond β = 2 TM-PD and the bound fall without end.
    let curve = example.curve(&log_spaced(0.01, 2.0, NUM_POINTS))?;
    let lines = [
        ("SM-PD", Colour::SM, Objective::StandardModel, curve.iter().map(|p| p.standard_lpd).collect::<Vec<f64>>()),
        ("TM-PD", Colour::TM, Objective::TemperedModel, curve.iter().map(|p| p.tempered_lpd).collect()),
        ("bound on TM-PD", Colour::Orange, Objective::LowerBound, curve.iter().map(|p| p.lower_bound).collect()),
    ];
    let title = "Linear regression: the bound of Lemma 3.1 leads near the best β";
    let mut chart = Chart::new(title, Axis::log("inverse temperature β"), Axis::linear("test LPD (nats)"))
        .with(Reference::vertical(1.0, "β = 1"));
    for (name, colour, _, values) in &lines {
        let points = curve.iter().map(|point| point.inverse_temperature).zip(values.iter().copied()).collect();
        chart = chart.with(Line { marker: Marker::None, ..Line::new(*name, *colour, points) });
    }
    for (name, _, objective, _) in &lines {
        let Some(beta) = example.best_inverse_temperature(*objective)? else { continue };
        let hover = vec![format!("{name}: best at β = {}", significant(beta, 3))];
        let points = vec![(beta, value_at(example, *objective, beta)?)];
        chart = chart.with(Points::new("best β", Colour::CHOSEN, Marker::Ring, points).with_hover(hover));
    }
    Ok(chart)
}

/// The value of an objective on the test rows at one β.
///
/// # Errors
/// If the model in closed form cannot be solved.
pub fn value_at(example: &BoundExample, objective: Objective, beta: f64) -> Result<f64> {
    let curve = example.curve(&[beta])?;
    let point = curve.first().ok_or_else(|| refused(format!("no value at β = {beta}")))?;
    Ok(match objective {
        Objective::StandardModel => point.standard_lpd,
        Objective::TemperedModel => point.tempered_lpd,
        Objective::LowerBound => point.lower_bound,
    })
}

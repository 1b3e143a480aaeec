//! What learning theory expects against β, beside what was measured.

use super::figure::{BETA_AXIS, Figure, with_other_x};
use crate::chart::{Axis, Chart, Colour, Dash, Line, Reference};
use crate::tables::{ChainTheory, TheoryLine, prediction, theory_lines};
use kelvin_study::findings::{Findings, mean_and_std};
use kelvin_study::number::significant;

/// LPD of training and test rows against β, WAIC, and the paper's relation; none without a grid or the numbers.
pub(super) fn expected_and_measured(findings: &Findings) -> Option<Figure> {
    const FEWEST: usize = 3;
    let lines = theory_lines(findings);
    if findings.grid.is_empty() || lines.len() < FEWEST {
        return None;
    }
    let predicted = prediction(&lines)?;
    let measured = |name: &str, colour, of: &dyn Fn(&ChainTheory) -> Option<f64>| {
        let values = lines.iter().map(|line: &TheoryLine| (line.beta, line.values(of))).collect::<Vec<_>>();
        curve(name, colour, &values)
    };
    let training = measured("training, measured", Colour::Purple, &|chain| Some(-chain.found.training_loss));
    let test = measured("test, measured", Colour::SM, &|chain| chain.test_lpd);
    let waic = measured("−WAIC", Colour::Orange, &|chain| Some(-chain.waic)).with_dash(Dash::Dotted);
    let relation = curve("asymptotic relation", Colour::Vermillion, &predicted.lpd).with_dash(Dash::Dashed);
    // What theory expects may be far off where it does not hold: the axis is that of what was measured.
    let shown = || training.points.iter().chain(&test.points).map(|point| point.1).filter(|y| y.is_finite());
    let (low, high) = (shown().fold(f64::INFINITY, f64::min), shown().fold(f64::NEG_INFINITY, f64::max));
    let room = 0.25 * (high - low);
    let at = significant(predicted.anchor, 3);
    let chart = Chart::new(
        format!("{}: LPD that theory expects", findings.name),
        Axis::log(BETA_AXIS),
        Axis::linear("LPD of SM (nats)").between(low - room, high + room),
    );
    let chart = chart.with(Reference::vertical(predicted.anchor, format!("anchor β = {at}")));
    let chart = chart.with(training).with(test).with(waic).with(relation);
    let over = if lines.iter().any(|line| line.chains.len() > 1) { ", mean ± SD over chains" } else { "" };
    let caption = format!(
        "LPD (SM) of training and test rows as measured, with what learning theory expects of test rows{over}. \
         Dotted: −WAIC, from training rows alone. Dashed: the paper's asymptotic relation −LPD = L₀ + ((λ − ν)/β + ν)/n with \
         ν\u{302} of each β, each chain's λ\u{302} at β = {at}, and L₀ such that it holds there. Where they leave the test curve, the \
         theory does not hold; arrows lie beyond the edge."
    );
    Some(Figure::new("learning_theory", chart, caption).with_scale_switch("log β axis", with_other_x))
}

/// The mean over chains, with a band of one standard deviation.
fn curve(name: &str, colour: Colour, values: &[(f64, Vec<f64>)]) -> Line {
    let moments: Vec<(f64, f64)> = values.iter().map(|(_, values)| mean_and_std(values)).collect();
    let points = values.iter().zip(&moments).map(|((beta, _), (mean, _))| (*beta, *mean)).collect();
    let line = Line::new(name, colour, points);
    match values.iter().any(|(_, values)| values.len() > 1) {
        true => line.with_std(&moments.iter().map(|(_, std)| *std).collect::<Vec<_>>()),
        false => line,
    }
}

//! The search for β: its path from each start.

use super::figure::{BETA_AXIS, Figure, with_other_y};
use crate::chart::{Axis, Chart, Colour, Line, Marker, Points, Reference};
use kelvin_study::findings::Findings;
use kelvin_study::number::significant;

/// β at each checkpoint of the search, one line a start; the best checkpoint of each is marked.
pub(super) fn selection_path(findings: &Findings) -> Figure {
    let (unit, label) = match findings.sampling.search_steps {
        0..5_000 => (1.0, "steps of the search"),
        _ => (1e3, "steps of the search (thousands)"),
    };
    let title = format!("{}: the search for β", findings.name);
    let mut chart =
        Chart::new(title, Axis::linear(label), Axis::log(BETA_AXIS)).with(Reference::horizontal(1.0, "β = 1"));
    let mut best = (Vec::new(), Vec::new());
    for search in &findings.searches {
        let start = search.repetition as usize;
        let Some(chosen) = search.path.get(search.best) else { continue };
        let place = |step: u64, beta: f64| (step as f64 / unit, beta);
        // Older kelvins did not look at the start.
        let mut path: Vec<(f64, f64)> = match search.path.first() {
            Some(first) if first.step == 0 => Vec::new(),
            _ => vec![(0.0, 1.0)],
        };
        path.extend(search.path.iter().map(|visit| place(visit.step, visit.beta)));
        let colour = Colour::CYCLE[start % Colour::CYCLE.len()];
        chart = chart.with(Line::trace(format!("start {}", start + 1), colour, path));
        best.0.push(place(chosen.step, chosen.beta));
        best.1.push(format!("start {}: β = {}", start + 1, significant(chosen.beta, 3)));
    }
    chart = chart.with(Points::new("best validation", Colour::CHOSEN, Marker::Ring, best.0).with_hover(best.1));
    let caption = "β during the joint optimisation, from each start; the ring is the checkpoint with the best validation \
                   likelihood.";
    Figure::new("selection_path", chart, caption).with_scale_switch("log β axis", with_other_y)
}

//! One plot in its place: ranges, margins that fit the labels, the axes with their marks; `marks` draws the data.

use super::axis::{Mapping, Scale};
use super::colour::Colour;
use super::frame::{Area, Frame};
use super::marks;
use super::range::{self, Seen};
use super::series::{Dash, Direction, Layer, Place, Reference, Spans};
use super::svg::{Anchor, Font, Svg, coordinate, text_width};
use super::ticks::{self, Tick, Ticks};
use super::value::Chart;

pub(super) const TICK_FONT: Font = Font { size: 11.5, bold: false, colour: Colour::Ink };
const LABEL_FONT: Font = Font { size: 12.5, bold: false, colour: Colour::Ink };
const REFERENCE_FONT_SIZE: f64 = 11.0;
const TICK: f64 = 4.0;
/// Data end this far inside the frame, so that points do not sit on the axes.
const ROOM: f64 = 0.045;

/// Room that the label of the x axis takes below, and that of the y axis left of the numbers.
const LABEL_ROOM: f64 = 22.0;

/// The left margin a chart needs.
fn left_margin(chart: &Chart, ticks: &Ticks) -> f64 {
    let widest = ticks.labelled.iter().map(|t| text_width(&t.label, TICK_FONT.size)).fold(0.0, f64::max);
    let label = if !chart.y.label.is_empty() { LABEL_ROOM } else { 0.0 };
    widest + TICK + 6.0 + label
}

/// The share of a drawing that names may take.
const MOST_OF_NAMES: f64 = 0.42;

/// A name without its beginning where it is too wide: paths tell most at their end.
fn shortened(name: &str, width: f64) -> String {
    let mut shown = name.to_owned();
    let mut rest = name.chars();
    while text_width(&shown, TICK_FONT.size) > width && rest.next().is_some() {
        shown = format!("…{}", rest.as_str());
    }
    shown
}

/// What a chart with named places needs below its title and legend.
pub(super) fn height_of_names(chart: &Chart) -> f64 {
    // Long lists stand closer.
    let row = if chart.y.names.len() > 20 { 17.0 } else { 24.0 };
    row * chart.y.names.len() as f64 + 19.0 + TICK + 17.0 + LABEL_ROOM + 10.0
}

/// Draws a chart without its title and legend.
pub(super) fn draw(svg: &mut Svg, chart: &Chart, area: Area) {
    let (y, y_ticks) = vertical_layout(chart, area);
    let left = area.left + left_margin(chart, &y_ticks);
    let right = area.left + area.width - right_margin(chart);
    let (low, high) = range::of(&chart.x, &seen_x(chart), ROOM);
    let x = Mapping { scale: chart.x.scale, low, high, start: left, end: right };
    let x_ticks = ticks::choose(chart.x.scale, low, high, &|ticks| side_by_side(&x, ticks));
    let frame = Frame { x, y };

    grid(svg, &frame, &y_ticks);
    marks::draw(svg, chart, &frame);
    axes(svg, &frame, &x_ticks, &y_ticks);
    vertical_labels(svg, chart, &frame);
    horizontal_labels(svg, chart, &frame);
    if !chart.x.label.is_empty() {
        // Wide margins push the middle of the frame aside: the label stays inside the drawing.
        let half = text_width(&chart.x.label, LABEL_FONT.size) / 2.0;
        let middle = ((frame.x.start + frame.x.end) / 2.0).min(area.left + area.width - half).max(area.left + half);
        svg.text(middle, area.top + area.height - 4.0, Anchor::Middle, LABEL_FONT, &chart.x.label);
    }
    if !chart.y.label.is_empty() {
        svg.text_upwards(area.left + 11.0, (frame.y.start + frame.y.end) / 2.0, LABEL_FONT, &chart.y.label);
    }
}

/// The mapping of the y axis and its marks: they do not depend on the left margin.
fn vertical_layout(chart: &Chart, area: Area) -> (Mapping, Ticks) {
    let has_vertical = chart.references().any(|r| matches!(r.place, Place::Vertical(_)) && !r.label.is_empty());
    let top = area.top + if has_vertical { 19.0 } else { 9.0 };
    let below = TICK + 17.0 + if !chart.x.label.is_empty() { LABEL_ROOM } else { 0.0 };
    let (low, high) = range::of(&chart.y, &seen_y(chart), ROOM);
    let mapping = Mapping { scale: chart.y.scale, low, high, start: area.top + area.height - below, end: top };
    if !chart.y.names.is_empty() {
        let tick = |(index, name): (usize, &String)| {
            let label = shortened(name, MOST_OF_NAMES * area.width);
            Tick { at: (index + 1) as f64, label }
        };
        let labelled = chart.y.names.iter().enumerate().map(tick).collect();
        return (mapping, Ticks { labelled, minor: Vec::new() });
    }
    let fits = |ticks: &[Tick]| gaps(&mapping, ticks).all(|(gap, _, _)| gap >= 27.0);
    (mapping, ticks::choose(chart.y.scale, low, high, &fits))
}

fn side_by_side(x: &Mapping, ticks: &[Tick]) -> bool {
    let half = |label: &str| text_width(label, TICK_FONT.size) / 2.0;
    gaps(x, ticks)
        .all(|(gap, a, b)| gap >= (half(a) + half(b) + 9.0).max(if x.scale == Scale::Log { 0.0 } else { 48.0 }))
}

fn gaps<'a>(mapping: &'a Mapping, ticks: &'a [Tick]) -> impl Iterator<Item = (f64, &'a str, &'a str)> {
    ticks.windows(2).filter_map(|pair| {
        let gap = mapping.place(pair[1].at)? - mapping.place(pair[0].at)?;
        Some((gap.abs(), pair[0].label.as_str(), pair[1].label.as_str()))
    })
}

fn right_margin(chart: &Chart) -> f64 {
    let is_horizontal = |r: &&Reference| matches!(r.place, Place::Horizontal(_)) && !r.label.is_empty();
    let widest = chart
        .references()
        .filter(is_horizontal)
        .map(|r| text_width(&r.label, REFERENCE_FONT_SIZE) + 18.0)
        .fold(0.0, f64::max);
    widest.max(14.0)
}

fn seen_x(chart: &Chart) -> Seen {
    let mut seen = Seen::default();
    for layer in &chart.layers {
        match layer {
            Layer::Line(line) => seen.values.extend(line.points.iter().map(|p| p.0)),
            Layer::Points(points) => seen.values.extend(points.points.iter().map(|p| p.0)),
            Layer::Spans(spans) => add_spans(&mut seen, spans, Direction::Across),
            Layer::Reference(Reference { place: Place::Vertical(x), .. }) => seen.extras.push(*x),
            Layer::Reference(_) => {}
        }
    }
    seen
}

fn seen_y(chart: &Chart) -> Seen {
    let mut seen = Seen::default();
    for layer in &chart.layers {
        match layer {
            Layer::Line(line) => {
                seen.values.extend(line.points.iter().map(|p| p.1));
                seen.extras.extend(line.band.iter().flat_map(|(low, high)| [*low, *high]));
            }
            Layer::Points(points) => seen.values.extend(points.points.iter().map(|p| p.1)),
            Layer::Spans(spans) => add_spans(&mut seen, spans, Direction::Upright),
            Layer::Reference(Reference { place: Place::Horizontal(y), .. }) => seen.extras.push(*y),
            Layer::Reference(_) => {}
        }
    }
    seen
}

/// What an axis that runs this way must show of spans.
fn add_spans(seen: &mut Seen, spans: &Spans, axis: Direction) {
    for &(at, low, high) in &spans.spans {
        if spans.direction == axis {
            seen.extras.extend([low, high]);
        } else {
            seen.values.push(at);
        }
    }
}

fn grid(svg: &mut Svg, frame: &Frame, ticks: &Ticks) {
    let width = coordinate(frame.x.end - frame.x.start);
    let lines = ticks.labelled.iter().filter_map(|tick| frame.y.place(tick.at));
    let path: String = lines.map(|y| format!("M{} {}h{width}", coordinate(frame.x.start), coordinate(y))).collect();
    svg.stroke(&path, Colour::Grid, 0.8, Dash::Solid, 1.0);
}

fn axes(svg: &mut Svg, frame: &Frame, x_ticks: &Ticks, y_ticks: &Ticks) {
    let (left, bottom) = (frame.x.start, frame.y.start);
    let mut path = format!(
        "M{0} {1}V{2}H{3}",
        coordinate(left),
        coordinate(frame.y.end),
        coordinate(bottom),
        coordinate(frame.x.end)
    );
    let x_marks = x_ticks.labelled.iter().map(|t| (t.at, TICK)).chain(x_ticks.minor.iter().map(|at| (*at, 2.0)));
    for (at, length) in x_marks {
        let Some(x) = frame.x.place(at) else { continue };
        path += &format!("M{} {}v{length}", coordinate(x), coordinate(bottom));
    }
    let y_marks = y_ticks.labelled.iter().map(|t| (t.at, TICK)).chain(y_ticks.minor.iter().map(|at| (*at, 2.0)));
    for (at, length) in y_marks {
        let Some(y) = frame.y.place(at) else { continue };
        path += &format!("M{} {}h-{length}", coordinate(left), coordinate(y));
    }
    svg.stroke(&path, Colour::Ink, 0.8, Dash::Solid, 1.0);
    for tick in &x_ticks.labelled {
        let Some(x) = frame.x.place(tick.at) else { continue };
        svg.text(x, bottom + TICK + 13.0, Anchor::Middle, TICK_FONT, &tick.label);
    }
    for tick in &y_ticks.labelled {
        let Some(y) = frame.y.place(tick.at) else { continue };
        svg.text(left - TICK - 4.0, y + 4.0, Anchor::End, TICK_FONT, &tick.label);
    }
}

/// Names vertical reference lines above the frame; a name that would run into the one before is left to the hover text.
fn vertical_labels(svg: &mut Svg, chart: &Chart, frame: &Frame) {
    let mut named: Vec<(f64, &Reference)> = chart
        .references()
        .filter(|r| !r.label.is_empty())
        .filter_map(|r| match r.place {
            Place::Vertical(x) if frame.x.shows(x) => Some((frame.x.place(x)?, r)),
            _ => None,
        })
        .collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut taken = f64::NEG_INFINITY;
    for (x, reference) in named {
        let half = text_width(&reference.label, REFERENCE_FONT_SIZE) / 2.0;
        if x - half < taken + 6.0 {
            continue;
        }
        taken = x + half;
        let font = Font { size: REFERENCE_FONT_SIZE, bold: false, colour: reference.colour };
        svg.text(x, frame.y.end - 6.0, Anchor::Middle, font, &reference.label);
    }
}

/// Names horizontal reference lines right of the frame, pushed apart where they are close; an arrow where off range.
fn horizontal_labels(svg: &mut Svg, chart: &Chart, frame: &Frame) {
    let line_height = REFERENCE_FONT_SIZE + 3.0;
    let mut named: Vec<(f64, String, Colour)> = chart
        .references()
        .filter(|r| !r.label.is_empty())
        .filter_map(|r| match r.place {
            Place::Horizontal(y) if !y.is_nan() => {
                let arrow = if y > frame.y.high { "↑ " } else { "↓ " };
                let arrow = if frame.y.shows(y) { "" } else { arrow };
                Some((frame.y.clamp(y), format!("{arrow}{}", r.label), r.colour))
            }
            _ => None,
        })
        .collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    let lowest = frame.y.start - line_height * named.len().saturating_sub(1) as f64;
    let mut least = f64::NEG_INFINITY;
    for (i, (y, label, colour)) in named.into_iter().enumerate() {
        let y = y.min(lowest + line_height * i as f64).max(least);
        least = y + line_height;
        let font = Font { size: REFERENCE_FONT_SIZE, bold: false, colour };
        svg.text(frame.x.end + 6.0, y + 3.8, Anchor::Start, font, &label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(shortened("dense1.bias", 100.0), "dense1.bias");
        let short = shortened("residual9.body.batchnorm2.offset", 100.0);
        assert!(short.starts_with('…') && short.ends_with("m2.offset"), "{short}");
        assert_eq!(shortened("ab", 0.0), "…");
    }
}

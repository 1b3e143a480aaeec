//! Draws the data of a chart inside its frame: bands, curves, points, and arrows for what lies outside.

use super::axis::{Axis, Mapping, Scale};
use super::colour::Colour;
use super::frame::Frame;
use super::series::{Dash, Direction, Layer, Line, Marker, Place, Points, Spans};
use super::svg::{Svg, coordinate};
use super::thin;
use super::value::{Chart, short_label};
use crate::escape::escape;
use kelvin_study::number::significant;

const LINE_MARKER: f64 = 3.4;
const POINT_MARKER: f64 = 4.4;
/// Curves with more points than this are drawn without marks and thinned.
const MANY: usize = 400;

pub(super) fn draw(svg: &mut Svg, chart: &Chart, frame: &Frame) {
    svg.push(&format!(
        "<g class=\"plot\" {} {}>",
        scale_of("x", &chart.x, &frame.x),
        scale_of("y", &chart.y, &frame.y)
    ));
    // A nested svg clips at its border and, unlike a clip path, needs no id that could clash in a page.
    let (left, right) = (frame.x.start, frame.x.end);
    let (top, bottom) = (frame.y.end, frame.y.start);
    let [x, y, width, height] = [left, top, (right - left).max(1.0), (bottom - top).max(1.0)].map(coordinate);
    let window = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}""#);
    svg.push(&format!("<svg {window}>"));
    for layer in &chart.layers {
        if let Layer::Line(line) = layer {
            draw_band(svg, line, frame);
        }
    }
    draw_references(svg, chart, frame);
    for layer in &chart.layers {
        if let Layer::Spans(spans) = layer {
            draw_spans(svg, spans, frame);
        }
    }
    for layer in &chart.layers {
        if let Layer::Line(line) = layer {
            draw_curve(svg, line, frame);
        }
    }
    svg.push("</svg>");
    for layer in &chart.layers {
        if let Layer::Line(line) = layer {
            draw_line_points(svg, line, chart, frame);
        }
    }
    for layer in &chart.layers {
        if let Layer::Points(points) = layer {
            draw_points(svg, points, chart, frame);
        }
    }
    svg.push("</g>");
}

/// How places become values again, for a page that shows them: what it is called, its scale, range and place.
fn scale_of(which: &str, axis: &Axis, mapping: &Mapping) -> String {
    let scale = if mapping.scale == Scale::Log { "log" } else { "linear" };
    let (start, end) = (coordinate(mapping.start), coordinate(mapping.end));
    format!(
        r#"data-{which}="{scale} {:e} {:e} {start} {end}" data-{which}-name="{}""#,
        mapping.low,
        mapping.high,
        escape(short_label(axis))
    )
}

fn draw_spans(svg: &mut Svg, spans: &Spans, frame: &Frame) {
    let mut path = String::new();
    for &(at, low, high) in &spans.spans {
        let (along, beside) = match spans.direction {
            Direction::Across => (&frame.x, &frame.y),
            Direction::Upright => (&frame.y, &frame.x),
        };
        let Some(at) = beside.place(at).filter(|_| beside.shows(at) && !low.is_nan() && !high.is_nan()) else {
            continue;
        };
        let [at, low, high] = [at, along.clamp(low), along.clamp(high)].map(coordinate);
        path += &match spans.direction {
            Direction::Across => format!("M{low} {at}H{high}"),
            Direction::Upright => format!("M{at} {low}V{high}"),
        };
    }
    if !path.is_empty() {
        svg.stroke(&path, spans.colour, spans.width, Dash::Solid, spans.opacity);
    }
}

fn draw_band(svg: &mut Svg, line: &Line, frame: &Frame) {
    for segment in segments(line, frame) {
        let ends: Vec<(f64, f64, f64)> = segment
            .iter()
            .filter_map(|(i, x, _)| {
                let (low, high) = *line.band.get(*i)?;
                (!low.is_nan() && !high.is_nan()).then(|| (*x, beyond(frame, low), beyond(frame, high)))
            })
            .collect();
        match ends[..] {
            [] => {}
            // A band of one point has no width: a whisker shows it.
            [(x, low, high)] => {
                let [x, low, high] = [x, low, high].map(coordinate);
                svg.stroke(&format!("M{x} {low}V{high}"), line.colour, 1.4, Dash::Solid, 1.0);
            }
            _ => {
                let upper = ends.iter().map(|(x, _, high)| (*x, *high));
                let lower = ends.iter().rev().map(|(x, low, _)| (*x, *low));
                let path = polyline(&upper.chain(lower).collect::<Vec<_>>());
                svg.fill(&format!("{path}z"), line.colour, 0.16, "");
            }
        }
    }
}

/// The place of a band's end, at most one frame beyond the edges, so that its slope is kept and the file stays sane.
fn beyond(frame: &Frame, value: f64) -> f64 {
    // A legend of very many names may leave a plot no height.
    let (top, bottom) = (frame.y.end.min(frame.y.start), frame.y.end.max(frame.y.start));
    let height = bottom - top;
    let place = frame.y.place(value).unwrap_or_else(|| frame.y.clamp(value));
    place.clamp(top - 20.0 * height, bottom + 20.0 * height)
}

fn draw_references(svg: &mut Svg, chart: &Chart, frame: &Frame) {
    for reference in chart.references() {
        let path = match reference.place {
            Place::Vertical(x) if frame.x.shows(x) => frame.x.place(x).map(|x| {
                let x = coordinate(x);
                format!("M{x} {}V{}", coordinate(frame.y.start), coordinate(frame.y.end))
            }),
            Place::Horizontal(y) if frame.y.shows(y) => frame.y.place(y).map(|y| {
                let y = coordinate(y);
                format!("M{} {y}H{}", coordinate(frame.x.start), coordinate(frame.x.end))
            }),
            Place::Diagonal => {
                let (low, high) = (frame.x.low.max(frame.y.low), frame.x.high.min(frame.y.high));
                let end = |v: f64| Some((frame.x.place(v)?, frame.y.place(v)?));
                end(low).zip(end(high)).filter(|_| low < high).map(|(a, b)| polyline(&[a, b]))
            }
            _ => None,
        };
        if let Some(path) = path {
            let width = if reference.dash == Dash::Dotted { 1.6 } else { 1.2 };
            svg.stroke(&path, reference.colour, width, reference.dash, 1.0);
        }
    }
}

fn draw_curve(svg: &mut Svg, line: &Line, frame: &Frame) {
    for segment in segments(line, frame) {
        let points: Vec<(f64, f64)> = segment.into_iter().map(|(_, x, y)| (x, y)).collect();
        if points.len() > 1 {
            // A line without signs says by its name what is hovered over.
            let name = if line.marker == Marker::None { line.name.as_str() } else { "" };
            let path = polyline(&thin::per_column(&points));
            svg.named_stroke(name, &path, line.colour, line.width, line.dash, line.opacity);
        }
    }
}

/// The runs of points that can be drawn, as (index, x, y); a value that cannot be drawn ends a run.
fn segments(line: &Line, frame: &Frame) -> Vec<Vec<(usize, f64, f64)>> {
    let mut runs = vec![Vec::new()];
    for (i, (x, y)) in line.points.iter().enumerate() {
        match frame.x.place(*x).zip(frame.y.place(*y)) {
            Some((x, _)) => {
                if let Some(run) = runs.last_mut() {
                    run.push((i, x, beyond(frame, *y)));
                }
            }
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn draw_line_points(svg: &mut Svg, line: &Line, chart: &Chart, frame: &Frame) {
    let marker = if line.points.len() > MANY { Marker::None } else { line.marker };
    for (i, (x, y)) in line.points.iter().enumerate() {
        if marker == Marker::None && frame.y.shows(*y) {
            continue;
        }
        let spread = line.band.get(i).map(|(low, high)| (significant(*low, 4), significant(*high, 4)));
        let mut hover = coordinates(&line.name, chart, *x, *y);
        if let Some((low, high)) = spread {
            hover += &format!(" ({low} to {high})");
        }
        draw_point(svg, frame, (*x, *y), marker, LINE_MARKER, line.colour, &hover);
    }
}

fn draw_points(svg: &mut Svg, points: &Points, chart: &Chart, frame: &Frame) {
    for (i, (x, y)) in points.points.iter().enumerate() {
        let hover = points.hover.get(i).cloned().unwrap_or_else(|| coordinates(&points.name, chart, *x, *y));
        draw_point(svg, frame, (*x, *y), points.marker, POINT_MARKER, points.colour, &hover);
    }
}

fn coordinates(name: &str, chart: &Chart, x: f64, y: f64) -> String {
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    format!("{name}{} {}, {} {}", short_label(&chart.x), significant(x, 4), short_label(&chart.y), significant(y, 4))
}

/// A sign where the point is, or an arrow at the edge it lies beyond.
fn draw_point(svg: &mut Svg, frame: &Frame, at: (f64, f64), marker: Marker, radius: f64, colour: Colour, hover: &str) {
    let (x, y) = at;
    let drawable = frame.x.scale.forward(x).is_some() && frame.y.scale.forward(y).is_some();
    if !drawable {
        return;
    }
    let (across, up) = (frame.x.clamp(x), frame.y.clamp(y));
    if frame.x.shows(x) && frame.y.shows(y) {
        svg.marker(across, up, marker, radius, colour, hover);
        return;
    }
    let sideways = if x > frame.x.high { 1.0 } else { -1.0 };
    let upright = if y > frame.y.high { -1.0 } else { 1.0 };
    let (toward_x, toward_y) = if frame.y.shows(y) { (sideways, 0.0) } else { (0.0, upright) };
    // The tip of the arrow touches the edge.
    let (length, half) = (7.0, 4.0);
    let (base_x, base_y) = (across - toward_x * length, up - toward_y * length);
    let corners = [
        (across, up),
        (base_x + toward_y * half, base_y + toward_x * half),
        (base_x - toward_y * half, base_y - toward_x * half),
    ];
    svg.fill(&format!("{}z", polyline(&corners)), colour, 1.0, hover);
}

fn polyline(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        path.push(if i == 0 { 'M' } else { 'L' });
        path += &format!("{} {}", coordinate(*x), coordinate(*y));
    }
    path
}

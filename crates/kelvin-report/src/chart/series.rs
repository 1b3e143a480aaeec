//! What a chart can show: lines with bands, outlined histograms, scattered points, reference lines.

use super::colour::Colour;

/// The sign at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// No sign: a plain line.
    None,
    /// A filled circle at each point.
    Circle,
    /// An open circle, which shows what it lies on: for points that may overlap.
    Ring,
    /// A diagonal cross at each point.
    Cross,
}

/// How a stroke is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    /// One unbroken stroke.
    Solid,
    /// A stroke of dashes.
    Dashed,
    /// A stroke of dots.
    Dotted,
}

/// A curve through points, with a band around it where one is given.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name in the legend; none if empty.
    pub name: String,
    /// Colour of curve and band.
    pub colour: Colour,
    /// The points in order; the curve is interrupted at a value that cannot be drawn.
    pub points: Vec<(f64, f64)>,
    /// Lower and upper end of the band at each point; empty for none.
    pub band: Vec<(f64, f64)>,
    /// The sign at each point.
    pub marker: Marker,
    /// How the stroke is broken.
    pub dash: Dash,
    /// Width of the stroke.
    pub width: f64,
    /// How opaque the stroke is, from 0 to 1.
    pub opacity: f64,
}

impl Line {
    /// A solid curve with a circle at each point.
    pub fn new(name: impl Into<String>, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        let (marker, dash) = (Marker::Circle, Dash::Solid);
        Self { name: name.into(), colour, points, band: Vec::new(), marker, dash, width: 1.8, opacity: 1.0 }
    }

    /// A thin, see-through curve without marks, for long traces.
    pub fn trace(name: impl Into<String>, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        Self { marker: Marker::None, width: 0.9, opacity: 0.7, ..Self::new(name, colour, points) }
    }

    /// The outline of a histogram: the density of values in equal bins from `low` to `high`, with area one.
    pub fn histogram(
        name: impl Into<String>,
        colour: Colour,
        values: &[f64],
        num_bins: usize,
        low: f64,
        high: f64,
    ) -> Self {
        let width = (high - low) / num_bins as f64;
        let mut counts = vec![0usize; num_bins];
        for value in values.iter().filter(|v| **v >= low && **v <= high) {
            let bin = ((value - low) / width) as usize;
            if let Some(count) = counts.get_mut(bin.min(num_bins.saturating_sub(1))) {
                *count += 1;
            }
        }
        let total = counts.iter().sum::<usize>().max(1) as f64;
        let edge = |i: usize| low + width * i as f64;
        let steps = counts.iter().enumerate().flat_map(|(i, &count)| {
            let height = count as f64 / (total * width);
            [(edge(i), height), (edge(i + 1), height)]
        });
        Self { marker: Marker::None, ..Self::new(name, colour, steps.collect()) }
    }

    /// The same curve with this stroke.
    pub fn with_dash(mut self, dash: Dash) -> Self {
        self.dash = dash;
        self
    }

    /// A band of one standard deviation on each side.
    pub fn with_std(mut self, stds: &[f64]) -> Self {
        self.band = self.points.iter().zip(stds).map(|((_, y), std)| (y - std, y + std)).collect();
        self
    }
}

/// Points that are not joined.
#[derive(Clone, Debug)]
pub struct Points {
    /// The name in the legend; none if empty.
    pub name: String,
    /// Colour of the signs.
    pub colour: Colour,
    /// The sign at each point.
    pub marker: Marker,
    /// The points in any order.
    pub points: Vec<(f64, f64)>,
    /// What the reader sees on hovering; the coordinates where none is given.
    pub hover: Vec<String>,
}

impl Points {
    /// Points with their coordinates as hover text.
    pub fn new(name: impl Into<String>, colour: Colour, marker: Marker, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), colour, marker, points, hover: Vec::new() }
    }

    /// One hover text per point.
    pub fn with_hover(mut self, hover: Vec<String>) -> Self {
        self.hover = hover;
        self
    }
}

/// Straight strokes from one value to another, at given places of the other axis.
#[derive(Clone, Debug)]
pub struct Spans {
    /// The name in the legend; none if empty.
    pub name: String,
    /// Colour of the strokes.
    pub colour: Colour,
    /// Which way they run.
    pub direction: Direction,
    /// Place, lower end and upper end of each.
    pub spans: Vec<(f64, f64, f64)>,
    /// Width of the stroke.
    pub width: f64,
    /// How opaque the stroke is, from 0 to 1.
    pub opacity: f64,
}

/// Which way spans run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Along the x axis.
    Across,
    /// Along the y axis.
    Upright,
}

impl Spans {
    /// Thin upright strokes, for intervals of single points.
    pub fn upright(name: impl Into<String>, colour: Colour, spans: Vec<(f64, f64, f64)>) -> Self {
        let (direction, width, opacity) = (Direction::Upright, 1.2, 0.45);
        Self { name: name.into(), colour, direction, spans, width, opacity }
    }

    /// Broad strokes across, for the range that points at named places should keep to.
    pub fn across(name: impl Into<String>, colour: Colour, spans: Vec<(f64, f64, f64)>) -> Self {
        let (direction, width, opacity) = (Direction::Across, 8.0, 0.22);
        Self { name: name.into(), colour, direction, spans, width, opacity }
    }
}

/// Where a reference line lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// At this x; labelled above the frame.
    Vertical(f64),
    /// At this y; labelled right of the frame.
    Horizontal(f64),
    /// Where y equals x.
    Diagonal,
}

/// A line to compare with.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Which line it is: vertical, horizontal or the diagonal.
    pub place: Place,
    /// What stands beside it; none if empty.
    pub label: String,
    /// The name in the legend; none if empty.
    pub name: String,
    /// Colour of line and label.
    pub colour: Colour,
    /// How the stroke is broken.
    pub dash: Dash,
}

impl Reference {
    /// A dotted vertical line.
    pub fn vertical(x: f64, label: impl Into<String>) -> Self {
        Self::new(Place::Vertical(x), Dash::Dotted).with_label(label)
    }

    /// A dashed horizontal line.
    pub fn horizontal(y: f64, label: impl Into<String>) -> Self {
        Self::new(Place::Horizontal(y), Dash::Dashed).with_label(label)
    }

    /// The dashed line y = x, named in the legend.
    pub fn diagonal(name: impl Into<String>) -> Self {
        Self::new(Place::Diagonal, Dash::Dashed).with_name(name)
    }

    fn new(place: Place, dash: Dash) -> Self {
        Self { place, label: String::new(), name: String::new(), colour: Colour::Muted, dash }
    }

    fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// A name in the legend.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same line with this stroke.
    pub fn with_dash(mut self, dash: Dash) -> Self {
        self.dash = dash;
        self
    }

    /// The same line in this colour.
    pub fn with_colour(mut self, colour: Colour) -> Self {
        self.colour = colour;
        self
    }
}

/// One thing in a chart.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A curve, with or without a band.
    Line(Line),
    /// Points that are not joined.
    Points(Points),
    /// Intervals, as straight strokes.
    Spans(Spans),
    /// A line to compare with.
    Reference(Reference),
}

impl From<Line> for Layer {
    fn from(line: Line) -> Self {
        Self::Line(line)
    }
}

impl From<Points> for Layer {
    fn from(points: Points) -> Self {
        Self::Points(points)
    }
}

impl From<Spans> for Layer {
    fn from(spans: Spans) -> Self {
        Self::Spans(spans)
    }
}

impl From<Reference> for Layer {
    fn from(reference: Reference) -> Self {
        Self::Reference(reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_have_area_one_and_keep_the_right_edge() {
        let outline = Line::histogram("", Colour::Blue, &[0.0, 0.1, 0.6, 1.0, f64::NAN, 7.0], 2, 0.0, 1.0).points;
        assert_eq!(outline, [(0.0, 1.0), (0.5, 1.0), (0.5, 1.0), (1.0, 1.0)]);
        assert!(Line::histogram("", Colour::Blue, &[0.5], 0, 0.0, 1.0).points.is_empty());
    }

    #[test]
    fn a_std_becomes_a_band() {
        let line = Line::new("SM", Colour::SM, vec![(1.0, 2.0), (2.0, 3.0)]).with_std(&[0.5, 1.0]);
        assert_eq!(line.band, [(1.5, 2.5), (2.0, 4.0)]);
    }
}

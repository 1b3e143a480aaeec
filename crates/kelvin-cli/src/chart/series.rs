//! What a chart can show: lines with bands, scattered points, bars, reference lines.

use super::colour::Colour;

/// The sign at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// No sign: a plain line.
    None,
    /// A filled circle.
    Circle,
    /// An open circle, which shows what it lies on: for points that may overlap.
    Ring,
    /// A diagonal cross.
    Cross,
}

/// How a stroke is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    /// Unbroken.
    Solid,
    /// Dashes.
    Dashed,
    /// Dots.
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

    /// A band of one standard deviation on each side.
    pub fn with_std(mut self, stds: &[f64]) -> Self {
        self.band = self.points.iter().zip(stds).map(|((_, y), std)| (y - std, y + std)).collect();
        self
    }

    /// A band between these ends.
    pub fn with_band(mut self, band: Vec<(f64, f64)>) -> Self {
        self.band = band;
        self
    }

    /// Another sign at the points.
    pub fn with_marker(mut self, marker: Marker) -> Self {
        self.marker = marker;
        self
    }

    /// Another stroke.
    pub fn with_dash(mut self, dash: Dash) -> Self {
        self.dash = dash;
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

/// One bar: it spans `from` to `to` on the x axis and reaches from zero to `height`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Left end.
    pub from: f64,
    /// Right end.
    pub to: f64,
    /// Height; may be negative.
    pub height: f64,
}

/// Bars on the zero line, such as a histogram.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The name in the legend; none if empty.
    pub name: String,
    /// Colour of the bars.
    pub colour: Colour,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Bars given one by one.
    pub fn new(name: impl Into<String>, colour: Colour, bars: Vec<Bar>) -> Self {
        Self { name: name.into(), colour, bars }
    }

    /// The density of values in equal bins from `low` to `high`: the areas of all bars add up to one.
    pub fn density(
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
        let bar = |(i, count): (usize, &usize)| Bar {
            from: edge(i),
            to: edge(i + 1),
            height: *count as f64 / (total * width),
        };
        Self::new(name, colour, counts.iter().enumerate().map(bar).collect())
    }
}

/// Where a reference line lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// At this x; labelled above the frame.
    Vertical(f64),
    /// At this y; labelled right of the frame.
    Horizontal(f64),
    /// Where y equals x; named in the legend.
    Diagonal,
}

/// A line to compare with.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Where it lies.
    pub place: Place,
    /// What it means; none if empty.
    pub label: String,
    /// Its colour.
    pub colour: Colour,
    /// How the stroke is broken.
    pub dash: Dash,
}

impl Reference {
    /// A dotted vertical line.
    pub fn vertical(x: f64, label: impl Into<String>) -> Self {
        Self { place: Place::Vertical(x), label: label.into(), colour: Colour::Muted, dash: Dash::Dotted }
    }

    /// A dashed horizontal line.
    pub fn horizontal(y: f64, label: impl Into<String>) -> Self {
        Self { place: Place::Horizontal(y), label: label.into(), colour: Colour::Muted, dash: Dash::Dashed }
    }

    /// The dashed line y = x.
    pub fn diagonal(label: impl Into<String>) -> Self {
        Self { place: Place::Diagonal, label: label.into(), colour: Colour::Muted, dash: Dash::Dashed }
    }

    /// Another colour.
    pub fn with_colour(mut self, colour: Colour) -> Self {
        self.colour = colour;
        self
    }

    /// Another stroke.
    pub fn with_dash(mut self, dash: Dash) -> Self {
        self.dash = dash;
        self
    }
}

/// One thing in a chart.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A curve.
    Line(Line),
    /// Scattered points.
    Points(Points),
    /// Bars.
    Bars(Bars),
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

impl From<Bars> for Layer {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
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
    fn densities_integrate_to_one_and_keep_the_right_edge() {
        let bars = Bars::density("", Colour::Blue, &[0.0, 0.1, 0.6, 1.0, f64::NAN, 7.0], 2, 0.0, 1.0).bars;
        assert_eq!(bars.len(), 2);
        assert_eq!((bars[0].height, bars[1].height), (1.0, 1.0));
        assert!(Bars::density("", Colour::Blue, &[0.5], 0, 0.0, 1.0).bars.is_empty());
    }

    #[test]
    fn a_std_becomes_a_band() {
        let line = Line::new("SM", Colour::SM, vec![(1.0, 2.0), (2.0, 3.0)]).with_std(&[0.5, 1.0]);
        assert_eq!(line.band, [(1.5, 2.5), (2.0, 4.0)]);
    }
}

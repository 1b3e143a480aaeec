//! Charts as self-contained SVG: a chart is a value with two axes and layers; `to_svg` draws it, `png` rasterises it.

mod axis;
mod colour;
mod csv;
mod legend;
mod marks;
mod number;
mod panel;
mod panels;
mod pdf;
mod png;
mod range;
mod series;
mod svg;
mod thin;
mod ticks;

#[cfg(test)]
pub(crate) mod demo;

pub use axis::Axis;
use axis::Scale;
pub use colour::Colour;
pub use number::{fixed, significant};
pub use panels::Panels;
pub use pdf::to_pdf;
pub use png::{encode, rasterise, resolve_variables};
pub use series::{Dash, Layer, Line, Marker, Points, Reference, Spans};

use panel::Area;
use svg::{Anchor, Font, Svg};

const TITLE_FONT: Font = Font { size: 15.0, bold: true, colour: Colour::Ink };
const MARGIN: f64 = 14.0;

/// A chart: what it is called, its two axes, what it shows.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The headline; none if empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is shown: bands lie under references, those under curves, curves under points.
    pub layers: Vec<Layer>,
    /// Width and height of the drawing; an axis of names takes the height it needs.
    pub size: (f64, f64),
}

impl Chart {
    /// An empty chart of the usual size.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let title = title.into();
        Self { title, x, y, layers: Vec::new(), size: (640.0, 400.0) }
    }

    /// Another size.
    pub fn with_size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    /// The same chart for a phone: as narrow as its screen, with letters of the usual size.
    pub fn narrow(&self) -> Self {
        const WIDTH: f64 = 360.0;
        let (width, height) = self.size;
        let height = if height < width { 340.0 } else { 420.0 };
        self.clone().with_size(WIDTH.min(width), height)
    }

    /// One more layer.
    pub fn with(mut self, layer: impl Into<Layer>) -> Self {
        self.layers.push(layer.into());
        self
    }

    /// How many of its axes are logarithmic.
    pub fn num_log_axes(&self) -> usize {
        [&self.x, &self.y].into_iter().filter(|axis| axis.scale == Scale::Log).count()
    }

    /// The drawing as a whole SVG file.
    pub fn to_svg(&self) -> String {
        let (width, height) = self.size;
        let mut svg = Svg::default();
        let entries = legend::entries(self.layers.iter());
        let top = header(&mut svg, &self.title, &entries, width);
        let height = if self.y.names.is_empty() { height } else { top + panel::height_of_names(self) };
        let area = Area { left: MARGIN, top, width: width - 2.0 * MARGIN, height: height - top - 10.0 };
        panel::draw(&mut svg, self, area);
        svg::document(width, height, &self.name(), &self.describe(), &svg.text)
    }

    /// The title, or what is drawn against what where there is none.
    fn name(&self) -> String {
        if self.title.is_empty() { format!("{} against {}", self.y.label, self.x.label) } else { self.title.clone() }
    }

    /// The text alternative: the axes and, for each series, how many points it has and where it is highest.
    fn describe(&self) -> String {
        let scale = |axis: &Axis| if axis.scale == Scale::Log { " (logarithmic)" } else { "" };
        let mut text = format!("{}{} against {}{}.", self.y.label, scale(&self.y), self.x.label, scale(&self.x));
        for layer in &self.layers {
            let (name, points): (&str, Vec<(f64, f64)>) = match layer {
                Layer::Line(line) => (&line.name, line.points.clone()),
                Layer::Points(points) => (&points.name, points.points.clone()),
                Layer::Spans(_) | Layer::Reference(_) => continue,
            };
            let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let name = if name.is_empty() { "One series" } else { name };
            let lowest = finite.clone().min_by(|a, b| a.1.total_cmp(&b.1));
            text += &match lowest.zip(finite.clone().max_by(|a, b| a.1.total_cmp(&b.1))) {
                Some((low, high)) => format!(
                    " {name}: {} points, lowest {} at {}, highest {} at {}.",
                    finite.count(),
                    significant(low.1, 4),
                    significant(low.0, 4),
                    significant(high.1, 4),
                    significant(high.0, 4),
                ),
                None => format!(" {name}: no points."),
            };
        }
        text
    }
}

/// What an axis measures, without its unit.
fn short_label(axis: &Axis) -> &str {
    axis.label.split(" (").next().unwrap_or_default()
}

/// Title and legend at the top of a drawing; returns where the rest may begin.
fn header(svg: &mut Svg, title: &str, entries: &[legend::Entry], width: f64) -> f64 {
    let inner = width - 2.0 * MARGIN;
    let mut y = 10.0;
    for line in svg::wrap(title, TITLE_FONT.size * 1.06, inner) {
        svg.text(MARGIN, y + 15.0, Anchor::Start, TITLE_FONT, &line);
        y += 20.0;
    }
    if !entries.is_empty() {
        y += if y > 10.0 { 6.0 } else { 0.0 };
        y += legend::draw(svg, entries, MARGIN, y, inner);
    }
    y + if y > 10.0 { 4.0 } else { 0.0 }
}

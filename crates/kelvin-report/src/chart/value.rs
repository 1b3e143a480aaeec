//! A chart as a value: a title, two axes, layers.

use kelvin_study::number::significant;

use super::axis::{Axis, Scale};
use super::series::{Layer, Reference};

/// A chart: what it is called, its two axes, what it shows.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The headline; none if empty.
    pub title: String,
    /// The horizontal axis of the chart.
    pub x: Axis,
    /// The vertical axis of the chart.
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

    /// The same chart with this width and height.
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

    /// The same chart with this layer on top.
    pub fn with(mut self, layer: impl Into<Layer>) -> Self {
        self.layers.push(layer.into());
        self
    }

    /// How many of its axes are logarithmic.
    pub fn num_log_axes(&self) -> usize {
        [&self.x, &self.y].into_iter().filter(|axis| axis.scale == Scale::Log).count()
    }

    /// The reference lines among its layers.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.layers.iter().filter_map(|layer| if let Layer::Reference(line) = layer { Some(line) } else { None })
    }

    /// The title, or what is drawn against what where there is none.
    pub(super) fn name(&self) -> String {
        if self.title.is_empty() { format!("{} against {}", self.y.label, self.x.label) } else { self.title.clone() }
    }

    /// The text alternative: the axes and, for each series, how many points it has and where it is highest.
    pub(super) fn describe(&self) -> String {
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
pub(super) fn short_label(axis: &Axis) -> &str {
    axis.label.split(" (").next().unwrap_or_default()
}

//! Draws a chart as a whole SVG file, with its title and legend.

use super::colour::Colour;
use super::frame::Area;
use super::svg::{self, Anchor, Font, Svg};
use super::value::Chart;
use super::{legend, panel};

const TITLE_FONT: Font = Font { size: 15.0, bold: true, colour: Colour::Ink };
pub(super) const MARGIN: f64 = 14.0;

impl Chart {
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
}

/// Title and legend at the top of a drawing; returns where the rest may begin.
pub(super) fn header(svg: &mut Svg, title: &str, entries: &[legend::Entry], width: f64) -> f64 {
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

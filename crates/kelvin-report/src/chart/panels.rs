//! Several charts in one drawing, side by side under one legend, as papers arrange data sets.

use super::colour::Colour;
use super::drawing::{MARGIN, header};
use super::frame::Area;
use super::svg::{self, Anchor, Font, Svg};
use super::value::Chart;
use super::{legend, panel};

const PANEL_TITLE: Font = Font { size: 13.0, bold: true, colour: Colour::Ink };
const TITLE_ROOM: f64 = 22.0;

/// Charts that share a headline and a legend; each keeps its axes and its title.
#[derive(Clone, Debug)]
pub struct Panels {
    /// The headline above all charts.
    pub title: String,
    /// The charts, in reading order.
    pub charts: Vec<Chart>,
    /// How many stand in a row.
    pub columns: usize,
    /// Width and height of each.
    pub size: (f64, f64),
}

impl Panels {
    /// Charts in rows of at most three.
    pub fn new(title: impl Into<String>, charts: Vec<Chart>) -> Self {
        let columns = charts.len().clamp(1, 3);
        // As wide as a chart on its own, or a little wider.
        let width = if columns == 1 { 640.0 } else { 840.0 / columns as f64 };
        Self { title: title.into(), columns, charts, size: (width, width.clamp(280.0, 320.0)) }
    }

    /// One under the other, for a phone.
    pub fn narrow(&self) -> Self {
        Self { columns: 1, size: (360.0, 300.0), ..self.clone() }
    }

    /// The drawing as a whole SVG file.
    pub fn to_svg(&self) -> String {
        let (panel_width, panel_height) = self.size;
        let width = panel_width * self.columns as f64;
        let mut svg = Svg::default();
        let entries = legend::entries(self.charts.iter().flat_map(|chart| &chart.layers));
        let top = header(&mut svg, &self.title, &entries, width);
        for (index, chart) in self.charts.iter().enumerate() {
            let (row, column) = (index / self.columns, index % self.columns);
            let (left, top) = (panel_width * column as f64, top + panel_height * row as f64);
            svg.text(left + MARGIN, top + 16.0, Anchor::Start, PANEL_TITLE, &chart.title);
            let (width, height) = (panel_width - MARGIN - 4.0, panel_height - TITLE_ROOM - 8.0);
            panel::draw(&mut svg, chart, Area { left: left + MARGIN, top: top + TITLE_ROOM, width, height });
        }
        let rows = self.charts.len().div_ceil(self.columns.max(1));
        let description: Vec<String> =
            self.charts.iter().map(|chart| format!("{}: {}", chart.title, chart.describe())).collect();
        svg::document(width, top + panel_height * rows as f64 + 4.0, &self.title, &description.join(" "), &svg.text)
    }

    /// The numbers behind all charts, with the title of each in a first column.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        for chart in &self.charts {
            let csv = chart.to_csv();
            let mut lines = csv.lines();
            let header = lines.next().unwrap_or_default();
            if !text.contains(header) {
                text += &format!("panel,{header}\n");
            }
            let name = chart.title.replace('"', "\"\"");
            lines.for_each(|line| text += &format!("\"{name}\",{line}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::chart::rasterise;
    use crate::demo;

    #[test]
    fn panels_share_one_legend_and_stand_in_rows() {
        let panels = Panels::new("Four sets", vec![demo::lpd(), demo::lpd(), demo::lpd(), demo::lpd()]);
        assert_eq!(panels.columns, 3);
        let svg = panels.to_svg();
        assert_eq!(svg.matches("class=\"plot\"").count(), 4);
        assert_eq!(svg.matches(">SM<").count(), 1, "one legend");
        rasterise(&svg, 900).unwrap();
        assert!(panels.narrow().to_svg().contains("viewBox=\"0 0 360 "));
        assert_eq!(panels.to_csv().matches("panel,").count(), 1);
    }
}

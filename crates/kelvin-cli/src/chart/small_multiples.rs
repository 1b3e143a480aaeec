//! Small multiples: several charts in one drawing, in rows and columns, with one title and one legend.

use super::colour::Colour;
use super::panel::{self, Area, LABEL_ROOM, Labels};
use super::svg::{self, Anchor, Font, Svg};
use super::{Chart, MARGIN, header, legend};

const PANEL_TITLE: Font = Font { size: 12.5, bold: true, colour: Colour::Ink };
const TITLE_ROOM: f64 = 22.0;
const GAP: f64 = 18.0;

/// Charts side by side; the title of each stands above its panel, equal axis labels are written once.
#[derive(Clone, Debug)]
pub struct SmallMultiples {
    /// The headline of all; none if empty.
    pub title: String,
    /// A second line in smaller type.
    pub subtitle: Option<String>,
    /// The charts, row by row.
    pub charts: Vec<Chart>,
    /// How many stand in a row.
    pub num_columns: usize,
    /// Width and height of one panel.
    pub panel_size: (f64, f64),
}

impl SmallMultiples {
    /// Charts in rows of so many, panels of the usual size.
    pub fn new(title: impl Into<String>, num_columns: usize, charts: Vec<Chart>) -> Self {
        let panel_size = (300.0, 240.0);
        Self { title: title.into(), subtitle: None, charts, num_columns: num_columns.max(1), panel_size }
    }

    /// A second line under the title.
    pub fn with_subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = Some(subtitle.into());
        self
    }

    /// Another size of the panels.
    pub fn with_panel_size(mut self, width: f64, height: f64) -> Self {
        self.panel_size = (width, height);
        self
    }

    /// The drawing as a whole SVG file.
    pub fn to_svg(&self) -> String {
        let num_charts = self.charts.len();
        let num_columns = self.num_columns.clamp(1, num_charts.max(1));
        let num_rows = num_charts.div_ceil(num_columns);
        let same_x = self.charts.windows(2).all(|pair| pair[0].x.label == pair[1].x.label);
        let same_y = self.charts.windows(2).all(|pair| pair[0].y.label == pair[1].y.label);
        let labels = |i: usize, least_left: f64| Labels {
            x: !same_x || i + num_columns >= num_charts,
            y: !same_y || i.is_multiple_of(num_columns),
            least_left,
        };
        // Labels take room of their own beside the panels, so that all frames are equally large.
        let label_room = |written: bool| if written { LABEL_ROOM } else { 0.0 };
        let (panel_width, panel_height) = self.panel_size;
        let column_label = |column: usize| label_room(!same_y || column == 0);
        let row_label = |row: usize| label_room(!same_x || row + 1 >= num_rows);
        let left = |column: usize| MARGIN + (0..column).map(|c| column_label(c) + panel_width + GAP).sum::<f64>();
        let width = left(num_columns) - GAP + MARGIN;

        let mut svg = Svg::default();
        let entries = legend::entries(self.charts.iter().flat_map(|chart| &chart.layers));
        let top = header(&mut svg, &self.title, self.subtitle.as_deref(), &entries, width) + 4.0;
        let row_top = |row: usize| top + (0..row).map(|r| row_label(r) + panel_height + GAP).sum::<f64>();
        let area = |i: usize| {
            let (row, column) = (i / num_columns, i % num_columns);
            let height = panel_height - TITLE_ROOM + label_room(labels(i, 0.0).x);
            let width = panel_width + column_label(column);
            Area { left: left(column), top: row_top(row) + TITLE_ROOM, width, height }
        };
        let numbers = |i: usize| {
            let label = if self.charts[i].y.label.is_empty() { 0.0 } else { label_room(labels(i, 0.0).y) };
            panel::left_margin(&self.charts[i], area(i), labels(i, 0.0)) - label
        };
        let least_left = (0..num_charts).map(numbers).fold(0.0, f64::max);
        for (i, chart) in self.charts.iter().enumerate() {
            let area = area(i);
            let title_left = area.left + panel::left_margin(chart, area, labels(i, least_left));
            svg.text(title_left, area.top - 8.0, Anchor::Start, PANEL_TITLE, &chart.title);
            panel::draw(&mut svg, chart, area, labels(i, least_left));
        }
        let height = row_top(num_rows) - GAP + 10.0;
        let description: Vec<String> =
            self.charts.iter().map(|chart| format!("{}: {}", chart.name(), chart.describe())).collect();
        let name = if self.title.is_empty() { "Several charts" } else { &self.title };
        svg::document(width, height.max(top + 10.0), name, &description.join(" "), &svg.text)
    }
}

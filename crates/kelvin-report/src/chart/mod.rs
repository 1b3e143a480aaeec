//! Charts as self-contained SVG: a chart is a value with two axes and layers; `to_svg` draws it, `png` rasterises it.

mod axis;
mod colour;
mod csv;
mod drawing;
mod files;
mod frame;
mod legend;
mod marks;
mod panel;
mod panels;
mod pdf;
mod pdf_order;
mod png;
mod range;
mod series;
mod svg;
mod thin;
mod ticks;
mod value;

pub use axis::Axis;
pub use colour::Colour;
pub use files::write_figure;
pub use panels::Panels;
#[cfg(test)]
pub(crate) use png::rasterise;
pub(crate) use png::{encode, resolve_variables};
pub use series::{Dash, Layer, Line, Marker, Points, Reference, Spans};
pub use value::Chart;

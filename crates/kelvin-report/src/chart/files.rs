//! A figure as files: SVG, PNG and PDF.

use std::path::Path;

use kelvin_study::error::Result;
use kelvin_study::folder::write;

use super::pdf::to_pdf;
use super::png::{rasterise, resolve_variables};

/// Pixels across a PNG figure.
const PNG_WIDTH: u32 = 1280;
/// Writes a figure as SVG, PNG and PDF. Only pages have the variables of its colours.
///
/// # Errors
/// If the SVG cannot be read, or a file cannot be written.
pub fn write_figure(folder: &Path, name: &str, svg: &str) -> Result<()> {
    write(folder, &format!("figures/{name}.svg"), resolve_variables(svg).as_bytes())?;
    write(folder, &format!("figures/{name}.png"), &rasterise(svg, PNG_WIDTH)?)?;
    write(folder, &format!("figures/{name}.pdf"), &to_pdf(svg)?)
}

//! An SVG figure as PDF, for papers: lines stay lines and letters stay letters, in the embedded font.

use kelvin_study::error::{Context, Result, refused};
use svg2pdf::{ConversionOptions, PageOptions};

/// The PDF file of an SVG text, one page of its size.
pub fn to_pdf(svg: &str) -> Result<Vec<u8>> {
    let tree = super::png::tree(svg)?;
    svg2pdf::to_pdf(&tree, ConversionOptions::default(), PageOptions::default())
        .map_err(|error| refused(format!("{error}")))
        .context("writing the figure as PDF")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    #[test]
    fn figures_become_pages_with_an_embedded_font() {
        let pdf = to_pdf(&demo::lpd().to_svg()).unwrap();
        assert!(pdf.starts_with(b"%PDF") && pdf.len() > 2_000);
        let holds = |word: &[u8]| pdf.windows(word.len()).any(|part| part == word);
        assert!(holds(b"/FontFile") && holds(b"DejaVuSans"), "letters stay letters");
        assert!(to_pdf("<svg").is_err());
    }
}

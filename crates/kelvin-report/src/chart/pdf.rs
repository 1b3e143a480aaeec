//! An SVG figure as PDF, for papers: lines stay lines and letters stay letters, in the embedded font.

use super::pdf_order::in_order_of_use;
use kelvin_study::error::{Context, Result, refused};
use svg2pdf::{ConversionOptions, PageOptions};

/// The PDF file of an SVG text, one page of its size; the same bytes every time.
pub fn to_pdf(svg: &str) -> Result<Vec<u8>> {
    let tree = super::png::tree(svg)?;
    let written = svg2pdf::to_pdf(&tree, ConversionOptions::default(), PageOptions::default())
        .map_err(|error| refused(format!("{error}")))
        .context("writing the figure as PDF")?;
    in_order_of_use(&written).context("the figure's PDF could not be put in order")
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

    #[test]
    fn the_same_figure_is_the_same_bytes_and_the_table_finds_each_object() {
        let svg = demo::lpd().to_svg();
        let pdf = to_pdf(&svg).unwrap();
        assert!((0..8).all(|_| to_pdf(&svg).unwrap() == pdf));
        let text = String::from_utf8_lossy(&pdf);
        let start: usize = text.lines().rev().nth(1).unwrap().parse().unwrap();
        let table = std::str::from_utf8(&pdf[start..]).unwrap();
        let count: usize = table.lines().nth(1).unwrap().strip_prefix("0 ").unwrap().parse().unwrap();
        assert!(table.contains(&format!("/Size {count}\n")), "{table}");
        for (number, line) in table.lines().skip(2).take(count).enumerate().skip(1) {
            let offset: usize = line[..10].parse().unwrap();
            assert!(pdf[offset..].starts_with(format!("{number} 0 obj\n").as_bytes()), "object {number}");
        }
    }
}

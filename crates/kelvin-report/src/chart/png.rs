//! An SVG figure as PNG, with a font of our own, so that it looks the same on a machine that has none.

use kelvin_study::error::{Context, Result, refused};
use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

const REGULAR: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");
const BOLD: &[u8] = include_bytes!("../../assets/DejaVuSans-Bold-subset.ttf");

/// The PNG file of an SVG text, so many pixels wide.
pub fn rasterise(svg: &str, width: u32) -> Result<Vec<u8>> {
    if !(1..=20_000).contains(&width) {
        return Err(refused(format!("a picture must be 1 to 20000 pixels wide, got {width}")));
    }
    let tree = tree(svg)?;
    let scale = width as f32 / tree.size().width();
    let height = (tree.size().height() * scale).round().max(1.0) as u32;
    let mut pixels = Pixmap::new(width, height).with_context(|| format!("no room for {width} × {height} pixels"))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().context("writing the figure as PNG")
}

/// A figure as a tree of shapes, with texts in the embedded font.
pub(super) fn tree(svg: &str) -> Result<Tree> {
    let options = Options { fontdb: fonts(), ..Options::default() };
    Tree::from_str(&resolve_variables(svg), &options).context("reading a figure to make a picture of it")
}

/// An image of bytes, one or three to a pixel, as PNG.
pub fn encode(bytes: &[u8], height: usize, width: usize, channels: usize) -> Result<Vec<u8>> {
    let whole = height * width * channels == bytes.len() && matches!(channels, 1 | 3);
    if !whole {
        return Err(refused(format!("{} bytes are no image of {height}×{width}×{channels}", bytes.len())));
    }
    let mut pixels =
        Pixmap::new(width as u32, height as u32).with_context(|| format!("no room for {width} × {height}"))?;
    for (pixel, values) in pixels.data_mut().chunks_exact_mut(4).zip(bytes.chunks_exact(channels)) {
        let [red, green, blue] = if channels == 1 { [values[0]; 3] } else { [values[0], values[1], values[2]] };
        pixel.copy_from_slice(&[red, green, blue, u8::MAX]);
    }
    pixels.encode_png().context("writing an image as PNG")
}

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(REGULAR.to_vec());
        fonts.load_font_data(BOLD.to_vec());
        fonts.set_sans_serif_family("DejaVu Sans");
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}

/// Replaces every `var(--name,fallback)` by its fallback, for readers of SVG that know no CSS variables.
pub fn resolve_variables(svg: &str) -> String {
    let mut resolved = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(start) = rest.find("var(--") {
        let Some(length) = closing_parenthesis(&rest[start..]) else { break };
        let variable = &rest[start..start + length];
        let fallback = variable.split_once(',').map_or("currentColor", |(_, fallback)| fallback.trim());
        resolved.push_str(&rest[..start]);
        resolved.push_str(&resolve_variables(fallback));
        rest = &rest[start + length + 1..];
    }
    resolved.push_str(rest);
    resolved
}

/// Where the first parenthesis of a text is closed again.
fn closing_parenthesis(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(i),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_their_fallbacks() {
        assert_eq!(resolve_variables("fill:var(--ink,#222);x"), "fill:#222;x");
        assert_eq!(resolve_variables("a var(--a, var(--b, rgb(1,2,3))) b"), "a rgb(1,2,3) b");
        assert_eq!(resolve_variables("var(--a)"), "currentColor");
        assert_eq!(resolve_variables("open var(--a,#fff"), "open var(--a,#fff");
        assert_eq!(resolve_variables("plain"), "plain");
        assert_eq!(resolve_variables(""), "");
    }

    fn pixels(text: &str, weight: &str) -> Pixmap {
        let svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" font-family="system-ui, sans-serif">
            <text x="12" y="15" font-weight="{weight}" style="fill:var(--ink,#000)">{text}</text></svg>"#
        );
        Pixmap::decode_png(&rasterise(&svg, 80).unwrap()).unwrap()
    }

    fn ink(text: &str, weight: &str) -> usize {
        pixels(text, weight).pixels().iter().filter(|p| p.alpha() > 0).count()
    }

    #[test]
    fn a_picture_has_the_asked_width_and_the_hat_is_drawn() {
        let empty = pixels("", "normal");
        assert_eq!((empty.width(), empty.height()), (80, 40));
        assert_eq!(ink("", "normal"), 0);
        assert!(ink("β\u{302}", "normal") > ink("β", "normal"));
        assert!(ink("β", "bold") > ink("β", "normal"));
    }

    #[test]
    fn the_fonts_have_every_sign_that_figures_use() {
        for weight in ["normal", "bold"] {
            assert_eq!(ink("漢", weight), 0, "a missing sign leaves no ink");
            for sign in "Aaz09βθγλσμΔΣ−×±²³√≤≥‖·…–—%→←↑↓⁰⁻⁹∞≈∝∇éÅ".chars()
            {
                assert!(ink(&sign.to_string(), weight) > 0, "{weight} {sign}");
            }
        }
    }

    #[test]
    fn an_image_keeps_its_colours() {
        let png = encode(&[255, 0, 10, 1, 2, 3], 1, 2, 3).unwrap();
        let pixels = Pixmap::decode_png(&png).unwrap();
        assert_eq!(pixels.data(), [255, 0, 10, 255, 1, 2, 3, 255]);
        assert!(encode(&[7], 1, 1, 1).is_ok() && encode(&[7, 8], 1, 1, 1).is_err());
    }

    #[test]
    fn a_broken_figure_is_an_error() {
        assert!(rasterise("<svg", 100).is_err());
        assert!(rasterise("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\"/>", 0).is_err());
    }
}

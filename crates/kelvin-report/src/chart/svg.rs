//! Writes SVG elements as text: coordinates, strokes, signs, and a guess of how wide a text will be.

use super::colour::Colour;
use super::series::{Dash, Marker};
use crate::escape::escape;

/// Fonts of the figures: the reader's own; the embedded one stands in for `sans-serif` where a PNG is made.
pub(super) const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

/// Where a text sits relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Font {
    pub size: f64,
    pub bold: bool,
    pub colour: Colour,
}

/// A drawing as it grows.
#[derive(Default)]
pub(super) struct Svg {
    pub text: String,
}

impl Svg {
    /// Appends markup as it is.
    pub fn push(&mut self, markup: &str) {
        self.text.push_str(markup);
        self.text.push('\n');
    }

    /// A text at a point.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, font: Font, content: &str) {
        self.text_with(&format!(r#"x="{}" y="{}""#, coordinate(x), coordinate(y)), anchor, font, content);
    }

    /// A text that reads upwards, centred at a point.
    pub fn text_upwards(&mut self, x: f64, y: f64, font: Font, content: &str) {
        let place = format!(r#"transform="translate({} {}) rotate(-90)""#, coordinate(x), coordinate(y));
        self.text_with(&place, Anchor::Middle, font, content);
    }

    fn text_with(&mut self, place: &str, anchor: Anchor, font: Font, content: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let weight = if font.bold { r#" font-weight="bold""# } else { "" };
        let (size, fill) = (coordinate(font.size), font.colour.css());
        let content = escape(content);
        self.push(&format!(r#"<text {place}{anchor} font-size="{size}"{weight} style="fill:{fill}">{content}</text>"#));
    }

    /// A stroke along a path.
    pub fn stroke(&mut self, path: &str, colour: Colour, width: f64, dash: Dash, opacity: f64) {
        self.named_stroke("", path, colour, width, dash, opacity);
    }

    /// A stroke whose corners are readings of a named series.
    pub fn named_stroke(&mut self, name: &str, path: &str, colour: Colour, width: f64, dash: Dash, opacity: f64) {
        let (thickness, colour) = (coordinate(width), colour.css());
        let dash = match dash {
            Dash::Solid => String::new(),
            Dash::Dashed => r#" stroke-dasharray="5 4""#.into(),
            // A dot is a dash of no length with round ends.
            Dash::Dotted => format!(r#" stroke-dasharray="0.01 {}""#, coordinate(3.2 * width.max(1.0))),
        };
        let opacity =
            if opacity < 1.0 { format!(r#" stroke-opacity="{}""#, coordinate(opacity)) } else { String::new() };
        let name = if name.is_empty() { String::new() } else { format!(r#" data-name="{}""#, escape(name)) };
        let ends = r#"stroke-linecap="round" stroke-linejoin="round""#;
        self.push(&format!(
            r#"<path d="{path}" fill="none" stroke-width="{thickness}" {ends}{dash}{opacity}{name} style="stroke:{colour}"/>"#
        ));
    }

    /// An area filled with one colour.
    pub fn fill(&mut self, path: &str, colour: Colour, opacity: f64, hover: &str) {
        let head = format!(r#"<path d="{path}" fill-opacity="{}" style="fill:{}""#, coordinate(opacity), colour.css());
        self.close(&head, "path", hover);
    }

    /// A sign at a point, with a hover text where one is given.
    pub fn marker(&mut self, x: f64, y: f64, marker: Marker, radius: f64, colour: Colour, hover: &str) {
        let (paper, colour) = (Colour::Paper.css(), colour.css());
        match marker {
            Marker::None => {}
            Marker::Circle => {
                let (x, y, r) = (coordinate(x), coordinate(y), coordinate(radius));
                let look = format!(r#"stroke-width="1" style="fill:{colour};stroke:{paper}""#);
                self.close(&format!(r#"<circle cx="{x}" cy="{y}" r="{r}" {look}"#), "circle", hover);
            }
            Marker::Ring => {
                let (x, y, r) = (coordinate(x), coordinate(y), coordinate(radius));
                let look = format!(r#"stroke-width="1.6" fill-opacity="0.25" style="fill:{colour};stroke:{colour}""#);
                self.close(&format!(r#"<circle cx="{x}" cy="{y}" r="{r}" {look}"#), "circle", hover);
            }
            Marker::Cross => {
                let corner =
                    |dx: f64, dy: f64| format!("{} {}", coordinate(x + dx * radius), coordinate(y + dy * radius));
                let path =
                    format!("M{}L{}M{}L{}", corner(-0.9, -0.9), corner(0.9, 0.9), corner(-0.9, 0.9), corner(0.9, -0.9));
                // A wider cross in the colour of the paper keeps signs apart where they overlap.
                let halo = r#"stroke-linecap="round" fill="none""#;
                self.push(&format!(r#"<path d="{path}" stroke-width="3" {halo} style="stroke:{paper}"/>"#));
                let head = format!(r#"<path d="{path}" stroke-width="1.7" {halo} style="stroke:{colour}""#);
                self.close(&head, "path", hover);
            }
        }
    }

    fn close(&mut self, head: &str, tag: &str, hover: &str) {
        if hover.is_empty() {
            self.push(&format!("{head}/>"));
        } else {
            self.push(&format!("{head}><title>{}</title></{tag}>", escape(hover)));
        }
    }
}

/// A whole file around a drawing, with its text alternatives.
pub(super) fn document(width: f64, height: f64, title: &str, description: &str, drawing: &str) -> String {
    let (width, height) = (coordinate(width), coordinate(height));
    let paper = Colour::Paper.css();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"{FONTS}\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"{width}\" height=\"{height}\" style=\"fill:{paper}\"/>\n{drawing}</svg>\n",
        escape(title),
        escape(description),
    )
}

/// A number short enough for a drawing: two decimals, no trailing zeros.
pub(super) fn coordinate(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// About how wide a text is, from the proportions of a wide sans-serif font: rather too wide than too narrow.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            '\u{300}'..='\u{36f}' => 0.0,
            '\u{2009}' => 0.2,
            ' ' | 'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.33,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '⁰'..='⁹' | '²' | '³' | '¹' => 0.41,
            'm' | 'w' | 'M' | 'W' | '−' | '×' | '±' | '=' | '+' | '<' | '>' | '%' | '…' | '—' => 0.87,
            'A'..='Z' => 0.7,
            _ => 0.62,
        })
        .sum();
    em * size
}

/// Breaks a text into lines that are not wider than asked, between words.
pub(super) fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!(coordinate(1.0), "1");
        assert_eq!(coordinate(-0.001), "0");
        assert_eq!(coordinate(10.256), "10.26");
        assert_eq!(coordinate(100.0), "100");
    }

    #[test]
    fn a_combining_hat_has_no_width() {
        assert_eq!(text_width("β\u{302}", 10.0), text_width("β", 10.0));
    }

    #[test]
    fn wraps_between_words_and_keeps_a_long_one_whole() {
        assert_eq!(wrap("one two three", 10.0, 50.0), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities", 10.0, 20.0), ["incomprehensibilities"]);
        assert!(wrap("", 10.0, 20.0).is_empty());
    }
}

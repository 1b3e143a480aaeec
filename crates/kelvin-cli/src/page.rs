//! The report as one HTML file: no network, no scripts, light and dark, for screen, phone and paper.

use crate::escape::escape;
use crate::table::Table;

const STYLE: &str = include_str!("../assets/report.css");

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The name of the report.
    pub title: String,
    /// The answer in one sentence.
    pub lead: String,
    /// The sections, in order; they make the table of contents.
    pub sections: Vec<Section>,
}

/// A heading and what stands under it.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a report.
#[derive(Clone, Debug)]
pub enum Block {
    /// Plain text; what stands between backticks is set as code.
    Paragraph(String),
    /// A table; it scrolls by itself where it is too wide.
    Table(Table),
    /// A drawing with its caption; figures are numbered through.
    Figure {
        /// A whole SVG text.
        svg: String,
        /// What the reader should see in it.
        caption: String,
    },
    /// Doubts about the result.
    Warnings(Vec<Warning>),
    /// Names and their values.
    Definitions(Vec<(String, String)>),
    /// Text whose spaces and lines matter.
    Preformatted(String),
    /// Blocks that are folded away at first.
    Details {
        /// The line that is always shown.
        summary: String,
        /// What unfolds.
        blocks: Vec<Block>,
    },
}

/// A doubt about the result.
#[derive(Clone, Debug, Default)]
pub struct Warning {
    /// What is doubtful.
    pub title: String,
    /// What was measured.
    pub seen: String,
    /// Why it matters.
    pub why: String,
    /// What to do about it.
    pub try_this: String,
}

impl Page {
    /// The whole file.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let lead = if self.lead.is_empty() {
            String::new()
        } else {
            format!("<p class=\"lead\">{}</p>\n", inline(&self.lead))
        };
        let sections: String = self.sections.iter().enumerate().map(|(i, section)| section_html(i, section)).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{}<main>\n<header>\n<h1>{title}</h1>\n{lead}</header>\n\
             {sections}</main>\n</body>\n</html>\n",
            self.contents(),
        )
    }

    fn contents(&self) -> String {
        if self.sections.len() < 2 {
            return String::new();
        }
        let link = |(i, section): (usize, &Section)| {
            format!("<li><a href=\"#section-{}\">{}</a></li>\n", i + 1, inline(&section.heading))
        };
        let links: String = self.sections.iter().enumerate().map(link).collect();
        format!("<nav aria-label=\"Contents\">\n<ol>\n{links}</ol>\n</nav>\n")
    }
}

fn section_html(index: usize, section: &Section) -> String {
    let blocks: String = section.blocks.iter().map(block_html).collect();
    format!("<section id=\"section-{}\">\n<h2>{}</h2>\n{blocks}</section>\n", index + 1, inline(&section.heading))
}

fn block_html(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("<p>{}</p>\n", inline(text)),
        Block::Table(table) => format!("<div class=\"scroll\" tabindex=\"0\">\n{}</div>\n", table.to_html()),
        Block::Figure { svg, caption } => figure_html(svg, caption),
        Block::Warnings(warnings) => warnings.iter().map(warning_html).collect(),
        Block::Definitions(pairs) => {
            let pair = |(key, value): &(String, String)| {
                format!("<div><dt>{}</dt><dd>{}</dd></div>\n", inline(key), inline(value))
            };
            format!("<dl>\n{}</dl>\n", pairs.iter().map(pair).collect::<String>())
        }
        Block::Preformatted(text) => format!("<pre tabindex=\"0\">{}</pre>\n", escape(text)),
        Block::Details { summary, blocks } => {
            let blocks: String = blocks.iter().map(block_html).collect();
            format!("<details>\n<summary>{}</summary>\n{blocks}</details>\n", inline(summary))
        }
    }
}

/// The drawing tells the style sheet its own width, so that it neither grows far beyond it nor becomes unreadable.
fn figure_html(svg: &str, caption: &str) -> String {
    let width = natural_width(svg).map_or(String::new(), |width| format!(" style=\"--width:{width:.0}px\""));
    let caption =
        if caption.is_empty() { String::new() } else { format!("<figcaption>{}</figcaption>\n", inline(caption)) };
    format!("<figure>\n<div class=\"scroll\"><div class=\"drawing\"{width}>\n{svg}</div></div>\n{caption}</figure>\n")
}

fn natural_width(svg: &str) -> Option<f64> {
    let (_, after) = svg.split_once("viewBox=\"")?;
    let (numbers, _) = after.split_once('"')?;
    numbers.split_whitespace().nth(2)?.parse().ok()
}

fn warning_html(warning: &Warning) -> String {
    let line = |name: &str, text: &str| {
        if text.is_empty() { String::new() } else { format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", inline(text)) }
    };
    format!(
        "<aside class=\"warning\">\n<strong>{}</strong>\n<dl>\n{}{}{}</dl>\n</aside>\n",
        inline(&warning.title),
        line("Seen", &warning.seen),
        line("Why it matters", &warning.why),
        line("Try", &warning.try_this),
    )
}

/// Escaped text in which pairs of backticks become code.
fn inline(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape).collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(i, part): (usize, &String)| if i % 2 == 0 { part.clone() } else { format!("<code>{part}</code>") };
    parts.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::demo;

    #[test]
    fn backticks_make_code_only_in_pairs() {
        assert_eq!(inline("run `kelvin <x>` now"), "run <code>kelvin &lt;x&gt;</code> now");
        assert_eq!(inline("one ` alone"), "one ` alone");
    }

    #[test]
    fn every_block_is_there_and_escaped() {
        let html = demo::page().to_html();
        for piece in ["<caption>", "<figure>", "class=\"warning\"", "<dl>", "<pre", "<details>", "<nav", "<code>"] {
            assert!(html.contains(piece), "{piece}");
        }
        assert!(!html.contains("<script"));
        let linked = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!linked.contains("http"), "the page must not reach out");
    }

    #[test]
    fn an_empty_page_is_still_a_page() {
        let html = Page::default().to_html();
        assert!(html.contains("</html>") && !html.contains("<nav"));
        assert_eq!(natural_width("<svg viewBox=\"0 0 640 400\">"), Some(640.0));
        assert_eq!(natural_width("<svg>"), None);
    }
}

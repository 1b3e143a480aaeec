//! The report as one HTML file: no network, light and dark, for screen, phone and paper; complete without its script.

use crate::escape::escape;
use crate::figures::Figure;
use crate::page::markup::{data_url, inline};
use crate::page::page_figure::figure_html;
use crate::tables::Table;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const FOOTER: &str = "Values of a figure show on hovering, or by the arrow keys once Tab has reached it. Figures are also files: \
                      <code>figures/</code> beside this page has each as SVG, PNG and PDF, with its numbers as CSV.";
/// Nothing is loaded from anywhere, whatever the page says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A whole report as a value.
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
    /// The heading, also in the table of contents.
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
    /// A heading below that of the section.
    Heading(String),
    /// A figure; figures are numbered through.
    Figure(Figure),
    /// Small pictures side by side, each with its caption.
    Pictures(Vec<Picture>),
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
        /// The blocks that unfold.
        blocks: Vec<Block>,
    },
}

/// A small picture with a caption.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The contents of a PNG file.
    pub png: Vec<u8>,
    /// What it shows, for who cannot see it.
    pub alternative: String,
    /// What is said of it, line by line.
    pub caption: Vec<String>,
}

/// A doubt about the result.
#[derive(Clone, Debug, Default)]
pub struct Warning {
    /// What may be wrong, as a title.
    pub title: String,
    /// What was measured, of each chain or search that it is about.
    pub seen: Vec<String>,
    /// Why the user should care.
    pub why: String,
    /// What to do about it.
    pub try_this: String,
}

impl Page {
    /// The report as one self-contained HTML file.
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
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n<noscript><style>.view[hidden]:not([data-rescaled]) {{ display: block; }}</style></noscript>\n\
             </head>\n<body>\n{}<main>\n<header>\n<h1>{title}</h1>\n{lead}</header>\n\
             {sections}<footer>{FOOTER}</footer>\n</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
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
        Block::Table(table) => table_html(table),
        Block::Heading(text) => format!("<h3>{}</h3>\n", inline(text)),
        Block::Figure(figure) => figure_html(figure),
        Block::Pictures(pictures) => {
            format!("<ul class=\"pictures\">\n{}</ul>\n", pictures.iter().map(picture_html).collect::<String>())
        }
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

/// The title stands outside the part that scrolls, so that it is read as a whole.
fn table_html(table: &Table) -> String {
    let title = escape(&table.title);
    let shown =
        if title.is_empty() { title.clone() } else { format!("<p class=\"title\" aria-hidden=\"true\">{title}</p>\n") };
    format!(
        "{shown}<div class=\"scroll\" role=\"group\" aria-label=\"{title}\" tabindex=\"0\">\n<table aria-label=\"{title}\">\n{}\
         </table>\n</div>\n",
        table.inner_html()
    )
}

fn picture_html(picture: &Picture) -> String {
    let lines: Vec<String> = picture.caption.iter().map(|line| escape(line)).collect();
    format!(
        "<li><img alt=\"{}\" src=\"{}\"><p>{}</p></li>\n",
        escape(&picture.alternative),
        data_url("image/png", &picture.png),
        lines.join("<br>")
    )
}

fn warning_html(warning: &Warning) -> String {
    let line = |name: &str, text: &str| {
        if text.is_empty() { String::new() } else { format!("<div><dt>{name}</dt><dd>{text}</dd></div>\n") }
    };
    let seen = match &warning.seen[..] {
        [] => String::new(),
        [only] => inline(only),
        several => {
            let items: String = several.iter().map(|seen| format!("<li>{}</li>", inline(seen))).collect();
            let list = format!("<ul>{items}</ul>");
            match several.len() {
                0..=4 => list,
                many => format!("<details><summary>{many} times</summary>{list}</details>"),
            }
        }
    };
    format!(
        "<aside class=\"warning\">\n<strong>{}</strong>\n<dl>\n{}{}{}</dl>\n</aside>\n",
        inline(&warning.title),
        line("Seen", &seen),
        line("Why it matters", &inline(&warning.why)),
        line("Try", &inline(&warning.try_this)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    #[test]
    fn backticks_make_code_only_in_pairs() {
        assert_eq!(inline("run `kelvin <x>` now"), "run <code>kelvin &lt;x&gt;</code> now");
        assert_eq!(inline("one ` alone"), "one ` alone");
        assert_eq!(inline("1 ± 2 `a = b`"), "1\u{a0}±\u{a0}2 <code>a = b</code>");
    }

    #[test]
    fn every_block_is_there_and_escaped() {
        let html = demo::page().to_html();
        for piece in ["class=\"title\"", "<figure>", "class=\"warning\"", "<dl>", "<pre", "<details>", "<nav", "<code>"]
        {
            assert!(html.contains(piece), "{piece}");
        }
        let linked = html.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "");
        assert!(!linked.contains("http"), "the page must not reach out");
        assert!(html.contains("default-src &#39;none&#39;") || html.contains("default-src 'none'"));
    }

    #[test]
    fn an_empty_page_is_still_a_page() {
        let html = Page::default().to_html();
        assert!(html.contains("</html>") && !html.contains("<nav"));
    }
}

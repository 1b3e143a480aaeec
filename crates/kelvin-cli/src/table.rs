//! A table as one value with four renderings: aligned text for a terminal, Markdown, CSV, HTML.

use unicode_width::UnicodeWidthStr;

use crate::escape::escape;

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// For words.
    #[default]
    Left,
    /// For numbers.
    Right,
}

/// A title, a header, rows of text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the table shows; none if empty.
    pub title: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The cells, row by row; a short row is filled with empty cells.
    pub rows: Vec<Vec<String>>,
    /// How each column stands; left where none is given.
    pub alignments: Vec<Alignment>,
}

impl Table {
    /// An empty table whose first column holds words and whose other columns hold numbers.
    pub fn new<S: Into<String>>(title: impl Into<String>, header: impl IntoIterator<Item = S>) -> Self {
        let header: Vec<String> = header.into_iter().map(Into::into).collect();
        let alignment = |column| if column == 0 { Alignment::Left } else { Alignment::Right };
        let alignments = (0..header.len()).map(alignment).collect();
        Self { title: title.into(), header, rows: Vec::new(), alignments }
    }

    /// One more row.
    pub fn push<S: Into<String>>(&mut self, row: impl IntoIterator<Item = S>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Aligned text with light rules, for a terminal.
    pub fn to_text(&self) -> String {
        let widths = self.widths(|cell| one_line(cell).width());
        let rule = format!("{}\n", "─".repeat(widths.iter().sum::<usize>() + 3 * widths.len().saturating_sub(1) + 2));
        let line = |row: &[String]| {
            let cells: Vec<String> =
                widths.iter().enumerate().map(|(i, w)| pad(&one_line(cell(row, i)), *w, self.alignment(i))).collect();
            format!("{}\n", format!(" {}", cells.join("   ")).trim_end())
        };
        let mut text = String::new();
        if !self.title.is_empty() {
            text += &format!("{}\n", self.title);
        }
        text += &rule;
        text += &line(&self.header);
        text += &rule;
        self.rows.iter().for_each(|row| text += &line(row));
        text + &rule
    }

    /// A Markdown table under its title, aligned in its source too.
    pub fn to_markdown(&self) -> String {
        let widths = self.widths(|cell| markdown(cell).width());
        let line = |row: &[String]| {
            let padded = |(i, w): (usize, &usize)| pad(&markdown(cell(row, i)), (*w).max(3), self.alignment(i));
            let cells: Vec<String> = widths.iter().enumerate().map(padded).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let marks = widths.iter().enumerate().map(|(i, w)| {
            let dashes = "-".repeat((*w).max(3) - 1);
            match self.alignment(i) {
                Alignment::Left => format!(":{dashes}"),
                Alignment::Right => format!("{dashes}:"),
            }
        });
        let mut text = String::new();
        if !self.title.is_empty() {
            text += &format!("**{}**\n\n", markdown(&self.title));
        }
        text += &line(&self.header);
        text += &format!("| {} |\n", marks.collect::<Vec<_>>().join(" | "));
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }

    /// Comma-separated values: header and rows, without the title; numbers with a plain minus sign.
    pub fn to_csv(&self) -> String {
        let num_columns = self.num_columns();
        let line = |row: &Vec<String>| {
            let fields: Vec<String> = (0..num_columns).map(|i| csv_field(cell(row, i))).collect();
            format!("{}\n", fields.join(","))
        };
        std::iter::once(&self.header).chain(&self.rows).map(line).collect()
    }

    /// An HTML table with its title as caption; the class `right` marks numbers.
    pub fn to_html(&self) -> String {
        let class = |i| match self.alignment(i) {
            Alignment::Left => "",
            Alignment::Right => " class=\"right\"",
        };
        let line = |row: &[String], tag: &str, scope: &str| {
            let one = |i| format!("<{tag}{}{scope}>{}</{tag}>", class(i), escape(cell(row, i)));
            format!("<tr>{}</tr>\n", (0..self.num_columns()).map(one).collect::<String>())
        };
        let mut html = String::from("<table>\n");
        if !self.title.is_empty() {
            html += &format!("<caption>{}</caption>\n", escape(&self.title));
        }
        html += &format!("<thead>\n{}</thead>\n<tbody>\n", line(&self.header, "th", " scope=\"col\""));
        self.rows.iter().for_each(|row| html += &line(row, "td", ""));
        html + "</tbody>\n</table>\n"
    }

    fn num_columns(&self) -> usize {
        self.rows.iter().map(Vec::len).fold(self.header.len(), usize::max)
    }

    fn alignment(&self, column: usize) -> Alignment {
        self.alignments.get(column).copied().unwrap_or_default()
    }

    fn widths(&self, width: impl Fn(&str) -> usize) -> Vec<usize> {
        let rows = || std::iter::once(&self.header).chain(&self.rows);
        (0..self.num_columns()).map(|i| rows().map(|row| width(cell(row, i))).max().unwrap_or(0)).collect()
    }
}

fn cell(row: &[String], column: usize) -> &str {
    row.get(column).map_or("", String::as_str)
}

fn one_line(cell: &str) -> String {
    cell.split(['\n', '\r', '\t']).collect::<Vec<_>>().join(" ")
}

fn pad(cell: &str, width: usize, alignment: Alignment) -> String {
    let missing = width.saturating_sub(cell.width());
    let before = match alignment {
        Alignment::Left => 0,
        Alignment::Right => missing,
    };
    format!("{}{cell}{}", " ".repeat(before), " ".repeat(missing - before))
}

/// A cell that Markdown shows as it is: bars would end it, stars and underscores would emphasise.
fn markdown(cell: &str) -> String {
    let mut safe = String::new();
    for c in one_line(cell).chars() {
        if "\\|*_`<[".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

fn csv_field(cell: &str) -> String {
    let number = cell.replace('−', "-").replace('\u{2009}', "");
    let cell = if number.parse::<f64>().is_ok() { &number } else { cell };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("Chosen β\u{302}*", ["data", "β\u{302}*", "LPD"]);
        table.push(["Concrete", "0.16", "−0.186 ± 0.049"]);
        table.push(["Naval, full", "48", "−1.382"]);
        table
    }

    #[test]
    fn text_is_aligned_although_the_hat_has_no_width() {
        let expected = "\
Chosen β\u{302}*
─────────────────────────────────────
 data            β\u{302}*              LPD
─────────────────────────────────────
 Concrete      0.16   −0.186 ± 0.049
 Naval, full     48           −1.382
─────────────────────────────────────
";
        assert_eq!(table().to_text(), expected);
    }

    #[test]
    fn markdown_escapes_stars_and_bars() {
        let mut table = table();
        table.title.clear();
        table.push(["a|b"]);
        let expected = "\
| data        |  β\u{302}\\* |            LPD |
| :---------- | ---: | -------------: |
| Concrete    | 0.16 | −0.186 ± 0.049 |
| Naval, full |   48 |         −1.382 |
| a\\|b        |      |                |
";
        assert_eq!(table.to_markdown(), expected);
    }

    #[test]
    fn csv_quotes_and_uses_a_plain_minus_for_numbers() {
        let expected = "data,β\u{302}*,LPD\nConcrete,0.16,−0.186 ± 0.049\n\"Naval, full\",48,-1.382\n";
        assert_eq!(table().to_csv(), expected);
    }

    #[test]
    fn html_escapes_and_says_how_cells_stand() {
        let mut table = table();
        table.push(["<b>", "1"]);
        let html = table.to_html();
        assert!(html.contains("<td>&lt;b&gt;</td><td class=\"right\">1</td><td class=\"right\"></td>"));
        assert!(html.contains("<caption>Chosen β\u{302}*</caption>"));
    }

    #[test]
    fn an_empty_table_is_no_accident() {
        let table = Table::default();
        assert_eq!(table.to_csv(), "\n");
        assert!(table.to_text().contains('─') && table.to_html().contains("<table>"));
        assert!(table.to_markdown().starts_with('|'));
    }
}

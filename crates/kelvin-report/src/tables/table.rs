//! A table as one value with five renderings: aligned text for a terminal, Markdown, CSV, HTML, LaTeX.

use unicode_width::UnicodeWidthStr;

use kelvin_study::csv_text::csv_text;

use crate::escape::escape;

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// At the left, for words.
    #[default]
    Left,
    /// At the right, for numbers.
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
    /// Names that stand over several columns, with how many each; none if empty.
    pub spans: Vec<(String, usize)>,
    /// Rows before which there is a rule.
    pub rules: Vec<usize>,
    /// Cells, as row and column, that are set in bold where a rendering can.
    pub bold: Vec<(usize, usize)>,
}

impl Table {
    /// An empty table whose first column holds words and whose other columns hold numbers.
    pub fn new<S: Into<String>>(title: impl Into<String>, header: impl IntoIterator<Item = S>) -> Self {
        let header: Vec<String> = header.into_iter().map(Into::into).collect();
        let alignment = |column| if column == 0 { Alignment::Left } else { Alignment::Right };
        let alignments = (0..header.len()).map(alignment).collect();
        Self { title: title.into(), header, alignments, ..Self::default() }
    }

    /// Appends a row of cells.
    pub fn push<S: Into<String>>(&mut self, row: impl IntoIterator<Item = S>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Aligned text with light rules, for a terminal.
    pub fn to_text(&self) -> String {
        let header = self.full_header();
        let widths = self.widths(&header, |cell| one_line(cell).width());
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
        text += &line(&header);
        text += &rule;
        for (index, row) in self.rows.iter().enumerate() {
            if self.rules.contains(&index) {
                text += &rule;
            }
            text += &line(row);
        }
        text + &rule
    }

    /// A Markdown table under its title, aligned in its source too.
    pub fn to_markdown(&self) -> String {
        let header: Vec<String> = self.full_header().iter().map(|name| markdown(name)).collect();
        let shown = |(row, cells): (usize, &Vec<String>)| -> Vec<String> {
            let one = |(column, cell): (usize, &String)| match markdown(cell) {
                text if self.is_bold(row, column) => format!("**{text}**"),
                text => text,
            };
            cells.iter().enumerate().map(one).collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().enumerate().map(shown).collect();
        let all = || std::iter::once(&header).chain(&rows);
        let width = |i: usize| all().map(|row| cell(row, i).width()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.num_columns()).map(width).collect();
        let line = |row: &[String]| {
            let padded = |(i, w): (usize, &usize)| pad(cell(row, i), (*w).max(3), self.alignment(i));
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
        text += &line(&header);
        text += &format!("| {} |\n", marks.collect::<Vec<_>>().join(" | "));
        rows.iter().for_each(|row| text += &line(row));
        text
    }

    /// Comma-separated values: header and rows, without the title; numbers with a plain minus sign.
    pub fn to_csv(&self) -> String {
        let num_columns = self.num_columns();
        if num_columns == 0 {
            return "\n".into();
        }
        let fields = |row: &Vec<String>| (0..num_columns).map(|i| plain_minus(cell(row, i))).collect::<Vec<String>>();
        csv_text(std::iter::once(&self.full_header()).chain(&self.rows).map(fields))
    }

    /// An HTML table with its title as caption; the class `right` marks numbers, `rule` a row with a rule above it.
    pub fn to_html(&self) -> String {
        let caption = match self.title.as_str() {
            "" => String::new(),
            title => format!("<caption>{}</caption>\n", escape(title)),
        };
        format!("<table>\n{caption}{}</table>\n", self.inner_html())
    }

    /// The inside of an HTML table: head and body.
    pub fn inner_html(&self) -> String {
        let class = |i| match self.alignment(i) {
            Alignment::Left => "",
            Alignment::Right => " class=\"right\"",
        };
        let mut html = String::new();
        html += "<thead>\n";
        if !self.spans.is_empty() {
            let span = |(name, columns): &(String, usize)| match name.as_str() {
                "" => format!("<td colspan=\"{columns}\"></td>"),
                name => format!("<th colspan=\"{columns}\" scope=\"colgroup\">{}</th>", escape(name)),
            };
            html += &format!("<tr class=\"spans\">{}</tr>\n", self.spans.iter().map(span).collect::<String>());
        }
        let name = |i| format!("<th{} scope=\"col\">{}</th>", class(i), escape(cell(&self.header, i)));
        html += &format!("<tr>{}</tr>\n</thead>\n<tbody>\n", (0..self.num_columns()).map(name).collect::<String>());
        for (index, row) in self.rows.iter().enumerate() {
            let one = |i: usize| match escape(cell(row, i)) {
                text if i == 0 => format!("<th{} scope=\"row\">{text}</th>", class(i)),
                text if self.is_bold(index, i) => format!("<td{}><strong>{text}</strong></td>", class(i)),
                text => format!("<td{}>{text}</td>", class(i)),
            };
            let rule = if self.rules.contains(&index) { " class=\"rule\"" } else { "" };
            html += &format!("<tr{rule}>{}</tr>\n", (0..self.num_columns()).map(one).collect::<String>());
        }
        html + "</tbody>\n"
    }

    pub(crate) fn is_bold(&self, row: usize, column: usize) -> bool {
        self.bold.contains(&(row, column))
    }

    /// The names of the columns, each with the name that stands over it: for renderings without spans.
    fn full_header(&self) -> Vec<String> {
        let over = self.spans.iter().flat_map(|(name, columns)| std::iter::repeat_n(name.as_str(), *columns));
        let over = over.chain(std::iter::repeat(""));
        let full = |(name, over): (&String, &str)| match (name.as_str(), over) {
            (name, "") | ("", name) => name.to_owned(),
            (name, over) => format!("{name}, {over}"),
        };
        self.header.iter().zip(over).map(full).collect()
    }

    pub(crate) fn num_columns(&self) -> usize {
        self.rows.iter().map(Vec::len).fold(self.header.len(), usize::max)
    }

    pub(crate) fn alignment(&self, column: usize) -> Alignment {
        self.alignments.get(column).copied().unwrap_or_default()
    }

    fn widths(&self, header: &Vec<String>, width: impl Fn(&str) -> usize) -> Vec<usize> {
        let rows = || std::iter::once(header).chain(&self.rows);
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

/// A number as machines read it; any other cell as it is.
fn plain_minus(cell: &str) -> String {
    let number = cell.replace('−', "-").replace('\u{2009}', "");
    if number.parse::<f64>().is_ok() { number } else { cell.into() }
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
        assert!(html.contains("<th scope=\"row\">&lt;b&gt;</th><td class=\"right\">1</td><td class=\"right\"></td>"));
        assert!(html.contains("<caption>Chosen β\u{302}*</caption>"));
    }

    #[test]
    fn spans_rules_and_bold_cells_are_rendered_where_they_can_be() {
        let mut table = table();
        table.spans = vec![(String::new(), 1), ("nats".into(), 2)];
        (table.rules, table.bold) = (vec![1], vec![(0, 1)]);
        assert!(table.to_csv().starts_with("data,\"β\u{302}*, nats\",\"LPD, nats\"\n"), "{}", table.to_csv());
        assert_eq!(table.to_text().matches("──\n").count(), 4);
        assert!(table.to_markdown().contains("**0.16**"));
        let html = table.to_html();
        assert!(
            html.contains("<th colspan=\"2\" scope=\"colgroup\">nats</th>") && html.contains("<tr class=\"rule\">")
        );
        assert!(html.contains("<strong>0.16</strong>"));
    }

    #[test]
    fn an_empty_table_is_no_accident() {
        let table = Table::default();
        assert_eq!(table.to_csv(), "\n");
        assert!(table.to_text().contains('─') && table.to_html().contains("<table>"));
        assert!(table.to_markdown().starts_with('|'));
    }
}

//! A table as LaTeX with the rules of `booktabs`: numbers and Greek letters in mathematics, everything else escaped.

use crate::tables::table::{Alignment, Table};

impl Table {
    /// A `table` environment with the title as caption; needs `\usepackage{booktabs}`.
    pub fn to_latex(&self) -> String {
        let columns: String = (0..self.num_columns())
            .map(|column| match self.alignment(column) {
                Alignment::Left => 'l',
                Alignment::Right => 'r',
            })
            .collect();
        let mut text = String::from("% needs \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n");
        if !self.title.is_empty() {
            text += &format!("  \\caption{{{}}}\n", latex(&self.title));
        }
        text += &format!("  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n");
        text += &self.latex_spans();
        let header: Vec<String> = self.header.iter().map(|name| latex(name)).collect();
        text += &format!("    {} \\\\\n    \\midrule\n", header.join(" & "));
        for (index, row) in self.rows.iter().enumerate() {
            if self.rules.contains(&index) {
                text += "    \\midrule\n";
            }
            // A block is named once.
            let is_new = index == 0 || self.rules.contains(&index) || self.rows[index - 1].first() != row.first();
            let cell = |(column, cell): (usize, &String)| match column {
                0 if !is_new => String::new(),
                _ if self.is_bold(index, column) => bold(cell),
                _ => latex(cell),
            };
            let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
            text += &format!("    {} \\\\\n", cells.join(" & "));
        }
        text + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    }

    fn latex_spans(&self) -> String {
        if self.spans.is_empty() {
            return String::new();
        }
        let (mut cells, mut rules, mut column) = (Vec::new(), String::new(), 1);
        for (name, width) in &self.spans {
            cells.push(format!("\\multicolumn{{{width}}}{{c}}{{{}}}", latex(name)));
            if !name.is_empty() {
                rules += &format!(" \\cmidrule(lr){{{column}-{}}}", column + width - 1);
            }
            column += width;
        }
        format!("    {} \\\\\n   {rules}\n", cells.join(" & "))
    }
}

fn bold(cell: &str) -> String {
    match mathematics(cell) {
        Some(numbers) => format!("$\\mathbf{{{numbers}}}$"),
        None => format!("\\textbf{{{}}}", latex(cell)),
    }
}

/// Any text; what is a number as a whole becomes one formula.
fn latex(text: &str) -> String {
    if let Some(numbers) = mathematics(text) {
        return format!("${numbers}$");
    }
    let mut safe = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // A letter and the hat on it are one sign.
        let signs = [
            ("×10³", r"$\times 10^{3}$"),
            ("β\u{302}*", r"$\hat{\beta}^{*}$"),
            ("R\u{302}", r"$\hat{R}$"),
            ("β\u{302}", r"$\hat{\beta}$"),
        ];
        if let Some((sign, formula)) = signs.iter().find(|(sign, _)| rest.starts_with(sign)) {
            safe.push_str(formula);
            rest = &rest[sign.len()..];
            continue;
        }
        match c {
            '\\' => safe.push_str(r"\textbackslash{}"),
            '~' => safe.push_str(r"\textasciitilde{}"),
            '^' => safe.push_str(r"\textasciicircum{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', c]),
            '–' => safe.push_str("--"),
            '—' => safe.push_str("---"),
            '\n' | '\r' | '\t' => safe.push(' '),
            c => match formula_of(c) {
                Some(formula) => safe.push_str(&format!("${formula}$")),
                None => safe.push(c),
            },
        }
        rest = &rest[c.len_utf8()..];
    }
    safe
}

/// The inside of a formula for a text of digits, signs and powers only.
fn mathematics(text: &str) -> Option<String> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == ' ' || c == '\u{2009}' || formula_of(c).is_some();
    let numeric = text.chars().any(|c| c.is_ascii_digit()) && text.chars().all(|c| is_number(c) && !is_letter(c));
    numeric.then(|| {
        let one = |c: char| match c {
            '\u{2009}' => r"\,".to_owned(),
            c => formula_of(c).map_or_else(|| c.to_string(), str::to_owned),
        };
        text.chars().map(one).collect::<String>().replace("}^{", "")
    })
}

fn is_letter(c: char) -> bool {
    matches!(c, 'β' | 'θ' | 'σ' | '↑' | '↓' | '…')
}

/// Signs that are set as mathematics.
fn formula_of(c: char) -> Option<&'static str> {
    Some(match c {
        'β' => r"\beta",
        'θ' => r"\theta",
        'σ' => r"\sigma",
        '±' => r"\pm",
        '×' => r"\times ",
        '−' => "-",
        '≤' => r"\le",
        '≥' => r"\ge",
        '∞' => r"\infty",
        '↑' => r"\uparrow",
        '↓' => r"\downarrow",
        '…' => r"\dots",
        '⁻' => "^{-}",
        '⁰' => "^{0}",
        '¹' => "^{1}",
        '²' => "^{2}",
        '³' => "^{3}",
        '⁴' => "^{4}",
        '⁵' => "^{5}",
        '⁶' => "^{6}",
        '⁷' => "^{7}",
        '⁸' => "^{8}",
        '⁹' => "^{9}",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_formulas_and_words_are_escaped() {
        assert_eq!(latex("−0.186 ± 0.049"), r"$-0.186 \pm 0.049$");
        assert_eq!(latex("1.2×10⁻⁵"), r"$1.2\times 10^{-5}$");
        assert_eq!(latex("12\u{2009}500"), r"$12\,500$");
        assert_eq!(latex("β = β\u{302}* & 90 % of a_b"), r"$\beta$ = $\hat{\beta}^{*}$ \& 90 \% of a\_b");
        assert_eq!(latex("split-R\u{302}"), r"split-$\hat{R}$");
        assert_eq!(latex("–"), "--");
        assert_eq!(bold("75 ± 7"), r"$\mathbf{75 \pm 7}$");
    }

    #[test]
    fn a_block_is_named_once_between_its_rules() {
        let mut table = Table::new("LPD", ["", "method", "Concrete"]);
        for row in [["SM-PD", "SGD", "1"], ["SM-PD", "grid", "2"], ["TM-PD", "SGD", "3"]] {
            table.push(row);
        }
        table.rules = vec![2];
        table.spans = vec![(String::new(), 2), ("nats".into(), 1)];
        let text = table.to_latex();
        assert!(
            text.contains("SM-PD & SGD & $1$ \\\\\n     & grid & $2$ \\\\\n    \\midrule\n    TM-PD & SGD"),
            "{text}"
        );
        assert!(text.contains(r"\cmidrule(lr){3-3}") && text.contains(r"\toprule") && text.contains(r"\bottomrule"));
    }
}

//! Text for a terminal, broken between words, and lists that do not run on.

use unicode_width::UnicodeWidthStr;

/// Columns of a terminal that texts are broken to.
const COLUMNS: usize = 100;

/// The most names of a list that are shown.
const MOST_NAMES: usize = 8;

/// Names side by side, the first few where there are many: "a, b, c and 997 more".
pub fn few_names(names: &[String]) -> String {
    let shown = names.len().min(MOST_NAMES);
    let more = if shown < names.len() { format!(" and {} more", names.len() - shown) } else { String::new() };
    names[..shown].join(", ") + &more
}

/// A text broken into lines between words, each but the first after `indent`, with a line feed at the end. A
/// no-break space holds words together.
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    // The spaces a text begins with stay.
    let start = text.len() - text.trim_start().len();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("{indent}{word}")),
            None => lines.push(format!("{}{word}", &text[..start])),
        }
    }
    format!("{}\n", lines.join("\n").replace('\u{a0}', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_few_and_a_number() {
        let names = |count: usize| (0..count).map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(few_names(&names(2)), "0, 1");
        assert_eq!(few_names(&names(8)), "0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(few_names(&names(1_000_000)), "0, 1, 2, 3, 4, 5, 6, 7 and 999992 more");
    }
}

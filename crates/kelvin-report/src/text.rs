//! Text for a terminal, broken between words.

use unicode_width::UnicodeWidthStr;

/// Columns of a terminal that texts are broken to.
const COLUMNS: usize = 100;

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

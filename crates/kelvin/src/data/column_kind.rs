//! What the cells of a column are: numbers, booleans, text or dates; asked for, or guessed from all of them.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::date_form::DateForm;
use super::levels::MOST_LEVELS;
use super::nearest::nearest_name;

/// Up to this share of cells that do not fit the others is taken for mistakes, and a single one where it is not more than a tenth.
const MOST_MISTAKES: f64 = 0.01;

/// What a column is to be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// Two values, such as true and false.
    Boolean,
    /// One of several levels.
    Text,
    /// Dates, or dates with times.
    Date,
    /// Nothing: it is left out.
    Drop,
}

impl ColumnKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Number, Self::Boolean, Self::Text, Self::Date, Self::Drop];

    /// What it is asked for by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Text => "text",
            Self::Date => "date",
            Self::Drop => "drop",
        }
    }
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ColumnKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let nearest = nearest_name(text, names).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            format!("no kind of column is named `{}`: there are {}{nearest}", text.trim(), names.join(", "))
        })
    }
}

/// What the numbers of a feature stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// Themselves.
    Number,
    /// 0 for false and 1 for true.
    Boolean,
    /// Positions in this list of levels.
    Text {
        /// The levels, in the order of their letters.
        levels: Vec<String>,
    },
    /// Days since 1970, written in this form.
    Date(DateForm),
}

/// The boolean that a cell stands for, however it is written.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match Cell::new(text) {
        Cell::Number(1.0) => Some(true),
        Cell::Number(0.0) => Some(false),
        _ if is(&PAIRS.map(|(_, word)| word)) => Some(true),
        _ if is(&PAIRS.map(|(word, _)| word)) => Some(false),
        _ => None,
    }
}

/// How false and true are written.
const PAIRS: [(&str, &str); 5] = [("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("off", "on")];

/// What words are, where nothing was asked for: none where no cell says anything.
///
/// A few mistakes do not make text of numbers or dates: they are left for an error to name.
pub(super) fn guessed(words: &[&str]) -> Option<ColumnKind> {
    let present: Vec<&str> = words.iter().copied().filter(|word| Cell::new(word) != Cell::Missing).collect();
    if present.is_empty() {
        return None;
    }
    let is_of = |pair: &(&str, &str)| {
        present.iter().all(|word| word.eq_ignore_ascii_case(pair.0) || word.eq_ignore_ascii_case(pair.1))
    };
    if PAIRS.iter().any(is_of) {
        return Some(ColumnKind::Boolean);
    }
    let most_mistakes = ((MOST_MISTAKES * present.len() as f64) as usize).max(usize::from(present.len() >= 10));
    if DateForm::of(&present).is_some_and(|(_, num_others)| num_others <= most_mistakes) {
        return Some(ColumnKind::Date);
    }
    let (mut different, mut num_others) = (HashSet::new(), 0);
    for word in &present {
        match Cell::new(word) {
            Cell::Number(number) => {
                different.insert(number.to_bits());
            }
            Cell::Infinite => {}
            _ => num_others += 1,
        }
    }
    let is_number = num_others <= most_mistakes && different.len() > MOST_LEVELS
        || num_others == 0 && !different.is_empty()
        || num_others == 0 && present.iter().all(|word| Cell::new(word) == Cell::Infinite);
    Some(if is_number { ColumnKind::Number } else { ColumnKind::Text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_guessed_from_all_cells() {
        assert_eq!(guessed(&["", "NA"]), None);
        assert_eq!(guessed(&["TRUE", "False", "?"]), Some(ColumnKind::Boolean));
        assert_eq!(guessed(&["yes", "no", "on"]), Some(ColumnKind::Text), "two ways to write them");
        assert_eq!(guessed(&["red", "blue"]), Some(ColumnKind::Text));
        assert_eq!(guessed(&["1", "2", "3+"]), Some(ColumnKind::Text));
        assert_eq!(guessed(&["2024-02-29", "2023-01-01"]), Some(ColumnKind::Date));
        assert_eq!(guessed(&["2024-02-29", "soon"]), Some(ColumnKind::Text));
        let mut numbers: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        numbers.push("abc".into());
        let cells = |numbers: &[String]| guessed(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(cells(&numbers), Some(ColumnKind::Number), "one of fifty is a mistake");
        numbers.push("B3".into());
        assert_eq!(cells(&numbers), Some(ColumnKind::Text));
        assert_eq!(guessed(&["1", "inf"]), Some(ColumnKind::Number));
    }

    #[test]
    fn booleans_are_read_however_they_are_written() {
        for (text, expected) in
            [("Yes", Some(true)), ("1", Some(true)), ("0.0", Some(false)), ("OFF", Some(false)), ("x", None)]
        {
            assert_eq!(boolean(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_kind_is_told_with_all() {
        assert_eq!("Text".parse::<ColumnKind>(), Ok(ColumnKind::Text));
        let error = "nubmer".parse::<ColumnKind>().unwrap_err();
        assert!(
            error.contains("number, boolean, text, date, drop") && error.ends_with("did you mean `number`?"),
            "{error}"
        );
    }
}

//! What the text of one cell means: nothing, a number, or a word.

/// The meaning of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Nothing: empty, `NA`, `N/A`, `#N/A`, `<NA>`, `NaN`, `NaT`, `null` (in any case), `?` or `.`.
    Missing,
    /// A finite number.
    Number(f64),
    /// A number that is not finite, written so (`inf`) or too large for 64 bits (`1e999`).
    Infinite,
    /// Anything else.
    Text(&'a str),
}

impl<'a> Cell<'a> {
    /// Reads a cell; spaces around it mean nothing. Numbers have a decimal point, never a comma.
    pub fn new(text: &'a str) -> Self {
        let text = text.trim();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Self::Number(number),
            Ok(number) if number.is_nan() => Self::Missing,
            Ok(_) => Self::Infinite,
            Err(_) if is_missing(text) => Self::Missing,
            Err(_) => Self::Text(text),
        }
    }
}

fn is_missing(text: &str) -> bool {
    let words = ["na", "n/a", "#n/a", "<na>", "nat", "null"];
    ["", "?", "."].contains(&text) || words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The number that a cell is if its comma is a decimal point.
pub(super) fn with_decimal_comma(text: &str) -> Option<f64> {
    let (whole, parts) = text.trim().split_once(',')?;
    let is_number = !whole.contains('.') && parts.bytes().all(|byte| byte.is_ascii_digit()) && !parts.is_empty();
    let number = format!("{whole}.{parts}").parse::<f64>().ok()?;
    (is_number && number.is_finite()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_numbers_from_words_from_nothing() {
        for text in ["", "  ", "NA", "na", "N/A", "NaN", "nan", "-nan", "?", " ? ", "NULL", "#N/A", "<NA>", "NaT", "."]
        {
            assert_eq!(Cell::new(text), Cell::Missing, "{text:?}");
        }
        for (text, number) in [("1", 1.0), (" 2.5 ", 2.5), ("-1e-3", -0.001), (".5", 0.5), ("+4", 4.0), ("0", 0.0)] {
            assert_eq!(Cell::new(text), Cell::Number(number), "{text:?}");
        }
        for text in ["inf", "-Infinity", "1e999"] {
            assert_eq!(Cell::new(text), Cell::Infinite, "{text:?}");
        }
        for text in ["red", "1,5", "1 000", "0x10", "NAN1", "--3"] {
            assert_eq!(Cell::new(text), Cell::Text(text));
        }
    }

    #[test]
    fn a_decimal_comma_is_one_between_digits() {
        assert_eq!(["3,5", "-0,25", ",5"].map(with_decimal_comma), [Some(3.5), Some(-0.25), Some(0.5)]);
        assert_eq!(["3", "1.234,5", "a,b", "1,", "1,2,3", "1,-2", "1,5e3"].map(with_decimal_comma), [None; 7]);
    }
}

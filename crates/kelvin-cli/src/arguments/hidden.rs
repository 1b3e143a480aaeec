//! `--hidden`: widths of a network's hidden layers, or that they are to be chosen.

use std::str::FromStr;

/// What `--hidden` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Try several by short chains.
    Auto,
    /// These widths, from the inputs on; none for a linear model.
    Widths(Vec<usize>),
}

impl FromStr for Hidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::Widths(Vec::new())),
            widths => {
                let widths: Result<Vec<usize>, _> = widths.split(',').map(|width| width.trim().parse()).collect();
                widths.map(Self::Widths).map_err(|_| {
                    format!("`{text}` is neither widths of hidden layers (64, or 64,32), nor `none`, nor `auto`")
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_none_and_auto_are_read() {
        assert_eq!("64".parse(), Ok(Hidden::Widths(vec![64])));
        assert_eq!("64, 32".parse(), Ok(Hidden::Widths(vec![64, 32])));
        assert_eq!("none".parse(), Ok(Hidden::Widths(Vec::new())));
        assert_eq!("auto".parse(), Ok(Hidden::Auto));
        for text in ["", "64,", "-1", "6.5", "wide", "[64]"] {
            assert!(text.parse::<Hidden>().unwrap_err().contains("64,32"), "{text}");
        }
    }
}

//! `--budget`: the most that chains may sample, as gradients or as time.

use std::str::FromStr;
use std::time::Duration;

/// The most that chains may sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// At each temperature, over all of its chains.
    Gradients(u64),
    /// Of the whole run, at the speed of this machine: turned into gradients before it starts, so that the run can be repeated.
    Time(Duration),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is neither a number of gradients (500000, 500k, 2M) nor a time (90s, 5m, 1h); it must be more than 0"
            )
        };
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if !(number > 0.0 && number <= 1e15) {
            return Err(wrong());
        }
        let seconds = |each: f64| Ok(Self::Time(Duration::from_secs_f64((number * each).min(1e9))));
        match unit {
            "" if number.fract() == 0.0 => Ok(Self::Gradients(number as u64)),
            "k" => Ok(Self::Gradients((number * 1e3) as u64)),
            "M" => Ok(Self::Gradients((number * 1e6) as u64)),
            "s" => seconds(1.0),
            "m" | "min" => seconds(60.0),
            "h" => seconds(3600.0),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_and_times() {
        for (text, expected) in [
            ("500000", Budget::Gradients(500_000)),
            ("1.5M", Budget::Gradients(1_500_000)),
            ("20k", Budget::Gradients(20_000)),
            ("90s", Budget::Time(Duration::from_secs(90))),
            ("1.5m", Budget::Time(Duration::from_secs(90))),
            ("2h", Budget::Time(Duration::from_secs(7200))),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "0", "-5", "1.5", "10 m", "5d", "NaN", "infs", "1e9"] {
            assert!(text.parse::<Budget>().unwrap_err().contains("must be more than 0"), "{text}");
        }
    }
}

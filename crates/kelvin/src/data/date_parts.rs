//! A column of dates as inputs: days since the earliest training date, and the time of year, of the week and of the day on circles.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::date_form::DateForm;

const DAYS_OF_A_YEAR: f64 = 365.2425;

/// Which parts of dates are inputs; those that training rows tell nothing of are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DateParts {
    /// How dates are written.
    pub form: DateForm,
    /// The earliest training date, in days since 1970.
    pub earliest: f64,
    /// Whether the time of year is an input: training dates span a year.
    pub has_season: bool,
    /// Whether the day of the week is: training dates fall on more than one.
    pub has_weekday: bool,
    /// Whether the time of day is: training rows have more than one.
    pub has_hour: bool,
    /// Whether training rows miss the date.
    pub has_missing: bool,
}

impl DateParts {
    /// Looks at the training dates, NaN where one is missing.
    pub(super) fn fit(form: DateForm, rows: impl Iterator<Item = f64> + Clone) -> Self {
        let has_missing = rows.clone().any(f64::is_nan);
        let dates = rows.filter(|date| !date.is_nan());
        let earliest = dates.clone().fold(f64::INFINITY, f64::min);
        let span = dates.clone().fold(f64::NEG_INFINITY, f64::max) - earliest;
        let varies = |part: fn(f64) -> f64| dates.clone().any(|date| part(date) != part(earliest));
        Self {
            form,
            earliest: if earliest.is_finite() { earliest } else { 0.0 },
            has_season: span >= DAYS_OF_A_YEAR,
            // Months and years begin on any day of the week, which says nothing.
            has_weekday: !matches!(form, DateForm::YearMonth | DateForm::Year) && varies(weekday),
            has_hour: varies(|date| date - date.floor()),
            has_missing,
        }
    }

    /// What each input says, in order.
    pub(super) fn inputs(&self) -> Vec<DateInput> {
        let mut inputs = vec![DateInput::Age];
        let circles = [(self.has_season, Circle::Year), (self.has_weekday, Circle::Week), (self.has_hour, Circle::Day)];
        for (_, circle) in circles.into_iter().filter(|(has, _)| *has) {
            inputs.extend([DateInput::Sine(circle), DateInput::Cosine(circle)]);
        }
        if self.has_missing {
            inputs.push(DateInput::Missing);
        }
        inputs
    }

    /// The numbers of a date; of a missing one NaN, but for the input that says so.
    pub(super) fn encode(&self, date: f64) -> Vec<f64> {
        let number = |input: DateInput| match input {
            DateInput::Age => date - self.earliest,
            DateInput::Sine(circle) => (TAU * circle.turns(date)).sin(),
            DateInput::Cosine(circle) => (TAU * circle.turns(date)).cos(),
            DateInput::Missing => f64::from(u8::from(date.is_nan())),
        };
        self.inputs().into_iter().map(number).collect()
    }
}

fn weekday(date: f64) -> f64 {
    date.floor().rem_euclid(7.0)
}

/// What one input of a column of dates says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DateInput {
    /// Days since the earliest training date.
    Age,
    Sine(Circle),
    Cosine(Circle),
    /// Whether the date is missing.
    Missing,
}

/// What comes again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Circle {
    Year,
    Week,
    Day,
}

impl Circle {
    /// Where on the circle a date lies, in turns.
    fn turns(self, date: f64) -> f64 {
        match self {
            Self::Year => date / DAYS_OF_A_YEAR,
            Self::Week => weekday(date) / 7.0,
            Self::Day => date - date.floor(),
        }
    }

    /// As an input's name has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Year => "time of year",
            Self::Week => "weekday",
            Self::Day => "time of day",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(dates: &[&str]) -> DateParts {
        let days = dates.iter().map(|date| DateForm::YearMonthDay.days(date).unwrap_or(f64::NAN));
        DateParts::fit(DateForm::YearMonthDay, days)
    }

    #[test]
    fn only_parts_that_training_rows_tell_of_are_inputs() {
        let days = fit(&["2024-01-01", "2024-01-05"]);
        assert_eq!((days.has_season, days.has_weekday, days.has_hour, days.has_missing), (false, true, false, false));
        let weeks = fit(&["2024-01-01", "2025-01-06", ""]);
        assert_eq!(
            (weeks.has_season, weeks.has_weekday, weeks.has_hour, weeks.has_missing),
            (true, false, false, true)
        );
        assert!(fit(&["2024-01-01 08:00", "2024-01-01 20:00"]).has_hour);
    }

    #[test]
    fn ages_and_circles() {
        let parts = fit(&["2024-01-01 00:00", "2025-06-01 06:00", ""]);
        let of = |text: &str| parts.encode(DateForm::YearMonthDay.days(text).unwrap_or(f64::NAN));
        let first = of("2024-01-01 06:00");
        assert_eq!((first.len(), first[0], first[7]), (8, 0.25, 0.0));
        assert!((first[5] - 1.0).abs() < 1e-12 && first[6].abs() < 1e-12, "a quarter of a day");
        let later = of("2024-01-08");
        assert_eq!((later[0], later[3], later[4]), (7.0, first[3], first[4]), "the same day of the week");
        let year = of("2025-01-01");
        assert!((year[1] - of("2024-01-01")[1]).abs() < 0.02, "the same time of year");
        let missing = parts.encode(f64::NAN);
        assert!(missing[..7].iter().all(|part| part.is_nan()) && missing[7] == 1.0);
    }
}

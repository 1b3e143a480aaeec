//! Dates and times as people write them, read as days since 1970.

use serde::{Deserialize, Serialize};

/// The order and words in which a column writes its dates; a time of day may follow in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateForm {
    /// `2024-12-31`, `2024/12/31`, with ISO's `T` and time zone.
    YearMonthDay,
    /// `31.12.2024`, `31/12/2024`, `31-12-2024`.
    DayMonthYear,
    /// `12/31/2024`, `12-31-2024`.
    MonthDayYear,
    /// `31 Dec 2024`, `31-December-2024`.
    DayNameYear,
    /// `Dec 31, 2024`.
    NameDayYear,
    /// `2024-12`, `2024/12`: the first of the month.
    YearMonth,
    /// `20241231`; only where dates are asked for.
    Digits,
    /// `2024`: the first of January; only where dates are asked for.
    Year,
}

impl DateForm {
    /// Those that a column may be guessed to have. Where both orders fit all cells, American slashes are month first.
    const GUESSED: [Self; 6] = [
        Self::YearMonthDay,
        Self::MonthDayYear,
        Self::DayMonthYear,
        Self::DayNameYear,
        Self::NameDayYear,
        Self::YearMonth,
    ];

    /// The form that most cells have, and how many do not; none where no cell is a date.
    pub(super) fn of(cells: &[&str]) -> Option<(Self, usize)> {
        Self::best(cells, &Self::GUESSED)
    }

    /// The same among all forms, since dates were asked for.
    pub(super) fn of_dates(cells: &[&str]) -> Option<(Self, usize)> {
        let all = [&Self::GUESSED[..], &[Self::Digits, Self::Year]].concat();
        Self::best(cells, &all)
    }

    fn best(cells: &[&str], forms: &[Self]) -> Option<(Self, usize)> {
        let mut best: Option<(Self, usize)> = None;
        for &form in forms {
            // A look at the first cells saves reading all of a column that has no dates.
            if cells.iter().take(20).all(|cell| form.days(cell).is_none()) && cells.len() > 20 {
                continue;
            }
            let num_others = cells.iter().filter(|cell| form.days(cell).is_none()).count();
            // Points part day, month and year in that order.
            let is_pointed = form == Self::MonthDayYear && cells.iter().any(|cell| cell.contains('.'));
            if num_others < cells.len() && !is_pointed && best.is_none_or(|(_, least)| num_others < least) {
                best = Some((form, num_others));
            }
        }
        best
    }

    /// A date in days since 1970, the time of day as a part of the day; none where the text is no date of this form.
    pub(super) fn days(self, text: &str) -> Option<f64> {
        let text = text.trim();
        if !text.is_ascii() || text.len() > 40 {
            return None;
        }
        let (date, time) = self.split_time(text);
        let days = self.date(date)?;
        let part = if time.is_empty() { 0.0 } else { part_of_day(time)? };
        Some(days + part)
    }

    /// The date, and what follows: after a `T`, or after a space where a digit and `:` come next.
    fn split_time(self, text: &str) -> (&str, &str) {
        let at = text.bytes().enumerate().position(|(at, byte)| {
            let rest = &text.as_bytes()[at + 1..];
            let is_time = rest.iter().take(2).all(u8::is_ascii_digit) && rest.get(2) == Some(&b':')
                || rest.first().is_some_and(u8::is_ascii_digit) && rest.get(1) == Some(&b':');
            is_time && (byte == b' ' || byte == b'T' && self == Self::YearMonthDay)
        });
        at.map_or((text, ""), |at| (&text[..at], &text[at + 1..]))
    }

    fn date(self, text: &str) -> Option<f64> {
        let parts: Vec<&str> = text.split([' ', '-', '/', '.', ',']).filter(|part| !part.is_empty()).collect();
        let (year, month, day) = match (self, parts.as_slice()) {
            (Self::YearMonthDay, [year, month, day]) => (year_of(year)?, number(month)?, number(day)?),
            (Self::DayMonthYear, [day, month, year]) => (year_of(year)?, number(month)?, number(day)?),
            (Self::MonthDayYear, [month, day, year]) => (year_of(year)?, number(month)?, number(day)?),
            (Self::DayNameYear, [day, name, year]) => (year_of(year)?, month_named(name)?, number(day)?),
            (Self::NameDayYear, [name, day, year]) => (year_of(year)?, month_named(name)?, number(day)?),
            (Self::YearMonth, [year, month]) => (year_of(year)?, number(month)?, 1),
            (Self::Year, [year]) => (year_of(year)?, 1, 1),
            (Self::Digits, [digits]) if digits.len() == 8 => {
                let month_and_day = (number(&digits[4..6])?, number(&digits[6..])?);
                (year_of(&digits[..4])?, month_and_day.0, month_and_day.1)
            }
            _ => return None,
        };
        let is_date = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
        is_date.then(|| days_since_1970(year, month, day) as f64)
    }
}

/// A year has four digits: of two nobody knows the century.
fn year_of(text: &str) -> Option<i64> {
    let is_year = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|year| is_year && *year >= 1)
}

fn number(text: &str) -> Option<i64> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn month_named(text: &str) -> Option<i64> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let text = text.to_ascii_lowercase();
    let is_name = |name: &&str| **name == *text || name[..3] == *text || **name == *"september" && text == "sept";
    NAMES.iter().position(is_name).map(|at| at as i64 + 1)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1 January 1970 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let days_of_years = 365 * before + before / 4 - before / 100 + before / 400;
    let days_of_months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
    days_of_years + days_of_months + day - 1 - 719_162
}

/// A date in days since 1970 as ISO writes it, without its time.
pub(super) fn date_text(days: f64) -> String {
    // Days since 1 March of the year 0, in whole periods of 400, 100, 4 and 1 years that begin in March: a leap day is the last of its period.
    let days = days.floor() as i64 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `14:30`, `14:30:05`, `14:30:05.25`, `2:30 pm`, each with `Z` or `+01:00` behind it, as a part of a day. A time zone shifts the time to UTC.
fn part_of_day(text: &str) -> Option<f64> {
    let lower = text.trim().to_ascii_lowercase();
    let (clock, half) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
        (Some(clock), _) => (clock.trim_end().to_owned(), Some(0.0)),
        (_, Some(clock)) => (clock.trim_end().to_owned(), Some(12.0)),
        _ => (lower, None),
    };
    let (clock, shift) = match clock.strip_suffix('z').or_else(|| clock.strip_suffix(" utc")) {
        Some(clock) => (clock.to_owned(), 0.0),
        None => match clock.rfind(['+', '-']) {
            Some(at) => (clock[..at].trim_end().to_owned(), zone(&clock[at..])?),
            None => (clock, 0.0),
        },
    };
    let mut parts = clock.split(':');
    let mut hours = number(parts.next()?)? as f64;
    let minutes = number(parts.next()?)? as f64;
    let seconds = parts.next().map_or(Some(0.0), seconds)?;
    if let Some(half) = half {
        if !(1.0..=12.0).contains(&hours) {
            return None;
        }
        hours = hours % 12.0 + half;
    }
    let is_time = hours < 24.0 && minutes < 60.0 && seconds < 61.0 && parts.next().is_none();
    is_time.then_some((hours + minutes / 60.0 + seconds / 3600.0 - shift) / 24.0)
}

fn seconds(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number { text.parse().ok() } else { None }
}

/// Hours of a time zone's distance from UTC: `+01:00`, `-0530`, `+02`.
fn zone(text: &str) -> Option<f64> {
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let digits: String = text[1..].chars().filter(|char| *char != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (number(&digits)?, 0),
        4 => (number(&digits[..2])?, number(&digits[2..])?),
        _ => return None,
    };
    (hours <= 14 && minutes < 60).then(|| sign * (hours as f64 + minutes as f64 / 60.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_are_read() {
        let day = 20_088.0; // 31 December 2024
        let half = day + 0.5;
        for (form, text, expected) in [
            (DateForm::YearMonthDay, "2024-12-31", day),
            (DateForm::YearMonthDay, "2024/12/31 12:00", half),
            (DateForm::YearMonthDay, "2024-12-31T12:00:00Z", half),
            (DateForm::YearMonthDay, "2024-12-31T14:00:00.000+02:00", half),
            (DateForm::DayMonthYear, "31.12.2024", day),
            (DateForm::MonthDayYear, "12/31/2024 12:00 PM", half),
            (DateForm::DayNameYear, "31-Dec-2024", day),
            (DateForm::NameDayYear, "December 31, 2024", day),
            (DateForm::YearMonth, "2024-12", day - 30.0),
            (DateForm::Digits, "20241231", day),
            (DateForm::Year, "1970", 0.0),
            (DateForm::YearMonthDay, "1970-01-01", 0.0),
            (DateForm::YearMonthDay, "1969-12-31", -1.0),
            (DateForm::YearMonthDay, "2000-02-29", 11_016.0),
        ] {
            assert_eq!(form.days(text), Some(expected), "{text}");
        }
        for text in [
            "2023-02-29",
            "2024-13-01",
            "24-12-31",
            "2024-12-31 25:00",
            "2024-12-31 12:00 13",
            "",
            "red",
            "2024-12-31 1:60",
        ] {
            assert_eq!(DateForm::YearMonthDay.days(text), None, "{text}");
        }
    }

    #[test]
    fn the_order_of_day_and_month_is_that_of_the_whole_column() {
        assert_eq!(DateForm::of(&["1/2/2024", "13/2/2024"]), Some((DateForm::DayMonthYear, 0)));
        assert_eq!(DateForm::of(&["1/2/2024", "2/13/2024"]), Some((DateForm::MonthDayYear, 0)));
        assert_eq!(DateForm::of(&["1/2/2024", "3/4/2024"]), Some((DateForm::MonthDayYear, 0)));
        assert_eq!(DateForm::of(&["1.2.2024", "3.4.2024"]), Some((DateForm::DayMonthYear, 0)));
        assert_eq!(DateForm::of(&["2024-01-02", "soon"]), Some((DateForm::YearMonthDay, 1)));
        assert_eq!(DateForm::of(&["20240102"]), None);
        assert_eq!(DateForm::of_dates(&["20240102"]), Some((DateForm::Digits, 0)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_date_or_none(text in "[0-9a-zA-Z:./, +é-]{0,30}") {
            for form in DateForm::GUESSED.into_iter().chain([DateForm::Digits, DateForm::Year]) {
                if let Some(days) = form.days(&text) {
                    prop_assert!(days.abs() < 4e6);
                }
            }
        }

        #[test]
        fn days_follow_each_other(year in 1_i64..9999, month in 1_i64..=12, day in 1_i64..=28) {
            let days = days_since_1970(year, month, day);
            let next = if day < days_of_month(year, month) {
                (year, month, day + 1)
            } else if month < 12 {
                (year, month + 1, 1)
            } else {
                (year + 1, 1, 1)
            };
            prop_assert_eq!(days_since_1970(next.0, next.1, next.2), days + 1);
            prop_assert_eq!(date_text(days as f64 + 0.25), format!("{year:04}-{month:02}-{day:02}"));
        }
    }
}

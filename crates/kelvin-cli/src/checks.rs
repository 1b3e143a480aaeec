//! Checks of a run folder: what was looked at, how it ended, and the comparison of numbers behind it.

use std::error::Error;

use kelvin_study::error::{Result, StudyError};
use serde::Serialize;
use serde_json::Value;

/// The most differences of one check that are told.
const MOST_TOLD: usize = 5;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    Failed,
    /// What it needs is not there.
    Skipped,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The file or the part of results that it is about.
    pub name: String,
    pub outcome: Outcome,
    /// What was found.
    pub found: String,
}

/// All checks in order.
#[derive(Debug, Default)]
pub struct Checks(pub Vec<Check>);

impl Checks {
    pub fn push(&mut self, name: impl Into<String>, outcome: Outcome, found: impl Into<String>) {
        self.0.push(Check { name: name.into(), outcome, found: found.into() });
    }

    /// Passed where there is no difference; the first few are told.
    pub fn push_differences(&mut self, name: impl Into<String>, differences: Vec<String>, passed: impl Into<String>) {
        if differences.is_empty() {
            return self.push(name, Outcome::Passed, passed);
        }
        let more = differences.len().saturating_sub(MOST_TOLD);
        let mut told = differences;
        told.truncate(MOST_TOLD);
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        self.push(name, Outcome::Failed, told.join("\n"));
    }

    /// A success, or a failure with what the error says.
    pub fn push_result<T>(&mut self, name: impl Into<String>, result: Result<T>, passed: &str) -> Option<T> {
        match result {
            Ok(value) => {
                self.push(name, Outcome::Passed, passed);
                Some(value)
            }
            Err(error) => {
                self.push(name, Outcome::Failed, in_full(&error));
                None
            }
        }
    }

    pub fn num_failed(&self) -> usize {
        self.0.iter().filter(|check| check.outcome == Outcome::Failed).count()
    }
}

/// An error with its causes.
pub fn in_full(error: &StudyError) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(&format!("\n{cause}"));
        }
    }
    text
}

/// How far two numbers that should be the same may be apart, and the farthest that any were.
#[derive(Debug, Default)]
pub struct Comparison {
    /// |a − b| may be so many times 1 + the larger of both; 0 asks for equality.
    pub tolerance: f64,
    /// More for shares of rows, which jump where rounding moves a row over an edge.
    pub jump: f64,
    pub largest: f64,
}

impl Comparison {
    /// For numbers that are functions of stored f64 alone.
    pub fn of_stored_numbers() -> Self {
        Self { tolerance: 1e-9, ..Self::default() }
    }

    fn agree(&mut self, key: &str, stored: f64, now: f64) -> bool {
        if stored == now || stored.is_nan() && now.is_nan() {
            return true;
        }
        let apart = (stored - now).abs() / (1.0 + stored.abs().max(now.abs()));
        self.largest = self.largest.max(if apart.is_nan() { f64::INFINITY } else { apart });
        let is_share =
            ["coverage", "calibration", "accuracy", "ece", "brier", "auroc", "aupr", "fpr95", "predicted", "unsteady"];
        let jump = if is_share.iter().any(|part| key.contains(part)) { self.jump } else { 0.0 };
        apart <= self.tolerance + jump
    }

    /// Where two JSON values differ, each place in a line.
    pub fn of_values(&mut self, place: &str, stored: &Value, now: &Value) -> Vec<String> {
        match (stored, now) {
            (Value::Object(first), Value::Object(second)) => {
                let keys: Vec<&String> =
                    first.keys().chain(second.keys().filter(|key| !first.contains_key(*key))).collect();
                let inner = |key: &&String| {
                    let (a, b) = (first.get(*key).unwrap_or(&Value::Null), second.get(*key).unwrap_or(&Value::Null));
                    self.of_values(&format!("{place}.{key}"), a, b)
                };
                keys.iter().flat_map(inner).collect()
            }
            (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
                let pairs = first.iter().zip(second).enumerate();
                pairs.flat_map(|(index, (a, b))| self.of_values(&format!("{place}[{index}]"), a, b)).collect()
            }
            (Value::Number(a), Value::Number(b)) => {
                let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
                if self.agree(place, a, b) { Vec::new() } else { vec![format!("{place} is {a}, and should be {b}")] }
            }
            (a, b) if a == b => Vec::new(),
            (a, b) => vec![format!("{place} is {a}, and should be {b}")],
        }
    }

    /// Where two CSV texts differ, each cell in a line.
    pub fn of_tables(&mut self, file: &str, stored: &str, now: &str) -> Vec<String> {
        let (lines, wanted) = (stored.lines().count(), now.lines().count());
        if lines != wanted {
            return vec![format!("{file} has {lines} lines, and should have {wanted}")];
        }
        let header = cells(now.lines().next().unwrap_or_default());
        let mut differences = Vec::new();
        for (number, (a, b)) in stored.lines().zip(now.lines()).enumerate().filter(|(_, (a, b))| a != b) {
            let (a, b) = (cells(a), cells(b));
            if a.len() != b.len() {
                differences.push(format!("{file}, line {}: {} cells, and should be {}", number + 1, a.len(), b.len()));
                continue;
            }
            for (column, (a, b)) in a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a != b) {
                let name = header.get(column).copied().unwrap_or_default();
                let same = match (a.parse(), b.parse()) {
                    (Ok(a), Ok(b)) => self.agree(name, a, b),
                    _ => false,
                };
                if !same {
                    differences.push(format!("{file}, line {}, {name}: {a}, and should be {b}", number + 1));
                }
            }
        }
        differences
    }
}

/// The cells of a line; commas between quotes are no separators.
fn cells(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let separator = move |character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    };
    line.split(separator).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_changed_number_is_named() {
        let (stored, now) = (json!({"a": [1.0, {"b": 2.0}], "c": null}), json!({"a": [1.0, {"b": 2.5}], "c": null}));
        let exact = Comparison::default().of_values("row", &stored, &now);
        assert_eq!(exact, ["row.a[1].b is 2, and should be 2.5"]);
        let mut loose = Comparison { tolerance: 0.2, ..Comparison::default() };
        assert!(loose.of_values("row", &stored, &now).is_empty());
        assert!((loose.largest - 0.5 / 3.5).abs() < 1e-12);
        assert_eq!(Comparison::default().of_values("x", &json!(null), &json!(1.0)), ["x is null, and should be 1.0"]);
    }

    #[test]
    fn shares_may_jump_and_others_not() {
        let mut comparison = Comparison { jump: 0.1, ..Comparison::default() };
        let differences = comparison.of_values(
            "test",
            &json!({"coverage_90": 0.9, "lpd": 0.9}),
            &json!({"coverage_90": 0.91, "lpd": 0.91}),
        );
        assert_eq!(differences, ["test.lpd is 0.9, and should be 0.91"]);
    }

    #[test]
    fn a_changed_cell_is_named_by_line_and_column() {
        let now = "name,b\n\"x, y\",2\nz,3\n";
        let mut exact = Comparison::default();
        assert!(exact.of_tables("t.csv", now, now).is_empty());
        let found = exact.of_tables("t.csv", "name,b\n\"x, y\",2.5\nz,3\n", now);
        assert_eq!(found, ["t.csv, line 2, b: 2.5, and should be 2"]);
        assert_eq!(exact.of_tables("t.csv", "name,b\n", now), ["t.csv has 1 lines, and should have 3"]);
    }
}

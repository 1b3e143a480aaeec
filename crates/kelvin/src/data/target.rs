//! The column to predict: numbers for a regression, classes for a classification, and the guess which it is.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::column::Answers;
use super::error::{DataError, shown};
use super::table::Table;

/// A numeric target with more different values than this is taken for a regression.
const MOST_GUESSED_CLASSES: usize = 20;
/// A numeric target is taken for classes only where a class has at least this many rows on average.
const FEWEST_ROWS_OF_A_GUESSED_CLASS: usize = 5;

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// A number.
    Regression,
    /// One of a few classes.
    Classification,
}

impl fmt::Display for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Regression => "regression",
            Self::Classification => "classification",
        })
    }
}

/// The answers of a data set's rows, as they were in the table.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A number for each row.
    Real(Vec<f64>),
    /// A class for each row.
    Classes {
        /// The class of each row, from 0.
        labels: Vec<u32>,
        /// What class 0, 1, … was called in the table; at least two.
        names: Vec<String>,
    },
}

impl Target {
    /// Takes the target from a column. Without a `task` it is guessed: classification where no cell is a number, or
    /// where all are integers with at most 20 different values and at least five rows for each on average; regression
    /// otherwise.
    pub(super) fn from_column(table: &Table, column: usize, task: Option<Task>) -> Result<Self, DataError> {
        let task = match task {
            Some(task) => task,
            None => guessed(&table.answers(column)?),
        };
        let target = match task {
            Task::Regression => {
                let numbers = table.numbers(column).map_err(|error| match error {
                    DataError::NotNumeric { place, found } => DataError::TextTarget { place, found },
                    other => other,
                });
                Self::Real(numbers?.to_vec())
            }
            Task::Classification => Self::classes(&table.answers(column)?),
        };
        target.check(table, column)?;
        Ok(target)
    }

    /// Classes in the order of their numbers where all labels are numbers (`1` and `1.0` are one class), of their
    /// letters otherwise.
    fn classes(answers: &Answers<'_>) -> Self {
        match answers {
            Answers::Numbers(numbers) => {
                let (labels, order) = ranked(&without_negative_zero(numbers), f64::total_cmp);
                Self::Classes { labels, names: order.iter().map(f64::to_string).collect() }
            }
            Answers::Words(words) => {
                let (labels, order) = ranked(words, Ord::cmp);
                Self::Classes { labels, names: order.iter().map(|&name| name.to_owned()).collect() }
            }
        }
    }

    fn check(&self, table: &Table, column: usize) -> Result<(), DataError> {
        let (file, target) = (table.name().to_owned(), table.columns()[column].clone());
        let constant = match self {
            Self::Real(values) => values.iter().all(|value| *value == values[0]).then(|| values[0].to_string()),
            Self::Classes { names, .. } => (names.len() < 2).then(|| shown(&names[0])),
        };
        if let Some(value) = constant {
            return Err(DataError::ConstantTarget { file, target, value });
        }
        match self {
            Self::Classes { labels, names } if 2 * names.len() > labels.len() && names.len() > 2 => {
                let (num_classes, num_rows) = (names.len(), labels.len());
                Err(DataError::TooManyClasses { file, target, num_classes, num_rows })
            }
            _ => Ok(()),
        }
    }
}

/// The same numbers, −0 as 0.
fn without_negative_zero(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().map(|number| number + 0.0).collect()
}

/// The rank of each value among the different values, and those in order.
fn ranked<T: Copy>(values: &[T], compare: impl Fn(&T, &T) -> Ordering) -> (Vec<u32>, Vec<T>) {
    let mut order = values.to_vec();
    order.sort_unstable_by(&compare);
    order.dedup_by(|a, b| compare(a, b).is_eq());
    let rank = |value: &T| order.partition_point(|other| compare(other, value).is_lt()) as u32;
    (values.iter().map(rank).collect(), order)
}

fn guessed(answers: &Answers<'_>) -> Task {
    let numbers = match answers {
        Answers::Numbers(numbers) => without_negative_zero(numbers),
        Answers::Words(words) if words.iter().all(|word| matches!(Cell::new(word), Cell::Text(_))) => {
            return Task::Classification;
        }
        Answers::Words(_) => return Task::Regression,
    };
    let mut different = BTreeSet::new();
    for number in &numbers {
        different.insert(number.to_bits());
        if number.fract() != 0.0 || different.len() > MOST_GUESSED_CLASSES {
            return Task::Regression;
        }
    }
    if different.len() * FEWEST_ROWS_OF_A_GUESSED_CLASS <= numbers.len() {
        Task::Classification
    } else {
        Task::Regression
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cells: &[&str]) -> Table {
        Table::from_bytes("t.csv", format!("y\n{}\n", cells.join("\n")).as_bytes()).unwrap()
    }

    fn target(cells: &[&str], task: Option<Task>) -> Result<Target, DataError> {
        Target::from_column(&table(cells), 0, task)
    }

    fn classes(labels: &[u32], names: &[&str]) -> Target {
        Target::Classes { labels: labels.to_vec(), names: names.iter().map(|&name| name.to_owned()).collect() }
    }

    #[test]
    fn numeric_labels_are_ordered_as_numbers_and_words_as_words() {
        let task = Some(Task::Classification);
        let numeric = ["10", "9", "-1", "9.0", "10", "-1"];
        assert_eq!(target(&numeric, task).unwrap(), classes(&[2, 1, 0, 1, 2, 0], &["-1", "9", "10"]));
        let words = ["b", "a", "b", "10", "9", "10", "9", "a"];
        assert_eq!(target(&words, task).unwrap(), classes(&[3, 2, 3, 0, 1, 0, 1, 2], &["10", "9", "a", "b"]));
        assert_eq!(target(&["0", "-0", "1"], task).unwrap(), classes(&[0, 0, 1], &["0", "1"]));
    }

    #[test]
    fn the_task_is_guessed() {
        let guess = |cells: &[String]| {
            let table = Table::from_bytes("t.csv", format!("y\n{}\n", cells.join("\n")).as_bytes()).unwrap();
            guessed(&table.answers(0).unwrap())
        };
        let cycle = |len: usize, period: usize| (0..len).map(|row| (row % period).to_string()).collect::<Vec<_>>();
        assert_eq!(guess(&cycle(100, 2)), Task::Classification);
        assert_eq!(guess(&cycle(100, 20)), Task::Classification);
        assert_eq!(guess(&cycle(1000, 21)), Task::Regression);
        assert_eq!(guess(&cycle(40, 10)), Task::Regression);
        assert_eq!(guess(&["x".into(), "y".into(), "x".into()]), Task::Classification);
        let halves: Vec<String> = cycle(100, 2).iter().map(|number| format!("{number}.5")).collect();
        assert_eq!(guess(&halves), Task::Regression);
    }

    #[test]
    fn a_word_among_numbers_is_a_mistake_not_a_class() {
        for task in [None, Some(Task::Regression)] {
            let error = target(&["1.5", "2.5", "abc"], task).unwrap_err();
            assert!(matches!(&error, DataError::TextTarget { place, .. } if place.line == 4), "{error}");
            assert!(error.to_string().contains("--task classification"));
        }
    }

    #[test]
    fn a_target_must_vary_and_classes_must_repeat() {
        for task in [Task::Regression, Task::Classification] {
            let error = target(&["3", "3.0", "3"], Some(task)).unwrap_err();
            assert!(matches!(error, DataError::ConstantTarget { .. }), "{error}");
        }
        let error = target(&["a", "b", "c", "d", "a"], None).unwrap_err();
        assert!(matches!(error, DataError::TooManyClasses { num_classes: 4, num_rows: 5, .. }), "{error}");
        assert!(matches!(target(&["a", "NA", "b"], None), Err(DataError::MissingCell { .. })));
    }

    #[test]
    fn a_task_is_written_in_small_letters() {
        assert_eq!(serde_json::to_string(&Task::Regression).unwrap(), "\"regression\"");
        assert_eq!(serde_json::from_str::<Task>("\"classification\"").unwrap(), Task::Classification);
        assert_eq!(Task::Classification.to_string(), "classification");
    }
}

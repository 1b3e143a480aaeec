//! The column to predict: numbers for a regression, classes for a classification, and the guess which it is.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::column::Answers;
use super::column_kind::FeatureKind;
use super::error::{CellRole, DataError, shown};
use super::features::{BadCells, values_of};
use super::table::Table;

/// A numeric target with more different values than this is taken for a regression.
const MOST_GUESSED_CLASSES: usize = 20;
/// A numeric target is taken for classes only where a class has at least this many rows on average.
const FEWEST_ROWS_OF_A_GUESSED_CLASS: usize = 5;

/// A regression's whole numbers are noted up to so many different ones.
const MOST_NOTED_VALUES: usize = 50;

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
    /// A number for each row; of several targets those of a row side by side, row after row.
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
    /// Takes the target from a column, and tells the rows that have none, which are not among the answers. Without a `task` it is guessed:
    /// classification where no cell is a number, or where all are integers with at most 20 different values and at least five rows for each on
    /// average; regression otherwise.
    pub(super) fn from_column(
        table: &Table,
        column: usize,
        task: Option<Task>,
    ) -> Result<(Self, Vec<usize>), DataError> {
        let (answers, missing) = present(table.answers(column));
        if answers.is_empty() {
            let (file, target) = (table.name().to_owned(), table.columns()[column].clone());
            return Err(DataError::NoTargets { file, target });
        }
        let target = match task.unwrap_or_else(|| guessed(&answers)) {
            Task::Regression => match answers {
                Present::Numbers(numbers) => Self::Real(numbers.into_owned()),
                Present::Words(_) => {
                    let mut bad = BadCells::new(table, CellRole::Target);
                    let Answers::Words(all) = table.answers(column) else { unreachable!("they are words") };
                    let kind = FeatureKind::Number;
                    let mut numbers = values_of(&all, &kind, |row, word| bad.push(column, row, word, &kind));
                    bad.check()?;
                    numbers.retain(|number| !number.is_nan());
                    Self::Real(numbers)
                }
            },
            Task::Classification => Self::classes(&answers),
        };
        target.check(table, column)?;
        Ok((target, missing))
    }

    /// Takes several columns of numbers, or one of any kind, and tells the rows that lack an answer in one of them.
    pub(super) fn from_columns(
        table: &Table,
        columns: &[usize],
        task: Option<Task>,
    ) -> Result<(Self, Vec<usize>), DataError> {
        if let [column] = columns {
            return Self::from_column(table, *column, task);
        }
        let file = || table.name().to_owned();
        let are_classes = |column: usize| {
            let target = table.columns()[column].clone();
            Err(DataError::ClassesAmongTargets { file: file(), target })
        };
        if let (Some(Task::Classification), [first, ..]) = (task, columns) {
            return are_classes(*first);
        }
        let mut of_columns = Vec::new();
        for &column in columns {
            match Self::from_column(table, column, task)? {
                (Self::Real(numbers), missing) => of_columns.push((numbers.into_iter(), missing)),
                (Self::Classes { .. }, _) => return are_classes(column),
            }
        }
        let missing: BTreeSet<usize> = of_columns.iter().flat_map(|(_, missing)| missing).copied().collect();
        let mut all = Vec::new();
        for row in 0..table.num_rows() {
            for (numbers, own_missing) in &mut of_columns {
                let number = if own_missing.binary_search(&row).is_ok() { None } else { numbers.next() };
                all.extend(number.filter(|_| !missing.contains(&row)));
            }
        }
        if all.is_empty() {
            let targets = columns.iter().map(|&column| table.columns()[column].clone()).collect();
            return Err(DataError::NoCommonRows { file: file(), targets });
        }
        for (place, &column) in columns.iter().enumerate() {
            let own = all.iter().skip(place).step_by(columns.len()).copied();
            Self::Real(own.collect()).check(table, column)?;
        }
        Ok((Self::Real(all), missing.into_iter().collect()))
    }

    /// How a target of whole numbers was taken where nothing was asked for, and how to have it otherwise.
    pub(super) fn note(&self, name: &str, task: Option<Task>) -> Option<String> {
        let is_whole = |number: f64| number.fract() == 0.0;
        match self {
            _ if task.is_some() => None,
            Self::Real(values) if values.iter().all(|&value| is_whole(value)) => {
                let different: BTreeSet<u64> = values.iter().map(|value| (value + 0.0).to_bits()).collect();
                let count = different.len();
                (count <= MOST_NOTED_VALUES).then(|| {
                    format!(
                        "the target `{name}` has {count} different whole numbers and is taken for a number to predict; if they \
                         name classes, use `--task classification`"
                    )
                })
            }
            Self::Classes { names, .. } if names.iter().all(|name| name.parse().is_ok_and(is_whole)) => Some(format!(
                "the target `{name}` has {} different whole numbers and is taken for classes; if it is a count or another number to \
                 predict, use `--task regression`",
                names.len()
            )),
            _ => None,
        }
    }

    /// Classes in the order of their numbers where all labels are numbers (`1` and `1.0` are one class), of their
    /// letters otherwise.
    fn classes(answers: &Present<'_>) -> Self {
        match answers {
            Present::Numbers(numbers) => {
                let (labels, order) = ranked(&without_negative_zero(numbers), f64::total_cmp);
                Self::Classes { labels, names: order.iter().map(f64::to_string).collect() }
            }
            Present::Words(words) => {
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

/// The cells of a target that say something.
enum Present<'a> {
    Numbers(Cow<'a, [f64]>),
    Words(Vec<&'a str>),
}

impl Present<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.is_empty(),
            Self::Words(words) => words.is_empty(),
        }
    }
}

/// Those cells, and the rows of the others.
fn present(answers: Answers<'_>) -> (Present<'_>, Vec<usize>) {
    fn rows(are_missing: impl Iterator<Item = bool>) -> Vec<usize> {
        are_missing.enumerate().filter_map(|(row, is_missing)| is_missing.then_some(row)).collect()
    }
    match answers {
        Answers::Numbers(numbers) => {
            let missing = rows(numbers.iter().map(|number| number.is_nan()));
            let present = if missing.is_empty() {
                Cow::Borrowed(numbers)
            } else {
                numbers.iter().copied().filter(|number| !number.is_nan()).collect()
            };
            (Present::Numbers(present), missing)
        }
        Answers::Words(mut words) => {
            let missing = rows(words.iter().map(|word| Cell::new(word) == Cell::Missing));
            words.retain(|word| Cell::new(word) != Cell::Missing);
            (Present::Words(words), missing)
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

fn guessed(answers: &Present<'_>) -> Task {
    let numbers = match answers {
        Present::Numbers(numbers) => without_negative_zero(numbers),
        Present::Words(words) if words.iter().all(|word| matches!(Cell::new(word), Cell::Text(_))) => {
            return Task::Classification;
        }
        Present::Words(_) => return Task::Regression,
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
        Target::from_column(&table(cells), 0, task).map(|(target, _)| target)
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
            guessed(&present(table.answers(0)).0)
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
            assert!(error.to_string().starts_with("t.csv, line 4, column `y`: `abc` is not a number"), "{error}");
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
    }

    #[test]
    fn rows_without_an_answer_are_told() {
        let words = Target::from_column(&table(&["a", "NA", "b", "?"]), 0, None).unwrap();
        assert_eq!(words, (classes(&[0, 1], &["a", "b"]), vec![1, 3]));
        let numbers = Target::from_column(&table(&["NA", "2.5", "3.5"]), 0, None).unwrap();
        assert_eq!(numbers, (Target::Real(vec![2.5, 3.5]), vec![0]));
        let mixed = target(&["NA", "2.5", "x", "inf"], None).unwrap_err().to_string();
        assert!(
            mixed.starts_with("t.csv: 2 cells cannot be used\n  line 4, column `y`: `x` is not a number"),
            "{mixed}"
        );
        assert!(matches!(target(&["NA", "?"], None), Err(DataError::NoTargets { .. })));
    }

    #[test]
    fn whole_numbers_are_noted_with_the_other_way_to_take_them() {
        let cells: Vec<String> = (0..40).map(|row| (row % 4).to_string()).collect();
        let table = Table::from_bytes("t.csv", format!("y\n{}\n", cells.join("\n")).as_bytes()).unwrap();
        let note = |task| Target::from_column(&table, 0, task).unwrap().0.note("y", None);
        assert!(note(None).unwrap().contains("taken for classes"));
        assert!(note(Some(Task::Regression)).unwrap().contains("`--task classification`"));
        let target = Target::from_column(&table, 0, None).unwrap().0;
        assert_eq!(target.note("y", Some(Task::Classification)), None, "it was asked for");
        assert_eq!(Target::Real(vec![1.5, 2.0]).note("y", None), None);
    }

    #[test]
    fn a_task_is_written_in_small_letters() {
        assert_eq!(serde_json::to_string(&Task::Regression).unwrap(), "\"regression\"");
        assert_eq!(serde_json::from_str::<Task>("\"classification\"").unwrap(), Task::Classification);
        assert_eq!(Task::Classification.to_string(), "classification");
    }
}

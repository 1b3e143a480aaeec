//! Rows in memory as a table: the one place that knows how columns become features. They are written as CSV and read as a file of the
//! user's is, so that every column is taken for what `kelvin run --data` takes it for.

use std::fmt::Write;

use kelvin::data::{Dataset, Inputs, NewRows, Roles, Table, Target, Task};
use kelvin::diagnostics::Limits;
use kelvin_study::folder::FittedModel;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::error::Failure;

/// What stands in errors and settings where a file's name would.
pub const NAME: &str = "rows in memory";

/// A column as Python has it: its name, and an array of numbers or a list of words.
pub type GivenColumn<'py> = (String, GivenCells<'py>);

/// The cells of a column as Python has them.
#[derive(FromPyObject)]
pub enum GivenCells<'py> {
    /// An array of numbers.
    Numbers(PyReadonlyArray1<'py, f64>),
    /// A list of words.
    Words(Vec<Option<String>>),
}

/// The columns without the interpreter, for work in other threads.
pub fn owned(columns: Vec<GivenColumn<'_>>) -> Vec<Column> {
    let cells = |cells: GivenCells<'_>| match cells {
        GivenCells::Numbers(numbers) => Cells::Numbers(numbers.as_array().to_vec()),
        GivenCells::Words(words) => Cells::Words(words),
    };
    columns.into_iter().map(|(name, given)| (name, cells(given))).collect()
}

/// The cells of a column.
pub enum Cells {
    /// Numbers; NaN where one is missing.
    Numbers(Vec<f64>),
    /// Words; none where one is missing.
    Words(Vec<Option<String>>),
}

/// A column with its name.
pub type Column = (String, Cells);

/// What is to be predicted.
pub enum Answers {
    /// A number for each row, or one for each of the targets with these names, row after row.
    Numbers(Vec<f64>, Vec<String>),
    /// The class of each row, and what classes are called.
    Classes(Vec<u32>, Vec<String>),
}

/// A data set of these columns.
pub fn dataset(columns: &[Column], answers: Answers) -> Result<Dataset, Failure> {
    let mut several = None;
    let (target, num_rows) = match answers {
        Answers::Numbers(values, names) => {
            let num_rows = values.len() / names.len().max(1);
            several = (names.len() > 1).then_some(names);
            (Target::Real(values), num_rows)
        }
        Answers::Classes(labels, names) => {
            let num_rows = labels.len();
            (Target::Classes { labels, names }, num_rows)
        }
    };
    let name = target_name(columns);
    let table = table(columns, &name, num_rows)?;
    let roles = Roles { target: name.as_str().into(), task: Some(Task::Regression), ..Roles::default() };
    let mut dataset = Dataset::with_roles(&table, &roles)?;
    // Classes may be called anything, also what a table takes for a missing cell.
    dataset.target = target;
    if let Some(names) = several {
        dataset.target_names = names.into();
    }
    Ok(dataset)
}

/// What a model's network is given for these columns, and what is worth saying of them.
pub fn inputs(fitted: &FittedModel, columns: &[Column]) -> Result<(Inputs, Vec<String>), Failure> {
    let model = fitted.model();
    let Some(standardiser) = fitted.standardiser() else {
        return Err(Failure::question("the model was trained on images and cannot predict from a table"));
    };
    let num_rows = columns.first().map_or(0, |(_, cells)| match cells {
        Cells::Numbers(numbers) => numbers.len(),
        Cells::Words(words) => words.len(),
    });
    let table = table(columns, &target_name(columns), num_rows)?;
    let rows = NewRows::read(&table, &model.feature_names, standardiser)?;
    let limits = Limits::default();
    let (names, ranges, numbers) = rows.numbers(fitted.ranges());
    let outside = limits.check_ranges(&names, &ranges, &numbers);
    let notes = outside.iter().map(ToString::to_string).collect();
    Ok((rows.inputs(standardiser)?.into(), notes))
}

/// The column to predict, by a name that no other has.
fn target_name(columns: &[Column]) -> String {
    let mut name = "y".to_owned();
    while columns.iter().any(|(other, _)| *other == name) {
        name.push('_');
    }
    name
}

/// The columns, and one that counts the rows in the place of the target: a header of numbers alone would be taken for a row.
fn table(columns: &[Column], target: &str, num_rows: usize) -> Result<Table, Failure> {
    let mut text = String::new();
    columns.iter().for_each(|(name, _)| {
        push_word(&mut text, name);
        text.push(',');
    });
    push_word(&mut text, target);
    text.push('\n');
    for row in 0..num_rows {
        for (name, cells) in columns {
            match cells {
                Cells::Numbers(numbers) => match numbers.get(row) {
                    Some(number) if number.is_nan() => {}
                    // The shortest digits that are read as the same number.
                    Some(number) => write!(text, "{number:?}").map_err(|error| Failure::other(error.to_string()))?,
                    None => return Err(shorter(name, num_rows)),
                },
                Cells::Words(words) => match words.get(row) {
                    Some(None) => {}
                    Some(Some(word)) => push_word(&mut text, word),
                    None => return Err(shorter(name, num_rows)),
                },
            }
            text.push(',');
        }
        writeln!(text, "{row}.5").map_err(|error| Failure::other(error.to_string()))?;
    }
    Ok(Table::from_bytes(NAME, text.as_bytes())?)
}

fn shorter(column: &str, num_rows: usize) -> Failure {
    Failure::question(format!("column `{column}` has fewer cells than there are rows ({num_rows})"))
}

/// A quoted cell.
fn push_word(text: &mut String, word: &str) {
    text.push('"');
    text.push_str(&word.replace('"', "\"\""));
    text.push('"');
}

//! Rows in memory as a data set to learn from, and as inputs to predict from: the one place that knows how columns become numbers.

use kelvin::data::{Dataset, Inputs, Target};
use kelvin::diagnostics::Limits;
use kelvin_study::folder::FittedModel;

use crate::error::Failure;

/// What stands in errors and settings where a file's name would.
pub const NAME: &str = "rows in memory";
/// The column to predict, as errors call it.
const TARGET: &str = "y";

/// Columns of numbers, row after row.
pub struct Rows {
    /// A name for each column.
    pub names: Vec<String>,
    /// One number for each name in every row.
    pub values: Vec<f64>,
}

/// What is to be predicted.
pub enum Answers {
    /// A number for each row.
    Numbers(Vec<f64>),
    /// The class of each row, and what classes are called.
    Classes(Vec<u32>, Vec<String>),
}

/// A data set of these rows, checked as one from a file is.
pub fn dataset(rows: &Rows, answers: Answers) -> Result<Dataset, Failure> {
    let target = match answers {
        Answers::Numbers(values) => Target::Real(values),
        Answers::Classes(labels, names) => Target::Classes { labels, names },
    };
    let names: Vec<&str> = rows.names.iter().map(String::as_str).collect();
    Ok(Dataset::from_arrays(NAME, &names, &rows.values, TARGET, target)?)
}

/// What a model's network is given for these rows, and what is worth saying of them.
pub fn inputs(fitted: &FittedModel, rows: &Rows) -> Result<(Inputs, Vec<String>), Failure> {
    let model = fitted.model();
    let Some(standardiser) = fitted.standardiser() else {
        return Err(Failure::question("the model was trained on images and cannot predict from a table"));
    };
    let place = |name: &String| rows.names.iter().position(|other| other == name);
    let missing: Vec<&str> =
        model.feature_names.iter().filter(|name| place(name).is_none()).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(Failure::question(format!(
            "the rows lack columns that the model was trained on: {}\n  columns: {}",
            missing.join(", "),
            rows.names.join(", ")
        )));
    }
    let places: Vec<usize> = model.feature_names.iter().filter_map(place).collect();
    let features: Vec<f64> =
        rows.values.chunks_exact(rows.names.len().max(1)).flat_map(|row| places.iter().map(|&at| row[at])).collect();
    let outside = Limits::default().check_ranges(&model.feature_names, fitted.ranges(), &features);
    let notes = outside.iter().map(ToString::to_string).collect();
    let inputs = standardiser.inputs(NAME, &features, &model.feature_names)?;
    Ok((inputs.into(), notes))
}

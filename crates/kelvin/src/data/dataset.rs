//! A table made ready to learn from: numeric features, the target, and a note of what was left out.

use super::error::DataError;
use super::table::Table;
use super::target::{Target, Task};

/// Features (row-major) and target of every row of a table, in the table's order and units.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The file's name as it was given.
    pub name: String,
    /// The columns that are features, in the table's order.
    pub feature_names: Vec<String>,
    /// `num_rows() × num_features()` finite numbers, row after row.
    pub features: Vec<f64>,
    /// The column that is predicted.
    pub target_name: String,
    /// The answers.
    pub target: Target,
    /// Columns left out because they are the same in every row and so carry nothing.
    pub dropped_constant: Vec<String>,
}

impl Dataset {
    /// Takes `target` (any column) as the answer and every other column but those in `drop` as features.
    ///
    /// Without a `task` it is guessed: classification where no target is a number, or where all are integers with at
    /// most 20 different values and at least five rows for each on average; regression otherwise. Classes are numbered
    /// in the order of their names: numerically where all are numbers, alphabetically otherwise. Features that are the
    /// same in every row are left out and named in [`Dataset::dropped_constant`].
    pub fn from_table(table: &Table, target: &str, drop: &[String], task: Option<Task>) -> Result<Self, DataError> {
        let target_column = table.column(target)?;
        let dropped = drop.iter().map(|name| table.column(name.trim())).collect::<Result<Vec<_>, _>>()?;
        if dropped.contains(&target_column) {
            return Err(DataError::TargetDropped { target: target.to_owned() });
        }
        let answers = Target::from_column(table, target_column, task)?;
        let (mut names, mut columns, mut dropped_constant) = (Vec::new(), Vec::new(), Vec::new());
        for (column, name) in table.columns().iter().enumerate() {
            if column == target_column || dropped.contains(&column) {
                continue;
            }
            let values = table.numbers(column).map_err(|error| match error {
                DataError::NotNumeric { place, found } => DataError::TextFeature { place, found },
                other => other,
            })?;
            if values.iter().all(|value| *value == values[0]) {
                dropped_constant.push(name.clone());
            } else {
                names.push(name.clone());
                columns.push(values);
            }
        }
        if columns.is_empty() {
            return Err(DataError::NoFeatures {
                file: table.name().to_owned(),
                target: target.to_owned(),
                columns: table.columns().to_vec(),
                constant: dropped_constant,
            });
        }
        Ok(Self {
            name: table.name().to_owned(),
            feature_names: names,
            features: row_major(&columns),
            target_name: target.to_owned(),
            target: answers,
            dropped_constant,
        })
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        match &self.target {
            Target::Real(values) => values.len(),
            Target::Classes { labels, .. } => labels.len(),
        }
    }

    /// Numbers in a row.
    pub fn num_features(&self) -> usize {
        self.feature_names.len()
    }

    /// The features of one row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.features[row * self.num_features()..][..self.num_features()]
    }

    /// What is predicted.
    pub fn task(&self) -> Task {
        match self.target {
            Target::Real(_) => Task::Regression,
            Target::Classes { .. } => Task::Classification,
        }
    }

    /// What the classes are called; none in a regression.
    pub fn class_names(&self) -> &[String] {
        match &self.target {
            Target::Real(_) => &[],
            Target::Classes { names, .. } => names,
        }
    }
}

/// The features of new rows, row-major, in the order in which a model was trained on them; other columns are ignored.
/// An error names every feature that is not there.
pub fn prediction_inputs(table: &Table, feature_names: &[String]) -> Result<Vec<f64>, DataError> {
    let missing: Vec<String> = feature_names.iter().filter(|name| !table.columns().contains(name)).cloned().collect();
    if !missing.is_empty() {
        let (file, columns) = (table.name().to_owned(), table.columns().to_vec());
        return Err(DataError::MissingFeatures { file, missing, columns });
    }
    let columns: Result<Vec<_>, _> = feature_names.iter().map(|name| table.numbers(table.column(name)?)).collect();
    Ok(row_major(&columns?))
}

fn row_major(columns: &[&[f64]]) -> Vec<f64> {
    let num_rows = columns.first().map_or(0, |column| column.len());
    let mut rows = Vec::with_capacity(num_rows * columns.len());
    (0..num_rows).for_each(|row| rows.extend(columns.iter().map(|column| column[row])));
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "id,size,colour,flat,price\n7,1,red,5,10.5\n8,2,blue,5,20.5\n9,4,red,5.0,40.5\n";

    fn table() -> Table {
        Table::from_bytes("t.csv", TEXT.as_bytes()).unwrap()
    }

    fn load(target: &str, drop: &[&str], task: Option<Task>) -> Result<Dataset, DataError> {
        let drop: Vec<String> = drop.iter().map(|&name| name.to_owned()).collect();
        Dataset::from_table(&table(), target, &drop, task)
    }

    #[test]
    fn takes_features_in_order_and_notes_constant_columns() {
        let dataset = load("price", &["colour"], None).unwrap();
        assert_eq!(dataset.feature_names, ["id", "size"]);
        assert_eq!(dataset.features, [7.0, 1.0, 8.0, 2.0, 9.0, 4.0]);
        assert_eq!(dataset.row(1), [8.0, 2.0]);
        assert_eq!(dataset.target, Target::Real(vec![10.5, 20.5, 40.5]));
        assert_eq!(dataset.dropped_constant, ["flat"]);
        assert_eq!((dataset.num_rows(), dataset.num_features(), dataset.task()), (3, 2, Task::Regression));
    }

    #[test]
    fn any_column_can_be_the_target() {
        let dataset = load("colour", &["id"], None).unwrap();
        assert_eq!(dataset.task(), Task::Classification);
        assert_eq!(dataset.class_names(), ["blue", "red"]);
        assert_eq!(dataset.feature_names, ["size", "price"]);
    }

    #[test]
    fn says_which_column_is_wrong() {
        let message = load("price", &[], None).unwrap_err().to_string();
        let expected = "t.csv, line 2, column `colour`: the feature is `red`, not a number";
        assert!(message.starts_with(expected) && message.contains("`--drop colour`"), "{message}");
        assert!(load("prise", &[], None).unwrap_err().to_string().ends_with("did you mean `price`?"));
        assert!(load("price", &["color"], None).unwrap_err().to_string().ends_with("did you mean `colour`?"));
        assert_eq!(load("price", &["price"], None), Err(DataError::TargetDropped { target: "price".into() }));
        let error = load("price", &["id", "size", "colour"], None).unwrap_err();
        assert!(matches!(&error, DataError::NoFeatures { constant, .. } if constant == &["flat"]), "{error}");
        assert!(matches!(load("flat", &["colour"], None), Err(DataError::ConstantTarget { .. })));
    }

    #[test]
    fn a_dropped_column_may_hold_anything() {
        let table = Table::from_bytes("t.csv", b"note,x,y\n,1,1.5\n?,2,2.5\n").unwrap();
        assert!(Dataset::from_table(&table, "y", &["note".into()], None).is_ok());
        assert!(matches!(Dataset::from_table(&table, "y", &[], None), Err(DataError::MissingCell { .. })));
    }

    #[test]
    fn new_rows_are_read_by_name() {
        let names = ["size".to_owned(), "id".to_owned()];
        assert_eq!(prediction_inputs(&table(), &names).unwrap(), [1.0, 7.0, 2.0, 8.0, 4.0, 9.0]);
        let names = ["size".to_owned(), "weight".to_owned(), "age".to_owned()];
        let message = prediction_inputs(&table(), &names).unwrap_err().to_string();
        assert!(message.starts_with("t.csv lacks 2 columns that the model was trained on: weight, age"), "{message}");
        let error = prediction_inputs(&table(), &["colour".to_owned()]).unwrap_err();
        assert!(matches!(error, DataError::NotNumeric { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn nearly_data_never_panics(text in "a,b,c\n([ab1-3.?e-]{0,4},[1-3.]{0,3},[1-3]{1,3}\n){1,8}") {
            if let Ok(table) = Table::from_bytes("t.csv", text.as_bytes()) {
                for task in [None, Some(Task::Regression), Some(Task::Classification)] {
                    let _ = Dataset::from_table(&table, "c", &[], task);
                    let _ = Dataset::from_table(&table, "a", &["b".into()], task);
                }
            }
        }
    }
}

//! Rows to predict from, read by the names and kinds of the columns that a model was trained on.

use std::io::Read;

use super::column::Answers;
use super::column_kind::FeatureKind;
use super::dataset::row_major;
use super::encoder::{ColumnEncoder, Encoder, RawRows, level_of};
use super::error::{CellRole, DataError};
use super::features::{BadCells, levels_of, text_of, values_of};
use super::source_text::read_to_end;
use super::standardise::Standardiser;
use super::table::Table;

/// New rows of a table: the features of a model in its order, whatever other columns there are.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRows {
    file: String,
    feature_names: Vec<String>,
    kinds: Vec<FeatureKind>,
    values: Vec<f64>,
}

/// A value of a new row that is like none of the training rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Outside {
    /// The row, from 0.
    pub row: usize,
    /// The feature.
    pub column: String,
    /// What is outside.
    pub found: OutsideValue,
}

/// What is outside.
#[derive(Clone, Debug, PartialEq)]
pub enum OutsideValue {
    /// A number (of a date the days since 1970) so many widths of the training range beyond it.
    Beyond {
        /// The number.
        value: f64,
        /// How many widths.
        widths: f64,
    },
    /// A level that no training row has.
    UnseenLevel(String),
    /// A missing value, where no training row misses it.
    Missing,
}

impl NewRows {
    /// Reads the features of a model from a table. Cells that are not of their column's kind are told all at once; a missing cell is none.
    ///
    /// # Errors
    /// Where a feature is not there, and where cells cannot be used.
    pub fn read(table: &Table, feature_names: &[String], standardiser: &Standardiser) -> Result<Self, DataError> {
        let file = table.name().to_owned();
        let lacks = |name: &&String| !table.columns().contains(name);
        let missing: Vec<String> = feature_names.iter().filter(lacks).cloned().collect();
        if !missing.is_empty() {
            return Err(DataError::MissingFeatures { file, missing, columns: table.columns().to_vec() });
        }
        let mut bad = BadCells::new(table, CellRole::NewRow);
        let (mut kinds, mut columns) = (Vec::new(), Vec::new());
        for (feature, name) in feature_names.iter().enumerate() {
            let column = table.column(name)?;
            let encoder = standardiser.encoder.as_ref().and_then(|encoder| encoder.columns.get(feature));
            let answers = table.answers(column);
            let texts: Vec<String> = match &answers {
                Answers::Numbers(numbers) => numbers.iter().map(|&number| text_of(number)).collect(),
                Answers::Words(_) => Vec::new(),
            };
            let words: Vec<&str> = match answers {
                Answers::Numbers(_) => texts.iter().map(String::as_str).collect(),
                Answers::Words(words) => words,
            };
            let kind = kind_of(encoder, &words);
            columns.push(values_of(&words, &kind, |row, word| bad.push(column, row, word, &kind)));
            kinds.push(kind);
        }
        bad.check()?;
        let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
        Ok(Self { file, feature_names: feature_names.to_vec(), kinds, values: row_major(&columns) })
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.values.len() / self.kinds.len().max(1)
    }

    /// What a network takes in for these rows.
    ///
    /// # Errors
    /// Where a number lies further from the training rows than 32 bits can hold.
    pub fn inputs(&self, standardiser: &Standardiser) -> Result<Vec<f32>, DataError> {
        let raw = RawRows { kinds: &self.kinds, values: &self.values };
        let rows: Vec<usize> = (0..self.num_rows()).collect();
        standardiser.encoded(&self.file, rows.iter().copied(), raw, &rows, &self.feature_names)
    }

    /// Names, training ranges and values (row-major) of those features that are numbers.
    pub fn numbers(&self, ranges: &[(f64, f64)]) -> (Vec<String>, Vec<(f64, f64)>, Vec<f64>) {
        let are: Vec<usize> = (0..self.kinds.len()).filter(|&at| self.kinds[at] == FeatureKind::Number).collect();
        let rows = self.values.chunks_exact(self.kinds.len().max(1));
        (
            are.iter().map(|&at| self.feature_names[at].clone()).collect(),
            are.iter().filter_map(|&at| ranges.get(at).copied()).collect(),
            rows.flat_map(|row| are.iter().map(|&at| row[at])).collect(),
        )
    }

    /// Everything that is like no training row, row after row: levels that none has, missing values where none misses any, and numbers or
    /// dates more than `most_widths` widths of the training range beyond it. Without ranges, numbers are not looked at.
    pub fn outside(&self, standardiser: &Standardiser, ranges: &[(f64, f64)], most_widths: f64) -> Vec<Outside> {
        let encoder = standardiser.encoder.as_ref();
        let mut all = Vec::new();
        for (row, values) in self.values.chunks_exact(self.kinds.len().max(1)).enumerate() {
            for (feature, (kind, &value)) in self.kinds.iter().zip(values).enumerate() {
                let column = encoder.and_then(|encoder: &Encoder| encoder.columns.get(feature));
                let found = match (kind, column) {
                    (_, column) if value.is_nan() => {
                        (!column.is_some_and(ColumnEncoder::has_missing)).then_some(OutsideValue::Missing)
                    }
                    (FeatureKind::Text { levels }, Some(ColumnEncoder::Text(known))) => level_of(levels, value)
                        .filter(|level| !known.knows(level))
                        .map(|level| OutsideValue::UnseenLevel(level.to_owned())),
                    (FeatureKind::Number | FeatureKind::Date(_), _) => ranges.get(feature).and_then(|&(low, high)| {
                        // 0/0 is no number: a value that is the only one of the training rows is not outside.
                        let widths = (low - value).max(value - high) / (high - low);
                        (widths > most_widths).then_some(OutsideValue::Beyond { value, widths })
                    }),
                    _ => None,
                };
                all.extend(found.map(|found| Outside { row, column: self.feature_names[feature].clone(), found }));
            }
        }
        all
    }
}

/// What the numbers of a feature will stand for: levels are those of the new rows.
fn kind_of(encoder: Option<&ColumnEncoder>, words: &[&str]) -> FeatureKind {
    match encoder {
        None | Some(ColumnEncoder::Number { .. }) => FeatureKind::Number,
        Some(ColumnEncoder::Boolean { .. }) => FeatureKind::Boolean,
        Some(ColumnEncoder::Text(_)) => FeatureKind::Text { levels: levels_of(words) },
        Some(ColumnEncoder::Date(parts)) => FeatureKind::Date(parts.form),
    }
}

impl Table {
    /// Reads a table from standard input or another source that can be read once; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Table::read`], and where it has more than 512 MiB.
    pub fn from_reader(name: &str, source: impl Read) -> Result<Self, DataError> {
        Self::from_bytes(name, &read_to_end(name, source)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;

    fn table(text: &str) -> Table {
        Table::from_bytes("new.csv", text.as_bytes()).unwrap()
    }

    fn trained() -> (Dataset, Standardiser) {
        let mut text = String::from("age,colour,new,day,y\n");
        for row in 0..24 {
            let colour = ["red", "blue", "2"][row % 3];
            text += &format!("{row},{colour},{},2024-01-{:02},{row}.5\n", ["yes", "no"][row % 2], row + 1);
        }
        let dataset = Dataset::from_table(&table(&text), "y", &[], None).unwrap();
        let rows: Vec<usize> = (0..24).collect();
        let standardiser = Standardiser::fit(&dataset, &rows).unwrap();
        (dataset, standardiser)
    }

    #[test]
    fn rows_are_read_by_name_as_those_trained_on() {
        let (dataset, standardiser) = trained();
        let text = serde_json::to_string(&standardiser).unwrap();
        let standardiser = serde_json::from_str::<Standardiser>(&text).unwrap();
        // Another order, one more column, other cells around: a column of levels that are all numbers here.
        let new = table("day,other,colour,new,age\n2024-01-03,x,2.0,TRUE,2\n2024-01-06,x,2,f,5\n");
        let rows = NewRows::read(&new, &dataset.feature_names, &standardiser).unwrap();
        let found = rows.inputs(&standardiser).unwrap();
        let expected = standardiser.examples(&dataset, &[2, 5]).unwrap();
        assert_eq!((rows.num_rows(), &found[..]), (2, &expected.inputs.numbers()[..]));
        assert!(
            rows.outside(&standardiser, &[(0.0, 23.0), (0.0, 0.0), (0.0, 0.0), (19_723.0, 19_746.0)], 1.0).is_empty()
        );
    }

    #[test]
    fn what_no_training_row_has_is_told_row_by_row() {
        let (dataset, standardiser) = trained();
        let new = table("age,colour,new,day\n5,green,yes,2024-01-03\n-100,red,no,2029-01-03\n1,blue,,2024-01-03\n");
        let rows = NewRows::read(&new, &dataset.feature_names, &standardiser).unwrap();
        let ranges = [(0.0, 23.0), (0.0, 0.0), (0.0, 0.0), (19_723.0, 19_746.0)];
        let told: Vec<(usize, String)> =
            rows.outside(&standardiser, &ranges, 1.0).into_iter().map(|found| (found.row, found.column)).collect();
        let expected = [(0, "colour"), (1, "age"), (1, "day"), (2, "new")].map(|(row, name)| (row, name.to_owned()));
        assert_eq!(told, expected);
        assert_eq!(rows.numbers(&ranges), (vec!["age".to_owned()], vec![(0.0, 23.0)], vec![5.0, -100.0, 1.0]));
        assert!(rows.inputs(&standardiser).unwrap().iter().all(|input| input.is_finite()));
    }

    #[test]
    fn bad_cells_of_new_rows_are_told_at_once() {
        let (dataset, standardiser) = trained();
        let read = |text: &str| NewRows::read(&table(text), &dataset.feature_names, &standardiser);
        let error = read("age,colour,new,day\nx,red,maybe,2024-01-03\n1,red,no,soon\n").unwrap_err().to_string();
        assert!(error.starts_with("new.csv: 3 cells cannot be used\n  line 2, column `age`: `x`"), "{error}");
        assert!(error.contains("line 3, column `day`: `soon` is not a date") && !error.contains("--column"), "{error}");
        let error = read("age,day\n1,2024-01-03\n").unwrap_err().to_string();
        assert!(error.starts_with("new.csv lacks 2 columns that the model was trained on: colour, new"), "{error}");
    }
}

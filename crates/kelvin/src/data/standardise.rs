//! Numbers in units of their spread over the training rows, and the way back.

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::encoder::{Encoder, RawRows, Scaling};
use super::error::DataError;
use super::examples::{Examples, Targets};
use super::one_or_several;
use super::target::Target;

/// Where a column's numbers lie and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The mean.
    pub mean: f64,
    /// The population standard deviation (divided by n, not n − 1); 1 where the column is constant.
    pub std: f64,
}

impl Scale {
    /// Works on distances from the smallest as parts of the range, so that neither squares nor a large offset lose
    /// anything; none where the range is not finite.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let range = values.clone().fold(f64::NEG_INFINITY, f64::max) - least;
        if range == 0.0 {
            return Some(Self { mean: least, std: 1.0 });
        }
        let parts = values.map(|value| (value - least) / range);
        let count = parts.clone().count() as f64;
        let mean = parts.clone().sum::<f64>() / count;
        let variance = parts.map(|part| (part - mean).powi(2)).sum::<f64>() / count;
        let scale = Self { mean: least + range * mean, std: range * variance.sqrt() };
        (range.is_finite() && scale.std > 0.0).then_some(scale)
    }

    fn standardised(&self, value: f64) -> f32 {
        ((value - self.mean) / self.std) as f32
    }

    /// A standardised number back in the table's units; a standard deviation is multiplied by `std` alone.
    pub fn original(&self, standardised: f64) -> f64 {
        self.mean + self.std * standardised
    }
}

/// What the training rows say of columns, their means and standard deviations among it: what a trained model needs to read new rows.
///
/// Features that are numbers in all training rows are inputs as they are, one each; an [`Encoder`] turns others into inputs first. A missing
/// number counts as the mean. A feature that is constant *within the training rows* (it varies elsewhere, or it would not be a feature) gets
/// standard deviation 1: it is zero in all training rows, and elsewhere its distance from their value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardiser {
    /// One for each input of the network.
    pub features: Vec<Scale>,
    /// Those of the targets, in a regression.
    #[serde(default, with = "one_or_several", rename = "target")]
    pub targets: Vec<Scale>,
    /// How features become inputs; none where each is one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<Encoder>,
}

impl Standardiser {
    /// Measures the rows `train` and no others.
    ///
    /// # Panics
    /// If `train` is empty or names a row that is not there.
    pub fn fit(dataset: &Dataset, train: &[usize]) -> Result<Self, DataError> {
        assert!(!train.is_empty(), "a standardiser needs training rows");
        let file = || dataset.name.clone();
        let too_large = |column: &str| DataError::SpreadTooLarge { file: file(), column: column.to_owned() };
        let encoder = Encoder::fit(dataset.raw_rows(), train);
        let mut features = Vec::new();
        for (feature, name) in dataset.feature_names.iter().enumerate() {
            let values = train.iter().map(|&row| dataset.row(row)[feature]);
            match &encoder {
                None => features.push(Scale::of(values).ok_or_else(|| too_large(name))?),
                Some(encoder) => {
                    let one = encoder.of_feature(feature);
                    let (values, names) = (values.collect::<Vec<f64>>(), one.input_names(std::slice::from_ref(name)));
                    let raw = RawRows { kinds: &dataset.kinds[feature..][..1], values: &values };
                    let numbers = one.encode(raw, 0..values.len());
                    for (input, scaling) in one.scalings().into_iter().enumerate() {
                        let of_input = numbers.iter().skip(input).step_by(names.len()).copied();
                        let scale = scale_of(scaling, of_input.filter(|value| !value.is_nan()));
                        features.push(scale.ok_or_else(|| too_large(&names[input]))?);
                    }
                }
            }
        }
        let mut targets = Vec::new();
        if let Target::Real(values) = &dataset.target {
            for (place, name) in dataset.target_names.iter().enumerate() {
                let of_target = train.iter().map(|&row| values[row * dataset.num_targets() + place]);
                if of_target.clone().all(|value| value == values[train[0] * dataset.num_targets() + place]) {
                    let (target, num_rows) = (name.clone(), train.len());
                    return Err(DataError::ConstantTrainingTarget { file: file(), target, num_rows });
                }
                targets.push(Scale::of(of_target).ok_or_else(|| too_large(name))?);
            }
        }
        Ok(Self { features, targets, encoder })
    }

    /// The same for a target that is not to be scaled, such as counts.
    pub fn with_the_target_as_it_is(self) -> Self {
        Self { targets: vec![Scale { mean: 0.0, std: 1.0 }; self.targets.len()], ..self }
    }

    /// Rows of a data set, standardised; classes stay as they are.
    ///
    /// # Panics
    /// If a row is not there, or the data set is not of the kind this was fitted to.
    pub fn examples(&self, dataset: &Dataset, rows: &[usize]) -> Result<Examples, DataError> {
        let in_table = rows.iter().map(|&row| dataset.table_row(row));
        let inputs = self.encoded(&dataset.name, in_table, dataset.raw_rows(), rows, &dataset.feature_names)?;
        let targets = match &dataset.target {
            Target::Classes { labels, .. } => Targets::Classes(rows.iter().map(|&row| labels[row]).collect()),
            Target::Real(values) => {
                let width = self.targets.len();
                let mut targets = Vec::with_capacity(rows.len() * width);
                for &row in rows {
                    let of_row = self.targets.iter().zip(&values[row * width..][..width]).zip(&*dataset.target_names);
                    for ((scale, &value), name) in of_row {
                        let place = || (dataset.name.clone(), dataset.table_row(row), name.clone());
                        targets.push(within_reach(scale, value, place)?);
                    }
                }
                Targets::Real(targets)
            }
        };
        Ok(Examples { inputs: inputs.into(), num_features: self.features.len(), targets })
    }

    /// Row-major features of new rows that are all numbers, standardised; NaN counts as the mean. An error names a value that
    /// 32 bits cannot hold, by its row in `file`. Rows of a table are read by [`super::NewRows`].
    ///
    /// # Panics
    /// If the names or the rows are not as long as this was fitted to, or features of other kinds are expected.
    pub fn inputs(&self, file: &str, values: &[f64], feature_names: &[String]) -> Result<Vec<f32>, DataError> {
        assert!(self.encoder.is_none(), "features that are not all numbers are read by name");
        self.standardised(file, 0.., values, feature_names)
    }

    /// The inputs of some rows; `in_table` are their numbers in the file.
    pub(super) fn encoded(
        &self,
        file: &str,
        in_table: impl Iterator<Item = usize>,
        raw: RawRows<'_>,
        rows: &[usize],
        feature_names: &[String],
    ) -> Result<Vec<f32>, DataError> {
        let names = self.input_names(feature_names);
        let mut in_table = in_table;
        let mut inputs = Vec::with_capacity(rows.len() * self.num_inputs());
        // Some at a time, since their numbers take twice the memory of what is kept.
        for rows in rows.chunks(1024) {
            let numbers = match &self.encoder {
                Some(encoder) => encoder.encode(raw, rows.iter().copied()),
                None => rows.iter().flat_map(|&row| raw.row(row)).copied().collect(),
            };
            inputs.extend(self.standardised(file, in_table.by_ref().take(rows.len()), &numbers, &names)?);
        }
        Ok(inputs)
    }

    /// How many numbers a network takes in for a row.
    pub fn num_inputs(&self) -> usize {
        self.features.len()
    }

    /// What each input is called: as its feature, or after it where a feature becomes several.
    pub fn input_names(&self, feature_names: &[String]) -> Vec<String> {
        self.encoder.as_ref().map_or_else(|| feature_names.to_vec(), |encoder| encoder.input_names(feature_names))
    }

    /// Standardised numbers of rows with these numbers in the file.
    fn standardised(
        &self,
        file: &str,
        rows: impl Iterator<Item = usize>,
        values: &[f64],
        feature_names: &[String],
    ) -> Result<Vec<f32>, DataError> {
        assert_eq!(feature_names.len(), self.features.len(), "features by name and features fitted");
        assert!(values.len().is_multiple_of(self.features.len()), "whole rows of {} numbers", self.features.len());
        let mut inputs = Vec::with_capacity(values.len());
        for (row, values) in rows.zip(values.chunks_exact(self.features.len())) {
            for ((scale, name), &value) in self.features.iter().zip(feature_names).zip(values) {
                inputs.push(within_reach(scale, value, || (file.to_owned(), row, name.clone()))?);
            }
        }
        Ok(inputs)
    }
}

/// The scale of an input whose numbers in the training rows are these.
fn scale_of(scaling: Scaling, present: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
    let count = present.clone().count();
    match scaling {
        Scaling::Circle => Some(Scale { mean: 0.0, std: std::f64::consts::FRAC_1_SQRT_2 }),
        _ if count == 0 => Some(Scale { mean: 0.0, std: 1.0 }),
        Scaling::Measured => Scale::of(present),
        Scaling::Flag => Some(Scale { mean: present.sum::<f64>() / count as f64, std: 0.5 }),
    }
}

/// A missing value counts as the mean. `place` is the file, the row from 0 and the column.
fn within_reach(scale: &Scale, value: f64, place: impl Fn() -> (String, usize, String)) -> Result<f32, DataError> {
    if value.is_nan() {
        return Ok(0.0);
    }
    let standardised = scale.standardised(value);
    if standardised.is_finite() {
        return Ok(standardised);
    }
    let (file, row, column) = place();
    Err(DataError::OutOfReach { file, row: row + 1, column, value, mean: scale.mean, std: scale.std })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    fn dataset(text: &str) -> Dataset {
        Dataset::from_table(&Table::from_bytes("t.csv", text.as_bytes()).unwrap(), "y", &[], None).unwrap()
    }

    #[test]
    fn measures_the_training_rows_only() {
        let data = dataset("a,b,y\n1,5,10.5\n3,5,30.5\n100,6,0.5\n");
        let standardiser = Standardiser::fit(&data, &[0, 1]).unwrap();
        assert_eq!(standardiser.encoder, None, "numbers are inputs as they are");
        assert_eq!(standardiser.features, [Scale { mean: 2.0, std: 1.0 }, Scale { mean: 5.0, std: 1.0 }]);
        assert_eq!(standardiser.targets, [Scale { mean: 20.5, std: 10.0 }]);
        let examples = standardiser.examples(&data, &[1, 2]).unwrap();
        assert_eq!(examples.inputs, vec![1.0, 0.0, 98.0, 1.0].into());
        assert_eq!(examples.targets, Targets::Real(vec![1.0, -2.0]));
    }

    #[test]
    fn columns_of_all_kinds_become_inputs() {
        let mut text = String::from("a,colour,on,y\n");
        for row in 0..12 {
            let (a, colour) = (if row == 2 { "NA".into() } else { row.to_string() }, ["red", "blue"][row % 2]);
            text += &format!("{a},{colour},{},{row}.5\n", row % 4 == 0);
        }
        let data = dataset(&text);
        let train: Vec<usize> = (0..8).collect();
        let standardiser = Standardiser::fit(&data, &train).unwrap();
        let names = ["a", "a (missing)", "colour = blue", "colour = red", "colour (other)", "on"];
        assert_eq!(standardiser.input_names(&data.feature_names), names);
        assert_eq!(standardiser.num_inputs(), 6);
        let examples = standardiser.examples(&data, &[2, 9]).unwrap();
        assert_eq!((examples.num_features, examples.len()), (6, 2));
        let numbers = examples.inputs.numbers();
        // The mean of the others, said to be missing; one in eight is, half are red, a quarter are on.
        assert_eq!(numbers[..6], [0.0, 1.75, -1.0, 1.0, 0.0, -0.5]);
        let mean = 26.0 / 7.0;
        assert!((standardiser.features[0].mean - mean).abs() < 1e-12 && numbers[6] > 2.0, "{numbers:?}");
        assert_eq!(numbers[7..], [-0.25, 1.0, -1.0, 0.0, -0.5]);
    }

    #[test]
    fn held_out_cells_change_nothing() {
        let lines = |held_out: &[&str]| {
            let mut text = String::from("a,colour,day,y\n");
            for row in 0..30 {
                let colour = ["red", "blue", "green"][row % 3];
                text += &format!("{row},{colour},2024-01-{:02},{row}.5\n", row + 1);
            }
            held_out.iter().for_each(|line| text += &format!("{line}\n"));
            text
        };
        let train: Vec<usize> = (0..30).collect();
        let fitted = |held_out: &[&str]| Standardiser::fit(&dataset(&lines(held_out)), &train).unwrap();
        let usual = fitted(&["4,red,2024-01-03,1.5", "5,red,2024-01-03,2.5"]);
        for others in [
            ["-1e6,red,2024-01-03,1.5", "NA,red,,2.5"],
            ["4,violet,1999-12-31 12:30,1.5", "5,yellow,2050-01-01,1e6"],
            ["4,NA,2024-01-03,1.5", "5,blue,2023-01-03,2.5"],
        ] {
            assert_eq!(fitted(&others), usual, "{others:?}");
        }
        let text = lines(&["4,red,2024-01-03,1.5", "5,red,2024-01-03,2.5"]).replace("\n3,red", "\n3,violet");
        assert_ne!(Standardiser::fit(&dataset(&text), &train).unwrap(), usual, "training cells do");
    }

    #[test]
    fn targets_come_back() {
        let data = dataset("a,y\n1,10.5\n3,30.5\n");
        let standardiser = Standardiser::fit(&data, &[0, 1]).unwrap();
        assert_eq!(standardiser.targets[0].original(-2.0), 0.5);
    }

    #[test]
    fn a_target_can_be_left_as_it_is() {
        let data = dataset("a,y\n1,4\n3,30\n5,0\n");
        let standardiser = Standardiser::fit(&data, &[0, 1]).unwrap().with_the_target_as_it_is();
        assert_eq!(standardiser.examples(&data, &[1, 2]).unwrap().targets, Targets::Real(vec![30.0, 0.0]));
        assert_eq!(standardiser.targets[0].original(7.0), 7.0);
    }

    #[test]
    fn classes_are_left_alone() {
        let data = dataset("a,y\n1,no\n3,yes\n5,no\n");
        let standardiser = Standardiser::fit(&data, &[0, 1]).unwrap();
        assert_eq!(standardiser.targets, []);
        assert_eq!(standardiser.examples(&data, &[2, 1]).unwrap().targets, Targets::Classes(vec![0, 1]));
    }

    #[test]
    fn an_extreme_scale_is_measured_or_refused() {
        let scale = |values: &[f64]| Scale::of(values.iter().copied());
        let close = |found: f64, expected: f64| (found - expected).abs() <= 1e-12 * expected.abs();
        for unit in [1e-300, 1e-200, 1.0, 1e200, 1e300] {
            let found = scale(&[unit, 3.0 * unit, 5.0 * unit]).unwrap();
            assert!(close(found.mean, 3.0 * unit) && close(found.std, (8.0f64 / 3.0).sqrt() * unit), "{found:?}");
        }
        assert!(close(scale(&[1e9, 1e9 + 1.0]).unwrap().std, 0.5));
        assert_eq!(scale(&[-1e308, 1e308, 0.0]), None);
    }

    #[test]
    fn says_what_cannot_be_standardised() {
        let data = dataset("a,y\n1,1.5\n3,1.5\n5,2.5\n");
        let error = Standardiser::fit(&data, &[0, 1]).unwrap_err();
        assert_eq!(error, DataError::ConstantTrainingTarget { file: "t.csv".into(), target: "y".into(), num_rows: 2 });
        let standardiser = Standardiser::fit(&data, &[0, 2]).unwrap();
        let error = standardiser.inputs("new.csv", &[2.0, 1e300], &data.feature_names).unwrap_err().to_string();
        let expected = "new.csv, row 2 below the header, column `a`: 1e300 is too far from the training rows (mean 3e0";
        assert!(error.starts_with(expected), "{error}");
        let far = dataset("a,y\n1,1.5\n3,2.5\n1e300,2.5\n");
        let error = Standardiser::fit(&far, &[0, 1]).unwrap().examples(&far, &[2, 0]).unwrap_err().to_string();
        assert!(error.starts_with("t.csv, row 3 below the header, column `a`: 1e300"), "{error}");
    }

    /// To the last bit only where the reader of numbers is exact (serde_json needs `float_roundtrip` for that).
    #[test]
    fn is_written_and_read() {
        let data = dataset("a,y\n0.1,1.5\n0.7,2.7\n5,2.5\n");
        let standardiser = Standardiser::fit(&data, &[0, 1, 2]).unwrap();
        let text = serde_json::to_string(&standardiser).unwrap();
        let read: Standardiser = serde_json::from_str(&text).unwrap();
        let pairs = [(read.features[0], standardiser.features[0]), (read.targets[0], standardiser.targets[0])];
        for (found, expected) in pairs {
            assert!((found.mean / expected.mean - 1.0).abs() < 1e-15 && (found.std / expected.std - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn inputs_that_no_training_row_has_keep_their_units() {
        let plain = Scale { mean: 0.0, std: 1.0 };
        for scaling in [Scaling::Measured, Scaling::Flag] {
            assert_eq!(scale_of(scaling, std::iter::empty()), Some(plain));
        }
    }
}

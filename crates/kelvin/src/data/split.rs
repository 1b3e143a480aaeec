//! Which rows are for training, validation and testing: by seed, or given and checked.

use serde::{Deserialize, Serialize};

use super::error::DataError;
use crate::random::{Permutation, Purpose};

/// Row numbers, from 0, of the three parts; written as `{"train": [..], "val": [..], "test": [..]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The rows learned from.
    pub train: Vec<usize>,
    /// The rows choices are made on.
    pub val: Vec<usize>,
    /// The rows results are reported on.
    pub test: Vec<usize>,
}

impl Split {
    /// The fewest rows that are split by seed: each held-out part then has two.
    pub const FEWEST_ROWS: usize = 20;

    /// The split named by `seed`: a random ⌊0.8 n⌋ rows to train, the rest halved with validation the larger.
    ///
    /// # Panics
    /// If `num_rows` is not below 2³¹.
    pub fn random(num_rows: usize, seed: u64) -> Result<Self, DataError> {
        if num_rows < Self::FEWEST_ROWS {
            return Err(DataError::TooFewRows { found: num_rows, needed: Self::FEWEST_ROWS });
        }
        let order = Permutation::new(seed, Purpose::Split, 0, 0, num_rows);
        let num_train = num_rows * 4 / 5;
        let num_val = (num_rows - num_train).div_ceil(2);
        let rows = |from: usize, to: usize| (from..to).map(|position| order.at(position)).collect();
        Ok(Self {
            train: rows(0, num_train),
            val: rows(num_train, num_train + num_val),
            test: rows(num_train + num_val, num_rows),
        })
    }

    /// Checks a split that somebody gave for `num_rows` rows: no part empty, every row there, no row twice. It need
    /// not use every row.
    pub fn validated(self, num_rows: usize) -> Result<Self, DataError> {
        let mut used: Vec<Option<&'static str>> = vec![None; num_rows];
        for (part, rows) in [("train", &self.train), ("val", &self.val), ("test", &self.test)] {
            if rows.is_empty() {
                return Err(DataError::EmptyPart { part });
            }
            for &index in rows {
                let slot = used.get_mut(index).ok_or(DataError::RowOutOfRange { part, index, num_rows })?;
                if let Some(first) = slot.replace(part) {
                    return Err(DataError::RowRepeated { index, first, second: part });
                }
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_experiments() {
        for (num_rows, sizes) in [
            (1030, (824, 103, 103)),
            (768, (614, 77, 77)),
            (11934, (9547, 1194, 1193)),
            (20, (16, 2, 2)),
            (21, (16, 3, 2)),
        ] {
            let split = Split::random(num_rows, 1).unwrap();
            assert_eq!((split.train.len(), split.val.len(), split.test.len()), sizes);
            let mut all = [split.train.clone(), split.val.clone(), split.test.clone()].concat();
            all.sort_unstable();
            assert_eq!(all, (0..num_rows).collect::<Vec<_>>());
            assert!(split.validated(num_rows).is_ok());
        }
    }

    #[test]
    fn the_seed_names_the_split() {
        assert_eq!(Split::random(768, 5).unwrap(), Split::random(768, 5).unwrap());
        assert_ne!(Split::random(768, 5).unwrap(), Split::random(768, 6).unwrap());
    }

    #[test]
    fn too_few_rows_are_refused() {
        assert_eq!(Split::random(19, 0), Err(DataError::TooFewRows { found: 19, needed: 20 }));
    }

    #[test]
    fn a_given_split_is_read_and_checked() {
        let read = |text: &str| serde_json::from_str::<Split>(text).unwrap().validated(5);
        assert!(read(r#"{"train":[4,1],"val":[0],"test":[3]}"#).is_ok());
        let empty = read(r#"{"train":[4,1],"val":[],"test":[3]}"#);
        assert_eq!(empty, Err(DataError::EmptyPart { part: "val" }));
        let outside = read(r#"{"train":[4,1],"val":[5],"test":[3]}"#);
        assert_eq!(outside, Err(DataError::RowOutOfRange { part: "val", index: 5, num_rows: 5 }));
        let twice = read(r#"{"train":[4,1],"val":[0],"test":[4]}"#);
        assert_eq!(twice, Err(DataError::RowRepeated { index: 4, first: "train", second: "test" }));
        assert!(serde_json::from_str::<Split>(r#"{"train":[0],"validation":[1],"test":[2]}"#).is_err());
    }
}

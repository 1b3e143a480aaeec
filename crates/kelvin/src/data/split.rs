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
    /// # Errors
    /// If there are fewer than twenty rows.
    ///
    /// # Panics
    /// If `num_rows` is not below 2³¹.
    pub fn random(num_rows: usize, seed: u64) -> Result<Self, DataError> {
        Self::repeated(num_rows, seed, 0)
    }

    /// Another split of the same sizes: the one that `seed` and `repetition` name; the first is [`Split::random`].
    ///
    /// # Errors
    /// If there are fewer than twenty rows.
    ///
    /// # Panics
    /// If `num_rows` is not below 2³¹.
    pub fn repeated(num_rows: usize, seed: u64, repetition: u64) -> Result<Self, DataError> {
        if num_rows < Self::FEWEST_ROWS {
            return Err(DataError::TooFewRows { found: num_rows, needed: Self::FEWEST_ROWS });
        }
        let order = Permutation::new(seed, Purpose::Split, 0, repetition, num_rows);
        let num_train = num_rows * 4 / 5;
        let num_val = (num_rows - num_train).div_ceil(2);
        let rows = |from: usize, to: usize| (from..to).map(|position| order.at(position)).collect();
        Ok(Self {
            train: rows(0, num_train),
            val: rows(num_train, num_train + num_val),
            test: rows(num_train + num_val, num_rows),
        })
    }

    /// Cross-validation named by `seed`: every row is a test row of one fold; of the others of a fold a tenth of all rows are for validation, and
    /// the rest are trained on.
    ///
    /// # Errors
    /// If there are fewer than twenty rows, or fewer than four for each fold.
    ///
    /// # Panics
    /// If `num_rows` is not below 2³¹, or there are fewer than two folds.
    pub fn folds(num_rows: usize, seed: u64, num_folds: usize) -> Result<Vec<Self>, DataError> {
        assert!(num_folds >= 2, "a single fold leaves nothing to train on");
        let needed = Self::FEWEST_ROWS.max(4 * num_folds);
        if num_rows < needed {
            return Err(DataError::TooFewRows { found: num_rows, needed });
        }
        let order = Permutation::new(seed, Purpose::Split, 1, 0, num_rows);
        let num_val = num_rows.div_ceil(10);
        let fold = |fold: usize| {
            let (from, to) = (fold * num_rows / num_folds, (fold + 1) * num_rows / num_folds);
            // Those that follow the test rows, in a circle.
            let rows = |first: usize, count: usize| (first..first + count).map(|at| order.at(at % num_rows)).collect();
            let num_test = to - from;
            Self {
                test: rows(from, num_test),
                val: rows(to, num_val),
                train: rows(to + num_val, num_rows - num_test - num_val),
            }
        };
        Ok((0..num_folds).map(fold).collect())
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
    fn every_row_is_tested_in_one_fold_and_used_in_all() {
        for (num_rows, num_folds) in [(1030, 5), (20, 5), (101, 10), (20, 2)] {
            let folds = Split::folds(num_rows, 3, num_folds).unwrap();
            let mut tested: Vec<usize> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
            tested.sort_unstable();
            assert_eq!(tested, (0..num_rows).collect::<Vec<_>>());
            for fold in folds {
                assert_eq!(fold.train.len() + fold.val.len() + fold.test.len(), num_rows);
                assert_eq!(fold.val.len(), num_rows.div_ceil(10));
                assert!(fold.validated(num_rows).is_ok());
            }
        }
        assert_ne!(Split::folds(100, 3, 5), Split::folds(100, 4, 5));
        assert_eq!(Split::folds(30, 0, 10), Err(DataError::TooFewRows { found: 30, needed: 40 }));
    }

    #[test]
    fn repeated_splits_differ_and_begin_with_the_one_of_the_seed() {
        assert_eq!(Split::repeated(768, 5, 0), Split::random(768, 5));
        assert_ne!(Split::repeated(768, 5, 1), Split::random(768, 5));
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

//! Rows ready for a network: inputs beside their targets.

use std::borrow::Cow;
use std::sync::Arc;

use super::augment::scaled;

/// What a row's answer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// (Standardised) numbers: one for each row, or as many for each, row after row, as there are targets.
    Real(Vec<f32>),
    /// A class for each row, from 0.
    Classes(Vec<u32>),
}

/// What networks take in, row after row.
#[derive(Clone, Debug, PartialEq)]
pub enum Inputs {
    /// (Standardised) numbers. Shared, like the bytes, since inputs may be large.
    Numbers(Arc<[f32]>),
    /// Pixels of images; each counts as its byte over 255.
    Bytes(Arc<[u8]>),
}

impl Inputs {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As numbers.
    pub fn numbers(&self) -> Cow<'_, [f32]> {
        match self {
            Self::Numbers(numbers) => Cow::Borrowed(numbers),
            Self::Bytes(bytes) => bytes.iter().copied().map(scaled).collect(),
        }
    }
}

impl From<Vec<f32>> for Inputs {
    fn from(numbers: Vec<f32>) -> Self {
        Self::Numbers(numbers.into())
    }
}

/// Inputs (row-major) and targets of the same rows. A clone shares the inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// `len() × num_features` numbers, row after row.
    pub inputs: Inputs,
    /// Numbers in a row.
    pub num_features: usize,
    /// The answers.
    pub targets: Targets,
}

impl Examples {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match &self.targets {
            Targets::Real(_) => self.inputs.len().checked_div(self.num_features).unwrap_or(0),
            Targets::Classes(labels) => labels.len(),
        }
    }

    /// Targets of a row.
    pub fn num_targets(&self) -> usize {
        match &self.targets {
            Targets::Real(values) => values.len().checked_div(self.len()).unwrap_or(1),
            Targets::Classes(_) => 1,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// These rows, in this order.
    ///
    /// # Panics
    /// If there is no row of such a number.
    pub fn these(&self, rows: &[u32]) -> Self {
        fn picked<T: Copy>(values: &[T], width: usize, rows: &[u32]) -> Vec<T> {
            rows.iter().flat_map(|&row| &values[row as usize * width..][..width]).copied().collect()
        }
        Self {
            inputs: match &self.inputs {
                Inputs::Numbers(numbers) => Inputs::Numbers(picked(numbers, self.num_features, rows).into()),
                Inputs::Bytes(bytes) => Inputs::Bytes(picked(bytes, self.num_features, rows).into()),
            },
            num_features: self.num_features,
            targets: match &self.targets {
                Targets::Real(values) => Targets::Real(picked(values, self.num_targets(), rows)),
                Targets::Classes(labels) => Targets::Classes(picked(labels, 1, rows)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_rows_keep_their_answers() {
        let bytes: Vec<u8> = vec![1, 2, 3, 4, 5, 6];
        let images =
            Examples { inputs: Inputs::Bytes(bytes.into()), num_features: 2, targets: Targets::Classes(vec![7, 8, 9]) };
        let some = images.these(&[2, 0]);
        assert_eq!(some.inputs, Inputs::Bytes(vec![5, 6, 1, 2].into()));
        assert_eq!((some.targets, some.num_features), (Targets::Classes(vec![9, 7]), 2));
    }

    #[test]
    fn inputs_without_numbers_are_empty() {
        let all = [
            Inputs::from(vec![]),
            Inputs::from(vec![0.0]),
            Inputs::Bytes(vec![].into()),
            Inputs::Bytes(vec![0].into()),
        ];
        assert_eq!(all.map(|inputs| inputs.is_empty()), [true, false, true, false]);
    }
}

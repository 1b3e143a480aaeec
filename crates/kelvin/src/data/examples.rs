//! Rows ready for a network: standardised inputs beside their targets.

/// What a row's answer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// A (standardised) number for each row.
    Real(Vec<f32>),
    /// A class for each row, from 0.
    Classes(Vec<u32>),
}

/// Inputs (row-major) and targets of the same rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// `len() × num_features` numbers, row after row.
    pub inputs: Vec<f32>,
    /// Numbers in a row.
    pub num_features: usize,
    /// The answers.
    pub targets: Targets,
}

impl Examples {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match &self.targets {
            Targets::Real(values) => values.len(),
            Targets::Classes(labels) => labels.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The inputs of one row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.inputs[row * self.num_features..][..self.num_features]
    }
}

//! Rows a network is judged on: outputs of any weights for them.

use crate::data::{Examples, Targets};
use crate::network::{Evaluator, PreparedInputs, Rows, Weights};

/// Held-out rows in the form the evaluator reads.
pub struct HeldOut<'a> {
    evaluator: Evaluator,
    inputs: PreparedInputs,
    targets: &'a Targets,
    num_outputs: usize,
}

impl<'a> HeldOut<'a> {
    /// Prepares examples for a network with `num_outputs` outputs.
    pub fn new(evaluator: &Evaluator, examples: &'a Examples, num_outputs: usize) -> Self {
        let inputs = evaluator.prepare(&examples.inputs);
        Self { evaluator: evaluator.clone(), inputs, targets: &examples.targets, num_outputs }
    }

    /// The answers.
    pub fn targets(&self) -> &'a Targets {
        self.targets
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.inputs.num_rows()
    }

    /// Network outputs of all rows, row-major.
    pub fn outputs(&self, weights: Weights<'_>) -> Vec<f32> {
        let mut outputs = vec![0.0; self.num_rows() * self.num_outputs];
        let mut work = self.evaluator.workspace();
        self.evaluator.outputs(weights, &self.inputs, Rows::All, &mut outputs, &mut work);
        outputs
    }
}

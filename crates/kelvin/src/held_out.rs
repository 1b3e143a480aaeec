//! Rows a network is judged on: outputs of any weights for them.

use std::sync::{Arc, Mutex};

use crate::data::{Examples, Targets};
use crate::network::{Evaluator, PreparedInputs, Rows, Weights, Workspace};

/// Workspaces of an evaluator that wait for their next use: those of images are too large to make one for every pass.
#[derive(Debug)]
pub struct SpareWorkspaces {
    evaluator: Evaluator,
    spare: Mutex<Vec<Workspace>>,
}

impl SpareWorkspaces {
    /// None yet; as many are made as passes run at the same time.
    pub fn new(evaluator: &Evaluator) -> Self {
        Self { evaluator: evaluator.clone(), spare: Mutex::default() }
    }

    /// Lends a workspace for one pass.
    pub fn lend<R>(&self, pass: impl FnOnce(&Evaluator, &mut Workspace) -> R) -> R {
        let spare = || self.spare.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let idle = spare().pop();
        let mut work = idle.unwrap_or_else(|| self.evaluator.workspace());
        let result = pass(&self.evaluator, &mut work);
        spare().push(work);
        result
    }
}

/// Held-out rows in the form the evaluator reads.
pub struct HeldOut<'a> {
    workspaces: Arc<SpareWorkspaces>,
    inputs: PreparedInputs,
    targets: &'a Targets,
    num_outputs: usize,
}

impl<'a> HeldOut<'a> {
    /// Prepares examples for a network with `num_outputs` outputs.
    pub fn new(evaluator: &Evaluator, examples: &'a Examples, num_outputs: usize) -> Self {
        Self::sharing(&Arc::new(SpareWorkspaces::new(evaluator)), examples, num_outputs)
    }

    /// The same with workspaces that others use as well.
    pub fn sharing(workspaces: &Arc<SpareWorkspaces>, examples: &'a Examples, num_outputs: usize) -> Self {
        let inputs = workspaces.evaluator.prepare(&examples.inputs);
        Self { workspaces: Arc::clone(workspaces), inputs, targets: &examples.targets, num_outputs }
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
        self.workspaces.lend(|evaluator, work| {
            evaluator.outputs(weights, &self.inputs, Rows::All, &mut outputs, work);
        });
        outputs
    }
}

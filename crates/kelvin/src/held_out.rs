//! Rows a network is judged on: outputs of any weights for them.

use std::sync::{Arc, Mutex};

use crate::data::{Examples, Targets};
use crate::network::{Evaluator, Network, PreparedInputs, Rows, Weights, Workspace};

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

    /// Whose they are.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
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

/// Held-out rows of a network, in the form its evaluator reads.
pub struct HeldOut {
    network: Network,
    workspaces: Arc<SpareWorkspaces>,
    inputs: PreparedInputs,
    examples: Examples,
    /// Parameters of the network, and of the likelihood, which are the last.
    num_parameters: usize,
    num_own: usize,
}

impl HeldOut {
    /// Prepares examples for a network.
    pub fn new(network: &Network, examples: &Examples) -> Self {
        Self::sharing(&Arc::new(SpareWorkspaces::new(&network.evaluator())), network, examples)
    }

    /// The same with workspaces that others use as well.
    pub fn sharing(workspaces: &Arc<SpareWorkspaces>, network: &Network, examples: &Examples) -> Self {
        let inputs = workspaces.evaluator.prepare(&examples.inputs);
        Self {
            network: network.clone(),
            workspaces: Arc::clone(workspaces),
            inputs,
            examples: examples.clone(),
            num_parameters: network.layout().len(),
            num_own: 0,
        }
    }

    /// The same for a likelihood that has so many parameters of its own, the last of θ: they follow the outputs of each row.
    pub fn followed_by(mut self, num_own: usize) -> Self {
        self.num_own = num_own;
        self
    }

    /// Whose outputs are asked for.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What outputs are computed with on the CPU.
    pub fn evaluator(&self) -> &Evaluator {
        self.workspaces.evaluator()
    }

    /// The rows as they came.
    pub fn examples(&self) -> &Examples {
        &self.examples
    }

    /// The answers.
    pub fn targets(&self) -> &Targets {
        &self.examples.targets
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.inputs.num_rows()
    }

    /// Numbers that are given of a row: outputs of the network, then the likelihood's own parameters.
    pub fn num_values(&self) -> usize {
        self.network.num_outputs() + self.num_own
    }

    /// Whether positions of so many numbers are the network's parameters and nothing else.
    pub fn is_of_network_alone(&self, dim: usize) -> bool {
        self.num_own == 0 && dim == self.num_parameters
    }

    /// Network outputs of all rows, row-major, each row followed by the likelihood's own parameters; on this thread.
    pub fn outputs(&self, weights: Weights<'_>) -> Vec<f32> {
        let width = self.network.num_outputs();
        let (of_network, others) = weights.parameters.split_at(self.num_parameters);
        let weights = Weights { parameters: of_network, ..weights };
        let mut outputs = vec![0.0; self.num_rows() * width];
        self.workspaces.lend(|evaluator, work| {
            evaluator.outputs(weights, &self.inputs, Rows::All, &mut outputs, work);
        });
        if self.num_own == 0 {
            return outputs;
        }
        let own = &others[others.len() - self.num_own..];
        outputs.chunks_exact(width).flat_map(|row| row.iter().chain(own)).copied().collect()
    }
}

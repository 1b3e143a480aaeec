//! Runs a network forward and backward: the fused evaluator for one hidden layer, a dense one, one for images.

use std::sync::Arc;

use super::dense::{self, DenseStack};
use super::images::{ImageStack, ImageWorkspace};
use super::inputs::{PreparedInputs, Rows};
use super::layers::Layer;
use super::pass::{Mode, OutputGradient, Weights};
use super::{Network, one_hidden};
use crate::data::Inputs;
use crate::vector::Instructions;

/// Runs a network forward and backward.
#[derive(Clone, Debug)]
pub enum Evaluator {
    /// One hidden layer, in one fused pass.
    OneHidden(one_hidden::OneHidden),
    /// Any dense network, layer by layer.
    Dense(DenseStack),
    /// Any network, operation by operation on a whole batch.
    Images(ImageStack),
}

/// What an evaluator writes to on the way; one for each thread.
#[derive(Debug)]
pub enum Workspace {
    /// Of the fused evaluator.
    OneHidden(one_hidden::Workspace),
    /// Of the dense evaluator.
    Dense(dense::Workspace<f32>),
    /// Of the image evaluator.
    Images(Box<ImageWorkspace<f32>>),
}

const MISMATCH: &str = "a workspace belongs to the evaluator that made it";

impl Evaluator {
    /// Room for a pass over any number of rows.
    pub fn workspace(&self) -> Workspace {
        self.workspace_over_threads(false)
    }

    /// The same; a batch of images is spread over threads if `parallel`, which changes no result.
    pub fn workspace_over_threads(&self, parallel: bool) -> Workspace {
        match self {
            Self::OneHidden(network) => Workspace::OneHidden(network.workspace()),
            Self::Dense(network) => Workspace::Dense(network.workspace()),
            Self::Images(network) => Workspace::Images(Box::new(network.workspace(parallel))),
        }
    }

    /// Rearranges row-major inputs once, before many passes.
    pub fn prepare(&self, inputs: &Inputs) -> PreparedInputs {
        match self {
            Self::OneHidden(network) => PreparedInputs::Rows(network.prepare(&inputs.numbers())),
            Self::Dense(network) => PreparedInputs::Rows(network.prepare(&inputs.numbers())),
            Self::Images(network) => PreparedInputs::Images(network.prepare(inputs)),
        }
    }

    /// Writes the outputs of the rows, row-major.
    pub fn outputs(
        &self,
        weights: Weights<'_>,
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut Workspace,
    ) {
        match (self, work) {
            (Self::OneHidden(network), Workspace::OneHidden(work)) => {
                network.outputs(weights.parameters, inputs.padded(), rows, outputs, work);
            }
            (Self::Dense(network), Workspace::Dense(work)) => {
                network.outputs(weights.parameters, inputs.padded(), rows, outputs, work);
            }
            (Self::Images(network), Workspace::Images(work)) => {
                network.outputs(weights, inputs.images(), rows, outputs, work);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }

    /// Overwrites `gradient` with the sum over rows of ∂(what `head` differentiates)/∂parameters.
    ///
    /// Batch norm in training mode takes its statistics over the listed rows; all rows are cut into batches of
    /// [`ImageStack::BATCH`].
    #[expect(clippy::too_many_arguments, reason = "a gradient is a function of exactly these")]
    pub fn gradient(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        mode: Mode<'_>,
        head: &mut dyn OutputGradient,
        gradient: &mut [f32],
        work: &mut Workspace,
    ) {
        match (self, work) {
            (Self::OneHidden(network), Workspace::OneHidden(work)) => {
                network.gradient(parameters, inputs.padded(), rows, head, gradient, work);
            }
            (Self::Dense(network), Workspace::Dense(work)) => {
                network.gradient(parameters, inputs.padded(), rows, head, gradient, work);
            }
            (Self::Images(network), Workspace::Images(work)) => {
                network.gradient(parameters, inputs.images(), rows, mode, head, gradient, work);
            }
            _ => unreachable!("{MISMATCH}"),
        }
    }

    /// Moves running statistics towards those of the batch whose gradient was taken last in training mode.
    pub fn update_statistics(&self, work: &Workspace, statistics: &mut [f32]) {
        if let (Self::Images(network), Workspace::Images(work)) = (self, work) {
            network.update_statistics(work, statistics);
        }
    }

    /// Overwrites `statistics` with those of the batch whose gradient was taken last in training mode.
    pub fn batch_statistics(&self, work: &Workspace, statistics: &mut [f32]) {
        if let (Self::Images(network), Workspace::Images(work)) = (self, work) {
            network.batch_statistics(work, statistics);
        }
    }
}

impl Network {
    /// The evaluator to use: the fused one where it applies, else the dense one, else that for images.
    pub fn evaluator(&self) -> Evaluator {
        match self.layers[..] {
            // The fused evaluator is made of vectors.
            [Layer::Dense { units: hidden }, Layer::Relu, Layer::Dense { units: outputs }]
                if Instructions::in_use() != Instructions::Scalar =>
            {
                Evaluator::OneHidden(one_hidden::OneHidden::new(self.num_inputs(), hidden, outputs))
            }
            _ => self.dense_evaluator().unwrap_or_else(|| self.general_evaluator()),
        }
    }

    /// The evaluator of dense networks of any depth, where this is one.
    pub fn dense_evaluator(&self) -> Option<Evaluator> {
        DenseStack::new(self).map(Evaluator::Dense)
    }

    /// The evaluator that serves every network.
    pub fn general_evaluator(&self) -> Evaluator {
        Evaluator::Images(ImageStack::new(Arc::clone(&self.program)))
    }
}

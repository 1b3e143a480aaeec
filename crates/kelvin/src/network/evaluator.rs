//! Runs a network forward and backward: the fused evaluator for one hidden layer, a dense one, either beside a skip, one for images.

use std::sync::Arc;

use super::dense::{self, DenseStack};
use super::images::{ImageStack, ImageWorkspace};
use super::inputs::{PreparedInputs, Rows};
use super::layers::Layer;
use super::pass::{Mode, OutputGradient, Weights};
use super::skip::{LinearSkip, SkipHead, SkipWorkspace};
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
    /// A dense network beside a linear skip connection.
    Skip {
        /// What evaluates the network.
        body: Box<Evaluator>,
        /// What is added to its outputs.
        skip: LinearSkip,
    },
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
    /// Of a dense evaluator and of the skip beside it.
    Skip(Box<Workspace>, SkipWorkspace),
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
            Self::Skip { body, skip } => Workspace::Skip(Box::new(body.workspace()), skip.workspace()),
            Self::Images(network) => Workspace::Images(Box::new(network.workspace(parallel))),
        }
    }

    /// What evaluates the network that stands beside a skip, or all of it where there is none.
    pub fn beside_skip(&self) -> &Self {
        match self {
            Self::Skip { body, .. } => body,
            _ => self,
        }
    }

    /// Rearranges row-major inputs once, before many passes.
    pub fn prepare(&self, inputs: &Inputs) -> PreparedInputs {
        match self {
            Self::OneHidden(network) => PreparedInputs::Rows(network.prepare(&inputs.numbers())),
            Self::Dense(network) => PreparedInputs::Rows(network.prepare(&inputs.numbers())),
            Self::Skip { body, .. } => body.prepare(inputs),
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
            (Self::Skip { body, skip }, Workspace::Skip(of_body, work)) => {
                let parameters = &weights.parameters[..skip.body_len];
                body.outputs(Weights { parameters, ..weights }, inputs, rows, outputs, of_body);
                skip.start(weights.parameters, work);
                skip.add(inputs.padded(), rows, 0, outputs, work);
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
            (Self::Skip { body, skip }, Workspace::Skip(of_body, work)) => {
                let (gradient, of_skip) = gradient.split_at_mut(skip.body_len);
                skip.start(parameters, work);
                let mut head = SkipHead { skip, inputs: inputs.padded(), rows, head, work };
                let parameters = &parameters[..skip.body_len];
                body.gradient(parameters, inputs, rows, mode, &mut head, gradient, of_body);
                skip.write_gradient(work, of_skip);
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
        let (layers, _) = self.beside_skip();
        match *layers {
            // The fused evaluator is made of vectors.
            [Layer::Dense { units: hidden }, Layer::Relu, Layer::Dense { units: outputs }]
                if Instructions::in_use() != Instructions::Scalar =>
            {
                let fused = one_hidden::OneHidden::new(self.num_inputs(), hidden, outputs);
                self.with_skip(Evaluator::OneHidden(fused))
            }
            _ => self.dense_evaluator().unwrap_or_else(|| self.general_evaluator()),
        }
    }

    /// The same beside the skip, where the network has one.
    fn with_skip(&self, body: Evaluator) -> Evaluator {
        let (_, has_skip) = self.beside_skip();
        if !has_skip {
            return body;
        }
        let (num_inputs, num_outputs) = (self.num_inputs(), self.num_outputs());
        let body_len = self.program.layout.len() - (num_inputs + 1) * num_outputs;
        Evaluator::Skip { body: Box::new(body), skip: LinearSkip { num_inputs, num_outputs, body_len } }
    }

    /// The evaluator of dense networks of any depth, where this is one.
    pub fn dense_evaluator(&self) -> Option<Evaluator> {
        let (layers, _) = self.beside_skip();
        DenseStack::new(self.num_inputs(), layers).map(|stack| self.with_skip(Evaluator::Dense(stack)))
    }

    /// The evaluator that serves every network.
    pub fn general_evaluator(&self) -> Evaluator {
        Evaluator::Images(ImageStack::new(Arc::clone(&self.program)))
    }
}

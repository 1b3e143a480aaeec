//! The evaluator for images (and any other network): operation by operation on a whole batch.

use std::sync::Arc;

use super::inputs::{ImageRows, Rows};
use super::program::Program;
use super::{Mode, OutputGradient, Weights};
use crate::data::Inputs;

/// Stub.
#[derive(Clone, Debug)]
pub struct ImageStack {
    program: Arc<Program>,
}
/// Stub.
#[derive(Debug)]
pub struct ImageWorkspace<T> {
    x: Vec<T>,
}
/// Stub.
pub struct Reference;
impl ImageStack {
    /// Images of a batch when all rows are visited.
    pub const BATCH: usize = 128;
    pub(super) fn new(program: Arc<Program>) -> Self {
        Self { program }
    }
    pub(super) fn workspace(&self) -> ImageWorkspace<f32> {
        todo!()
    }
    pub(super) fn prepare(&self, _: &Inputs) -> ImageRows {
        todo!()
    }
    pub(super) fn outputs(
        &self,
        _: Weights<'_>,
        _: &ImageRows,
        _: Rows<'_>,
        _: &mut [f32],
        _: &mut ImageWorkspace<f32>,
    ) {
        todo!()
    }
    #[expect(clippy::too_many_arguments, reason = "a gradient is a function of exactly these")]
    pub(super) fn gradient(
        &self,
        _: &[f32],
        _: &ImageRows,
        _: Rows<'_>,
        _: Mode<'_>,
        _: &mut dyn OutputGradient,
        _: &mut [f32],
        _: &mut ImageWorkspace<f32>,
    ) {
        todo!()
    }
    pub(super) fn update_statistics(&self, _: &ImageWorkspace<f32>, _: &mut [f32]) {
        todo!()
    }
}

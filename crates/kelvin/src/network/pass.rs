//! What a pass over rows is given: weights, whose means batch norm uses, and who differentiates the outputs.

/// Receives a block of network outputs and replaces them by the gradient of what is to be summed over rows.
pub trait OutputGradient {
    /// `outputs` holds whole rows; the first of them is row `first_row` of this pass.
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]);
}

/// Everything a network predicts with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights<'a> {
    /// The parameters.
    pub parameters: &'a [f32],
    /// Running means and variances of its batch norms; empty where there are none.
    pub statistics: &'a [f32],
}

impl<'a> Weights<'a> {
    /// Of a network without batch norm.
    pub fn plain(parameters: &'a [f32]) -> Self {
        Self { parameters, statistics: &[] }
    }
}

/// Whose means and variances batch norm uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode<'a> {
    /// Those of the batch itself.
    Training,
    /// These, laid out as the network's statistics are.
    Inference(&'a [f32]),
}

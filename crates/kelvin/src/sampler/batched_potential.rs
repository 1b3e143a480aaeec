//! An energy that is asked for several chains at once.

use crate::network::Layout;

/// An energy of several positions at once.
pub trait BatchedPotential {
    /// Why it can fail.
    type Error;

    /// The named tensors of a position.
    fn layout(&self) -> &Layout;

    /// Overwrites `gradients` with ∇U and `energies` with U of each position, row by row. An energy of minibatches takes the rows that it names by
    /// `step`; the same step may be asked several times, at positions close to each other.
    ///
    /// # Errors
    /// Whatever stops the chains.
    fn evaluate(
        &mut self,
        step: u64,
        positions: &[f32],
        gradients: &mut [f32],
        energies: &mut [f64],
    ) -> Result<(), Self::Error>;
}

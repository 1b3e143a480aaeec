//! Outputs of draws at held-out rows, so many draws at a time that memory is bounded.

use crate::draws::{Draws, DrawsError};
use crate::held_out::HeldOut;
use crate::network::Weights;
use crate::sampler::{Engine, EngineError, evaluated_together};

/// Outputs of every draw in order, wherever the draws are.
///
/// # Errors
/// Where draws cannot be read, the engine fails, or `take` does.
pub fn for_each_output<E: From<EngineError> + From<DrawsError>>(
    engine: &dyn Engine,
    held_out: &HeldOut,
    draws: &Draws,
    mut take: impl FnMut(Vec<f32>) -> Result<(), E>,
) -> Result<(), E> {
    let num_outputs = held_out.num_rows() * held_out.num_values();
    for lot in draws.lots(evaluated_together(num_outputs.max(draws.dim()))) {
        let lot = lot?;
        let weights: Vec<Weights<'_>> = lot.iter().collect();
        engine.outputs(held_out, &weights)?.into_iter().try_for_each(&mut take)?;
    }
    Ok(())
}

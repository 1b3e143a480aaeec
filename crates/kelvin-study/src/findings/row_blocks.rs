//! Rows so many at a time that the outputs of all draws for them stay in memory.

use crate::error::{Result, StudyError};
use kelvin::data::{Examples, Inputs};
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::predictive::for_each_output;
use kelvin::sampler::Engine;

/// Outputs of all draws that are in memory at a time, 16 MiB, and what blocks of rows are a multiple of: evaluators take rows
/// so many at a time.
const MOST_OUTPUTS: usize = 4 << 20;
const ROWS_TOGETHER: usize = 64;

/// Blocks of rows, in order.
pub struct RowBlocks<'i> {
    inputs: &'i Inputs,
    num_features: usize,
    likelihood: Likelihood,
    rows_each: usize,
    next: usize,
}

impl<'i> RowBlocks<'i> {
    /// Blocks of rows for evaluating `num_draws` draws: the more draws, the fewer rows in a block.
    pub fn new(network: &Network, likelihood: Likelihood, inputs: &'i Inputs, num_draws: usize) -> Self {
        let per_row = num_draws.max(1) * likelihood.num_values();
        let rows_each = (MOST_OUTPUTS / per_row).max(1).next_multiple_of(ROWS_TOGETHER);
        Self { inputs, num_features: network.num_inputs(), likelihood, rows_each, next: 0 }
    }

    /// How many rows there are in all.
    pub fn num_rows(&self) -> usize {
        self.inputs.len() / self.num_features
    }
}

impl Iterator for RowBlocks<'_> {
    type Item = Examples;

    fn next(&mut self) -> Option<Examples> {
        let rows = self.next..self.num_rows().min(self.next + self.rows_each);
        if rows.is_empty() {
            return None;
        }
        self.next = rows.end;
        let values = rows.start * self.num_features..rows.end * self.num_features;
        let inputs = match self.inputs {
            Inputs::Numbers(numbers) => Inputs::Numbers(numbers[values].into()),
            Inputs::Bytes(bytes) => Inputs::Bytes(bytes[values].into()),
        };
        // Outputs do not ask for answers.
        let targets = self.likelihood.unknown_targets(rows.len());
        Some(Examples { inputs, num_features: self.num_features, targets })
    }
}

/// The likelihood's values of every draw at some rows: one vector a draw.
///
/// # Errors
/// If draws cannot be read or evaluated.
pub fn outputs_of_draws<'d>(
    engine: &dyn Engine,
    (network, likelihood): (&Network, Likelihood),
    rows: &Examples,
    draws: impl IntoIterator<Item = &'d Draws>,
) -> Result<Vec<Vec<f32>>> {
    let held_out = HeldOut::new(network, rows).followed_by(likelihood.num_parameters());
    let mut outputs = Vec::new();
    for draws in draws {
        for_each_output(engine, &held_out, draws, |output| {
            outputs.push(output);
            Ok::<(), StudyError>(())
        })?;
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Shape, Weights};
    use kelvin::sampler::CpuEngine;

    use super::*;

    /// Blocks must not change a bit, whatever kernel a network has.
    #[test]
    fn rows_in_blocks_have_the_outputs_of_rows_at_once() {
        let dense = |units| Layer::Dense { units };
        for (hidden, likelihood) in [
            (vec![64], Likelihood::Gaussian { noise_variance: 0.1 }),
            (vec![10], Likelihood::Categorical { num_classes: 3 }),
            (vec![20, 7], Likelihood::Categorical { num_classes: 3 }),
        ] {
            let mut layers = Vec::new();
            hidden.iter().for_each(|&units| layers.extend([dense(units), Layer::Relu]));
            layers.push(dense(likelihood.num_outputs()));
            let network = Network::new(Shape::flat(5), layers).unwrap();
            let point = |seed| {
                let parameters = network.initial_parameters(seed, 0);
                Draws::of_point(Weights { parameters: &parameters, statistics: &[] })
            };
            let draws: Vec<Draws> = (0..3).map(point).collect();
            let numbers: Vec<f32> = (0..5 * 203u32).map(|i| ((i * 37 % 101) as f32 - 50.0) / 30.0).collect();
            let inputs = Inputs::Numbers(numbers.into());
            let outputs = |rows_each: Option<usize>| {
                let mut blocks = RowBlocks::new(&network, likelihood, &inputs, 3);
                blocks.rows_each = rows_each.unwrap_or(blocks.rows_each);
                let mut all = vec![Vec::new(); 3];
                for block in blocks {
                    assert!(block.len() <= rows_each.unwrap_or(203));
                    let of_block = outputs_of_draws(&CpuEngine, (&network, likelihood), &block, &draws).unwrap();
                    all.iter_mut().zip(of_block).for_each(|(all, block)| all.extend(block));
                }
                all
            };
            let whole = outputs(None);
            assert_eq!(whole[0].len(), 203 * likelihood.num_outputs());
            assert_eq!(outputs(Some(ROWS_TOGETHER)), whole, "{likelihood:?}");
        }
    }

    #[test]
    fn blocks_are_smaller_the_more_draws_there_are() {
        let network = Network::new(Shape::flat(1), vec![Layer::Dense { units: 10 }]).unwrap();
        let likelihood = Likelihood::Categorical { num_classes: 10 };
        let inputs = Inputs::Numbers(vec![0.0].into());
        let rows = |draws| RowBlocks::new(&network, likelihood, &inputs, draws).rows_each;
        assert_eq!(rows(1_000_000), ROWS_TOGETHER);
        assert!((MOST_OUTPUTS..MOST_OUTPUTS + 10 * 100 * ROWS_TOGETHER).contains(&(rows(100) * 10 * 100)));
    }
}

//! A linear skip connection beside a dense network: outputs = body(x) + x·K + b, done where the body's outputs are differentiated.
//!
//! The body is evaluated as it is without: its outputs pass through [`SkipHead`], which adds the skip's, hands them on, and sums Σ xᵀg and Σ g of the
//! gradients g that come back. That is two multiply-adds a row for every sixteen inputs and output.

use aligned_vec::{AVec, avec};
use pulp::{Simd, WithSimd};

use super::inputs::{PaddedRows, Rows};
use super::pass::OutputGradient;
use super::products::halve;
use crate::vector::{dispatch, mul_add};

/// Lanes that a row's sum runs in, and rows whose lanes are summed together.
const LANES: usize = 16;

/// The skip of a network: its sizes and its place among the parameters, behind those of the body.
#[derive(Clone, Copy, Debug)]
pub struct LinearSkip {
    pub(super) num_inputs: usize,
    pub(super) num_outputs: usize,
    /// Parameters of the body.
    pub(super) body_len: usize,
}

/// The skip's weights as passes read them, and the sums of their gradients.
#[derive(Debug)]
pub struct SkipWorkspace {
    /// One padded row an output.
    kernel: AVec<f32>,
    bias: Vec<f32>,
    kernel_sums: AVec<f32>,
    bias_sums: Vec<f64>,
}

impl LinearSkip {
    fn width(&self) -> usize {
        self.num_inputs.next_multiple_of(LANES)
    }

    pub(super) fn workspace(&self) -> SkipWorkspace {
        let zeros = || avec![0.0; self.num_outputs * self.width()];
        SkipWorkspace {
            kernel: zeros(),
            bias: vec![0.0; self.num_outputs],
            kernel_sums: zeros(),
            bias_sums: vec![0.0; self.num_outputs],
        }
    }

    /// Takes the parameters, those of the body first, and starts new sums.
    pub(super) fn start(&self, parameters: &[f32], work: &mut SkipWorkspace) {
        let (kernel, bias) = parameters[self.body_len..].split_at(self.num_inputs * self.num_outputs);
        for (output, to) in work.kernel.chunks_exact_mut(self.width()).enumerate() {
            for (to, from) in to.iter_mut().zip(kernel.chunks_exact(self.num_outputs)) {
                *to = from[output];
            }
        }
        work.bias.copy_from_slice(&bias[..self.num_outputs]);
        work.kernel_sums.fill(0.0);
        work.bias_sums.fill(0.0);
    }

    /// Overwrites `gradient`, that of the parameters behind the body's, with the sums.
    pub(super) fn write_gradient(&self, work: &SkipWorkspace, gradient: &mut [f32]) {
        let (kernel, bias) = gradient.split_at_mut(self.num_inputs * self.num_outputs);
        for (output, from) in work.kernel_sums.chunks_exact(self.width()).enumerate() {
            for (to, &from) in kernel.chunks_exact_mut(self.num_outputs).zip(from) {
                to[output] = from;
            }
        }
        for (to, &from) in bias.iter_mut().zip(&work.bias_sums) {
            *to = from as f32;
        }
    }

    /// Adds the skip of rows `first_row..` of a pass to their outputs.
    pub(super) fn add(
        &self,
        inputs: &PaddedRows,
        rows: Rows<'_>,
        first_row: usize,
        outputs: &mut [f32],
        work: &SkipWorkspace,
    ) {
        let rows = SkippedRows { inputs, rows, first_row, width: self.width() };
        dispatch(Add { rows, kernel: &work.kernel, bias: &work.bias, outputs });
    }
}

/// Adds the skip to outputs on their way to another head, and sums its gradient.
pub(super) struct SkipHead<'a> {
    pub skip: &'a LinearSkip,
    pub inputs: &'a PaddedRows,
    pub rows: Rows<'a>,
    pub head: &'a mut dyn OutputGradient,
    pub work: &'a mut SkipWorkspace,
}

impl OutputGradient for SkipHead<'_> {
    fn differentiate(&mut self, first_row: usize, outputs: &mut [f32]) {
        self.skip.add(self.inputs, self.rows, first_row, outputs, self.work);
        self.head.differentiate(first_row, outputs);
        let rows = SkippedRows { inputs: self.inputs, rows: self.rows, first_row, width: self.skip.width() };
        let SkipWorkspace { kernel_sums, bias_sums, .. } = &mut *self.work;
        dispatch(Sum { rows, gradients: outputs, kernel_sums, bias_sums });
    }
}

/// Inputs of a block of rows.
#[derive(Clone, Copy)]
struct SkippedRows<'a> {
    inputs: &'a PaddedRows,
    rows: Rows<'a>,
    first_row: usize,
    /// Numbers of a row that are read, padding included; the kernel is 0 in the padding, which may hold anything finite.
    width: usize,
}

impl<'a> SkippedRows<'a> {
    #[inline(always)]
    fn row(&self, index: usize) -> &'a [f32] {
        let position = self.first_row + index;
        let row = self.rows.listed().map_or(position, |list| list[position] as usize);
        &self.inputs.values[row * self.inputs.stride..][..self.width]
    }
}

struct Add<'a> {
    rows: SkippedRows<'a>,
    kernel: &'a [f32],
    bias: &'a [f32],
    outputs: &'a mut [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { rows, kernel, bias, outputs } = self;
        let num_outputs = bias.len();
        for (block, outputs) in outputs.chunks_mut(LANES * num_outputs).enumerate() {
            let num_rows = outputs.len() / num_outputs;
            for (output, (kernel, &bias)) in kernel.chunks_exact(rows.width).zip(bias).enumerate() {
                let mut lanes = [0.0f32; LANES * LANES];
                for (index, sums) in lanes.as_chunks_mut::<LANES>().0[..num_rows].iter_mut().enumerate() {
                    let row = rows.row(block * LANES + index);
                    for (x, w) in row.as_chunks::<LANES>().0.iter().zip(kernel.as_chunks::<LANES>().0) {
                        for lane in 0..LANES {
                            sums[lane] = mul_add::<S>(x[lane], w[lane], sums[lane]);
                        }
                    }
                }
                halve::<f32, 16, 8>(&mut lanes);
                halve::<f32, 8, 4>(&mut lanes);
                for (outputs, lanes) in outputs.chunks_exact_mut(num_outputs).zip(lanes.as_chunks::<4>().0) {
                    outputs[output] += bias + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
                }
            }
        }
    }
}

struct Sum<'a> {
    rows: SkippedRows<'a>,
    gradients: &'a [f32],
    kernel_sums: &'a mut [f32],
    bias_sums: &'a mut [f64],
}

impl WithSimd for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { rows, gradients, kernel_sums, bias_sums } = self;
        let num_outputs = bias_sums.len();
        let outputs = kernel_sums.chunks_exact_mut(rows.width).zip(bias_sums).enumerate();
        for (output, (sums, bias_sum)) in outputs {
            for (piece, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let mut own = *sums;
                for (index, gradients) in gradients.chunks_exact(num_outputs).enumerate() {
                    let Some(x) = rows.row(index)[piece * LANES..].first_chunk::<LANES>() else { break };
                    for lane in 0..LANES {
                        own[lane] = mul_add::<S>(gradients[output], x[lane], own[lane]);
                    }
                }
                *sums = own;
            }
            *bias_sum += gradients.iter().skip(output).step_by(num_outputs).map(|&g| f64::from(g)).sum::<f64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::images::Reference;
    use super::super::{Activation, Evaluator, Mode, Network, Weights};
    use super::*;

    /// Leaves the outputs, which are the gradient of Σ outputs²/2.
    struct HalfSquares;

    impl OutputGradient for HalfSquares {
        fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
    }

    fn wide(values: &[f32]) -> Vec<f64> {
        values.iter().copied().map(f64::from).collect()
    }

    fn close(found: &[f32], wanted: &[f64], what: &str) {
        let size = wanted.iter().map(|b| b * b).sum::<f64>().sqrt();
        let error = found.iter().zip(wanted).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum::<f64>().sqrt();
        assert!(found.len() == wanted.len() && error < 6e-6 * size, "{what}: {error} of {size}");
    }

    /// The evaluator that knows no skip, only sums of values, is the reference, in f64.
    #[test]
    fn every_body_beside_a_skip_agrees_with_the_reference() {
        for (num_inputs, hidden, num_outputs, activation) in [
            (8, &[64][..], 1, Activation::Relu),
            (17, &[20], 2, Activation::Relu),
            (3, &[5, 4], 3, Activation::Relu),
            (16, &[9], 1, Activation::Tanh),
            (6, &[20, 3], 2, Activation::Gelu),
            (6, &[3], 9, Activation::Silu),
            (40, &[], 2, Activation::Relu),
        ] {
            let network = Network::table(num_inputs, hidden, num_outputs, activation, true).unwrap();
            let what = network.describe();
            let mut parameters = network.initial_parameters(9, 0);
            parameters.iter_mut().enumerate().for_each(|(index, value)| *value += 0.2 * (index as f32 * 1.3).sin());
            let data: Vec<f32> = (0..num_inputs * 150).map(|i| (i as f32 * 0.37).sin()).collect();
            let picked: Vec<u32> = (0..150).rev().step_by(2).collect();
            for rows in [Rows::All, Rows::These(&picked)] {
                let visited: Vec<f32> = match rows.listed() {
                    None => data.clone(),
                    Some(list) => {
                        list.iter().flat_map(|&row| &data[row as usize * num_inputs..][..num_inputs]).copied().collect()
                    }
                };
                let Evaluator::Images(reference) = network.general_evaluator() else { unreachable!() };
                let Reference { outputs: wanted_outputs, gradient: wanted, .. } =
                    reference.reference(&wide(&parameters), &wide(&visited), None, |_| {});
                for evaluator in [network.evaluator(), network.dense_evaluator().unwrap()] {
                    assert!(matches!(evaluator, Evaluator::Skip { .. }));
                    let (prepared, mut work) = (evaluator.prepare(&data.clone().into()), evaluator.workspace());
                    let mut outputs = vec![f32::NAN; wanted_outputs.len()];
                    evaluator.outputs(Weights::plain(&parameters), &prepared, rows, &mut outputs, &mut work);
                    close(&outputs, &wanted_outputs, &what);
                    let mut gradient = vec![f32::NAN; wanted.len()];
                    for _ in 0..2 {
                        let (mode, head) = (Mode::Training, &mut HalfSquares);
                        evaluator.gradient(&parameters, &prepared, rows, mode, head, &mut gradient, &mut work);
                        close(&gradient, &wanted, &what);
                    }
                }
            }
        }
    }
}

//! The general evaluator: a dense ReLU network of any depth, layer by layer on blocks of rows.
//!
//! Generic over f32 and f64: the f64 form is the reference the tests compare with.

use aligned_vec::AVec;

use super::products::{Real, accumulate_outer, affine, pull_back, transpose};
use super::{Layer, Network, OutputGradient, PreparedInputs, Rows};

/// Rows worked on together, so that their activations stay in cache.
const BLOCK: usize = 64;

#[derive(Clone, Copy, Debug)]
struct DenseLayer {
    inputs: usize,
    units: usize,
    kernel_at: usize,
    relu: bool,
}

impl DenseLayer {
    fn bias_at(&self) -> usize {
        self.kernel_at + self.inputs * self.units
    }

    fn end(&self) -> usize {
        self.bias_at() + self.units
    }
}

/// A dense network ready to be evaluated.
#[derive(Clone, Debug)]
pub struct DenseStack {
    layers: Vec<DenseLayer>,
}

/// Activations of a block, layer by layer, and what the backward pass needs.
#[derive(Debug)]
pub struct Workspace<T> {
    /// `activations[0]` is the block of inputs, `activations[i]` the output of layer i − 1.
    activations: Vec<Vec<T>>,
    back: [Vec<T>; 2],
    transposed: Vec<T>,
}

impl DenseStack {
    pub(super) fn new(network: &Network) -> Self {
        let mut layers: Vec<DenseLayer> = Vec::new();
        let (mut inputs, mut kernel_at) = (network.num_inputs(), 0);
        for layer in network.layers() {
            match *layer {
                Layer::Dense { units } => {
                    let dense = DenseLayer { inputs, units, kernel_at, relu: false };
                    kernel_at = dense.end();
                    inputs = units;
                    layers.push(dense);
                }
                Layer::Relu => {
                    if let Some(last) = layers.last_mut() {
                        last.relu = true;
                    }
                }
            }
        }
        Self { layers }
    }

    /// Room for a block of rows.
    pub fn workspace<T: Real>(&self) -> Workspace<T> {
        let block = |width: usize| vec![T::default(); BLOCK * width];
        let widest = self.layers.iter().map(|layer| layer.inputs.max(layer.units)).max().unwrap_or(0);
        let largest = self.layers.iter().map(|layer| layer.inputs * layer.units).max().unwrap_or(0);
        let mut activations = vec![block(self.num_inputs())];
        activations.extend(self.layers.iter().map(|layer| block(layer.units)));
        Workspace { activations, back: [block(widest), block(widest)], transposed: vec![T::default(); largest] }
    }

    fn num_inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    fn num_outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.units)
    }

    pub(super) fn prepare(&self, inputs: &[f32]) -> PreparedInputs {
        let stride = self.num_inputs();
        PreparedInputs { values: AVec::from_slice(0, inputs), stride, num_rows: inputs.len() / stride }
    }

    #[inline(always)]
    fn forward<T: Real>(&self, parameters: &[T], num_rows: usize, work: &mut Workspace<T>) {
        for (number, layer) in self.layers.iter().enumerate() {
            let (before, after) = work.activations.split_at_mut(number + 1);
            let inputs = &before[number][..num_rows * layer.inputs];
            let outputs = &mut after[0][..num_rows * layer.units];
            let kernel = &parameters[layer.kernel_at..layer.bias_at()];
            let bias = &parameters[layer.bias_at()..layer.end()];
            affine(inputs, layer.inputs, kernel, bias, outputs);
            if layer.relu {
                for value in outputs {
                    *value = if *value > T::default() { *value } else { T::default() };
                }
            }
        }
    }

    /// Adds the gradient of a block to `gradient`; `work.back[0]` holds the gradient of the outputs.
    #[inline(always)]
    fn backward<T: Real>(&self, parameters: &[T], num_rows: usize, gradient: &mut [T], work: &mut Workspace<T>) {
        for (number, layer) in self.layers.iter().enumerate().rev() {
            let (output_gradient, input_gradient) = {
                let [a, b] = &mut work.back;
                (&mut a[..num_rows * layer.units], &mut b[..num_rows * layer.inputs])
            };
            if layer.relu {
                let outputs = &work.activations[number + 1][..num_rows * layer.units];
                for (gradient, &output) in output_gradient.iter_mut().zip(outputs) {
                    *gradient = if output > T::default() { *gradient } else { T::default() };
                }
            }
            let (kernel, bias) = gradient[layer.kernel_at..layer.end()].split_at_mut(layer.inputs * layer.units);
            let inputs = &work.activations[number][..num_rows * layer.inputs];
            accumulate_outer(inputs, layer.inputs, output_gradient, kernel, bias);
            if number > 0 {
                let transposed = &mut work.transposed[..layer.inputs * layer.units];
                transpose(&parameters[layer.kernel_at..layer.bias_at()], layer.units, transposed);
                pull_back(output_gradient, layer.units, transposed, layer.inputs, input_gradient);
                work.back.swap(0, 1);
            }
        }
    }

    pub(super) fn outputs(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut Workspace<f32>,
    ) {
        let units = self.num_outputs();
        for (block, outputs) in outputs.chunks_mut(BLOCK * units).enumerate() {
            let num_rows = outputs.len() / units;
            inputs.gather(rows, block * BLOCK, num_rows, &mut work.activations[0]);
            pulp::Arch::new().dispatch(Forward { network: self, parameters, num_rows, work });
            outputs.copy_from_slice(&work.activations[self.layers.len()][..outputs.len()]);
        }
    }

    pub(super) fn gradient(
        &self,
        parameters: &[f32],
        inputs: &PreparedInputs,
        rows: Rows<'_>,
        head: &mut dyn OutputGradient,
        gradient: &mut [f32],
        work: &mut Workspace<f32>,
    ) {
        gradient.fill(0.0);
        let (count, units) = (inputs.count(rows), self.num_outputs());
        for first in (0..count).step_by(BLOCK) {
            let num_rows = BLOCK.min(count - first);
            inputs.gather(rows, first, num_rows, &mut work.activations[0]);
            pulp::Arch::new().dispatch(Forward { network: self, parameters, num_rows, work });
            let outputs = &mut work.back[0][..num_rows * units];
            outputs.copy_from_slice(&work.activations[self.layers.len()][..num_rows * units]);
            head.differentiate(first, outputs);
            pulp::Arch::new().dispatch(Backward { network: self, parameters, num_rows, gradient, work });
        }
    }

    /// The reference: outputs and, for given gradients of the outputs, the gradient of the parameters, in f64.
    pub fn reference(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        differentiate: impl Fn(usize, &mut [f64]),
    ) -> (Vec<f64>, Vec<f64>) {
        let mut work = self.workspace::<f64>();
        let (mut outputs, mut gradient) = (Vec::new(), vec![0.0; parameters.len()]);
        for (block, inputs) in inputs.chunks(BLOCK * self.num_inputs()).enumerate() {
            let num_rows = inputs.len() / self.num_inputs();
            work.activations[0][..inputs.len()].copy_from_slice(inputs);
            self.forward(parameters, num_rows, &mut work);
            let block_outputs = &work.activations[self.layers.len()][..num_rows * self.num_outputs()];
            outputs.extend_from_slice(block_outputs);
            let back = &mut work.back[0][..block_outputs.len()];
            back.copy_from_slice(block_outputs);
            differentiate(block * BLOCK, back);
            self.backward(parameters, num_rows, &mut gradient, &mut work);
        }
        (outputs, gradient)
    }
}

struct Forward<'a> {
    network: &'a DenseStack,
    parameters: &'a [f32],
    num_rows: usize,
    work: &'a mut Workspace<f32>,
}

impl pulp::NullaryFnOnce for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.network.forward(self.parameters, self.num_rows, self.work);
    }
}

struct Backward<'a> {
    network: &'a DenseStack,
    parameters: &'a [f32],
    num_rows: usize,
    gradient: &'a mut [f32],
    work: &'a mut Workspace<f32>,
}

impl pulp::NullaryFnOnce for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.network.backward(self.parameters, self.num_rows, self.gradient, self.work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central differences of Σ outputs² / 2 on a three-layer network.
    #[test]
    fn gradient_agrees_with_finite_differences() {
        let network = Network::dense(3, &[7, 5], 2).unwrap();
        let stack = DenseStack::new(&network);
        let mut parameters: Vec<f64> = network.initial_parameters(5, 0).into_iter().map(f64::from).collect();
        for (index, value) in parameters.iter_mut().enumerate() {
            *value += 0.1 * (index as f64).sin();
        }
        let inputs: Vec<f64> = (0..3 * 100).map(|i| (i as f64 * 0.7).cos()).collect();
        let half_square = |outputs: &[f64]| outputs.iter().map(|o| 0.5 * o * o).sum::<f64>();
        let (_, gradient) = stack.reference(&parameters, &inputs, |_, _| {});
        for index in 0..parameters.len() {
            let value = parameters[index];
            let mut at = |shift: f64| {
                parameters[index] = value + shift;
                let result = half_square(&stack.reference(&parameters, &inputs, |_, _| {}).0);
                parameters[index] = value;
                result
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(
                (slope - gradient[index]).abs() < 1e-5 * (1.0 + slope.abs()),
                "{index}: {slope} {}",
                gradient[index]
            );
        }
    }
}

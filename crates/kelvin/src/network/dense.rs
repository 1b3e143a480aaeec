//! The dense evaluator: a network of dense layers with activations between them, of any depth, layer by layer on blocks of rows.
//!
//! Rows of activations and weights are padded to whole pieces of [`PIECE`] numbers.
//! Generic over f32 and f64: the f64 form is the reference the tests compare with.

use aligned_vec::{AVec, avec};
use pulp::{Simd, WithSimd};

use super::activation::{activate, times_slope};
use super::dense_layer::{DenseLayer, LayerWeights};
use super::inputs::{PaddedRows, Rows};
use super::kernels::{Number, PIECE};
use super::layers::Layer;
use super::pass::OutputGradient;
use super::products::copy_rows;
use crate::vector::dispatch;

/// Rows worked on together, so that their activations stay in cache.
const BLOCK: usize = 64;

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
    /// What the activation behind each layer read; empty where what it wrote tells its slope.
    read: Vec<Vec<T>>,
    /// Gradients of the outputs and of the inputs of a layer.
    back: [Vec<T>; 2],
    weights: Vec<LayerWeights<T>>,
    /// Outputs of a narrow layer, not yet summed over the lanes.
    lanes: Vec<T>,
    /// Outputs of a block without padding.
    outputs: Vec<T>,
}

impl DenseStack {
    /// The stack of layers that are dense or activations only.
    pub(super) fn new(num_inputs: usize, of: &[Layer]) -> Option<Self> {
        let mut layers: Vec<DenseLayer> = Vec::new();
        let (mut inputs, mut kernel_at) = (num_inputs, 0);
        for layer in of {
            match *layer {
                Layer::Dense { units } => {
                    let [input_stride, stride] = [inputs, units].map(|width| width.next_multiple_of(PIECE));
                    let dense = DenseLayer {
                        inputs,
                        input_stride,
                        units,
                        stride,
                        kernel_at,
                        activation: None,
                        has_input_gradient: !layers.is_empty(),
                    };
                    kernel_at = dense.end();
                    inputs = units;
                    layers.push(dense);
                }
                _ => {
                    let activation = layer.activation()?;
                    if let Some(last) = layers.last_mut() {
                        last.activation = Some(activation);
                    }
                }
            }
        }
        // No layer reads the last outputs in whole pieces: few of them can lie as the head wants them.
        if let Some(last) = layers.last_mut().filter(|last| last.is_narrow()) {
            last.stride = last.units;
        }
        Some(Self { layers })
    }

    /// Room for a block of rows.
    pub fn workspace<T: Number>(&self) -> Workspace<T> {
        let block = |width: usize| vec![T::default(); BLOCK * width];
        let widest = self.layers.iter().map(|layer| layer.input_stride.max(layer.stride)).max().unwrap_or(0);
        let mut activations = vec![block(self.input_stride())];
        activations.extend(self.layers.iter().map(|layer| block(layer.stride)));
        let read = |layer: &DenseLayer| layer.activation.filter(|by| by.reads_again()).map(|_| block(layer.stride));
        Workspace {
            activations,
            read: self.layers.iter().map(|layer| read(layer).unwrap_or_default()).collect(),
            back: [block(widest), block(widest)],
            weights: self.layers.iter().map(LayerWeights::new).collect(),
            lanes: block(PIECE),
            outputs: block(self.num_outputs()),
        }
    }

    fn num_inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    fn input_stride(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.input_stride)
    }

    fn num_outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.units)
    }

    fn output_stride(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.stride)
    }

    pub(super) fn prepare(&self, inputs: &[f32]) -> PaddedRows {
        let (num_rows, stride) = (inputs.len() / self.num_inputs(), self.input_stride());
        let mut values: AVec<f32> = avec![0.0; num_rows * stride];
        copy_rows(inputs, self.num_inputs(), &mut values, stride);
        PaddedRows { values, stride, num_rows }
    }

    fn start<T: Number>(&self, parameters: &[T], work: &mut Workspace<T>) {
        for (layer, weights) in self.layers.iter().zip(&mut work.weights) {
            weights.start(layer, parameters);
        }
    }

    /// From `work.activations[0]` to `work.outputs`.
    #[inline(always)]
    fn forward<S: Simd, T: Number>(&self, simd: S, num_rows: usize, work: &mut Workspace<T>) {
        for (number, (layer, weights)) in self.layers.iter().zip(&work.weights).enumerate() {
            let (before, after) = work.activations.split_at_mut(number + 1);
            let inputs = &before[number][..num_rows * layer.input_stride];
            let outputs = &mut after[0][..num_rows * layer.stride];
            weights.forward(simd, layer, inputs, outputs, &mut work.lanes);
            if let Some(by) = layer.activation {
                if by.reads_again() {
                    work.read[number][..outputs.len()].copy_from_slice(outputs);
                }
                activate(simd, by, outputs);
            }
        }
        let outputs = &work.activations[self.layers.len()][..num_rows * self.output_stride()];
        copy_rows(outputs, self.output_stride(), &mut work.outputs, self.num_outputs());
    }

    /// Adds the gradient of a block to the sums; `work.outputs` holds the gradient of the outputs.
    #[inline(always)]
    fn backward<S: Simd, T: Number>(&self, simd: S, num_rows: usize, work: &mut Workspace<T>) {
        let outputs = &work.outputs[..num_rows * self.num_outputs()];
        copy_rows(outputs, self.num_outputs(), &mut work.back[0], self.output_stride());
        for (number, (layer, weights)) in self.layers.iter().zip(&mut work.weights).enumerate().rev() {
            let (output_gradient, input_gradient) = {
                let [a, b] = &mut work.back;
                (&mut a[..num_rows * layer.stride], &mut b[..num_rows * layer.input_stride])
            };
            if let Some(by) = layer.activation {
                let known = if by.reads_again() { &work.read[number] } else { &work.activations[number + 1] };
                times_slope(simd, by, &known[..num_rows * layer.stride], output_gradient);
            }
            let inputs = &work.activations[number][..num_rows * layer.input_stride];
            weights.add_gradient(simd, layer, inputs, output_gradient);
            if layer.has_input_gradient {
                weights.pull_back(simd, layer, output_gradient, input_gradient);
                work.back.swap(0, 1);
            }
        }
    }

    fn write_gradient<T: Number>(&self, work: &Workspace<T>, gradient: &mut [T]) {
        for (layer, weights) in self.layers.iter().zip(&work.weights) {
            weights.write_gradient(layer, gradient);
        }
    }

    pub(super) fn outputs(
        &self,
        parameters: &[f32],
        inputs: &PaddedRows,
        rows: Rows<'_>,
        outputs: &mut [f32],
        work: &mut Workspace<f32>,
    ) {
        self.start(parameters, work);
        let units = self.num_outputs();
        for (block, outputs) in outputs.chunks_mut(BLOCK * units).enumerate() {
            let num_rows = outputs.len() / units;
            inputs.gather(rows, block * BLOCK, num_rows, &mut work.activations[0]);
            dispatch(Forward { network: self, num_rows, work });
            outputs.copy_from_slice(&work.outputs[..outputs.len()]);
        }
    }

    pub(super) fn gradient(
        &self,
        parameters: &[f32],
        inputs: &PaddedRows,
        rows: Rows<'_>,
        head: &mut dyn OutputGradient,
        gradient: &mut [f32],
        work: &mut Workspace<f32>,
    ) {
        self.start(parameters, work);
        let count = inputs.count(rows);
        for first in (0..count).step_by(BLOCK) {
            let num_rows = BLOCK.min(count - first);
            inputs.gather(rows, first, num_rows, &mut work.activations[0]);
            dispatch(Forward { network: self, num_rows, work });
            head.differentiate(first, &mut work.outputs[..num_rows * self.num_outputs()]);
            dispatch(Backward { network: self, num_rows, work });
        }
        self.write_gradient(work, gradient);
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
        self.start(parameters, &mut work);
        for (block, inputs) in inputs.chunks(BLOCK * self.num_inputs()).enumerate() {
            let num_rows = inputs.len() / self.num_inputs();
            copy_rows(inputs, self.num_inputs(), &mut work.activations[0], self.input_stride());
            self.forward(pulp::Scalar, num_rows, &mut work);
            let block_outputs = &mut work.outputs[..num_rows * self.num_outputs()];
            outputs.extend_from_slice(block_outputs);
            differentiate(block * BLOCK, block_outputs);
            self.backward(pulp::Scalar, num_rows, &mut work);
        }
        self.write_gradient(&work, &mut gradient);
        (outputs, gradient)
    }
}

struct Forward<'a> {
    network: &'a DenseStack,
    num_rows: usize,
    work: &'a mut Workspace<f32>,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.network.forward(simd, self.num_rows, self.work);
    }
}

struct Backward<'a> {
    network: &'a DenseStack,
    num_rows: usize,
    work: &'a mut Workspace<f32>,
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.network.backward(simd, self.num_rows, self.work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Activation, Network};

    /// Narrow and wide layers in every order, and none at all; with every activation.
    fn shapes() -> impl Iterator<Item = (usize, &'static [usize], usize, Activation)> {
        const SHAPES: [(usize, &[usize], usize); 5] =
            [(3, &[7, 5], 2), (4, &[20, 3, 17], 20), (5, &[], 9), (17, &[8], 1), (2, &[16], 16)];
        SHAPES.into_iter().flat_map(|(inputs, hidden, outputs)| Activation::ALL.map(|by| (inputs, hidden, outputs, by)))
    }

    fn setting(
        inputs: usize,
        hidden: &[usize],
        outputs: usize,
        activation: Activation,
    ) -> (DenseStack, Vec<f64>, Vec<f64>) {
        let network = Network::table(inputs, hidden, outputs, activation, false).unwrap();
        let mut parameters: Vec<f64> = network.initial_parameters(5, 0).into_iter().map(f64::from).collect();
        for (index, value) in parameters.iter_mut().enumerate() {
            *value += f64::from(0.1 * (index as f32).sin());
        }
        let inputs = (0..inputs * 101).map(|i| f64::from((i as f32 * 0.7).cos())).collect();
        (DenseStack::new(network.num_inputs(), network.layers()).unwrap(), parameters, inputs)
    }

    /// Central differences of Σ outputs² / 2.
    #[test]
    fn gradient_agrees_with_finite_differences() {
        for (inputs, hidden, outputs, activation) in shapes() {
            let (stack, mut parameters, inputs) = setting(inputs, hidden, outputs, activation);
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
                let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
                let found = gradient[index];
                assert!((slope - found).abs() < 2e-5 * (1.0 + slope.abs()), "{hidden:?}, {index}: {slope} {found}");
            }
        }
    }

    struct HalfSquares;

    impl OutputGradient for HalfSquares {
        fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
    }

    #[test]
    fn single_precision_agrees_with_the_reference() {
        for (inputs, hidden, outputs, activation) in shapes() {
            let (stack, parameters, inputs) = setting(inputs, hidden, outputs, activation);
            let (wanted_outputs, wanted) = stack.reference(&parameters, &inputs, |_, _| {});
            let [parameters, inputs] =
                [parameters, inputs].map(|v| v.into_iter().map(|v| v as f32).collect::<Vec<_>>());
            let (prepared, mut work) = (stack.prepare(&inputs), stack.workspace());
            let (mut found, mut found_outputs) = (vec![f32::NAN; wanted.len()], vec![f32::NAN; wanted_outputs.len()]);
            stack.gradient(&parameters, &prepared, Rows::All, &mut HalfSquares, &mut found, &mut work);
            stack.outputs(&parameters, &prepared, Rows::All, &mut found_outputs, &mut work);
            for (found, wanted) in [(found, wanted), (found_outputs, wanted_outputs)] {
                let size = wanted.iter().map(|w| w * w).sum::<f64>().sqrt();
                let errors = found.iter().zip(&wanted).map(|(&f, w)| (f64::from(f) - w).powi(2));
                assert!(errors.sum::<f64>().sqrt() < 3e-6 * size, "{hidden:?}");
            }
        }
    }
}

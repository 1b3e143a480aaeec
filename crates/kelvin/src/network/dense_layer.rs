//! One dense layer of the general evaluator: padded weights, their gradients, and the products that use them.
//!
//! Layers with few units work with the transposed kernel and its transposed gradient, so that inner loops run over the
//! inputs.

use super::products::{Matrix, Real, add_rows, add_transposed_product, copy_rows, dot_rows, product, transpose};

/// Layers with fewer units are narrow: with more, padded rows waste less than sums over lanes cost.
const NARROW: usize = 8;

/// A dense layer's sizes and its place in the parameter vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct DenseLayer {
    pub(super) inputs: usize,
    /// Numbers in a row of inputs, padding included.
    pub(super) input_stride: usize,
    pub(super) units: usize,
    /// Numbers in a row of outputs, padding included.
    pub(super) stride: usize,
    pub(super) kernel_at: usize,
    pub(super) relu: bool,
}

impl DenseLayer {
    fn bias_at(&self) -> usize {
        self.kernel_at + self.inputs * self.units
    }

    pub(super) fn end(&self) -> usize {
        self.bias_at() + self.units
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.units < NARROW
    }
}

/// The padded parameters of a layer and the sums of their gradients.
#[derive(Debug)]
pub(super) struct LayerWeights<T> {
    /// One row an input; empty in narrow layers.
    kernel: Vec<T>,
    /// One row a unit.
    transposed: Vec<T>,
    bias: Vec<T>,
    /// In the shape of `kernel`, or of `transposed` in narrow layers.
    kernel_sums: Vec<T>,
    bias_sums: Vec<T>,
}

impl<T: Real> LayerWeights<T> {
    pub(super) fn new(layer: &DenseLayer) -> Self {
        let zeros = |len: usize| vec![T::default(); len];
        let kernel = zeros(if layer.is_narrow() { 0 } else { layer.inputs * layer.stride });
        let transposed = zeros(layer.units * layer.input_stride);
        let kernel_sums = if layer.is_narrow() { transposed.clone() } else { kernel.clone() };
        Self { kernel, transposed, bias: zeros(layer.stride), kernel_sums, bias_sums: zeros(layer.stride) }
    }

    /// Takes the parameters and starts new sums.
    pub(super) fn start(&mut self, layer: &DenseLayer, parameters: &[T]) {
        let kernel = &parameters[layer.kernel_at..layer.bias_at()];
        copy_rows(kernel, layer.units, &mut self.kernel, layer.stride);
        transpose(kernel, layer.units, &mut self.transposed, layer.input_stride);
        self.bias[..layer.units].copy_from_slice(&parameters[layer.bias_at()..layer.end()]);
        self.kernel_sums.fill(T::default());
        self.bias_sums.fill(T::default());
    }

    pub(super) fn write_gradient(&self, layer: &DenseLayer, gradient: &mut [T]) {
        let (kernel, bias) = gradient[layer.kernel_at..layer.end()].split_at_mut(layer.inputs * layer.units);
        if layer.is_narrow() {
            transpose(&self.kernel_sums, layer.input_stride, kernel, layer.units);
        } else {
            copy_rows(&self.kernel_sums, layer.stride, kernel, layer.units);
        }
        bias.copy_from_slice(&self.bias_sums[..layer.units]);
    }

    /// outputs = bias + inputs · kernel.
    #[inline(always)]
    pub(super) fn forward(&self, layer: &DenseLayer, inputs: &[T], outputs: &mut [T], lanes: &mut [T]) {
        let inputs = Matrix { values: inputs, width: layer.input_stride };
        if layer.is_narrow() {
            dot_rows(inputs, &self.transposed, &self.bias[..layer.units], outputs, layer.stride, lanes);
        } else {
            product(Some(&self.bias), inputs, Matrix { values: &self.kernel, width: layer.stride }, outputs);
        }
    }

    /// Adds the gradients of a block: inputsᵀ · outputs and Σ outputs, given the gradients of the outputs.
    #[inline(always)]
    pub(super) fn add_gradient(&mut self, layer: &DenseLayer, inputs: &[T], outputs: &[T]) {
        let inputs = Matrix { values: inputs, width: layer.input_stride };
        let outputs = Matrix { values: outputs, width: layer.stride };
        if layer.is_narrow() {
            add_transposed_product(outputs, inputs, &mut self.kernel_sums);
        } else {
            add_transposed_product(inputs, outputs, &mut self.kernel_sums);
        }
        add_rows(outputs, &mut self.bias_sums);
    }

    /// inputs = outputs · kernelᵀ: from the gradients of the outputs to those of the inputs.
    #[inline(always)]
    pub(super) fn pull_back(&self, layer: &DenseLayer, outputs: &[T], inputs: &mut [T]) {
        let kernel = Matrix { values: &self.transposed, width: layer.input_stride };
        product(None, Matrix { values: outputs, width: layer.stride }, kernel, inputs);
    }
}

//! One dense layer of the general evaluator: padded weights, their gradients, and the products that use them.
//!
//! Layers with few units work with the transposed kernel and its transposed gradient, so that inner loops run over the
//! inputs.

use pulp::Simd;

use super::kernels::{Factors, Lines, Number, Results, Start, panel_width};
use super::layers::Activation;
use super::products::{Matrix, add_rows, copy_rows, dot_rows, transpose};

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
    pub(super) activation: Option<Activation>,
    /// Whether anything stands before it that wants a gradient.
    pub(super) has_input_gradient: bool,
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

/// The parameters of a layer as its products read them, and the sums of their gradients.
#[derive(Debug)]
pub(super) struct LayerWeights<T> {
    /// The kernel in panels, one row an input; in narrow layers one padded row a unit.
    forward: Vec<T>,
    /// The transposed kernel in panels, one row a unit.
    backward: Vec<T>,
    bias: Vec<T>,
    /// One row an input; in narrow layers one a unit.
    kernel_sums: Vec<T>,
    bias_sums: Vec<T>,
}

impl<T: Number> LayerWeights<T> {
    pub(super) fn new(layer: &DenseLayer) -> Self {
        let zeros = |len: usize| vec![T::default(); len];
        let transposed = layer.units * layer.input_stride;
        let kernel = if layer.is_narrow() { transposed } else { layer.inputs * layer.stride };
        Self {
            forward: zeros(kernel),
            backward: zeros(transposed),
            bias: zeros(layer.stride),
            kernel_sums: zeros(kernel),
            bias_sums: zeros(layer.stride),
        }
    }

    /// Takes the parameters and starts new sums.
    pub(super) fn start(&mut self, layer: &DenseLayer, parameters: &[T]) {
        let DenseLayer { inputs, input_stride, units, stride, .. } = *layer;
        let kernel = &parameters[layer.kernel_at..layer.bias_at()];
        if layer.is_narrow() {
            transpose(kernel, units, &mut self.forward, input_stride);
        } else {
            pack_rows(kernel, inputs, units, stride, &mut self.forward);
        }
        if layer.has_input_gradient {
            pack_columns(kernel, inputs, units, input_stride, &mut self.backward);
        }
        self.bias[..units].copy_from_slice(&parameters[layer.bias_at()..layer.end()]);
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
    pub(super) fn forward<S: Simd>(
        &self,
        simd: S,
        layer: &DenseLayer,
        inputs: &[T],
        outputs: &mut [T],
        lanes: &mut [T],
    ) {
        if layer.is_narrow() {
            let inputs = Matrix { values: inputs, width: layer.input_stride };
            dot_rows(simd, inputs, &self.forward, &self.bias[..layer.units], outputs, layer.stride, lanes);
        } else {
            let (step, num_columns) = (layer.input_stride, layer.stride);
            let from = Factors { values: inputs, step, num_pieces: 1, piece_stride: 0, piece_len: layer.inputs };
            let num_rows = outputs.len() / num_columns;
            let to = Results { values: outputs, step: num_columns, num_rows, num_columns };
            T::product(simd, from, &self.forward, Start::Row(&self.bias), to);
        }
    }

    /// Adds the gradients of a block: inputsᵀ · outputs and Σ outputs, given the gradients of the outputs.
    #[inline(always)]
    pub(super) fn add_gradient<S: Simd>(&mut self, simd: S, layer: &DenseLayer, inputs: &[T], outputs: &[T]) {
        let DenseLayer { input_stride, stride, .. } = *layer;
        let (rows, columns) = (
            Lines { values: inputs, step: input_stride, line_stride: 0 },
            Lines { values: outputs, step: stride, line_stride: 0 },
        );
        let num_rows = outputs.len() / stride;
        let values = &mut self.kernel_sums[..];
        if layer.is_narrow() {
            let to = Results { values, step: input_stride, num_rows: layer.units, num_columns: input_stride };
            T::add_outer(simd, columns, rows, 1, num_rows, to);
        } else {
            let to = Results { values, step: stride, num_rows: layer.inputs, num_columns: stride };
            T::add_outer(simd, rows, columns, 1, num_rows, to);
        }
        add_rows(Matrix { values: outputs, width: stride }, &mut self.bias_sums);
    }

    /// inputs = outputs · kernelᵀ: from the gradients of the outputs to those of the inputs.
    #[inline(always)]
    pub(super) fn pull_back<S: Simd>(&self, simd: S, layer: &DenseLayer, outputs: &[T], inputs: &mut [T]) {
        let (step, num_columns) = (layer.stride, layer.input_stride);
        let num_rows = outputs.len() / step;
        let from = Factors { values: outputs, step, num_pieces: 1, piece_stride: 0, piece_len: layer.units };
        let to = Results { values: inputs, step: num_columns, num_rows, num_columns };
        T::product(simd, from, &self.backward, Start::Zero, to);
    }
}

/// Lays out a matrix of `rows` × `columns` numbers in panels; what pads its columns up to `stride` is left alone.
fn pack_rows<T: Number>(matrix: &[T], rows: usize, columns: usize, stride: usize, packed: &mut [T]) {
    let mut column = 0;
    while column < stride {
        let width = panel_width(column, stride);
        let count = width.min(columns.saturating_sub(column));
        let panel = packed[column * rows..][..width * rows].chunks_exact_mut(width);
        for (from, to) in matrix.chunks_exact(columns).zip(panel) {
            to[..count].copy_from_slice(&from[column..column + count]);
        }
        column += width;
    }
}

/// Lays out the transpose of a matrix of `rows` × `columns` numbers in panels; what pads its rows up to `stride` is left alone.
fn pack_columns<T: Number>(matrix: &[T], rows: usize, columns: usize, stride: usize, packed: &mut [T]) {
    let mut row = 0;
    while row < stride {
        let width = panel_width(row, stride);
        let count = width.min(rows.saturating_sub(row));
        let own = &matrix[row.min(rows) * columns..][..count * columns];
        transpose(own, columns, &mut packed[row * columns..][..width * columns], width);
        row += width;
    }
}

//! Outputs of a dense ReLU network and their derivatives in every parameter, in f64, a row at a time.

use crate::network::{Layer, Network};

struct TangentLayer {
    inputs: usize,
    units: usize,
    /// The kernel's place among the parameters, one row an input; the bias follows it.
    kernel_at: usize,
    relu: bool,
}

/// A dense network with its last layer at a width of one's own.
pub(super) struct Tangent {
    layers: Vec<TangentLayer>,
}

impl Tangent {
    /// A network of dense layers and ReLUs, ending in `num_outputs` units; none of any other.
    pub fn new(network: &Network, num_outputs: usize) -> Option<Self> {
        let mut layers: Vec<TangentLayer> = Vec::new();
        for layer in network.layers() {
            match *layer {
                Layer::Dense { units } => {
                    let (inputs, kernel_at) =
                        layers.last().map_or((network.num_inputs(), 0), |last| (last.units, last.end()));
                    layers.push(TangentLayer { inputs, units, kernel_at, relu: false });
                }
                Layer::Relu => layers.last_mut()?.relu = true,
                _ => return None,
            }
        }
        layers.last_mut()?.units = num_outputs;
        Some(Self { layers })
    }

    pub fn num_parameters(&self) -> usize {
        self.layers.last().map_or(0, TangentLayer::end)
    }

    /// Where the last layer starts, and what a unit of it takes in.
    pub fn last_layer(&self) -> (usize, usize) {
        self.layers.last().map_or((0, 0), |last| (last.kernel_at, last.inputs))
    }

    /// Whether outputs are linear in the parameters.
    pub fn is_linear(&self) -> bool {
        self.layers.len() == 1
    }

    /// The outputs at an input; overwrites `derivatives` (outputs × parameters) with theirs.
    pub fn linearise(&self, parameters: &[f64], input: &[f64], derivatives: &mut [f64]) -> Vec<f64> {
        let mut activations = vec![input.to_vec()];
        for layer in &self.layers {
            let before = activations.last().map_or(input, Vec::as_slice);
            activations.push(layer.forward(parameters, before));
        }
        let outputs = activations.pop().unwrap_or_default();
        for (output, derivatives) in derivatives.chunks_exact_mut(self.num_parameters()).enumerate() {
            let mut back: Vec<f64> = (0..outputs.len()).map(|other| f64::from(u8::from(other == output))).collect();
            for (number, layer) in self.layers.iter().enumerate().rev() {
                let before = &activations[number];
                layer.write_derivatives(before, &back, derivatives);
                if number > 0 {
                    back = layer.pull_back(parameters, &back);
                    if self.layers[number - 1].relu {
                        back.iter_mut()
                            .zip(before)
                            .for_each(|(back, &value)| *back *= f64::from(u8::from(value > 0.0)));
                    }
                }
            }
        }
        outputs
    }
}

impl TangentLayer {
    fn bias_at(&self) -> usize {
        self.kernel_at + self.inputs * self.units
    }

    fn end(&self) -> usize {
        self.bias_at() + self.units
    }

    fn kernel_rows<'p>(&self, parameters: &'p [f64]) -> impl Iterator<Item = &'p [f64]> {
        parameters[self.kernel_at..self.bias_at()].chunks_exact(self.units)
    }

    fn forward(&self, parameters: &[f64], before: &[f64]) -> Vec<f64> {
        let mut after = parameters[self.bias_at()..self.end()].to_vec();
        for (kernel, &value) in self.kernel_rows(parameters).zip(before) {
            after.iter_mut().zip(kernel).for_each(|(after, weight)| *after += weight * value);
        }
        if self.relu {
            after.iter_mut().for_each(|after| *after = after.max(0.0));
        }
        after
    }

    fn write_derivatives(&self, before: &[f64], back: &[f64], derivatives: &mut [f64]) {
        let kernel = derivatives[self.kernel_at..self.bias_at()].chunks_exact_mut(self.units);
        for (row, &value) in kernel.zip(before) {
            row.iter_mut().zip(back).for_each(|(entry, back)| *entry = value * back);
        }
        derivatives[self.bias_at()..self.end()].copy_from_slice(back);
    }

    fn pull_back(&self, parameters: &[f64], back: &[f64]) -> Vec<f64> {
        let along = |kernel: &[f64]| kernel.iter().zip(back).map(|(weight, back)| weight * back).sum();
        self.kernel_rows(parameters).map(along).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_and_derivatives_are_the_networks() {
        for (hidden, num_outputs) in [(&[][..], 2), (&[5], 1), (&[4, 3], 3)] {
            let network = Network::dense(3, hidden, num_outputs).unwrap();
            let tangent = Tangent::new(&network, num_outputs).unwrap();
            let dim = tangent.num_parameters();
            assert_eq!((dim, tangent.is_linear()), (network.layout().len(), hidden.is_empty()));
            let mut parameters: Vec<f64> = (0..dim).map(|i| (1.3 * i as f64).sin()).collect();
            let input = [0.4, -1.2, 0.9];
            let mut derivatives = vec![f64::NAN; num_outputs * dim];
            let outputs = tangent.linearise(&parameters, &input, &mut derivatives);
            let Some(crate::network::Evaluator::Dense(stack)) = network.dense_evaluator() else { panic!("dense") };
            for (output, derivatives) in derivatives.chunks_exact(dim).enumerate() {
                let (expected, gradient) = stack.reference(&parameters, &input, |_, outputs| {
                    outputs.iter_mut().enumerate().for_each(|(i, o)| *o = f64::from(u8::from(i == output)));
                });
                assert!((outputs[output] - expected[output]).abs() < 1e-14);
                assert!(derivatives.iter().zip(&gradient).all(|(a, b)| (a - b).abs() < 1e-14), "{hidden:?} {output}");
            }
            parameters[0] += 1.0;
            assert_ne!(tangent.linearise(&parameters, &input, &mut derivatives), outputs);
        }
        assert!(Tangent::new(&Network::mnist_cnn(), 10).is_none());
    }
}

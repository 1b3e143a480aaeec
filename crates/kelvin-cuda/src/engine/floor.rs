//! What a step of one chain takes at least: its arithmetic at the device's peak, or its bytes at that of the memory.
//!
//! Bytes are counted as if only dense layers and convolutions went through memory, each of their inputs, outputs and gradients once
//! a pass, and norms, activations and pools were done on the way. A norm's backward pass reads its value once more, a sum is read
//! as two terms and written. The update reads and writes positions and momenta, and gradients are written and read. Networks
//! whose chains stay on the chip for a whole launch have no bytes.

use kelvin::network::{Operation, Program};
use kelvin::sampler::Floor;

use crate::general::Precision;
use crate::gpu::speeds::Speeds;

/// Multiply-adds and bytes of one step of one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    multiply_adds: f64,
    bytes: f64,
}

/// Numbers of a parameter's gradient, position and momentum that a step reads and writes, all f32.
const F32_OF_AN_UPDATE: usize = 6;

/// The cost of a step over so many rows, for chains whose values go through memory.
pub fn cost(program: &Program, rows: usize, precision: Precision) -> Cost {
    let size = match precision {
        Precision::Half => 2,
        Precision::Single => 4,
    };
    let len = |value: usize| program.values[value].shape.len();
    // Of one row, but for the parameters.
    let (mut multiply_adds, mut numbers, mut read_weights) = (0, 0, 0);
    for operation in &program.operations {
        match operation {
            Operation::Conv { from, to, kernel, .. } | Operation::Dense { from, to, kernel, .. } => {
                let uses = match operation {
                    Operation::Conv { sizes, .. } => sizes.output.num_pixels(),
                    _ => 1,
                };
                // The input's gradient is not wanted where it is the network's input.
                let has_input_gradient = usize::from(*from != 0);
                multiply_adds += (2 + has_input_gradient) * uses * kernel.len();
                numbers += (2 + has_input_gradient) * len(*from) + 2 * len(*to);
                read_weights += (1 + has_input_gradient) * kernel.len();
            }
            Operation::BatchNorm { number } => numbers += len(program.norms[*number].value),
            Operation::FilterResponseNorm { from, .. }
            | Operation::GroupNorm { from, .. }
            | Operation::LayerNorm { from, .. } => numbers += len(*from),
            Operation::Add { to, .. } => numbers += 2 * len(*to),
            Operation::Threshold { .. }
            | Operation::Activation { .. }
            | Operation::Pool { .. }
            | Operation::MaxPool { .. }
            | Operation::Copy { .. } => {}
        }
    }
    let update = program.layout.len() * F32_OF_AN_UPDATE * size_of::<f32>();
    Cost {
        multiply_adds: (rows * multiply_adds) as f64,
        bytes: ((rows * numbers + read_weights) * size + update) as f64,
    }
}

impl Cost {
    /// The same for chains that never leave the chip.
    pub fn on_chip(self) -> Self {
        Self { bytes: 0.0, ..self }
    }

    /// What it takes at least on a device of such speeds.
    pub fn floor(self, speeds: Speeds, precision: Precision) -> Floor {
        let multiply_adds = match precision {
            Precision::Half => speeds.half,
            Precision::Single => speeds.single,
        };
        Floor { arithmetic: self.multiply_adds / multiply_adds, memory: self.bytes / speeds.bytes }
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;

    #[test]
    fn a_dense_network_costs_three_products_a_layer_but_two_in_the_first() {
        let network = Network::dense(784, &[256, 256], 10).unwrap();
        let cost = cost(network.program(), 128, Precision::Half);
        assert_eq!(cost.multiply_adds, (128 * (2 * 784 * 256 + 3 * 256 * 256 + 3 * 256 * 10)) as f64);
        let values = 128 * ((2 * 784 + 2 * 256) + (3 * 256 + 2 * 256) + (3 * 256 + 2 * 10));
        let weights = 784 * 256 + 2 * 256 * 256 + 2 * 256 * 10;
        let parameters = 784 * 256 + 256 * 256 + 256 * 10 + 256 + 256 + 10;
        assert_eq!(cost.bytes, (2 * (values + weights) + 24 * parameters) as f64);
    }

    #[test]
    fn a_convolution_is_counted_at_every_pixel_and_groups_make_it_cheaper() {
        let of = |groups| {
            let layers = vec![
                Layer::Conv { filters: 8, kernel: 3, stride: 1, groups: 1 },
                Layer::Relu,
                Layer::Conv { filters: 8, kernel: 5, stride: 2, groups },
                Layer::GlobalAvgPool,
                Layer::Dense { units: 2 },
            ];
            cost(Network::new(Shape::image(8, 8, 1), layers).unwrap().program(), 10, Precision::Single)
        };
        let (first, second, last) = (2 * 64 * 9 * 8, 3 * 16 * 25 * 64, 3 * 16);
        assert_eq!(of(1).multiply_adds, (10 * (first + second + last)) as f64);
        assert_eq!(of(8).multiply_adds, (10 * (first + second / 8 + last)) as f64);
        assert!(of(8).bytes < of(1).bytes);
    }

    #[test]
    fn norms_and_sums_cost_bytes_alone() {
        let body = vec![Layer::Conv { filters: 4, kernel: 3, stride: 1, groups: 1 }, Layer::BATCH_NORM];
        let mut layers = vec![Layer::Conv { filters: 4, kernel: 3, stride: 1, groups: 1 }];
        let tail = [Layer::GlobalAvgPool, Layer::Dense { units: 2 }];
        let of = |layers: &[Layer]| {
            let layers = layers.iter().chain(&tail).cloned().collect();
            cost(Network::new(Shape::image(4, 4, 1), layers).unwrap().program(), 1, Precision::Single)
        };
        let plain = { [&layers[..], &body[..1]].concat() };
        layers.push(Layer::Residual { body, shortcut: vec![] });
        let (with, without) = (of(&layers), of(&plain));
        assert_eq!(with.multiply_adds, without.multiply_adds);
        // The norm's value once, the sum twice, and four scales and offsets.
        assert_eq!(with.bytes - without.bytes, (4 * (3 * 64) + 24 * 8) as f64);
    }

    #[test]
    fn the_floor_is_the_later_of_both() {
        let speeds = Speeds { bytes: 1e12, half: 1e14, single: 1e13 };
        let cost = Cost { multiply_adds: 2e8, bytes: 3e6 };
        let half = cost.floor(speeds, Precision::Half);
        assert!((half.seconds() / 3e-6 - 1.0).abs() < 1e-12 && half.is_memory(), "{half:?}");
        let single = cost.floor(speeds, Precision::Single);
        assert!((single.seconds() / 2e-5 - 1.0).abs() < 1e-12 && !single.is_memory(), "{single:?}");
        assert_eq!(cost.on_chip().floor(speeds, Precision::Half).memory, 0.0);
    }
}

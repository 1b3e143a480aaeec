//! Which layers of a network have no kernels for their shape, in words: a user who sees them may choose other widths.

use kelvin::network::{Operation, Program};

use super::depthwise_kernels;
use super::fast::Fast;
use super::small_dense::is_small_dense;

/// Dense layers and convolutions that are left to the products which serve any shape.
pub fn slow_layers(program: &Program, fast: &Fast) -> Vec<String> {
    let of = |(number, operation): (usize, &Operation)| match operation {
        Operation::Conv { sizes, .. } if fast.convs[number].is_none() && !depthwise_kernels::is_served(operation) => {
            Some(format!(
                "convolution {0}×{0} of {1}×{2}×{3} to {4} filters",
                sizes.kernel, sizes.input.height, sizes.input.width, sizes.input.channels, sizes.output.channels
            ))
        }
        Operation::Dense { from, to, .. } if fast.denses[number].is_none() && !is_small_dense(program, operation) => {
            let len = |value: usize| program.values[value].shape.len();
            Some(format!("dense layer of {} to {} units", len(*from), len(*to)))
        }
        _ => None,
    };
    program.operations.iter().enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;
    use crate::general::plan::Plan;
    use crate::general::precision::Precision;
    use crate::gpu::device::Limits;

    #[test]
    fn layers_without_kernels_for_their_shape_are_named() {
        let limits =
            Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products: true, memory_bytes: 0 };
        let slow = |network: &Network| {
            let plan = Plan::new(network.program());
            slow_layers(&plan.program, &Fast::planned(limits, &plan, Precision::Half).0)
        };
        let conv = |filters, kernel, groups| Layer::Conv { filters, kernel, stride: 1, groups };
        let layers = vec![
            conv(16, 5, 1),
            Layer::Relu,
            conv(16, 3, 16),
            Layer::Relu,
            conv(16, 3, 1),
            Layer::BATCH_NORM,
            Layer::Dense { units: 64 },
            Layer::Dense { units: 3 },
        ];
        let network = Network::new(Shape::image(8, 8, 3), layers).unwrap();
        assert_eq!(
            slow(&network),
            ["convolution 5×5 of 8×8×3 to 16 filters", "dense layer of 1024 to 64 units"],
            "a depthwise convolution, one of sixteen channels and a small layer have kernels"
        );
        assert_eq!(slow(&Network::dense(20, &[100], 3).unwrap()), Vec::<String>::new());
    }
}

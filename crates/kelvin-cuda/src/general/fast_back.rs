//! The kernels of convolutions' backward passes: which one serves a convolution, and which shortcuts are fused into another's.

use kelvin::network::Operation;

use super::conv_tile::{ConvShape, Gradients, Tile};
use super::fast_shape::{Source, fast_shape, forward_kernel};
use super::plan::Plan;
use crate::gpu::device::Limits;

/// The kernel of a convolution's backward pass.
#[derive(Clone, Copy, Debug)]
pub struct BackwardKernel {
    /// Its file and entry.
    pub source: Source,
    /// What a block takes at a time.
    pub tile: Tile,
    /// Shared memory of a block, in bytes.
    pub bytes: usize,
    /// Of how many norms it can take the sums in passing.
    pub most_norm_sums: usize,
    /// Rooms for tiles, where there may be one or two.
    rooms: Option<usize>,
}

impl BackwardKernel {
    /// By warpgroups, where the GPU has their products and the shape fits.
    pub fn new(shape: &ConvShape, gradients: &Gradients, limits: Limits) -> Option<Self> {
        let (shared, wide) = (limits.shared_bytes as usize, limits.warpgroup_products);
        if let Some((tile, bytes)) = shape.wide_backward_tile(gradients, shared).filter(|_| wide) {
            let source = ("conv_backward_wide.cu", "conv_backward_wide");
            return Some(Self { source, tile, bytes, most_norm_sums: shape.most_norm_sums(&tile, true), rooms: None });
        }
        let (source, tile, bytes, rooms) = match shape.strided_cut(gradients, shared).filter(|_| wide) {
            Some(cut) => (("conv_backward_strided.cu", "conv_backward_strided"), cut.tile, cut.bytes, Some(cut.rooms)),
            None => {
                let (tile, bytes) = shape.backward_tile(gradients, shared)?;
                (("conv_backward.cu", "conv_backward"), tile, bytes, None)
            }
        };
        Some(Self { source, tile, bytes, most_norm_sums: shape.most_norm_sums(&tile, false), rooms })
    }

    /// Whether this is the kernel of strided convolutions.
    pub fn is_strided(&self) -> bool {
        self.rooms.is_some()
    }

    /// What it is compiled with.
    pub fn defines(&self, shape: &ConvShape, gradients: &Gradients) -> Vec<(&'static str, i64)> {
        let mut defines = shape.backward_defines(&self.tile, gradients);
        if let Some(rooms) = self.rooms {
            defines.extend([("SHORTCUT", i64::from(gradients.shortcut)), ("ROOMS", rooms as i64)]);
        }
        defines
    }
}

/// A 1×1 shortcut convolution whose backward pass is fused into the kernel of another that reads the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcut {
    /// The number of the shortcut's operation.
    pub operation: usize,
    /// The other's, which comes later in the backward pass.
    pub leader: usize,
}

/// The shortcuts of a program: a strided convolution and one of 1×1 are all that read a value.
pub fn shortcuts(limits: Limits, plan: &Plan) -> Vec<Shortcut> {
    let program = &plan.program;
    let shape_of = |number: usize| fast_shape(plan, &program.operations[number], false, false, true);
    let of_value = |value: usize| {
        let reads = |number: &usize| program.operations[*number].reads().any(|read| read == value);
        let readers: Vec<usize> = (0..program.operations.len()).filter(reads).collect();
        let &[leader, operation] = &readers[..] else { return None };
        let ((shape, gradients), (other, other_gradients)) = (shape_of(leader)?, shape_of(operation)?);
        // Its gradient lies where a sum's does, and must not be written to before the other is done.
        let Operation::Conv { to, .. } = program.operations[operation] else { return None };
        let stays = program.operations.iter().all(|made| match *made {
            Operation::Add { left, right, to: sum } if [left, right].contains(&to) => {
                !plan.inherits.contains(&Some(sum))
            }
            _ => true,
        });
        let plain = !other_gradients.bias && other_gradients.pool == 1;
        let alike = plain && gradients.output_norm == other_gradients.output_norm && other.is_shortcut_of(&shape);
        let both = Gradients { shortcut: true, ..gradients };
        let together = limits.warpgroup_products && shape.strided_cut(&both, limits.shared_bytes as usize).is_some();
        // Each has fast kernels of its own for all else.
        let apart = forward_kernel(&shape, &gradients, limits).is_some()
            && forward_kernel(&other, &other_gradients, limits).is_some()
            && BackwardKernel::new(&other, &other_gradients, limits).is_some();
        (stays && alike && together && apart).then_some(Shortcut { operation, leader })
    };
    (1..program.values.len()).filter_map(of_value).collect()
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;

    const LIMITS: Limits =
        Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products: true, memory_bytes: 0 };

    #[test]
    fn both_shortcuts_of_a_resnet_go_along() {
        let plan = Plan::new(Network::resnet(20).unwrap().program());
        let found = shortcuts(LIMITS, &plan);
        assert_eq!(found.len(), 2);
        for Shortcut { operation, leader } in found {
            let [shortcut, other] = [operation, leader].map(|number| match &plan.program.operations[number] {
                Operation::Conv { from, sizes, .. } => (*from, sizes.kernel, sizes.stride),
                _ => panic!("no convolution"),
            });
            assert_eq!((shortcut.0, shortcut.1, shortcut.2, other.1, other.2), (other.0, 1, 2, 3, 2));
            assert!(leader < operation);
        }
        assert_eq!(shortcuts(Limits { warpgroup_products: false, ..LIMITS }, &plan), []);
    }

    #[test]
    fn a_shortcut_goes_alone_where_the_other_cannot_take_it_along() {
        let conv = |filters, kernel, stride| Layer::Conv { filters, kernel, stride, groups: 1 };
        let network = |body: Vec<Layer>, shortcut: Vec<Layer>| {
            let start = [conv(16, 3, 1), Layer::Relu, Layer::Residual { body, shortcut }];
            let layers = [&start[..], &[Layer::Relu, Layer::GlobalAvgPool, Layer::Dense { units: 3 }]].concat();
            Network::new(Shape::image(16, 16, 2), layers).unwrap()
        };
        let found = |body: &[Layer], shortcut: &[Layer]| {
            shortcuts(LIMITS, &Plan::new(network(body.to_vec(), shortcut.to_vec()).program())).len()
        };
        let (strided, normed) = ([conv(32, 3, 2), Layer::BATCH_NORM], [conv(32, 1, 2), Layer::BATCH_NORM]);
        assert_eq!(found(&strided, &normed), 1);
        assert_eq!(found(&strided, &[conv(32, 3, 2), Layer::BATCH_NORM]), 0, "as large a kernel");
        assert_eq!(found(&strided, &[conv(32, 1, 2)]), 0, "a bias");
    }
}

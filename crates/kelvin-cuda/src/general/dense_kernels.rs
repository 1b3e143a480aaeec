//! Which kernels a dense layer is given, and how they are cut.
//!
//! | layer | kernels |
//! |---|---|
//! | of bf16, widths multiples of 8, not the last | `product.cu`: bf16 on the tensor cores |
//! | of up to 32 units | `small_dense.cu`: a warp an image, all of the backward pass in one launch |
//! | any other | `product_tf32.cu`: TF32 on the tensor cores, three products where numbers are f32 |
//! | with a batch norm before or behind it | `conv_product.cu`, as a convolution of one pixel (`conv_kernels.rs`) |
//!
//! How a product is cut depends on the layer and the batch alone, never on how many chains there are, so that no bit does.

use kelvin::network::Operation;

use super::plan::Plan;
use super::precision::Precision;
use super::small_dense::is_small_dense;
use crate::gpu::kernels::KernelSource;

/// Rows and columns that a block makes.
const TILE: usize = 64;
/// Threads of a group that makes a tile, and how far it goes along a sum in a stage of `product.cu`.
const THREADS: usize = 128;
const DEPTH: usize = 32;
/// How far a block goes along a sum in a stage of `product_tf32.cu`, its stages, and the blocks on a multiprocessor.
const TF32_DEPTH: usize = 16;
const TF32_STAGES: usize = 4;
const TF32_BLOCKS: usize = 4;
/// Images that a partial sum of a weight gradient has at least, and tiles of all of them that fill a tenth of a large device.
const IMAGES_OF_A_SPLIT: usize = 128;
const TILES_OF_A_CHAIN: usize = 52;

/// Which kernel makes the three products of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseKernel {
    /// `product.cu`.
    Half,
    /// `product_tf32.cu`.
    Tf32,
}

/// Which of a dense layer's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseProduct {
    Forward,
    Weights,
    Input,
}

/// A dense layer as products see it.
#[derive(Clone, Copy, Debug)]
pub struct DenseShape {
    inputs: usize,
    units: usize,
    /// Where its weights begin among the parameters.
    start: usize,
    /// Whether its input is read with a ReLU.
    relu: bool,
    /// Whether it makes the outputs, which are f32 whatever the elements are.
    is_output: bool,
    precision: Precision,
    kernel: DenseKernel,
}

impl DenseShape {
    /// The shape of a layer that products serve, by the table above.
    pub fn new(plan: &Plan, operation: &Operation, precision: Precision) -> Option<Self> {
        let Operation::Dense { from, to, kernel, .. } = operation else { return None };
        let (input, output) = (&plan.program.values[*from], &plan.program.values[*to]);
        // A product reads and writes gradients as they are.
        if input.norm.is_some() || output.norm.is_some() || (*from == 0 && plan.packed_input) {
            return None;
        }
        let (inputs, units, is_output) = (plan.len(*from), plan.len(*to), *to == plan.output());
        let aligned = [kernel.start, inputs, units].iter().all(|len| len.is_multiple_of(8));
        let kernel_kind = match precision {
            Precision::Half if aligned && !is_output => DenseKernel::Half,
            _ if is_small_dense(&plan.program, operation) => return None,
            _ => DenseKernel::Tf32,
        };
        Some(Self { inputs, units, start: kernel.start, relu: input.relu, is_output, precision, kernel: kernel_kind })
    }

    /// Partial sums of the weights' gradient for batches of so many images; no fewer for more images.
    pub fn num_splits(&self, num_images: usize) -> usize {
        match self.kernel {
            DenseKernel::Half => 1,
            DenseKernel::Tf32 => {
                let tiles = self.inputs.div_ceil(TILE) * self.units.div_ceil(TILE);
                (num_images / IMAGES_OF_A_SPLIT).clamp(1, (TILES_OF_A_CHAIN / tiles).max(1))
            }
        }
    }

    /// The source of a product; `adds` and `masks` are for the input's gradient: whether it was written to before, and whether
    /// this is the last to write to it.
    pub fn source(&self, which: DenseProduct, adds: bool, masks: bool) -> KernelSource {
        let only = |of, is_set: bool| i64::from(which == of && is_set);
        let (a_transposed, b_transposed) = which.transposed();
        let mut defines = vec![
            ("A_TRANSPOSED", i64::from(a_transposed)),
            ("B_TRANSPOSED", i64::from(b_transposed)),
            ("RELU_A", i64::from(which != DenseProduct::Input && self.relu)),
            ("ADD_BIAS", only(DenseProduct::Forward, true)),
            ("ADD_PREVIOUS", only(DenseProduct::Input, adds)),
            ("MASK", only(DenseProduct::Input, masks && self.relu)),
            ("COLUMN_SUMS", only(DenseProduct::Weights, true)),
        ];
        match self.kernel {
            DenseKernel::Half => {
                let cut = which.cut();
                defines.extend([
                    ("STAGES", cut.stages as i64),
                    ("GROUPS", cut.groups as i64),
                    ("BLOCKS", cut.blocks as i64),
                    ("FLOAT_C", only(DenseProduct::Weights, true)),
                ]);
                KernelSource { file: "product.cu", entry: "product", defines }
            }
            DenseKernel::Tf32 => {
                // Rows of f32 that begin at multiples of sixteen bytes.
                let is_wide = |len: usize| self.precision == Precision::Single && len.is_multiple_of(4);
                let weights = is_wide(self.units) && is_wide(self.start);
                let (wide_a, wide_b, columns) = match which {
                    DenseProduct::Forward => (is_wide(self.inputs), weights, self.units),
                    DenseProduct::Weights => (is_wide(self.inputs), is_wide(self.units), self.units),
                    DenseProduct::Input => (is_wide(self.units), weights, self.inputs),
                };
                let writes_f32 = which == DenseProduct::Weights
                    || self.precision == Precision::Single
                    || (which == DenseProduct::Forward && self.is_output);
                defines.extend([
                    ("HALF", i64::from(self.precision == Precision::Half)),
                    ("STAGES", TF32_STAGES as i64),
                    ("BLOCKS", TF32_BLOCKS as i64),
                    ("WIDE_A", i64::from(wide_a)),
                    ("WIDE_B", i64::from(wide_b)),
                    ("FLOAT_C", i64::from(writes_f32)),
                    ("PAIRS", i64::from(writes_f32 && columns.is_multiple_of(2))),
                ]);
                KernelSource { file: "product_tf32.cu", entry: "product_tf32", defines }
            }
        }
    }

    /// Blocks of a chain for C of so many rows and columns.
    pub fn num_tiles(rows: u32, columns: u32) -> u32 {
        rows.div_ceil(TILE as u32) * columns.div_ceil(TILE as u32)
    }

    /// Threads of a block.
    pub fn num_threads(&self, which: DenseProduct) -> u32 {
        match self.kernel {
            DenseKernel::Half => (THREADS * which.cut().groups) as u32,
            DenseKernel::Tf32 => THREADS as u32,
        }
    }

    /// Shared memory of a block, in bytes: rows of tiles as they lie in memory, each with its padding.
    pub fn shared_bytes(&self, which: DenseProduct) -> u32 {
        let (a_transposed, b_transposed) = which.transposed();
        let stage = |room: &dyn Fn(bool) -> usize| room(a_transposed) + room(!b_transposed);
        let bytes = match self.kernel {
            DenseKernel::Half => {
                let ProductCut { stages, groups, .. } = which.cut();
                let depth = DEPTH * groups;
                let room = |down: bool| {
                    let (rows, numbers) = if down { (depth, TILE) } else { (TILE, depth) };
                    rows * (numbers / 8 + 1) * 16
                };
                stages * stage(&room)
            }
            DenseKernel::Tf32 => {
                let room = |down: bool| 4 * if down { TF32_DEPTH * (TILE + 4) } else { TILE * (TF32_DEPTH + 8) };
                TF32_STAGES * stage(&room)
            }
        };
        bytes as u32
    }
}

/// How `product.cu` is cut.
#[derive(Clone, Copy, Debug)]
struct ProductCut {
    stages: usize,
    /// Groups of four warps that share a sum.
    groups: usize,
    /// Blocks that are to run on a multiprocessor at the same time.
    blocks: usize,
}

impl DenseProduct {
    /// Whether the first factor, and the second, are read transposed.
    fn transposed(self) -> (bool, bool) {
        (self == Self::Weights, self == Self::Input)
    }

    /// The forward product's sums are long and its blocks few; the others' are short, and many blocks hide their beginnings.
    fn cut(self) -> ProductCut {
        match self {
            Self::Forward => ProductCut { stages: 3, groups: 2, blocks: 4 },
            Self::Weights | Self::Input => ProductCut { stages: 4, groups: 1, blocks: 6 },
        }
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;

    fn chosen(input: Shape, layers: Vec<Layer>, precision: Precision) -> Vec<Option<DenseKernel>> {
        let network = Network::new(input, layers).unwrap();
        let plan = Plan::new(network.program());
        let dense = |operation: &&Operation| matches!(operation, Operation::Dense { .. });
        let of = |operation: &Operation| DenseShape::new(&plan, operation, precision).map(|shape| shape.kernel);
        plan.program.operations.iter().filter(dense).map(of).collect()
    }

    fn dense(units: &[usize]) -> Vec<Layer> {
        let mut layers: Vec<Layer> = units.iter().flat_map(|&units| [Layer::Dense { units }, Layer::Relu]).collect();
        layers.pop();
        layers
    }

    #[test]
    fn a_dense_layer_is_given_the_kernel_of_the_table() {
        use DenseKernel::{Half, Tf32};
        use Precision::{Half as Bf16, Single};
        let flat = |len| Shape::flat(len);
        assert_eq!(chosen(flat(784), dense(&[256, 256, 10]), Single), [Some(Tf32), Some(Tf32), None]);
        assert_eq!(chosen(flat(30), dense(&[128, 16, 100]), Single), [Some(Tf32), None, Some(Tf32)]);
        assert_eq!(chosen(flat(784), dense(&[256, 100, 100]), Bf16), [Some(Half), Some(Tf32), Some(Tf32)]);
        assert_eq!(chosen(flat(784), dense(&[256, 24, 64]), Bf16), [Some(Half), Some(Half), Some(Tf32)]);
        let normed = vec![Layer::Dense { units: 64 }, Layer::BATCH_NORM, Layer::Relu, Layer::Dense { units: 64 }];
        assert_eq!(chosen(flat(64), normed, Bf16), [None, None]);
    }

    #[test]
    fn partial_sums_grow_with_the_batch_and_not_with_the_layer() {
        let of = |inputs, units, num_images| {
            let network = Network::new(Shape::flat(inputs), dense(&[units, 64])).unwrap();
            let plan = Plan::new(network.program());
            let shape = DenseShape::new(&plan, &plan.program.operations[0], Precision::Single).unwrap();
            shape.num_splits(num_images)
        };
        assert_eq!([of(64, 64, 128), of(64, 64, 824), of(64, 64, 100_000)], [1, 6, 52]);
        assert_eq!([of(784, 256, 128), of(784, 256, 4096)], [1, 1]);
    }
}

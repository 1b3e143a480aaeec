//! A program with the padded sizes that the evaluator works with.

use std::sync::Arc;

use super::conv_plan::ConvPlan;
use super::dense::DensePlan;
use super::depthwise::DepthwisePlan;
use super::pool::PoolPlan;
use crate::network::kernels::PIECE;
use crate::network::program::{Operation, Program};

/// A program ready to be run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub program: Arc<Program>,
    /// Numbers of a pixel of each value, padding included.
    pub strides: Vec<usize>,
    pub operations: Vec<OperationPlan>,
    /// The first operation that reads each value: on the way back, the last to add to its gradient.
    pub first_readers: Vec<usize>,
}

/// The sizes of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperationPlan {
    Conv(ConvPlan),
    Depthwise(DepthwisePlan),
    Dense(DensePlan),
    Pool(PoolPlan),
    Other,
}

impl Plan {
    pub fn new(program: Arc<Program>) -> Self {
        // Products broadcast their inputs, so that an input which only products read needs no padding.
        let only_products = program.operations.iter().all(|operation| match operation {
            Operation::Conv { sizes, .. } if !sizes.is_depthwise() => true,
            Operation::Dense { .. } => true,
            _ => !operation.reads().any(|read| read == 0),
        });
        let strides: Vec<usize> = program
            .values
            .iter()
            .enumerate()
            .map(|(number, value)| match value.shape.channels {
                channels if number == 0 && only_products => channels,
                channels => channels.next_multiple_of(PIECE),
            })
            .collect();
        let operations = program.operations.iter().map(|operation| match operation {
            Operation::Conv { from, sizes, .. } if sizes.is_depthwise() => OperationPlan::Depthwise(DepthwisePlan {
                sizes: *sizes,
                pixel: strides[*from],
                has_input_gradient: *from != 0,
            }),
            Operation::Conv { from, to, sizes, .. } => OperationPlan::Conv(ConvPlan {
                sizes: *sizes,
                input_stride: strides[*from],
                output_stride: strides[*to],
                has_input_gradient: *from != 0,
            }),
            Operation::Dense { from, to, .. } => {
                let shape = program.values[*from].shape;
                OperationPlan::Dense(DensePlan {
                    num_pixels: shape.num_pixels(),
                    channels: shape.channels,
                    pixel_stride: strides[*from],
                    units: program.values[*to].shape.channels,
                    stride: strides[*to],
                    has_input_gradient: *from != 0,
                })
            }
            Operation::Pool { from, height, width, .. } => OperationPlan::Pool(PoolPlan {
                input: program.values[*from].shape,
                height: *height,
                width: *width,
                stride: strides[*from],
            }),
            _ => OperationPlan::Other,
        });
        let mut first_readers = vec![usize::MAX; program.values.len()];
        for (number, operation) in program.operations.iter().enumerate().rev() {
            for value in operation.reads() {
                first_readers[value] = number;
            }
        }
        Self { operations: operations.collect(), first_readers, strides, program: Arc::clone(&program) }
    }

    /// Numbers of a value of one image, padding included.
    pub fn image_len(&self, value: usize) -> usize {
        self.program.values[value].shape.num_pixels() * self.strides[value]
    }

    /// The most that any operation needs for the input of an image, its gradient, a kernel's gradient, and tiles.
    pub fn largest_scratch(&self) -> [usize; 4] {
        let mut largest = [0; 4];
        for (number, value) in self.program.values.iter().enumerate() {
            largest[0] = largest[0].max(value.shape.width * self.strides[number]);
        }
        for operation in &self.operations {
            let needs = match operation {
                OperationPlan::Conv(conv) => {
                    [conv.input_scratch(), conv.gradient_scratch(), conv.kernel_len(), conv.tile_scratch()]
                }
                OperationPlan::Depthwise(conv) => {
                    [conv.canvas_len(), conv.canvas_len(), conv.kernel_len(), conv.line_len()]
                }
                _ => continue,
            };
            for (largest, need) in largest.iter_mut().zip(needs) {
                *largest = need.max(*largest);
            }
        }
        largest
    }
}
